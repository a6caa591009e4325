"""Ray's Jobs and cluster APIs over HTTP (Ray 2.49.2 and 2.60, API version "4"), without importing ray.

A job is submitted under an id chosen beforehand: after a lost answer it is looked up, never submitted twice.
Only the entrypoint and metadata are sent: Ray returns env_vars in clear text to every caller, and NeMo RL 0.5.0
fails with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.audit import RequestAudit, audited, discard
from grpo_wizard.steps.core.backoff import exponential_delays

if TYPE_CHECKING:
    import aiohttp

TERMINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED", "LOST"})
# Ray could not start its job supervisor, or lost it: JobErrorType, and the messages, which older releases
# send without a type. https://github.com/ray-project/ray/blob/master/python/ray/dashboard/modules/job/job_manager.py
_START_ERRORS = frozenset(
    {
        "RUNTIME_ENV_SETUP_FAILURE",
        "JOB_SUPERVISOR_ACTOR_START_TIMEOUT",
        "JOB_SUPERVISOR_ACTOR_START_FAILURE",
        "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
        "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE",
        "JOB_SUPERVISOR_ACTOR_DIED",
    }
)
_START_MESSAGES = (
    "Failed to start supervisor actor",
    "Job supervisor actor",
    "runtime_env setup failed",
    "Unexpected error occurred",
)
# A 500 with one of these: the head's agent has not joined yet, restarts, or is too busy to accept a connection.
_AGENT_ERRORS = (
    "TimeoutError",
    "No available agent",
    "ClientConnectorError",
    "ClientOSError",
    "ServerDisconnectedError",
)
LOST = "LOST"


class RayError(WizardError):
    """The Ray head returned an error, or did not respond."""


class RayUnreachable(RayError):
    """No answer: refused, reset or timed out. The request may have taken effect."""


class RayAuthError(RayError):
    """The head rejected the token (401, 403)."""


class RayJobNotFound(RayError):
    """The head does not know the job: never submitted, deleted, or the head was restarted."""


class JobExists(RayError):
    """Another job has this id."""


@dataclass(frozen=True)
class Job:
    """A job as Ray reports it. Times are epoch seconds. `agent_url`: the agent of the node that runs the driver."""

    id: str
    status: str
    entrypoint: str
    message: str = ""
    error_type: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    agent_url: str | None = None

    @property
    def ended(self) -> bool:
        """Whether its status is final."""
        return self.status in TERMINAL

    @property
    def failed_to_start(self) -> bool:
        """Whether Ray failed to run the entrypoint, as a busy head may; not whether the entrypoint failed."""
        return self.status == "FAILED" and (
            self.error_type in _START_ERRORS or self.message.startswith(_START_MESSAGES)
        )


def new_job_id(prefix: str = "grpo") -> str:
    """A new, unique id; save it before submitting the job."""
    return f"{prefix}-{secrets.token_hex(6)}"


class RayJobsClient:
    """Client of one Ray head at `base_url` (the dashboard, usually a port-forward). Use it with `async with`.

    `token`: Ray's own (RAY_AUTH_MODE=token, Ray 2.52 and later), None when the head has none. `audit`: called
    around every request.
    """

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        audit: RequestAudit | None = None,
    ) -> None:
        self.base_url, self.timeout_s = base_url.rstrip("/"), timeout_s
        self._token = token
        self._audit: RequestAudit = audit or (lambda method, url, id: audited(discard, "", method, url, id))
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> RayJobsClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session, created on first use; it sends the token."""
        import aiohttp

        if self._session is None:
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            self._session = aiohttp.ClientSession(headers=headers)
        return self._session

    async def version(self) -> dict[str, str]:
        """`version` of the API, `ray_version`, and, if Ray reports it, `session_name`, which changes on a restart."""
        return dict(await self._json("GET", "/api/version"))

    async def submit(
        self, entrypoint: str, job_id: str, metadata: dict[str, str] | None = None, *, attempts: int = 5
    ) -> Job:
        """Submit exactly once, however often the answer is lost. Raises JobExists when a job with another
        entrypoint has the id."""
        body = {"entrypoint": entrypoint, "submission_id": job_id, "metadata": metadata or {}}
        for delay in (*exponential_delays(0.25, 4.0, attempts - 1), None):
            try:
                await self._json("POST", "/api/jobs/", job_id, json=body)
                return await self._await_submitted(job_id, entrypoint)
            except JobExists:
                return await self._await_submitted(job_id, entrypoint)
            except RayUnreachable:
                if delay is None:
                    raise
                await asyncio.sleep(delay)
                if found := await self._get_or_none(job_id):
                    return self._require_same_entrypoint(found, entrypoint)
        raise AssertionError("unreachable")

    async def _await_submitted(self, job_id: str, entrypoint: str) -> Job:
        """The job that was just accepted; PENDING when it cannot be read back yet."""
        for pause in (0.2, 0.5, 1.0, 2.0):
            if found := await self._get_or_none(job_id):
                return self._require_same_entrypoint(found, entrypoint)
            await asyncio.sleep(pause)
        return Job(job_id, "PENDING", entrypoint)

    async def _get_or_none(self, job_id: str) -> Job | None:
        try:
            return await self.get(job_id)
        except (RayJobNotFound, RayUnreachable):
            return None

    def _require_same_entrypoint(self, job: Job, entrypoint: str) -> Job:
        if job.entrypoint != entrypoint:
            raise JobExists(
                f"Another job already uses the ID {job.id}",
                "Its entrypoint differs from the one being submitted.",
                "Submit the job under a new ID.",
            )
        return job

    async def get(self, job_id: str) -> Job:
        """Read the job. Raises RayJobNotFound."""
        return _parse_job(await self._json("GET", f"/api/jobs/{job_id}"))

    async def list_jobs(self) -> list[Job]:
        """All submitted jobs, newest first."""
        found = [
            _parse_job(item) for item in await self._json("GET", "/api/jobs/") if item.get("submission_id")
        ]
        return sorted(found, key=lambda job: job.started_at or 0, reverse=True)

    async def stop(self, job_id: str) -> bool:
        """Ask the job to stop; False when it has already ended. It is STOPPED a second or two later."""
        return bool((await self._json("POST", f"/api/jobs/{job_id}/stop", job_id)).get("stopped"))

    async def delete(self, job_id: str) -> None:
        """Delete an ended job from Ray; its log file stays. A job that does not exist is no error."""
        with contextlib.suppress(RayJobNotFound):
            await self._json("DELETE", f"/api/jobs/{job_id}", job_id)

    async def nodes(self) -> list[dict[str, Any]]:
        """The nodes' summaries (`hostname`, `ip`, `cpu`, `mem`, `gpus` …, `raylet`), as the dashboard shows them."""
        answer = await self._json("GET", "/nodes?view=summary")
        return list(answer.get("data", {}).get("summary", []))

    async def cluster_status(self) -> dict[str, Any]:
        """Resources in use and requested, as Ray's autoscaler reports them."""
        answer = await self._json("GET", "/api/cluster_status")
        return dict(answer.get("data", {}).get("clusterStatus") or {})

    async def _json(self, method: str, path: str, job_id: str = "", **more: object) -> Any:
        """Send a request and decode the answer. `job_id`: the job that a write concerns, for the audit."""
        with self._audit(method, f"ray:{path}", job_id) as sent:
            async with self.request(method, self.base_url + path, **more) as answer:
                sent.status = answer.status
                return await self._decode(answer, method, path)

    async def _decode(self, answer: aiohttp.ClientResponse, method: str, path: str) -> object:
        await self.raise_for_status(answer)
        try:
            return await answer.json(content_type=None)
        except ValueError as error:
            raise RayError(
                "The Ray head did not return JSON",
                f"{method} {path}: {error}",
                "Check that the forwarded port is Ray's dashboard.",
            ) from error

    @asynccontextmanager
    async def request(self, method: str, url: str, **more: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request; a failure to send it or to read its answer raises RayUnreachable."""
        import aiohttp

        more.setdefault("timeout", aiohttp.ClientTimeout(total=self.timeout_s, sock_connect=10))
        try:
            async with self.session.request(method, url, **more) as answer:
                yield answer
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            path = url.removeprefix(self.base_url)
            raise RayUnreachable(
                "The Ray head is not responding",
                f"{method} {path}: {error or type(error).__name__}",
                "The request will be retried. If this persists, check the network and the head pod.",
            ) from error

    async def raise_for_status(self, answer: aiohttp.ClientResponse) -> None:
        """Raise the error that matches a status of 400 and above."""
        if answer.status < 400:
            return
        text = (await answer.text())[:2000]
        raise _error_from_response(
            answer.status, f"{answer.method} {answer.url.path}: {answer.status} {text.strip()[:300]}", text
        )


def _error_from_response(status: int, detail: str, text: str) -> RayError:
    if status in (401, 403):
        return RayAuthError(
            "The Ray head rejected the token",
            detail,
            "Read the token again from the Secret that has the RayCluster's name.",
        )
    if "already exists" in text:
        return JobExists("A job with this ID already exists", detail, "Submit the job under a new ID.")
    if status == 404 and "does not exist" in text:
        return RayJobNotFound(
            "The Ray head has no record of this job",
            detail,
            "The head was restarted, or the job was deleted. Run apply again to resume from the last checkpoint.",
        )
    if status in (502, 503, 504) or (status == 500 and any(name in text for name in _AGENT_ERRORS)):
        return RayUnreachable(
            "The Ray head is not ready",
            detail,
            "The request will be retried. If this persists, check the head pod.",
        )
    return RayError("The Ray head returned an error", detail, "Check the head pod's log.")


def _parse_job(body: dict[str, Any]) -> Job:
    started, ended = body.get("start_time"), body.get("end_time")
    return Job(
        id=str(body.get("submission_id") or body.get("job_id")),
        status=str(body["status"]),
        entrypoint=str(body.get("entrypoint") or ""),
        message=str(body.get("message") or ""),
        error_type=str(body.get("error_type") or ""),
        metadata=dict(body.get("metadata") or {}),
        started_at=started / 1000 if started else None,
        ended_at=ended / 1000 if ended else None,
        exit_code=body.get("driver_exit_code"),
        agent_url=body.get("driver_agent_http_address"),
    )
