"""Something of a name that the deployment wants is there already: whose, and in which state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from grpo_wizard.steps.core.model import Answers, Finding, World

_MARK = "grpo-wizard"
_BROKEN = {"ERROR", "DEGRADED", "RUNNING_WITH_ERROR", "STOPPED", "SUSPENDED"}
_GOING = {"STOPPING", "DELETING"}


def mark_of(body: Mapping[str, Any], labels: str = "labels") -> str:
    """The lineage written on a thing: in its labels (a dotted path), or its description."""
    at: Any = body
    for key in labels.split("."):
        at = at.get(key, {}) if isinstance(at, Mapping) else {}
    described = str(body.get("description", ""))
    return str(
        at.get(_MARK) or (described.removeprefix(f"{_MARK} ") if described.startswith(f"{_MARK} ") else "")
    )


def already(
    what: str, state: str, mark: str, setting: str, answers: Answers, world: World
) -> Iterable[Finding]:
    """`what` names it, `state` is the API's own word, `setting` the step.field that names it."""
    lineage = world.ask("lineage")
    if mark and mark == lineage:
        yield _ours(what, state)
        return
    whose = f"it bears the mark {mark}" if mark else "it bears no mark of a deployment"
    other = f"set {setting} to another name"
    if state in _BROKEN:
        # Without marks it may be our own: apply knows from its state, and must be able to mend it.
        level = "block" if answers["project"]["ownership_marks"] or mark else "warn"
        yield Finding(level, f"{what} is there already and is {state}", whose, f"delete it, or {other}")  # type: ignore[arg-type]
    elif state in _GOING:
        yield Finding("warn", f"{what} is being deleted", whose, f"wait until it is gone, or {other}")
    else:
        yield Finding(
            "warn",
            f"{what} is there already: {state}",
            f"{whose}; where it fits, apply --adopt uses it and never deletes it",
            other,
        )


def _ours(what: str, state: str) -> Finding:
    if state in _BROKEN:
        return Finding(
            "warn",
            f"{what} of this deployment is {state}",
            "",
            "grpo-wizard plan names the way to make it anew",
        )
    return Finding("pass", f"{what} of this deployment is there: {state}")
