"""Findings about a resource that already exists under a name that the deployment wants: whose it is, and its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.cloud_reader import CloudReader
from grpo_wizard.steps.core.model import CheckFinding, Level

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

_FAILED_STATES = {"ERROR", "DEGRADED", "RUNNING_WITH_ERROR", "STOPPED", "SUSPENDED"}
_DELETING_STATES = {"STOPPING", "DELETING"}


def check_existing(
    *, resource: str, state: str, owner_label: str, setting: str, answers: Answers, reader: CloudReader
) -> Iterator[CheckFinding]:
    """Report an existing resource.

    `resource` names it in a sentence (`cluster nemo-cluster`), `state` is the API's own word, `owner_label` the ID of
    the deployment on its label, and `setting` the step.field that names it.
    """
    if owner_label and owner_label == reader.deployment_id:
        yield _managed_finding(resource, state)
        return
    owner = f"has the grpo-wizard label {owner_label}" if owner_label else "has no grpo-wizard label"
    rename = f"set {setting} to a different name"
    if state in _FAILED_STATES:
        # Without labels it may be our own: apply knows from its state file, and must be able to repair it.
        level: Level = "block" if answers.project.ownership_marks or owner_label else "warn"
        detail = f"{_capitalized(resource)} exists in state {state} and {owner}."
        yield CheckFinding(level, detail=detail, fix=f"Delete it, or {rename}.")
    elif state in _DELETING_STATES:
        detail = f"{_capitalized(resource)} is being deleted and {owner}."
        yield CheckFinding("warn", detail=detail, fix=f"Wait until it has been deleted, or {rename}.")
    else:
        detail = (
            f"{_capitalized(resource)} already exists ({state}) and {owner}. "
            "`apply --adopt` will use it if it matches the configuration. It will never be deleted."
        )
        yield CheckFinding("warn", detail=detail, fix=f"To create a new one, {rename}.")


def _managed_finding(resource: str, state: str) -> CheckFinding:
    if state in _FAILED_STATES:
        detail = f"{_capitalized(resource)} belongs to this deployment but is in state {state}."
        return CheckFinding("warn", detail=detail, fix="Run `grpo-wizard plan` to see how to re-create it.")
    return CheckFinding(
        "pass", detail=f"{_capitalized(resource)} exists ({state}) and belongs to this deployment."
    )


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
