"""What differs is said in a line: a long text from where it differs on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from grpo_wizard.steps.core.model import Drift


def test_short_values_stand_whole_and_long_ones_from_their_first_difference() -> None:
    assert str(Drift("replicas", 2, 4)) == "replicas is 4, expected 2"
    told = str(Drift("data", "x" * 300 + "want" + "y" * 90, "x" * 300 + "have" + "y" * 90))
    assert "…" in told and "xhave" in told and "xwant" in told and len(told) < 160


@given(some.text(), some.text())
def test_a_line_is_never_long_and_never_fails(want: str, have: str) -> None:
    assert len(str(Drift("path", want, have))) < 160
