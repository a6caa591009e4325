"""What could be answered, as the cloud tells it now: for the questions whose answer is a thing that is there already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core.answers import Field, NotAnswered
from grpo_wizard.steps.core.model import CloudReader
from grpo_wizard.steps.gcp.naming import region_of

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


@dataclass(frozen=True)
class Suggestion:
    """One to choose: `value` is what the field takes, `title` what is said of it."""

    value: str
    title: str = ""


def suggestions(field: Field, answers: Answers, reader: CloudReader) -> list[Suggestion]:
    """What `field.choices_from` lists; empty for a field that has no such list. May raise WizardError, as `world.ask` does.

    `answers` may be incomplete: a list whose own questions are not answered yet is empty.
    """
    find = _LOADERS.get(field.choices_from)
    if find is None:
        return []
    try:
        return find(answers, reader)
    except NotAnswered:
        return []


def _projects(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    return [Suggestion(str(p["id"]), str(p["name"])) for p in reader.ask("projects")]


def _zones(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    """Those that have the machine, the region's own first."""
    mine, place = answers.quotas, answers.project
    listed = reader.ask("machine_zones", project=place.project_id, name=mine.machine_type)
    first = sorted(listed, key=lambda zone: (region_of(zone) != place.region, zone))
    return [Suggestion(zone, f"has {mine.machine_type}") for zone in first]


def _reservations(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    place = answers.project
    listed = reader.ask("reservations", project=place.project_id, zone=place.zone)
    return [Suggestion(str(row["name"]), _reservation(row)) for row in listed]


def _reservation(row: Mapping[str, Any]) -> str:
    kept = row.get("specificReservation", {})
    machine = str(kept.get("instanceProperties", {}).get("machineType", "")).rpartition("/")[2]
    count = int(kept.get("assuredCount") or kept.get("count") or 0)
    return f"{count - int(kept.get('inUseCount') or 0)} of {count} {machine} free, {row.get('status')}"


def _networks(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    listed = reader.ask("network_bodies", project=answers.project.project_id)
    return [
        Suggestion(str(one["name"]), "auto mode" if one.get("autoCreateSubnetworks") else "custom mode")
        for one in listed
    ]


def _subnets(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    place, network = answers.project, answers.networks.network
    listed = reader.ask("subnets", project=place.project_id, region=place.region)
    return [
        Suggestion(str(one["name"]), str(one["ipCidrRange"]))
        for one in listed
        if str(one.get("network", "")).rpartition("/")[2] == network
    ]


def _clusters(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    place = answers.project
    listed = reader.ask("clusters", project=place.project_id, location=place.region)
    return [
        Suggestion(str(one["name"]), f"GKE {one.get('currentMasterVersion', '')}, {one.get('status', '')}")
        for one in listed
    ]


def _versions(answers: Answers, reader: CloudReader) -> list[Suggestion]:
    place = answers.project
    served = reader.ask("gke_versions", project=place.project_id, location=place.region)
    return [
        Suggestion(str(one), "the channel's default" if one == served["default"] else "")
        for one in served["valid"]
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
