"""Quotas: how a row is read, and where more is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grpo_wizard.steps.core.model import Finding


def more(project: str) -> str:
    return f"ask for more: https://console.cloud.google.com/iam-admin/quotas?project={project}"


@dataclass(frozen=True)
class Need:
    """So much of a metric is asked for; `what` says by whom."""

    metric: str
    amount: int
    what: str


def judge(
    needs: Iterable[Need], rows: Mapping[str, Mapping[str, float]], place: str, project: str
) -> Iterable[Finding]:
    """One finding a need. A metric that Google does not tell is passed over: there is nothing to compare with."""
    fits = []
    for need in needs:
        row = rows.get(need.metric)
        if row is None or not need.amount:
            continue
        left = row["limit"] - row["usage"]
        if left < need.amount:
            yield Finding(
                "block",
                f"{need.metric} quota of {place}: {need.what} needs {need.amount:,}, {max(left, 0):,.0f} are left of {row['limit']:,.0f}",
                "this is a quota shortage: neither a stock-out nor a missing permission",
                more(project),
            )
        else:
            fits.append(f"{need.metric} {need.amount:,} of {left:,.0f}")
    if fits:
        yield Finding("pass", f"quotas of {place} have room", ", ".join(fits))
