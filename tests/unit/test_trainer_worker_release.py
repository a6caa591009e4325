"""When the workers are let go, and with which patch."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trainer_import_path import ASSETS

_SPEC = importlib.util.spec_from_file_location("release", ASSETS / "job/release.py")
assert _SPEC is not None and _SPEC.loader is not None
release = importlib.util.module_from_spec(_SPEC)
sys.modules["release"] = release
_SPEC.loader.exec_module(release)

HALF_HOUR, DAY = 1800.0, 86400.0
ASKED = release.Settings(True, HALF_HOUR, DAY)
KEEP = release.Settings(False, HALF_HOUR, DAY)


def _job(status: str, start: float, end: float | None = None, name: str = "j") -> dict[str, Any]:
    return {
        "type": "SUBMISSION",
        "submission_id": name,
        "status": status,
        "start_time": start * 1000,
        "end_time": end * 1000 if end is not None else None,
    }


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "STOPPED"])
def test_the_workers_go_when_the_minutes_after_the_end_are_over(status: str) -> None:
    jobs = [_job(status, 1000, 2000)]
    assert release.decide(ASKED, jobs, 2000 + HALF_HOUR - 1, 0) is None
    assert release.decide(ASKED, jobs, 2000 + HALF_HOUR, 0) == release.Decision(f"job j ended {status}")


def test_a_running_job_keeps_them_and_so_does_keep() -> None:
    assert release.decide(ASKED, [_job("SUCCEEDED", 1, 2), _job("RUNNING", 3)], 5000, 0) is None
    assert release.decide(ASKED, [_job("RUNNING", 1), _job("SUCCEEDED", 3, 4)], 5000, 0) is None
    assert release.decide(KEEP, [_job("SUCCEEDED", 1, 2)], 5000, 0) is None


def test_at_max_hours_the_job_is_stopped_and_the_workers_go_even_with_keep() -> None:
    jobs = [_job("RUNNING", 1000)]
    assert release.decide(KEEP, jobs, 1000 + DAY - 1, 0) is None
    assert release.decide(KEEP, jobs, 1000 + DAY, 0) == release.Decision(
        "max_hours after the start of job j", ("j",)
    )
    assert release.decide(KEEP, [_job("SUCCEEDED", 1000, 1001)], 1000 + DAY, 0) == release.Decision(
        "max_hours after the start of job j"
    )


@pytest.mark.parametrize("jobs", [None, []])
def test_without_a_job_that_can_be_seen_the_pods_age_counts(jobs: list[dict[str, Any]] | None) -> None:
    assert release.decide(ASKED, jobs, 500 + DAY - 1, 500) is None
    assert release.decide(ASKED, jobs, 500 + DAY, 500) == release.Decision("max_hours without a known job")


def test_no_limit_is_no_limit() -> None:
    assert release.decide(release.Settings(False, 0, 0), [_job("RUNNING", 0)], 10 * DAY, 0) is None


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["PENDING", "RUNNING", "SUCCEEDED", "FAILED"]),
            st.floats(0, 1e6),
            st.floats(0, 1e5),
        ),
        max_size=5,
    ),
    st.floats(0, 2e6),
    st.booleans(),
)
def test_nothing_outlives_max_hours(jobs: list[tuple[str, float, float]], now: float, keep: bool) -> None:
    listed = [_job(status, start, start + took) for status, start, took in jobs]
    decision = release.decide(KEEP if keep else ASKED, listed, now, 0)
    oldest_running = min(
        (start for status, start, _ in jobs if status in ("PENDING", "RUNNING")), default=None
    )
    if oldest_running is not None and now >= oldest_running + DAY:
        assert decision is not None and decision.stop
    if oldest_running is not None and now < oldest_running + DAY:
        assert decision is None


CLUSTER = {
    "metadata": {"resourceVersion": "7"},
    "spec": {
        "workerGroupSpecs": [
            {"groupName": "gpu", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "template": {"spec": {}}},
            {"groupName": "b", "replicas": 0},
        ]
    },
}


def test_the_patch_takes_every_group_to_zero_and_changes_nothing_else() -> None:
    patch = release.released_patch(CLUSTER, "job j ended SUCCEEDED", 0.0)
    assert patch == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {"grpo-wizard/released": "1970-01-01T00:00:00Z job j ended SUCCEEDED"},
        },
        "spec": {
            "workerGroupSpecs": [
                {
                    "groupName": "gpu",
                    "replicas": 0,
                    "minReplicas": 0,
                    "maxReplicas": 2,
                    "template": {"spec": {}},
                },
                {"groupName": "b", "replicas": 0, "minReplicas": 0},
            ]
        },
    }


def test_workers_that_were_raised_again_after_this_release_are_left_alone() -> None:
    again = {
        **CLUSTER,
        "metadata": {
            "resourceVersion": "9",
            "annotations": {"grpo-wizard/released": "2026-01-01T00:00:00Z job j ended FAILED"},
        },
    }
    assert release.released_patch(again, "job j ended FAILED", 0.0) is None
    assert release.released_patch(again, "job k ended FAILED", 0.0) is not None


def test_workers_that_are_at_zero_need_no_patch() -> None:
    assert (
        release.released_patch(
            {"metadata": {"resourceVersion": "7"}, "spec": {"workerGroupSpecs": [{"replicas": 0}]}}, "x", 0.0
        )
        is None
    )


def test_settings_that_cannot_be_read_fall_to_the_side_that_costs_nothing() -> None:
    for wrong in ("soon", "-1", "nan", "inf", ""):
        assert (
            release.Settings.read({"AFTER_JOB": "kept?", "RELEASE_MINUTES": wrong, "MAX_HOURS": wrong})
            == ASKED
        )
    assert release.Settings.read({"MAX_HOURS": "0"}).max_s == 0
    assert release.Settings.read({}) == release.Settings(True, 1800.0, DAY)
    assert release.Settings.read(
        {"AFTER_JOB": "keep", "RELEASE_MINUTES": "6", "MAX_HOURS": "2", "TIME_DIVISOR": "120"}
    ) == release.Settings(False, 3.0, 60.0)
