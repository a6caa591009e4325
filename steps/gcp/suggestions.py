"""Values to choose from, read from the cloud, for the questions whose answer names something that exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.answers import Field, NotAnswered
from grpo_wizard.steps.core.cloud_reader import CloudReader, ReservationStatus
from grpo_wizard.steps.gcp.naming import region_of

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


@dataclass(frozen=True)
class Suggestion:
    """One choice: `value` is what the field takes, `title` describes it."""

    value: str
    title: str = ""


def suggestions(field: Field, answers: Answers, reader: CloudReader) -> list[Suggestion]:
    """List the choices of `field.choices_from`; empty for a field without such a list. Raises WizardError.

    `answers` may be incomplete: a list that depends on a missing answer is empty.
    """
    load = _LOADERS.get(field.choices_from)
    if load is None:
        return []
    try:
        return load(answers, reader)
    except NotAnswered:
        return []


def _projects(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    return [Suggestion(project.id, project.display_name) for project in reader.projects()]


def _zones(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    """Zones that offer the machine type, those of the chosen region first."""
    project, machine_type = answers.project, answers.quotas.machine_type
    zones = reader.machine_type_zones(project=project.project_id, name=machine_type)
    ordered = sorted(zones, key=lambda zone: (region_of(zone) != project.region, zone))
    return [Suggestion(zone, f"offers {machine_type}") for zone in ordered]


def _reservations(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    project = answers.project
    listed = reader.reservations(project=project.project_id, zone=project.zone)
    return [Suggestion(found.name, _describe_reservation(found)) for found in listed]


def _describe_reservation(found: ReservationStatus) -> str:
    return f"{found.free} of {found.assured} {found.machine_type} free, {found.status}"


def _networks(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    listed = reader.networks(project=answers.project.project_id)
    return [
        Suggestion(network.name, "auto mode" if network.auto_mode else "custom mode") for network in listed
    ]


def _subnets(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    project, network = answers.project, answers.networks.network
    listed = reader.region_subnets(project=project.project_id, region=project.region)
    return [Suggestion(subnet.name, subnet.ranges[0]) for subnet in listed if subnet.network == network]


def _clusters(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    project = answers.project
    listed = reader.clusters(project=project.project_id, location=project.region)
    return [Suggestion(cluster.name, f"GKE {cluster.version}, {cluster.status}") for cluster in listed]


def _versions(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    project = answers.project
    versions = reader.gke_versions(project=project.project_id, location=project.region)
    return [
        Suggestion(version, "release channel default" if version == versions.default else "")
        for version in versions.valid
    ]


_LOADERS: Mapping[str, Callable[[Answers, CloudReader], list[Suggestion]]] = {
    "projects": _projects,
    "zones": _zones,
    "reservations": _reservations,
    "networks": _networks,
    "subnets": _subnets,
    "clusters": _clusters,
    "versions": _versions,
}
