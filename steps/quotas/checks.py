"""Checks of step 2, Quotas and reservation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.cloud_reader import CloudReader
from grpo_wizard.steps.core.model import Check, CheckFinding
from grpo_wizard.steps.gcp import provisioning
from grpo_wizard.steps.gcp.quota import quota_request_hint
from grpo_wizard.steps.quotas.reservation_checks import check_reservation

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def _machine_type(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    machine_type, gpu_type = answers.quotas.machine_type, answers.quotas.gpu_type
    allowed = catalog.gpu_spec(gpu_type)["machine_types"]
    if machine_type not in allowed:
        yield CheckFinding(
            "block",
            detail=f"{machine_type} machines have no {gpu_type} GPUs.",
            fix=f"Set quotas.machine_type={allowed[0]}.",
        )
        return
    zone, project = answers.project.zone, answers.project.project_id
    if reader.has_machine_type(project=project, zone=zone, name=machine_type):
        yield CheckFinding("pass", detail=f"{zone} offers {machine_type}.")
        return
    zones = reader.machine_type_zones(project=project, name=machine_type)
    elsewhere = (
        f"These zones do: {', '.join(zones)}." if zones else "No zone available to this project offers it."
    )
    yield CheckFinding(
        "block",
        detail=f"{zone} does not offer {machine_type}. {elsewhere}",
        fix="Set project.zone to one of them." if zones else "Choose a different machine type.",
    )


def _accelerator(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    project, gpu_type = answers.project, answers.quotas.gpu_type
    if reader.has_accelerator(project=project.project_id, zone=project.zone, name=gpu_type):
        yield CheckFinding("pass", detail=f"{project.zone} offers {gpu_type}.")
    else:
        yield CheckFinding(
            "block",
            detail=f"{project.zone} does not offer {gpu_type}.",
            fix="Choose a zone that offers this GPU type.",
        )


def _gpu_quota(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    """The family's quota in the region; the quota of all GPUs in all regions counts as well."""
    region = answers.project.region
    family = catalog.gpu_spec(answers.quotas.gpu_type)["family"]
    limit = reader.gpu_quota(
        project=answers.project.project_id,
        region=region,
        family=family,
        quota=provisioning.provisioning_model(answers).quota_id,
    )
    scope = f"{family} GPUs in {region}"
    if limit is None:
        note = _reservation_quota_note(answers)
        yield CheckFinding("warn", detail=f"Google reports no quota for {scope}.{note}")
    else:
        yield _compare_quota(answers, scope, float(limit))


def _gpu_quota_all_regions(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    quota = reader.quotas(project=answers.project.project_id).get("GPUS_ALL_REGIONS")
    if quota is not None:
        yield _compare_quota(answers, "GPUs in all regions (GPUS_ALL_REGIONS)", quota.left)


def _compare_quota(answers: Answers, scope: str, left: float) -> CheckFinding:
    needed = answers.quotas.gpu_nodes * catalog.GPUS_PER_NODE
    enough = left >= needed
    detail = (
        f"The remaining quota for {scope} is {left:.0f}, {'and' if enough else 'but'} {needed} are needed."
    )
    if enough:
        return CheckFinding("pass", detail=detail)
    if provisioning.is_reserved(answers):
        return CheckFinding("info", detail=detail + _reservation_quota_note(answers))
    return CheckFinding(
        "block",
        detail=f"{detail} This is a quota shortage, not a reservation mismatch or a stockout.",
        fix=quota_request_hint(answers.project.project_id),
    )


def _reservation_quota_note(answers: Answers) -> str:
    if not provisioning.is_reserved(answers):
        return ""
    return (
        " The machines in a specific reservation were counted against quota when the reservation was created."
    )


def _provisioning_model(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    model = provisioning.provisioning_model(answers)
    unknown = (
        ""
        if provisioning.is_reserved(answers)
        else " Whether machines are available will be known only once the nodes are requested."
    )
    yield CheckFinding("info", detail=f"{answers.quotas.capacity} ({model.description}).{unknown}")


CHECKS = (
    Check(
        id="machine",
        title="Machine type",
        run=_machine_type,
        needs=lambda a: (a.quotas.gpu_type, a.quotas.machine_type, a.project.zone),
    ),
    Check(
        id="accelerator",
        title="GPU type",
        run=_accelerator,
        needs=lambda a: (a.quotas.gpu_type, a.project.zone),
    ),
    Check(
        id="capacity",
        title="Provisioning model",
        run=_provisioning_model,
        needs=lambda a: a.quotas.capacity,
    ),
    Check(
        id="reservation",
        title="Reservation",
        run=check_reservation,
        needs=lambda a: (
            a.quotas.capacity,
            a.quotas.reservation,
            a.quotas.gpu_nodes,
            a.quotas.machine_type,
            a.project.zone,
            a.project.project_id,
            a.cluster.placement_policy,
        ),
    ),
    Check(
        id="gpu_quota",
        title="GPU quota",
        run=_gpu_quota,
        needs=lambda a: (a.quotas.capacity, a.quotas.gpu_type, a.quotas.gpu_nodes, a.project.region),
    ),
    Check(
        id="gpu_quota_all",
        title="GPU quota (all regions)",
        run=_gpu_quota_all_regions,
        needs=lambda a: (a.quotas.capacity, a.quotas.gpu_nodes),
    ),
)
