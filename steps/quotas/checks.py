"""Step 2, Quotas and reservation: what must hold."""

from __future__ import annotations

from collections.abc import Iterable

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.model import Answers, Check, Finding, World
from grpo_wizard.steps.gcp import provisioning
from grpo_wizard.steps.gcp.quota import more
from grpo_wizard.steps.quotas.reservation_checks import reserved


def _machine_fits(answers: Answers, world: World) -> Iterable[Finding]:
    mine = answers["quotas"]
    allowed = catalog.gpu(mine["gpu_type"])["machine_types"]
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
        others = world.ask("machine_zones", project=project, name=mine["machine_type"])
        yield Finding(
            "block",
            f"{zone} has no {mine['machine_type']}",
            f"it is in {', '.join(others)}" if others else "no zone that you may use has it",
            "set project.zone to one that has it",
        )
    else:
        yield Finding("pass", f"{zone} has {mine['machine_type']}")


def _accelerator(answers: Answers, world: World) -> Iterable[Finding]:
    place, gpu = answers["project"], answers["quotas"]["gpu_type"]
    if world.ask("accelerator", project=place["project_id"], zone=place["zone"], name=gpu) is None:
        yield Finding("block", f"{place['zone']} has no {gpu}", "", "choose a zone that has it")
    else:
        yield Finding("pass", f"{place['zone']} has {gpu}")


def _gpu_quota(answers: Answers, world: World) -> Iterable[Finding]:
    """Both limits count: the family's in the region, and all GPUs' everywhere."""
    mine, place = answers["quotas"], answers["project"]
    family, way = catalog.gpu(mine["gpu_type"])["family"], provisioning.capacity(answers)
    limit = world.ask(
        "gpu_quota", project=place["project_id"], region=place["region"], family=family, quota=way.quota
    )
    what = f"GPU quota for {family} in {place['region']}"
    if limit is None:
        yield Finding("warn", f"no {what} could be read", _passed_already(answers))
    else:
        yield _limit(answers, what, float(limit))


def _gpus_everywhere(answers: Answers, world: World) -> Iterable[Finding]:
    row = world.ask("quotas", project=answers["project"]["project_id"]).get("GPUS_ALL_REGIONS")
    if row is not None:
        yield _limit(answers, "GPU quota for all regions (GPUS_ALL_REGIONS)", row["limit"] - row["usage"])


def _limit(answers: Answers, what: str, left: float) -> Finding:
    wanted = answers["quotas"]["gpu_nodes"] * 8
    said = f"{what} is {left:.0f}, {wanted} are wanted"
    if left >= wanted:
        return Finding("pass", said)
    if provisioning.is_reserved(answers):
        return Finding("info", said, _passed_already(answers))
    return Finding(
        "block",
        said,
        "this is a quota shortage: neither a reservation mismatch nor a stock-out",
        more(answers["project"]["project_id"]),
    )


def _passed_already(answers: Answers) -> str:
    reserved_ones = provisioning.is_reserved(answers)
    return "machines of a specific reservation have passed quota already" if reserved_ones else ""


def _what_it_means(answers: Answers, world: World) -> Iterable[Finding]:
    chosen, way = answers["quotas"]["capacity"], provisioning.capacity(answers)
    doubt = (
        ""
        if provisioning.is_reserved(answers)
        else "; whether machines are free shows only when they are asked for"
    )
    yield Finding(
        "info", f"capacity {chosen}: {way.price}", f"waiting: {way.waiting}; loss: {way.loss}{doubt}"
    )


CHECKS = (
    Check(
        "machine",
        "The zone has the machine",
        _machine_fits,
        ("quotas.gpu_type", "quotas.machine_type", "project.zone"),
    ),
    Check("accelerator", "The zone has the GPU", _accelerator, ("quotas.gpu_type", "project.zone")),
    Check("capacity", "What the capacity means", _what_it_means, ("quotas.capacity",)),
    Check(
        "reservation",
        "The reservation holds",
        reserved,
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
    Check("gpu_quota_all", "GPU quota everywhere", _gpus_everywhere, ("quotas.capacity", "quotas.gpu_nodes")),
)
