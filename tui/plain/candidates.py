"""What could be answered, as the cloud tells it now: for the questions whose answer is a thing that is there already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from grpo_wizard.steps.step import Answers, World
from grpo_wizard.tui.i18n import _

Find = Callable[[Answers, World], list[str]]


def _names(rows: Iterable[Any]) -> list[str]:
    return [
        str(row) if isinstance(row, str) else str(row.get("projectId") or row.get("name")) for row in rows
    ]


def _projects(answers: Answers, world: World) -> list[str]:
    return _names(world.ask("projects"))


def _zones(answers: Answers, world: World) -> list[str]:
    mine = answers["project"]
    return [
        name
        for name in _names(world.ask("zones", project=mine["project_id"]))
        if name.startswith(mine["region"])
    ]


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
    return _names(world.ask("networks", project=answers["project"]["project_id"]))


def _subnets(answers: Answers, world: World) -> list[str]:
    mine = answers["project"]
    return _names(world.ask("subnets", project=mine["project_id"], region=mine["region"]))


FOUND: Mapping[str, tuple[str, Find]] = {
    "projects": (_("projects that you see"), _projects),
    "zones": (_("zones of the region"), _zones),
    "reservations": (_("reservations found in the zone"), _reservations),
    "networks": (_("networks of the project"), _networks),
    "subnets": (_("subnets of the region"), _subnets),
}
"""By Field.choices_from: what is listed, and how it is found."""
