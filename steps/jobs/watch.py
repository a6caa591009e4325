"""Watching the training job, for every front end: its log goes into the spool file; its rows, status and checkpoints come out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.kubernetes.api import connect_cluster
from grpo_wizard.steps.clients.ray.head import RayHeadConnection, open_head
from grpo_wizard.steps.clients.ray.job_driver import OWNER_KEY
from grpo_wizard.steps.clients.ray.jobs_api import TERMINAL, Job, RayError, RayUnreachable
from grpo_wizard.steps.clients.ray.log_follower import (
    FollowEvent,
    LogChunk,
    Notice,
    StatusChange,
    Truncated,
    catch_up,
    follow,
)
from grpo_wizard.steps.core.backoff import exponential_delays
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.jobs.attempts import EarlierAttempts
from grpo_wizard.steps.jobs.history import final_status, record_end, recorded_end
from grpo_wizard.steps.jobs.recorded_steps import read_recorded_steps, write_recorded_steps
from grpo_wizard.steps.training.health import HealthReport, diagnose
from grpo_wizard.steps.training.reader import LogReader
from grpo_wizard.steps.training.rows import StepMetrics

_CONNECT_RETRIES = 8


class JobNotFound(WizardError):
    """No job has been submitted yet, or the Ray head has no record of it."""


class JobWatcher:
    """One job. `reader`, `status` and `last_output_at` are current after each event of `run` and after `catch_up`."""

    def __init__(self, session: Session, job_id: str = "") -> None:
        self.session = session
        self.reader = LogReader()
        self.job: Job | None = None
        self.status = ""
        self.detail = ""
        self.job_id = job_id or last_job_id(session)
        self.last_output_at: float | None = None
        self._earlier = EarlierAttempts(session, self.job_id)
        self._recorded_steps: tuple[int, ...] | None = None

    @property
    def spool(self) -> Path:
        """The local copy of this job's log; each job has its own file."""
        return spool_path(self.session, self.job_id)

    def open(self) -> AbstractAsyncContextManager[RayHeadConnection]:
        return open_head(self.session.cloud, job_resource(self.session).parent)

    async def find(self, head: RayHeadConnection) -> Job:
        """Find the newest job of this deployment on the head. Raises JobNotFound."""
        own = [
            job
            for job in await head.jobs.list_jobs()
            if job.metadata.get(OWNER_KEY) == self.session.deployment.lineage
        ]
        if not own:
            if self.job_id and (ended := final_status(self.session, self.job_id)):
                raise _job_ended_error(self.job_id, ended)
            if self.job_id:
                raise JobNotFound(
                    "The job is lost",
                    f"The Ray head was restarted and has no record of {self.job_id}.",
                    "Run apply to submit the job again. It will resume from the last complete checkpoint.",
                    "grpo-wizard apply --yes",
                )
            raise JobNotFound(
                "No job has been submitted yet", "", "Submit the job.", "grpo-wizard apply --yes"
            )
        self._set_job(own[0])
        return own[0]

    def _set_job(self, job: Job) -> None:
        self.job, self.status = job, job.status
        if job.id != self.job_id:
            self.job_id = job.id
            self._earlier = EarlierAttempts(self.session, job.id)

    async def run(self) -> AsyncIterator[FollowEvent]:
        """Follow the job from the start of its spool until it ends; reconnects when a connection breaks."""
        await asyncio.to_thread(self.read_spool)
        self.status = recorded_end(self.session, self.job_id)
        for pause in (*exponential_delays(0.5, 8.0, _CONNECT_RETRIES), None):
            try:
                async for event in self._run_once():
                    yield event
                return
            except JobNotFound:
                self.status = final_status(self.session, self.job_id)
                if not self.status:
                    raise
                return
            except (CloudError, RayUnreachable) as error:
                if self.status in TERMINAL and pause is None:
                    return  # how it ended is known; the end of its log is not worth an error
                if pause is None or _is_auth_error(error):
                    raise
                await asyncio.sleep(pause)

    async def _run_once(self) -> AsyncIterator[FollowEvent]:
        async with self.open() as head:
            before = self.job_id
            job = await self.find(head)
            if job.id != before:
                await asyncio.to_thread(self.read_spool)
            async with aclosing(follow(head.jobs, job.id, self.spool, head.agent_url)) as events:
                async for event in events:
                    self.apply_event(event)
                    yield event
                    if isinstance(event, Notice) and event.kind == "reconnecting":
                        try:
                            await self._verify_credentials()
                        except CloudError:
                            if self.status in TERMINAL:
                                return  # how it ended is known; the end of its log is not worth an error
                            raise

    async def _verify_credentials(self) -> None:
        """Raise CloudError when the head is unreachable because the credentials have expired: waiting does not help."""
        parent = job_resource(self.session).parent
        cluster = (parent["project"], parent["location"], parent["cluster"])
        try:
            await asyncio.to_thread(connect_cluster, self.session.cloud, *cluster, fresh=True)
        except CloudError as error:
            if _is_auth_error(error):
                raise

    async def catch_up(self) -> None:
        """Read the log as far as it goes now; rows and status are then current."""
        async with self.open() as head:
            job = await self.find(head)
            await asyncio.to_thread(self.read_spool)
            for event in await catch_up(head.jobs, job.id, self.spool, head.agent_url):
                self.apply_event(event)
        await asyncio.to_thread(self.load_earlier)
        steps = self.steps()
        record_end(self.session, self.job_id, self.status, steps[-1].step if steps else None)
        self.record_checkpoints()

    def read_spool(self) -> None:
        """Parse the log on disk from its start. Blocking: seconds for a log of 50 MB."""
        reader = LogReader()
        if self.spool.exists():
            reader.feed(self.spool.read_bytes())
            self.last_output_at = self.spool.stat().st_mtime
        self.reader = reader

    @property
    def earlier_loaded(self) -> bool:
        """Whether `steps` includes earlier attempts."""
        return self._earlier.loaded

    def load_earlier(self) -> None:
        """Parse the logs of earlier attempts, unless that was done before. Blocking."""
        self._earlier.load()

    def apply_event(self, event: FollowEvent) -> None:
        if isinstance(event, LogChunk):
            self.last_output_at = time.time()
            self.reader.feed(event.data, self.last_output_at)
        elif isinstance(event, Truncated):
            self.read_spool()
        elif isinstance(event, StatusChange):
            self.status, self.detail, self.job = event.status, event.detail, event.job or self.job

    def steps(self) -> tuple[StepMetrics, ...]:
        """Return the steps of the whole run. Earlier attempts count, once loaded, up to where this one took over."""
        own = self.reader.rows
        if not own:
            return tuple(self._earlier.rows_before(None))
        return (*self._earlier.rows_before(own[0].step), *own[:-1], own[-1].copy())

    def rows(self) -> list[dict[str, Any]]:
        """Return the steps of the whole run as `metrics --json` prints them. Blocking until earlier logs are parsed."""
        self.load_earlier()
        return [row.to_json() for row in self.steps()]

    def record_checkpoints(self) -> tuple[int, ...]:
        """Return the steps that began a checkpoint, and keep them in the deployment's folder when they changed."""
        steps = tuple(row.step for row in self.steps() if row.checkpoint)
        if (
            self._earlier.loaded
            and steps != self._recorded_steps
            and self.job_id == last_job_id(self.session)
        ):
            home, name = self.session.store.home, self.session.deployment.name
            if read_recorded_steps(home, name, self.job_id) != steps:
                write_recorded_steps(home, name, self.job_id, steps)
            self._recorded_steps = steps
        return steps

    def health(self) -> HealthReport:
        running = self.status == "RUNNING"
        return diagnose(
            self.reader,
            status=self.status or None,
            now=time.time() if running else None,
            last_output_at=self.last_output_at,
        )

    def to_json(self) -> dict[str, Any] | None:
        """Return the object `job` of status and metrics; None when there is no job. Blocking, as `rows`."""
        if not self.job_id or (not self.status and is_destroyed(self.session)):
            return None
        self.load_earlier()
        rows = self.steps()
        return {
            "id": self.job_id,
            "status": self.status or "LOST",
            "step": rows[-1].step if rows else None,
            "total_steps": self.reader.run_info.total_steps or self.session.answers.grpo.max_num_steps,
            "phase": self.reader.run_info.phase,
            "message": self.detail[-400:],
        }


