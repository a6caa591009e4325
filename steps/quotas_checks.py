"""Step 2, Quotas and reservation: what must hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import catalogue
from .reservation import reservation_parts
from .step import Answers, Check, Finding, World


def _machine_fits(answers: Answers, world: World) -> Iterable[Finding]:
    mine = answers["quotas"]
    allowed = catalogue.gpu(mine["gpu_type"])["machine_types"]
    if mine["machine_type"] not in allowed:
        yield Finding(
            "block",
            f"{mine['machine_type']} does not carry {mine['gpu_type']}",
            "",
            f"set quotas.machine_type={allowed[0]}",
        )
        return
    zone, project = answers["project"]["zone"], answers["project"]["project_id"]
    if world.ask("machine_type", project=project, zone=zone, name=mine["machine_type"]) is None:
        yield Finding(
            "block",
            f"{zone} has no {mine['machine_type']}",
            "",
            "choose a zone that has it: gcloud compute machine-types list "
            f"--filter=name={mine['machine_type']}",
        )
    else:
        yield Finding("pass", f"{zone} has {mine['machine_type']}")


def _reserved(answers: Answers, world: World) -> Iterable[Finding]:
    mine, project, zone = answers["quotas"], answers["project"]["project_id"], answers["project"]["zone"]
    parts = reservation_parts(mine["reservation"])
    owner = parts["project"] or project
    seen = world.ask("reservation", project=owner, zone=zone, name=parts["name"])
    if seen is None:
        elsewhere = world.ask("reservation_zones", project=owner, name=parts["name"])
        where = (
            f"it is in {', '.join(elsewhere)}" if elsewhere else "no zone of the project has one of that name"
        )
        yield Finding(
            "block",
            f"reservation {parts['name']} was not found in {zone}",
            where,
            f"set project.zone={elsewhere[0]}"
            if elsewhere
            else f"gcloud compute reservations list --project={owner}",
        )
        return
    yield from _reservation_holds(mine, zone, seen)


def _reservation_holds(mine: Any, zone: str, seen: dict[str, Any]) -> Iterable[Finding]:
    specific = seen.get("specificReservation", {})
    machine = specific.get("instanceProperties", {}).get("machineType", "")
    free = int(specific.get("assuredCount") or specific.get("count") or 0) - int(
        specific.get("inUseCount") or 0
    )
    if seen.get("status") != "READY":
        yield Finding(
            "block",
            f"reservation {seen['name']} is {seen.get('status')}, not READY",
            "",
            "wait until it is READY, or name another",
        )
    if machine and machine != mine["machine_type"]:
        yield Finding(
            "block",
            f"reservation {seen['name']} keeps {machine}, not {mine['machine_type']}",
            "",
            f"set quotas.machine_type={machine}",
        )
    if not seen.get("specificReservationRequired"):
        yield Finding(
            "block",
            f"reservation {seen['name']} cannot be targeted by name",
            "specificReservationRequired is false",
            "make one with --require-specific-reservation",
        )
    if free < mine["gpu_nodes"]:
        yield Finding(
            "block",
            f"reservation {seen['name']} has {free} machines free, {mine['gpu_nodes']} are wanted",
            "this is a reservation mismatch, not a quota or a stock-out",
            f"set quotas.gpu_nodes={max(free, 1)} or name another reservation",
        )
    else:
        yield Finding(
            "pass", f"reservation {seen['name']} is {seen.get('status')}, {free} machines free, {machine}"
        )
    if seen.get("deleteAtTime"):
        yield Finding(
            "warn",
            f"reservation {seen['name']} is deleted at {seen['deleteAtTime']}",
            "its machines go with it",
            "finish before, or extend it",
        )


def _gpu_quota(answers: Answers, world: World) -> Iterable[Finding]:
    mine, region = answers["quotas"], answers["project"]["region"]
    family = catalogue.gpu(mine["gpu_type"])["family"]
    limit = world.ask("gpu_quota", project=answers["project"]["project_id"], region=region, family=family)
    wanted = mine["gpu_nodes"] * 8
    if limit is None:
        yield Finding(
            "warn",
            f"no GPU quota for {family} could be read in {region}",
            "reserved machines have passed quota already",
            "",
        )
    elif limit < wanted:
        yield Finding(
            "info",
            f"GPU quota for {family} in {region} is {limit}, {wanted} are wanted",
            "with a specific reservation the reserved capacity has passed quota already",
            "",
        )
    else:
        yield Finding("pass", f"GPU quota for {family} in {region} is {limit}, {wanted} are wanted")


CHECKS = (
    Check(
        "machine",
        "The zone has the machine",
        _machine_fits,
        ("quotas.gpu_type", "quotas.machine_type", "project.zone"),
    ),
    Check(
        "reservation",
        "The reservation holds",
        _reserved,
        ("quotas.reservation", "quotas.gpu_nodes", "project.zone"),
    ),
    Check("gpu_quota", "GPU quota", _gpu_quota, ("quotas.gpu_type", "quotas.gpu_nodes", "project.region")),
)
