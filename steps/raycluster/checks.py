"""Preflight checks of step 6, RayCluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.cloud_reader import CloudReader
from grpo_wizard.steps.core.model import Check, CheckFinding

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def _interfaces(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    if answers.raycluster.rdma_interfaces:
        yield CheckFinding(
            "pass", detail="Worker pods request ten network interfaces: eth0, the gVNIC and eight for RDMA."
        )
    else:
        yield CheckFinding(
            "warn",
            detail="Worker pods will have no RDMA interfaces, so NCCL will fall back to TCP, which is many times slower.",
            fix="Set raycluster.rdma_interfaces=true.",
        )


CHECKS = (
    Check(
        id="interfaces",
        title="RDMA interfaces",
        run=_interfaces,
        needs=lambda a: a.raycluster.rdma_interfaces,
    ),
)
