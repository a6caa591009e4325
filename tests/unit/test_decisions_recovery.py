"""When a lost state file can be recovered from the owner labels in the project."""

from __future__ import annotations

from typing import Any

import pytest
from decision_samples import OURS, THEIRS, a_resource, observed

from grpo_wizard.steps.core.model import Ownership
from grpo_wizard.steps.engine.plan import Decision
from grpo_wizard.steps.engine.recovery import (
    RecoveryCandidate,
    foreign_owners,
    recovery_candidate,
    recovery_hint,
)


def _found(
    label: str = THEIRS, state: str = "ready", ownership: Ownership = "none", **flags: Any
) -> Decision:
    return Decision(a_resource(**flags), "adopt", observed(state, label), ownership)


@pytest.mark.parametrize(
    "decisions,owners,count",
    [
        ([], {}, None),
        ([_found()], {THEIRS: 1}, 1),
        ([_found(), _found(), _found(state="failed")], {THEIRS: 3}, 3),
        ([_found(), _found(THEIRS, "absent"), _found("", "absent")], {THEIRS: 1}, 1),
        ([_found(), _found("")], {THEIRS: 1, "": 1}, None),
        ([_found(""), _found("")], {"": 2}, None),
        ([_found(), _found("gthird0000")], {THEIRS: 1, "gthird0000": 1}, None),
        ([_found(), _found("", retain_on_destroy=True)], {THEIRS: 1}, 1),
        ([_found(), _found("", data_source=True)], {THEIRS: 1}, 1),
        ([_found(), _found(OURS, ownership="created")], {THEIRS: 1}, None),
        ([_found(), _found("", ownership="adopted")], {THEIRS: 1}, None),
        ([_found(), _found("", ownership="created", retain_on_destroy=True)], {THEIRS: 1}, 1),
    ],
    ids=[
        "nothing exists",
        "one label",
        "one label on all",
        "missing resources do not count",
        "one has no label",
        "none has a label",
        "two owners",
        "an API without a label does not count",
        "what the user named as existing does not count",
        "one is ours already",
        "one was adopted",
        "an API that we enabled does not count",
    ],
)
def test_a_deployment_is_recovered_when_all_that_exists_has_one_label(
    decisions: list[Decision], owners: dict[str, int], count: int | None
) -> None:
    assert foreign_owners(decisions) == owners
    assert recovery_candidate(decisions) == (RecoveryCandidate(THEIRS, count) if count else None)
    hint = recovery_hint(decisions)
    assert (THEIRS in hint and "--take-over" in hint) if count else hint == ""
