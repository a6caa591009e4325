"""Quotas: whether they suffice, and where to request more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grpo_wizard.steps.core.model import CheckFinding


def quota_request_hint(project: str) -> str:
    return f"request more quota: https://console.cloud.google.com/iam-admin/quotas?project={project}"


@dataclass(frozen=True)
class QuotaRequirement:
    """An amount of one quota metric that `consumer` needs."""

    metric: str
    amount: int
    consumer: str


def check_quota(
    requirements: Iterable[QuotaRequirement],
    rows: Mapping[str, Mapping[str, float]],
    location: str,
    project: str,
) -> Iterable[CheckFinding]:
    """One finding a need. A metric that Google does not tell is passed over: there is nothing to compare with."""
    fits = []
    for need in requirements:
        row = rows.get(need.metric)
        if row is None or not need.amount:
            continue
        left = row["limit"] - row["usage"]
        if left < need.amount:
            yield CheckFinding(
                "block",
                f"{need.metric} quota of {location}: {need.consumer} needs {need.amount:,}, {max(left, 0):,.0f} are left of {row['limit']:,.0f}",
                "this is a quota limit, not a stock-out and not a missing permission",
                quota_request_hint(project),
            )
        else:
            fits.append(f"{need.metric} {need.amount:,} of {left:,.0f}")
    if fits:
        yield CheckFinding("pass", f"quotas of {location} have room", ", ".join(fits))
