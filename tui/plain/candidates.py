"""What could be answered, as the cloud tells it now: for the questions whose answer is a thing that is there already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grpo_wizard.steps.step import Answers, World
from grpo_wizard.tui.i18n import _

Find = Callable[[Answers, World], list[str]]


def _reservations(answers: Answers, world: World) -> list[str]:
    mine = answers["project"]
    return [
        _reservation(row) for row in world.ask("reservations", project=mine["project_id"], zone=mine["zone"])
    ]


def _reservation(row: Mapping[str, Any]) -> str:
    kept = row.get("specificReservation", {})
    machine = kept.get("instanceProperties", {}).get("machineType", "")
    count, used = int(kept.get("count") or 0), int(kept.get("inUseCount") or 0)
    return _("{name}: {free} of {count} {machine} free, {status}").format(
        name=row.get("name"), free=count - used, count=count, machine=machine, status=row.get("status")
    )


def _networks(answers: Answers, world: World) -> list[str]:
    return [str(name) for name in world.ask("networks", project=answers["project"]["project_id"])]


def _versions(answers: Answers, world: World) -> list[str]:
    mine = answers["project"]
    served = world.ask("gke_versions", project=mine["project_id"], location=mine["region"])
    return [str(version) for version in served["valid"]]


def _lustre_zones(answers: Answers, world: World) -> list[str]:
    return [str(zone) for zone in world.ask("lustre_zones", project=answers["project"]["project_id"])]


FOUND: Mapping[str, tuple[str, Find]] = {
    "project.zone": (_("zones with Managed Lustre"), _lustre_zones),
    "quotas.reservation": (_("reservations found in the zone"), _reservations),
    "networks.network": (_("networks of the project"), _networks),
    "cluster.version": (_("versions that GKE serves there"), _versions),
}
"""By step.field: what is listed, and how it is found."""
