"""Delays: they grow, stay within their bounds, differ from one another by jitter, and shrink with the time scale."""

from __future__ import annotations

import itertools
import math

import pytest

from grpo_wizard.steps.core.backoff import exponential_delays, with_jitter
from grpo_wizard.steps.core.model import Diagnosis, DurationEstimate, Resource
from grpo_wizard.steps.engine import backoff

LUSTRE = Resource(
    step="lustre", kind="lustre", name="x", spec={}, expected_duration=DurationEstimate(600, 1800, "test")
)


def test_exponential_delays_double_up_to_their_limit_with_jitter_of_a_fifth() -> None:
    for delay, exact in zip(exponential_delays(0.5, 8.0, 8), (0.5, 1, 2, 4, 8, 8, 8, 8), strict=True):
        assert 0.8 * exact <= delay <= 1.2 * exact
    assert len({with_jitter(10.0) for _ in range(20)}) > 1


@pytest.mark.parametrize("scale", [1.0, 120.0, math.inf])
def test_polls_and_retries_wait_at_least_a_moment_and_never_longer_than_at_real_speed(scale: float) -> None:
    polls = list(itertools.islice(backoff.poll_intervals(scale), 20))
    assert all(0.05 <= delay <= 12.0 for delay in polls) and polls[-1] >= polls[0]
    assert all(0.05 <= delay <= 72.0 for delay in backoff.retry_delays(scale))
    assert 0.1 <= backoff.patient_delay(scale) <= 12.0
    assert backoff.force_delete_after(scale) >= 3.0


def test_a_resource_is_given_three_times_its_longest_usual_duration_and_half_an_hour() -> None:
    assert backoff.timeout(LUSTRE, 1.0) == 180 + 3 * 1800 + 1800
    assert backoff.timeout(LUSTRE, math.inf) == pytest.approx(180)
    stuck = Diagnosis("image x does not exist", "Correct it.", 900.0)
    assert backoff.diagnosis_timeout(stuck, LUSTRE, 1.0) == 180 + 900
    slow = Diagnosis("no room", "Wait.")
    assert backoff.diagnosis_timeout(slow, LUSTRE, 1.0) == backoff.timeout(LUSTRE, 1.0)
