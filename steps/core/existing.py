"""Something of a name that the deployment wants is there already: whose, and in which state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core.model import CheckFinding, CloudReader

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

_OWNER_KEY = "grpo-wizard"
_FAILED_STATES = {"ERROR", "DEGRADED", "RUNNING_WITH_ERROR", "STOPPED", "SUSPENDED"}
_DELETING_STATES = {"STOPPING", "DELETING"}


def owner_label_of(body: Mapping[str, Any], labels: str = "labels") -> str:
    """The lineage written on a thing: in its labels (a dotted path), or its description."""
    at: Any = body
    for key in labels.split("."):
        at = at.get(key, {}) if isinstance(at, Mapping) else {}
    described = str(body.get("description", ""))
    return str(
        at.get(_OWNER_KEY)
        or (described.removeprefix(f"{_OWNER_KEY} ") if described.startswith(f"{_OWNER_KEY} ") else "")
    )


def check_existing(
    what: str, state: str, owner_label: str, setting: str, answers: Answers, reader: CloudReader
) -> Iterable[CheckFinding]:
    """`what` names it, `state` is the API's own word, `setting` the step.field that names it."""
    lineage = reader.ask("lineage")
    if owner_label and owner_label == lineage:
        yield _managed_finding(what, state)
        return
    whose = f"it bears the mark {owner_label}" if owner_label else "it bears no mark of a deployment"
    other = f"set {setting} to another name"
    if state in _FAILED_STATES:
        # Without marks it may be our own: apply knows from its state, and must be able to mend it.
        level = "block" if answers.project.ownership_marks or owner_label else "warn"
        yield CheckFinding(level, f"{what} is there already and is {state}", whose, f"delete it, or {other}")  # type: ignore[arg-type]
    elif state in _DELETING_STATES:
        yield CheckFinding("warn", f"{what} is being deleted", whose, f"wait until it is gone, or {other}")
    else:
        yield CheckFinding(
            "warn",
            f"{what} is there already: {state}",
            f"{whose}; where it fits, apply --adopt uses it and never deletes it",
            other,
        )


def _managed_finding(what: str, state: str) -> CheckFinding:
    if state in _FAILED_STATES:
        return CheckFinding(
            "warn",
            f"{what} of this deployment is {state}",
            "",
            "grpo-wizard plan names the way to make it anew",
        )
    return CheckFinding("pass", f"{what} of this deployment is there: {state}")
