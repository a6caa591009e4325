"""The training job from outside: its log into the spool file, its rows, its status, its checkpoints. One way for every front end."""

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
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.jobs.history import final_status, record_end, recorded_end
from grpo_wizard.steps.training.health import HealthReport, diagnose
from grpo_wizard.steps.training.reader import LogReader

_RETRY_DELAYS = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0)  # seconds between tries to reach the head


class JobNotFound(WizardError):
    """Nothing was submitted yet, or the head does not know it any more."""


class JobWatcher:
    """One job. `reader`, `status` and `heard_at` are right after each event of `run` and after `catch_up`."""

    def __init__(self, session: Session, job_id: str = "") -> None:
        self.session = session
        self.reader = LogReader()
        self.job: Job | None = None
        self.status = ""
        self.detail = ""
        self.job_id = job_id or last_job_id(session)
        self.last_output_at: float | None = None

    @property
    def spool(self) -> Path:
        """The local copy of this job's log, one file a job."""
        return spool_path(self.session, self.job_id)

    def open(self) -> AbstractAsyncContextManager[RayHeadConnection]:
        return open_head(self.session.cloud, job_resource(self.session).parent)

    async def find(self, head: RayHeadConnection) -> Job:
        """The newest job of this deployment on the head. Raises NoJob."""
        mine = [
            job
            for job in await head.jobs.list_jobs()
            if job.metadata.get(OWNER_KEY) == self.session.deployment.lineage
        ]
        if not mine:
            if self.job_id and (ended := final_status(self.session, self.job_id)):
                raise _job_ended_error(self.job_id, ended)
            if self.job_id:
                raise JobNotFound(
                    "the job is lost",
                    f"the Ray head was restarted and does not know {self.job_id}",
                    "apply submits it again; it goes on from the last complete step_N",
                    "grpo-wizard apply --yes",
                )
            raise JobNotFound("there is no job yet", "", "submit it", "grpo-wizard apply --yes")
        self._set_job(mine[0])
        return mine[0]

    def _set_job(self, job: Job) -> None:
        self.job, self.status = job, job.status
        if job.id != self.job_id:
            self.job_id = job.id

    async def run(self) -> AsyncIterator[FollowEvent]:
        """From the spool's beginning until the job has ended; connections may break as they like."""
        self.read_spool()
        self.status = recorded_end(self.session, self.job_id)
        for pause in (*_RETRY_DELAYS, None):
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
                    return  # how it ended is known; the last of its log is not worth an error
                if pause is None or _is_auth_error(error):
                    raise
                await asyncio.sleep(pause)

    async def _run_once(self) -> AsyncIterator[FollowEvent]:
        async with self.open() as head:
            before = self.job_id
            job = await self.find(head)
            if job.id != before:
                self.read_spool()
            following = follow(head.jobs, job.id, self.spool, head.agent_url)
            async with aclosing(following) as events:
                async for event in events:
                    self.apply_event(event)
                    yield event
                    if isinstance(event, Notice) and event.kind == "reconnecting":
                        try:
                            await self._verify_credentials()
                        except CloudError:
                            if self.status in TERMINAL:
                                return  # how it ended is known; the last of its log is not worth an error
                            raise

    async def _verify_credentials(self) -> None:
        """Raises CloudError where the way to the head is shut because the sign-in has expired: no waiting opens that."""
        where = job_resource(self.session).parent
        place = (where["project"], where["location"], where["cluster"])
        try:
            await asyncio.to_thread(connect_cluster, self.session.cloud, *place, fresh=True)
        except CloudError as error:
            if _is_auth_error(error):
                raise

    async def catch_up(self) -> None:
        """As far as the log goes now; then rows and status are those of this moment."""
        async with self.open() as head:
            job = await self.find(head)
            self.read_spool()
            for event in await catch_up(head.jobs, job.id, self.spool, head.agent_url):
                self.apply_event(event)
        record_end(self.session, self.job_id, self.status, self.rows())

    def read_spool(self) -> None:
        """Starts the reading anew from what is on disk."""
        self.reader = LogReader()
        if self.spool.exists():
            self.reader.feed(self.spool.read_bytes())
            self.last_output_at = self.spool.stat().st_mtime

    def apply_event(self, event: FollowEvent) -> None:
        if isinstance(event, LogChunk):
            self.last_output_at = time.time()
            self.reader.feed(event.data, self.last_output_at)
        elif isinstance(event, Truncated):
            self.read_spool()
        elif isinstance(event, StatusChange):
            self.status, self.detail, self.job = event.status, event.detail, event.job or self.job

    def rows(self) -> list[dict[str, Any]]:
        """Of the whole run: earlier attempts in the same folder count up to where this one took over."""
        mine = {row.to_json()["step"]: row.to_json() for row in self.reader.rows}
        earlier = earlier_rows(self.session, self.job_id)
        rows = {row["step"]: row for row in earlier if not mine or row["step"] < min(mine)} | mine
        return [rows[step] for step in sorted(rows)]

    def health(self) -> HealthReport:
        running = self.status == "RUNNING"
        return diagnose(
            self.reader,
            status=self.status or None,
            now=time.time() if running else None,
            last_output_at=self.last_output_at,
        )

    def to_json(self) -> dict[str, Any] | None:
        """The job as status and metrics tell it."""
        if not self.job_id or (not self.status and is_destroyed(self.session)):
            return None
        rows = self.rows()
        return {
            "id": self.job_id,
            "status": self.status or "LOST",
            "step": rows[-1]["step"] if rows else None,
            "total_steps": self.reader.run_info.total_steps or self.session.answers.grpo.max_num_steps,
            "phase": self.reader.run_info.phase,
            "message": self.detail[-400:],
        }


