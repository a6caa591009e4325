"""A Ray head that refuses its first job: told from a job that failed, and submitted again by the same apply."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from decision_samples import OURS, a_session
from http_responder import http_responder
from sample_answers import answers

from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.driver import Driver, ResourceContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.ray.jobs_api import Job, RayError, RayJobsClient, RayUnreachable
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import ObservedState
from grpo_wizard.steps.engine.loop import clock
from grpo_wizard.steps.engine.reconcile import Reconciler, _ResourceReconciler

TRACEBACK = "Traceback (most recent call last):\n  ...\naiohttp.client_exceptions."


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("No available agent to submit job, please try again later.", RayUnreachable),
        (TRACEBACK + "ClientConnectorError: Cannot connect to host 10.0.0.1:52365", RayUnreachable),
        (TRACEBACK + "ServerDisconnectedError: Server disconnected", RayUnreachable),
        (TRACEBACK + "ClientOSError: [Errno 104] Connection reset by peer", RayUnreachable),
        ("Traceback (most recent call last):\n  ...\nValueError: bad entrypoint", RayError),
    ],
)
def test_submit_waits_for_the_agent_of_a_busy_head(text: str, error: type[RayError]) -> None:
    async def submit(url: str) -> None:
        async with RayJobsClient(url) as jobs:
            await jobs.submit("bash job.sh", "grpo-1", attempts=1)

    with (
        http_responder({"POST /api/jobs/": (500, {"text": text})}) as head,
        pytest.raises(RayError) as raised,
    ):
        asyncio.run(submit(head.url))
    assert type(raised.value) is error


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"status": "FAILED", "error_type": "JOB_SUPERVISOR_ACTOR_START_FAILURE"}, True),
        ({"status": "FAILED", "error_type": "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"}, True),
        ({"status": "FAILED", "message": "Failed to start supervisor actor grpo-1: 'timeout'"}, True),
        ({"status": "FAILED", "message": "Unexpected error occurred: failed to get job supervisor."}, True),
        ({"status": "FAILED", "message": "Job entrypoint command failed with exit code 1"}, False),
        ({"status": "FAILED", "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR", "message": ""}, False),
        ({"status": "STOPPED", "message": "Job was intentionally stopped."}, False),
        ({"status": "RUNNING", "message": "Job is currently running."}, False),
    ],
)
def test_failed_to_start_tells_ray_from_the_entrypoint(document: dict[str, Any], expected: bool) -> None:
    async def get(url: str) -> Job:
        async with RayJobsClient(url) as jobs:
            return await jobs.get("grpo-1")

    with http_responder({"GET /api/jobs/grpo-1": (200, {"submission_id": "grpo-1", **document})}) as head:
        assert asyncio.run(get(head.url)).failed_to_start is expected


class _FailingDriver(Driver):
    """A resource whose first `failures` creates end in a failure."""

    recreate_on_failure = True

    def __init__(self, failures: int, *, retryable: bool) -> None:
        self.failures, self.retryable = failures, retryable
        self.requests: list[str] = []

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        if not self.requests:
            return ObservedState()
        if len(self.requests) <= self.failures:
            return ObservedState("failed", OURS, "1", detail="FAILED", retryable=self.retryable)
        return ObservedState("ready", OURS, "1")

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        self.requests.append(context.request_id)
        return ""


def _apply(home: Path, driver: Driver) -> list[Event]:
    session = a_session(home, answers())
    resource = next(r for r in session.resources() if r.kind == "raycluster")
    events: list[Event] = []

    async def main() -> None:
        reconciler = Reconciler(session, adopt=False)
        loop = _ResourceReconciler(reconciler, resource, events.append, clock(), change=False)
        loop.driver = driver
        await loop.run()

    asyncio.run(main())
    return events


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_apply_creates_again_what_failed_for_a_temporary_reason(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = _FailingDriver(failures, retryable=True)
    monkeypatch.setattr("grpo_wizard.steps.engine.refresh.driver_for", lambda kind: driver)
    events = _apply(tmp_path, driver)
    assert len(driver.requests) == failures + 1 == len(set(driver.requests)), "each one is a new request"
    assert [event.event for event in events].count("retry") == failures


@pytest.mark.parametrize(("failures", "retryable", "creates"), [(3, True, 3), (1, False, 1)])
def test_apply_gives_up_after_two_retries_and_on_other_failures(
    failures: int, retryable: bool, creates: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = _FailingDriver(failures, retryable=retryable)
    monkeypatch.setattr("grpo_wizard.steps.engine.refresh.driver_for", lambda kind: driver)
    with pytest.raises(CloudError, match="error state"):
        _apply(tmp_path, driver)
    assert len(driver.requests) == creates