def _job_ended_error(id: str, status: str) -> JobNotFound:
    fix, command = (
        ("Nothing is left to do. To train further, raise grpo.max_num_steps.", "grpo-wizard status")
        if status == "SUCCEEDED"
        else ("Run apply to resume from the last complete checkpoint.", "grpo-wizard apply --yes")
    )
    why = f"{id} has ended. The Ray head has since been restarted and has no record of it."
    return JobNotFound(f"Job status: {status}", why, fix, command)


def _is_auth_error(error: Exception) -> bool:
    return isinstance(error, CloudError) and error.kind == "auth"


# Errors that hide the job: they say nothing about it, least of all that it is lost.
_ACCESS_ERRORS = ("auth", "clock", "denied", "api_disabled")


def job_resource(session: Session) -> Resource:
    return next(r for r in session.resources() if r.kind == "job")


def last_job_id(session: Session) -> str:
    """Return the id of the job submitted last, from the state; empty when there was none."""
    return session.deployment.job.submission_id if session.deployment.job else ""


def spool_path(session: Session, job_id: str) -> Path:
    """Return the log file of a job: the deployment's spool for the present one, a file beside it for earlier ones."""
    current = session.store.home.job_log_file(session.deployment.name)
    return current if job_id == last_job_id(session) or not job_id else current.with_name(f"{job_id}.log")


async def load_job(session: Session) -> JobWatcher:
    """Read the job from the Ray head where it answers, else from the spool alone."""
    watch = JobWatcher(session)
    try:
        await watch.catch_up()
    except (CloudError, RayError, JobNotFound) as error:
        blind = isinstance(error, CloudError) and error.kind in _ACCESS_ERRORS
        if not watch.job_id and blind:
            raise
        if not watch.job_id:
            raise JobNotFound(
                "No job has been submitted yet", error.title, "Submit the job.", "grpo-wizard apply --yes"
            ) from error
        await asyncio.to_thread(watch.read_spool)
        last = session.deployment.job.status if session.deployment.job and blind else ""
        known = final_status(session, watch.job_id) or last or "LOST"
        watch.status, watch.detail = "" if is_destroyed(session) else known, error.title
    return watch


def is_destroyed(session: Session) -> bool:
    """Whether the job was deleted with its deployment: its log is kept, but no head is left to ask."""
    kinds = {record.kind for record in session.deployment.resources.values()}
    return session.deployment.job is not None and not kinds & {"job", "raycluster"}
