"""Step 2, Quotas and reservation: what must hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.model import Check, CheckFinding, CloudReader
from grpo_wizard.steps.gcp import provisioning
from grpo_wizard.steps.gcp.quota import quota_request_hint
from grpo_wizard.steps.quotas.reservation_checks import check_reservation

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def _machine_type(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    mine = answers.quotas
    allowed = catalog.gpu_spec(mine.gpu_type)["machine_types"]
    if mine.machine_type not in allowed:
        yield CheckFinding(
            "block",
            f"{mine.machine_type} does not carry {mine.gpu_type}",
            "",
            f"set quotas.machine_type={allowed[0]}",
        )
        return
    zone, project = answers.project.zone, answers.project.project_id
    if world.ask("machine_type", project=project, zone=zone, name=mine.machine_type) is None:
        others = world.ask("machine_zones", project=project, name=mine.machine_type)
        yield CheckFinding(
            "block",
            f"{zone} has no {mine.machine_type}",
            f"it is in {', '.join(others)}" if others else "no zone that you may use has it",
            "set project.zone to one that has it",
        )
    else:
        yield CheckFinding("pass", f"{zone} has {mine.machine_type}")


def _accelerator(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    place, gpu = answers.project, answers.quotas.gpu_type
    if world.ask("accelerator", project=place.project_id, zone=place.zone, name=gpu) is None:
        yield CheckFinding("block", f"{place.zone} has no {gpu}", "", "choose a zone that has it")
    else:
        yield CheckFinding("pass", f"{place.zone} has {gpu}")


def _gpu_quota(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    """Both limits count: the family's in the region, and all GPUs' everywhere."""
    mine, place = answers.quotas, answers.project
    family, way = catalog.gpu_spec(mine.gpu_type)["family"], provisioning.provisioning_model(answers)
    limit = world.ask(
        "gpu_quota", project=place.project_id, region=place.region, family=family, quota=way.quota_id
    )
    what = f"GPU quota for {family} in {place.region}"
    if limit is None:
        yield CheckFinding("warn", f"no {what} could be read", _reservation_quota_note(answers))
    else:
        yield _compare_quota(answers, what, float(limit))


def _gpu_quota_all_regions(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    row = world.ask("quotas", project=answers.project.project_id).get("GPUS_ALL_REGIONS")
    if row is not None:
        yield _compare_quota(
            answers, "GPU quota for all regions (GPUS_ALL_REGIONS)", row["limit"] - row["usage"]
        )


def _compare_quota(answers: Answers, what: str, left: float) -> CheckFinding:
    wanted = answers.quotas.gpu_nodes * 8
    said = f"{what} is {left:.0f}, {wanted} are wanted"
    if left >= wanted:
        return CheckFinding("pass", said)
    if provisioning.is_reserved(answers):
        return CheckFinding("info", said, _reservation_quota_note(answers))
    return CheckFinding(
        "block",
        said,
        "this is a quota shortage: neither a reservation mismatch nor a stock-out",
        quota_request_hint(answers.project.project_id),
    )


def _reservation_quota_note(answers: Answers) -> str:
    reserved_ones = provisioning.is_reserved(answers)
    return "machines of a specific reservation have passed quota already" if reserved_ones else ""


def _provisioning_model(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    chosen, way = answers.quotas.capacity, provisioning.provisioning_model(answers)
    doubt = (
        ""
        if provisioning.is_reserved(answers)
        else "; whether machines are free shows only when they are asked for"
    )
    yield CheckFinding(
        "info",
        f"capacity {chosen}: {way.price}",
        f"waiting time: {way.waiting}; preemption: {way.preemption}{doubt}",
    )


CHECKS = (
    Check(
        "machine",
        "The zone has the machine",
        _machine_type,
        ("quotas.gpu_type", "quotas.machine_type", "project.zone"),
    ),
    Check("accelerator", "The zone has the GPU", _accelerator, ("quotas.gpu_type", "project.zone")),
    Check("capacity", "What the capacity means", _provisioning_model, ("quotas.capacity",)),
    Check(
        "reservation",
        "The reservation holds",
        check_reservation,
        (
            "quotas.capacity",
            "quotas.reservation",
            "quotas.gpu_nodes",
            "quotas.machine_type",
            "project.zone",
            "project.project_id",
        ),
    ),
    Check(
        "gpu_quota",
        "GPU quota",
        _gpu_quota,
        ("quotas.capacity", "quotas.gpu_type", "quotas.gpu_nodes", "project.region"),
    ),
    Check(
        "gpu_quota_all",
        "GPU quota everywhere",
        _gpu_quota_all_regions,
        ("quotas.capacity", "quotas.gpu_nodes"),
    ),
)
