"""Quotas: how a requirement compares with what is left, and where to request more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from grpo_wizard.steps.core.cloud_reader import QuotaUsage
from grpo_wizard.steps.core.model import CheckFinding


def quota_request_hint(project: str) -> str:
    return f"Request a higher quota: https://console.cloud.google.com/iam-admin/quotas?project={project}"


@dataclass(frozen=True)
class QuotaRequirement:
    """An amount of a metric that `consumer` needs."""

    metric: str
    amount: int
    consumer: str


def check_quota(
    *,
    requirements: Iterable[QuotaRequirement],
    quotas: Mapping[str, QuotaUsage],
    scope: str,
    project: str,
) -> Iterator[CheckFinding]:
    """Yield a block for each shortage, then one pass for the rest. Metrics that Google does not report are skipped."""
    sufficient = []
    for need in requirements:
        quota = quotas.get(need.metric)
        if quota is None or not need.amount:
            continue
        if quota.left < need.amount:
            yield CheckFinding(
                "block",
                detail=f"The remaining {need.metric} quota in {scope} is {max(quota.left, 0):,.0f} of {quota.limit:,.0f}, but this "
                f"deployment requires {need.amount:,} for {need.consumer}. This is a quota shortage, not a stockout or a missing permission.",
                fix=quota_request_hint(project),
            )
        else:
            sufficient.append(f"{need.metric} {need.amount:,} of {quota.left:,.0f}")
    if sufficient:
        yield CheckFinding("pass", detail=f"The quotas in {scope} are sufficient: {', '.join(sufficient)}.")
