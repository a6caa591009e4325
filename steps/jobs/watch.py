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
from grpo_wizard.steps.clients.kubernetes.api import connect
from grpo_wizard.steps.clients.ray.head import Head, open_head
from grpo_wizard.steps.clients.ray.job_driver import MARK
from grpo_wizard.steps.clients.ray.jobs_api import TERMINAL, Job, RayError, RayUnreachable
from grpo_wizard.steps.clients.ray.log_follower import (
    Following,
    Notice,
    Output,
    Rewound,
    StatusChange,
    catch_up,
    follow,
)
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.jobs.history import ended_as, note_end, seen_end
from grpo_wizard.steps.training.health import Verdict, diagnose
from grpo_wizard.steps.training.reader import Reader

_AGAIN = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0)  # seconds between tries to reach the head


class NoJob(WizardError):
    """Nothing was submitted yet, or the head does not know it any more."""


class JobWatch:
    """One job. `reader`, `status` and `heard_at` are right after each event of `run` and after `catch_up`."""

    def __init__(self, session: Session, job_id: str = "") -> None:
        self.session = session
        self.reader = Reader()
        self.job: Job | None = None
        self.status = ""
        self.detail = ""
        self.job_id = job_id or known_job(session)
        self.heard_at: float | None = None

    @property
    def spool(self) -> Path:
        """The local copy of this job's log, one file a job."""
        return spool_of(self.session, self.job_id)

    def open(self) -> AbstractAsyncContextManager[Head]:
        return open_head(self.session.cloud, job_resource(self.session).where)

    async def find(self, head: Head) -> Job:
        """The newest job of this deployment on the head. Raises NoJob."""
        mine = [
            job
            for job in await head.jobs.list_jobs()
            if job.metadata.get(MARK) == self.session.deployment.lineage
        ]
        if not mine:
            if self.job_id and (ended := ended_as(self.session, self.job_id)):
                raise _ended(self.job_id, ended)
            if self.job_id:
                raise NoJob(
                    "the job is lost",
                    f"the Ray head was restarted and does not know {self.job_id}",
                    "apply submits it again; it goes on from the last complete step_N",
                    "grpo-wizard apply --yes",
                )
            raise NoJob("there is no job yet", "", "submit it", "grpo-wizard apply --yes")
        self._take(mine[0])
        return mine[0]

    def _take(self, job: Job) -> None:
        self.job, self.status = job, job.status
        if job.id != self.job_id:
            self.job_id = job.id

    async def run(self) -> AsyncIterator[Following]:
        """From the spool's beginning until the job has ended; connections may break as they like."""
        self.read_spool()
        self.status = seen_end(self.session, self.job_id)
        for pause in (*_AGAIN, None):
            try:
                async for event in self._run_once():
                    yield event
                return
            except NoJob:
                self.status = ended_as(self.session, self.job_id)
                if not self.status:
                    raise
                return
            except (CloudError, RayUnreachable) as error:
                if self.status in TERMINAL and pause is None:
                    return  # how it ended is known; the last of its log is not worth an error
                if pause is None or _shut_out(error):
                    raise
                await asyncio.sleep(pause)

    async def _run_once(self) -> AsyncIterator[Following]:
        async with self.open() as head:
            before = self.job_id
            job = await self.find(head)
            if job.id != before:
                self.read_spool()
            following = follow(head.jobs, job.id, self.spool, head.agent_url)
            async with aclosing(following) as events:
                async for event in events:
                    self.note(event)
                    yield event
                    if isinstance(event, Notice) and event.kind == "reconnecting":
                        try:
                            await self._may_look()
                        except CloudError:
                            if self.status in TERMINAL:
                                return  # how it ended is known; the last of its log is not worth an error
                            raise

    async def _may_look(self) -> None:
        """Raises CloudError where the way to the head is shut because the sign-in has expired: no waiting opens that."""
        where = job_resource(self.session).where
        place = (where["project"], where["location"], where["cluster"])
        try:
            await asyncio.to_thread(connect, self.session.cloud, *place, fresh=True)
        except CloudError as error:
            if _shut_out(error):
                raise

    async def catch_up(self) -> None:
        """As far as the log goes now; then rows and status are those of this moment."""
        async with self.open() as head:
            job = await self.find(head)
            self.read_spool()
            for event in await catch_up(head.jobs, job.id, self.spool, head.agent_url):
                self.note(event)
        note_end(self.session, self.job_id, self.status, self.rows())

    def read_spool(self) -> None:
        """Starts the reading anew from what is on disk."""
        self.reader = Reader()
        if self.spool.exists():
            self.reader.feed(self.spool.read_bytes())
            self.heard_at = self.spool.stat().st_mtime

    def note(self, event: Following) -> None:
        if isinstance(event, Output):
            self.heard_at = time.time()
            self.reader.feed(event.data, self.heard_at)
        elif isinstance(event, Rewound):
            self.read_spool()
        elif isinstance(event, StatusChange):
            self.status, self.detail, self.job = event.status, event.detail, event.job or self.job

    def rows(self) -> list[dict[str, Any]]:
        """Of the whole run: earlier attempts in the same folder count up to where this one took over."""
        mine = {row.as_json()["step"]: row.as_json() for row in self.reader.rows}
        earlier = earlier_rows(self.session, self.job_id)
        rows = {row["step"]: row for row in earlier if not mine or row["step"] < min(mine)} | mine
        return [rows[step] for step in sorted(rows)]

    def health(self) -> Verdict:
        running = self.status == "RUNNING"
        return diagnose(
            self.reader,
            status=self.status or None,
            now=time.time() if running else None,
            last_output_at=self.heard_at,
        )

    def document(self) -> dict[str, Any] | None:
        """The job as status and metrics tell it."""
        if not self.job_id or (not self.status and torn_down(self.session)):
            return None
        rows = self.rows()
        return {
            "id": self.job_id,
            "status": self.status or "LOST",
            "step": rows[-1]["step"] if rows else None,
            "total_steps": self.reader.facts.total_steps or self.session.answers["grpo"]["max_num_steps"],
            "phase": self.reader.facts.phase,
            "message": self.detail[-400:],
        }


