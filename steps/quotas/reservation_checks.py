"""Whether the reservation holds what is asked: looked up by what its name says, before a node pool finds out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.model import CheckFinding, CloudReader
from grpo_wizard.steps.gcp.naming import gcloud_command
from grpo_wizard.steps.gcp.provisioning import is_reserved
from grpo_wizard.steps.gcp.reservations import parse_reservation

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers
    from grpo_wizard.steps.quotas.answers import QuotasAnswers

ReservationParts = Mapping[str, str | None]
_MISMATCH = "this is a reservation mismatch: neither a quota nor a stock-out"


def check_reservation(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    mine, place = answers.quotas, answers.project
    if not is_reserved(answers):
        return
    parts = parse_reservation(mine.reservation)
    owner, zone = parts["project"] or place.project_id, place.zone
    if parts["zone"] and parts["zone"] != zone:
        yield CheckFinding(
            "block",
            f"reservation {parts['name']} is named in {parts['zone']}, the nodes are in {zone}",
            "",
            f"set project.zone={parts['zone']}",
        )
        return
    try:
        seen = world.ask("reservation", project=owner, zone=zone, name=parts["name"])
    except WizardError as error:
        if getattr(error, "kind", "") != "denied" or owner == place.project_id:
            raise
        yield _access_denied(str(parts["name"]), owner, world)
        return
    if seen is None:
        yield _not_found(str(parts["name"]), owner, zone, world)
        return
    yield from _check_match(answers, seen, owner)
    yield from _check_block(answers, world, parts, owner)


def _access_denied(name: str, owner: str, world: CloudReader) -> CheckFinding:
    who = world.ask("identity")
    return CheckFinding(
        "warn",
        f"reservation {name} of {owner} may not be looked at",
        f"{who} lacks compute.reservations.get there; the nodes may use it all the same",
        gcloud_command(
            "projects add-iam-policy-binding", {"member": "user:YOU", "role": "roles/compute.viewer"}, owner
        ),
    )


def _not_found(name: str, owner: str, zone: str, world: CloudReader) -> CheckFinding:
    title = f"reservation {name} was not found in {zone}"
    elsewhere = world.ask("reservation_zones", project=owner, name=name)
    if elsewhere:
        return CheckFinding(
            "block", title, f"it is in {', '.join(elsewhere)}", f"set project.zone={elsewhere[0]}"
        )
    coming = world.ask("future_reservations", project=owner, name=name)
    if coming:
        return CheckFinding(
            "block",
            title,
            f"{', '.join(coming)} has a future reservation of that name, which is no reservation yet",
            f"gcloud compute future-reservations describe {name} --zone={coming[0]} --project={owner}",
        )
    shared = f"; one of another project is named projects/OWNER/reservations/{name}"
    return CheckFinding(
        "block",
        title,
        f"no zone of {owner} has one of that name{shared}",
        f"name one that is there as quotas.reservation: gcloud compute reservations list --project={owner}",
    )


def _check_match(answers: Answers, seen: Mapping[str, Any], owner: str) -> Iterable[CheckFinding]:
    mine, name = answers.quotas, str(seen["name"])
    specific = seen.get("specificReservation", {})
    machine = str(specific.get("instanceProperties", {}).get("machineType", "")).rpartition("/")[2]
    if seen.get("status") != "READY":
        yield CheckFinding(
            "block",
            f"reservation {name} is {seen.get('status')}, not READY",
            _MISMATCH,
            "wait until it is READY, or name another",
        )
    if machine and machine != mine.machine_type:
        yield CheckFinding(
            "block",
            f"reservation {name} keeps {machine}, not {mine.machine_type}",
            _MISMATCH,
            f"set quotas.machine_type={machine}",
        )
    if not seen.get("specificReservationRequired"):
        yield CheckFinding(
            "block",
            f"reservation {name} cannot be targeted by name",
            "specificReservationRequired is false",
            "make one with --require-specific-reservation",
        )
    yield from _check_sharing(answers.project.project_id, owner, seen)
    yield from _check_placement_policy(answers.cluster.placement_policy, seen)
    yield from _check_free_machines(mine, seen, machine)
    if seen.get("deleteAtTime"):
        yield CheckFinding(
            "warn",
            f"reservation {name} is deleted at {seen['deleteAtTime']}",
            "its machines go with it",
            "finish before, or extend it",
        )


def _check_sharing(consumer: str, owner: str, seen: Mapping[str, Any]) -> Iterable[CheckFinding]:
    """A reservation of another project must be shared with ours."""
    settings = seen.get("shareSettings", {})
    if owner != consumer and (
        settings.get("shareType", "LOCAL") == "LOCAL"
        or (
            settings.get("shareType") == "SPECIFIC_PROJECTS"
            and consumer not in settings.get("projectMap", {})
        )
    ):
        yield CheckFinding(
            "block",
            f"reservation {seen['name']} of {owner} is not shared with {consumer}",
            f"its shareSettings say {settings.get('shareType', 'LOCAL')}",
            f"have its owner share it: gcloud compute reservations update {seen['name']} --project={owner} "
            f"--add-share-with={consumer}",
        )


def _check_placement_policy(chosen: str, seen: Mapping[str, Any]) -> Iterable[CheckFinding]:
    """Machines of a reservation that was made with a placement policy must name the same one."""
    policies = {str(link).rpartition("/")[2] for link in seen.get("resourcePolicies", {}).values()}
    if policies and chosen not in policies:
        wanted = sorted(policies)[0]
        yield CheckFinding(
            "block",
            f"reservation {seen['name']} was made with placement policy {wanted}",
            "the nodes must name the same one, or none of them would start",
            f"set cluster.placement_policy={wanted}",
        )


def _check_free_machines(
    mine: QuotasAnswers, seen: Mapping[str, Any], machine: str
) -> Iterable[CheckFinding]:
    specific = seen.get("specificReservation", {})
    total = int(specific.get("assuredCount") or specific.get("count") or 0)
    left = total - int(specific.get("inUseCount") or 0)
    if left < mine.gpu_nodes:
        yield CheckFinding(
            "block",
            f"reservation {seen['name']} has {left} machines free, {mine.gpu_nodes} are wanted",
            _MISMATCH,
            f"set quotas.gpu_nodes={max(left, 1)} or name another reservation",
        )
    else:
        yield CheckFinding(
            "pass", f"reservation {seen['name']} is {seen.get('status')}, {left} machines free, {machine}"
        )


def _check_block(
    answers: Answers, world: CloudReader, parts: ReservationParts, owner: str
) -> Iterable[CheckFinding]:
    """The block or sub-block that the value names, if any."""
    if not parts["block"]:
        return
    about = {
        "project": owner,
        "zone": answers.project.zone,
        "name": parts["name"],
        "block": parts["block"],
    }
    inner = {"sub": parts["sub"]} if parts["sub"] else {}
    found = world.ask("reservation_sub_block" if inner else "reservation_block", **about, **inner)
    what, wanted = "sub-block" if inner else "block", answers.quotas.gpu_nodes
    name = parts["sub"] or parts["block"]
    if found is None:
        listing = f"gcloud compute reservations blocks list {parts['name']} --zone={about['zone']} --project={owner}"
        yield CheckFinding("block", f"reservation {parts['name']} has no {what} {name}", _MISMATCH, listing)
        return
    left = int(found.get("count", 0)) - int(found.get("inUseCount", 0))
    if left < wanted:
        yield CheckFinding(
            "block",
            f"{what} {name} has {left} machines free, {wanted} are wanted",
            _MISMATCH,
            f"set quotas.gpu_nodes={max(left, 1)}, or leave out the {what}",
        )
    else:
        yield CheckFinding("pass", f"{what} {name} has {left} machines free")
