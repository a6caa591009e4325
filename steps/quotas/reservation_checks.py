"""Whether the reservation has what the GPU nodes need, so that no node pool fails because of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.cloud_reader import CloudReader, ReservationStatus
from grpo_wizard.steps.core.model import CheckFinding
from grpo_wizard.steps.gcp.naming import gcloud_command
from grpo_wizard.steps.gcp.provisioning import is_reserved
from grpo_wizard.steps.gcp.reservations import ReservationName, parse_reservation

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

_MISMATCH = "This is a reservation mismatch, not a quota shortage or a stockout."


def check_reservation(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    """Look the reservation up by every part of its name, then compare it with what the nodes need."""
    if not is_reserved(answers):
        return
    reservation = parse_reservation(answers.quotas.reservation)
    zone, consumer = answers.project.zone, answers.project.project_id
    owner = reservation.project or consumer
    if reservation.zone and reservation.zone != zone:
        yield CheckFinding(
            "block",
            detail=f"Reservation {reservation.name} is in {reservation.zone}, but the nodes are in {zone}.",
            fix=f"Set project.zone={reservation.zone}.",
        )
        return
    try:
        found = reader.reservation(project=owner, zone=zone, name=reservation.name)
    except WizardError as error:
        if getattr(error, "kind", "") != "denied" or owner == consumer:
            raise
        yield _access_denied(reservation.name, owner, reader)
        return
    if found is None:
        yield _not_found(reservation.name, owner, zone, reader)
        return
    yield from _check_match(answers, found, owner)
    yield from _check_block(answers, reader, reservation, owner)


def _access_denied(name: str, owner: str, reader: CloudReader) -> CheckFinding:
    account = reader.signed_in_account().account
    return CheckFinding(
        "warn",
        detail=f"Reservation {name} of project {owner} could not be read because {account} lacks the "
        "compute.reservations.get permission there. The nodes may still be able to use it.",
        fix=gcloud_command(
            "projects add-iam-policy-binding", {"member": "user:YOU", "role": "roles/compute.viewer"}, owner
        ),
    )


def _not_found(name: str, owner: str, zone: str, reader: CloudReader) -> CheckFinding:
    missing = f"Reservation {name} was not found in {zone}."
    zones = reader.reservation_zones(project=owner, name=name)
    if zones:
        return CheckFinding(
            "block", detail=f"{missing} It is in {', '.join(zones)}.", fix=f"Set project.zone={zones[0]}."
        )
    future = reader.future_reservation_zones(project=owner, name=name)
    if future:
        return CheckFinding(
            "block",
            detail=f"{missing} A future reservation with that name exists in {', '.join(future)}, but it cannot be used yet.",
            fix=f"gcloud compute future-reservations describe {name} --zone={future[0]} --project={owner}",
        )
    return CheckFinding(
        "block",
        detail=f"{missing} It does not exist in any zone of {owner}. For another project's reservation, enter "
        f"projects/OWNER/reservations/{name}.",
        fix=f"Set quotas.reservation to an existing reservation. To list them, run: gcloud compute reservations list --project={owner}",
    )


def _check_match(answers: Answers, found: ReservationStatus, owner: str) -> Iterable[CheckFinding]:
    machine_type = answers.quotas.machine_type
    if found.status != "READY":
        yield CheckFinding(
            "block",
            detail=f"Reservation {found.name} is {found.status}, not READY. {_MISMATCH}",
            fix="Wait until it is READY, or use a different reservation.",
        )
    if found.machine_type and found.machine_type != machine_type:
        yield CheckFinding(
            "block",
            detail=f"Reservation {found.name} contains {found.machine_type} machines, not {machine_type}. {_MISMATCH}",
            fix=f"Set quotas.machine_type={found.machine_type}.",
        )
    if not found.targeted_by_name:
        yield CheckFinding(
            "block",
            detail=f"Reservation {found.name} cannot be targeted by name because specificReservationRequired is false.",
            fix="Create a reservation with --require-specific-reservation.",
        )
    yield from _check_sharing(answers.project.project_id, owner, found)
    yield from _check_placement_policy(answers.cluster.placement_policy, found)
    yield _free_machines(answers.quotas.gpu_nodes, found)
    if found.delete_at:
        yield CheckFinding(
            "warn",
            detail=f"Reservation {found.name} and its machines will be deleted at {found.delete_at}.",
            fix="Finish the run before that time, or extend the reservation.",
        )


def _check_sharing(consumer: str, owner: str, found: ReservationStatus) -> Iterable[CheckFinding]:
    """A reservation of another project must be shared with ours."""
    private = found.share_type == "LOCAL"
    listed = found.share_type != "SPECIFIC_PROJECTS" or consumer in found.shared_with
    if owner != consumer and (private or not listed):
        yield CheckFinding(
            "block",
            detail=f"Reservation {found.name} in project {owner} is not shared with {consumer} (share type {found.share_type}).",
            fix=f"Ask its owner to share it: gcloud compute reservations update {found.name} --project={owner} "
            f"--add-share-with={consumer}",
        )


def _check_placement_policy(policy: str, found: ReservationStatus) -> Iterable[CheckFinding]:
    """Nodes that use a reservation with a placement policy must name the same policy."""
    if found.placement_policies and policy not in found.placement_policies:
        required = sorted(found.placement_policies)[0]
        yield CheckFinding(
            "block",
            detail=f"Reservation {found.name} was created with placement policy {required}. "
            "The nodes must use the same policy, or none of them will start.",
            fix=f"Set cluster.placement_policy={required}.",
        )


def _free_machines(needed: int, found: ReservationStatus) -> CheckFinding:
    if found.free < needed:
        return CheckFinding(
            "block",
            detail=f"Reservation {found.name} {_shortage(found.free, needed)} {_MISMATCH}",
            fix=f"Set quotas.gpu_nodes={max(found.free, 1)}, or use a different reservation.",
        )
    return CheckFinding(
        "pass",
        detail=f"Reservation {found.name} is {found.status} and has {_count(found.free, f'free {found.machine_type} machine')}.",
    )


def _shortage(free: int, needed: int) -> str:
    return f"has {_count(free, 'free machine')}, but {needed} {'is' if needed == 1 else 'are'} needed."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _check_block(
    answers: Answers, reader: CloudReader, reservation: ReservationName, owner: str
) -> Iterable[CheckFinding]:
    """The block or sub-block that the value names, if any."""
    if not reservation.block:
        return
    zone, needed = answers.project.zone, answers.quotas.gpu_nodes
    if reservation.sub_block:
        kind, name = "sub-block", reservation.sub_block
        found = reader.reservation_sub_block(
            project=owner, zone=zone, name=reservation.name, block=reservation.block, sub_block=name
        )
    else:
        kind, name = "block", reservation.block
        found = reader.reservation_block(project=owner, zone=zone, name=reservation.name, block=name)
    if found is None:
        yield CheckFinding(
            "block",
            detail=f"Reservation {reservation.name} has no {kind} {name}. {_MISMATCH}",
            fix=f"gcloud compute reservations blocks list {reservation.name} --zone={zone} --project={owner}",
        )
    elif found.free < needed:
        yield CheckFinding(
            "block",
            detail=f"{kind.capitalize()} {name} {_shortage(found.free, needed)} {_MISMATCH}",
            fix=f"Set quotas.gpu_nodes={max(found.free, 1)}, or omit the {kind}.",
        )
    else:
        yield CheckFinding(
            "pass", detail=f"{kind.capitalize()} {name} has {_count(found.free, 'free machine')}."
        )