def _ended(id: str, status: str) -> NoJob:
    fix, command = (
        ("it is done; raise grpo.max_num_steps to go on from there", "grpo-wizard status")
        if status == "SUCCEEDED"
        else ("apply goes on from the last complete step_N", "grpo-wizard apply --yes")
    )
    why = f"{id} has ended, and the Ray head was restarted since and does not know it any more"
    return NoJob(f"the job is {status}", why, fix, command)


def _shut_out(error: Exception) -> bool:
    return isinstance(error, CloudError) and error.kind == "auth"


# It is we who may not look: nothing is known of the job, least of all that it is lost.
_OURS = ("auth", "clock", "denied", "api_disabled")


def job_resource(session: Session) -> Resource:
    return next(r for r in session.resources() if r.kind == "job")


def known_job(session: Session) -> str:
    """The id of the job that was submitted last, from the state; empty when there was none."""
    return session.deployment.job.submission_id if session.deployment.job else ""


def spool_of(session: Session, job_id: str) -> Path:
    """The present job's log is the deployment's spool file; those of earlier ones lie beside it."""
    current = session.store.home.spool_file(session.deployment.name)
    return current if job_id == known_job(session) or not job_id else current.with_name(f"{job_id}.log")


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
            reader = Reader()
            reader.feed(file.read_bytes())
            rows += [row.as_json() for row in reader.rows]
    return rows


async def read_job(session: Session) -> JobWatch:
    """The job as far as it can be known: from the head where it answers, else from the spool alone."""
    watch = JobWatch(session)
    try:
        await watch.catch_up()
    except (CloudError, RayError, NoJob) as error:
        blind = isinstance(error, CloudError) and error.kind in _OURS
        if not watch.job_id and blind:
            raise
        if not watch.job_id:
            raise NoJob("there is no job yet", error.title, "submit it", "grpo-wizard apply --yes") from error
        watch.read_spool()
        last = session.deployment.job.status if session.deployment.job and blind else ""
        known = ended_as(session, watch.job_id) or last or "LOST"
        watch.status, watch.detail = "" if torn_down(session) else known, error.title
    return watch


def torn_down(session: Session) -> bool:
    """Whether the job went with its deployment: what its log told is kept, but there is nothing to ask any more."""
    kinds = {record.kind for record in session.deployment.resources.values()}
    return session.deployment.job is not None and not kinds & {"job", "raycluster"}