def _job_ended_error(id: str, status: str) -> JobNotFound:
    fix, command = (
        ("it is done; raise grpo.max_num_steps to go on from there", "grpo-wizard status")
        if status == "SUCCEEDED"
        else ("apply goes on from the last complete step_N", "grpo-wizard apply --yes")
    )
    why = f"{id} has ended, and the Ray head was restarted since and does not know it any more"
    return JobNotFound(f"the job is {status}", why, fix, command)


def _is_auth_error(error: Exception) -> bool:
    return isinstance(error, CloudError) and error.kind == "auth"


# It is we who may not look: nothing is known of the job, least of all that it is lost.
_ACCESS_ERRORS = ("auth", "clock", "denied", "api_disabled")


def job_resource(session: Session) -> Resource:
    return next(r for r in session.resources() if r.kind == "job")


def last_job_id(session: Session) -> str:
    """The id of the job that was submitted last, from the state; empty when there was none."""
    return session.deployment.job.submission_id if session.deployment.job else ""


def spool_path(session: Session, job_id: str) -> Path:
    """The present job's log is the deployment's spool file; those of earlier ones lie beside it."""
    current = session.store.home.job_log_file(session.deployment.name)
    return current if job_id == last_job_id(session) or not job_id else current.with_name(f"{job_id}.log")


def earlier_rows(session: Session, job_id: str) -> list[dict[str, Any]]:
    """Rows of jobs that this one resumed, by the order in which they were submitted."""
    if session.deployment.job is None:
        return []
    names = str(session.deployment.job.extra.get("earlier", "")).split()
    folder = session.store.home.folder(session.deployment.name)
    rows: list[dict[str, Any]] = []
    for name in names:
        file = folder / f"{name}.log"
        if name != job_id and file.exists():
            reader = LogReader()
            reader.feed(file.read_bytes())
            rows += [row.to_json() for row in reader.rows]
    return rows


async def load_job(session: Session) -> JobWatcher:
    """The job as far as it can be known: from the head where it answers, else from the spool alone."""
    watch = JobWatcher(session)
    try:
        await watch.catch_up()
    except (CloudError, RayError, JobNotFound) as error:
        blind = isinstance(error, CloudError) and error.kind in _ACCESS_ERRORS
        if not watch.job_id and blind:
            raise
        if not watch.job_id:
            raise JobNotFound(
                "there is no job yet", error.title, "submit it", "grpo-wizard apply --yes"
            ) from error
        watch.read_spool()
        last = session.deployment.job.status if session.deployment.job and blind else ""
        known = final_status(session, watch.job_id) or last or "LOST"
        watch.status, watch.detail = "" if is_destroyed(session) else known, error.title
    return watch


def is_destroyed(session: Session) -> bool:
    """Whether the job went with its deployment: what its log told is kept, but there is nothing to ask any more."""
    kinds = {record.kind for record in session.deployment.resources.values()}
    return session.deployment.job is not None and not kinds & {"job", "raycluster"}
