"""Follow a job's log and status from the first byte to the end, over connections that break.

The bytes are range requests to the head's agent, which serves the log folder (`/logs/job-driver-ID.log`): after
a broken connection the next request starts at the spool's length. While the agent cannot be reached, Ray's own
interfaces replace it: the WebSocket tail, which always starts at byte 0, and the full text. Both turn carriage
returns into newlines (Ray 2.49.2 and 2.60). The end of a stream is never the end of a job, only its status is
(https://github.com/ray-project/ray/issues/60665).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from grpo_wizard.steps.clients.ray.jobs_api import (
    LOST,
    TERMINAL,
    Job,
    RayAuthError,
    RayError,
    RayJobNotFound,
    RayJobsClient,
    RayUnreachable,
)
from grpo_wizard.steps.clients.ray.log_spool import LogSpool

if TYPE_CHECKING:
    import aiohttp

_AGENT_MAX_FAILURES = 3  # failures of the agent, while the dashboard answers, before text replaces the file
_AGENT_RETRY_S = 15.0
_FULL_READ_INTERVAL_S = 3.0  # the full text each time: 9 MB take 0.35 s
_FINAL_READ_ATTEMPTS = 20  # after the job's end, for the rest of its log
# A process that outlives its job may print forever, so reading stops after this time.
_TRAILING_OUTPUT_S = 5.0
_CLOSE_TOO_BIG = 1009
_SESSION_TIME = re.compile(r"session_(\d{4}-\d\d-\d\d)_(\d\d)-(\d\d)-(\d\d)")


@dataclass(frozen=True)
class LogChunk:
    """Bytes of the log; `offset` is their position in the spool."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class Truncated:
    """The spool was truncated to `offset`: everything after it is read again, byte for byte."""

    offset: int


@dataclass(frozen=True)
class StatusChange:
    """A new status: Ray's own, or LOST. `job` is None when it is lost; `at` in epoch seconds."""

    status: str
    at: float
    job: Job | None = None
    detail: str = ""


@dataclass(frozen=True)
class Notice:
    """A change in how the log is read, reported once. `kind`: reconnecting, reconnected, stream_ended, text (in
    place of the file), bytes (the file again), incomplete."""

    kind: str
    detail: str


ReadMode = Literal["range", "websocket", "full"]
FollowEvent: TypeAlias = LogChunk | Truncated | StatusChange | Notice


async def follow(
    jobs: RayJobsClient,
    job_id: str,
    spool: Path,
    agent_url: str | None = None,
    *,
    poll_interval_s: float = 1.0,
    status_interval_s: float = 2.0,
) -> AsyncGenerator[FollowEvent, None]:
    """Follow the job until it has ended and its log is complete, or until it is lost. Continues an existing spool.

    `agent_url`: the head's agent (port 52365), usually behind a second port-forward; without it only text is read.
    """
    follower = _LogFollower(jobs, job_id, LogSpool(spool), agent_url, poll_interval_s, status_interval_s)
    try:
        async with contextlib.aclosing(follower.run()) as events:
            async for event in events:
                yield event
    finally:
        await follower.close()


async def catch_up(
    jobs: RayJobsClient, job_id: str, spool: Path, agent_url: str | None = None
) -> list[FollowEvent]:
    """Read the status and the rest of the log once; afterwards the spool is complete up to now."""
    follower = _LogFollower(jobs, job_id, LogSpool(spool), agent_url, 1.0, 2.0)
    events: list[FollowEvent] = []
    try:
        events += [event async for event in follower._poll_status()]
        if follower.status not in ("", LOST):
            events += [event async for event in follower._read(ended=True)]
    finally:
        await follower.close()
    return events


class _RemoteLogTruncated(Exception):
    """The head's file is shorter than the spool, so it is a different file."""


class _LogFollower:
    def __init__(
        self,
        jobs: RayJobsClient,
        job_id: str,
        spool: LogSpool,
        agent_url: str | None,
        poll_interval_s: float,
        status_interval_s: float,
    ) -> None:
        self.jobs, self.job_id, self.spool = jobs, job_id, spool
        self.poll_interval_s, self.status_interval_s = poll_interval_s, status_interval_s
        self.agent_url = agent_url.rstrip("/") if agent_url else None
        self.mode: ReadMode = "range" if agent_url else "websocket"
        self.status = ""
        self._status_polled_at = -1e9
        self._failures = 0  # in a row, of the dashboard
        self._agent_failures = 0
        self._agent_tried_at = self._full_read_at = -1e9
        self._outage = False
        self._stream_end: str | None = None
        self._ws: aiohttp.ClientWebSocketResponse | None = None
        self._skip = 0  # bytes of text that are already in the spool

    async def run(self) -> AsyncGenerator[FollowEvent, None]:
        """Read status, then output, repeatedly; the last output is read after the last status."""
        last_tries, ended_at = 0, 0.0
        while True:
            async for event in self._poll_status():
                yield event
            if self.status == LOST:
                return
            ended, before = self.status in TERMINAL, self.spool.size
            if self._stream_end and not ended:
                yield Notice("stream_ended", f"{self._stream_end}; the job is {self.status}; still following")
            self._stream_end = None
            async for event in self._read(ended):
                yield event
            quiet = self.spool.size == before
            ended_at = ended_at or (time.monotonic() if ended else 0.0)
            if ended and (quiet or self._failure_count() or time.monotonic() - ended_at > _TRAILING_OUTPUT_S):
                last_tries += 1
                if not self._failure_count():
                    return
                if last_tries > _FINAL_READ_ATTEMPTS:
                    yield Notice("incomplete", "the job has ended, but the end of its log cannot be read")
                    return
            await asyncio.sleep(self._poll_delay(quiet))

    def _failure_count(self) -> int:
        """How often in a row the current mode has failed."""
        return max(self._failures, self._agent_failures if self.mode == "range" else 0, int(self._outage))

    def _poll_delay(self, quiet: bool) -> float:
        if failures := self._failure_count():
            return float(min(0.1 * 2 ** min(failures, 6), 5.0))
        return self.poll_interval_s if quiet else min(self.poll_interval_s, 0.2)

    async def _poll_status(self) -> AsyncGenerator[FollowEvent, None]:
        if self.status and time.monotonic() - self._status_polled_at < self.status_interval_s:
            return
        try:
            job = await self.jobs.get(self.job_id)
        except RayJobNotFound:
            self.status = LOST
            yield StatusChange(LOST, time.time(), None, await self._explain_lost())
            return
        except RayAuthError:
            raise
        except RayError as error:
            self._failures += 1
            if not self._outage:
                self._outage = True
                yield Notice("reconnecting", error.detail)
            return
        self._status_polled_at, self._failures = time.monotonic(), 0
        if self._outage:
            self._outage, self._agent_failures = False, 0
            yield Notice("reconnected", f"{self.jobs.base_url} is reachable again")
        if job.status != self.status:
            self.status = job.status
            yield StatusChange(job.status, time.time(), job, job.message)

    async def _explain_lost(self) -> str:
        try:
            session = (await self.jobs.version()).get("session_name", "")
        except RayError:
            session = ""
        found = _SESSION_TIME.search(session)
        when = f" at {found[1]} {found[2]}:{found[3]}:{found[4]} (the head's clock)" if found else ""
        return f"The Ray head was restarted{when} and has lost its record of the job."

    async def _read(self, ended: bool) -> AsyncGenerator[FollowEvent, None]:
        """Read once what is new, in the best available mode."""
        if self._outage:
            return
        if (
            self.mode != "range"
            and self.agent_url
            and (ended or time.monotonic() - self._agent_tried_at > _AGENT_RETRY_S)
        ):
            async for event in self._resume_range():
                yield event
        if self.mode == "range":
            async for event in self._read_range():
                yield event
        if self.mode != "range":
            async for event in self._read_text(ended):
                yield event

    # -- range requests to the agent

    async def _read_range(self) -> AsyncGenerator[FollowEvent, None]:
        if self.spool.size > self.spool.exact_size:
            self.spool.truncate(self.spool.exact_size)
            yield Truncated(self.spool.size)
        try:
            async for data in self._fetch_range(self.spool.size):
                yield LogChunk(self.spool.append(data, exact=True), data)
            self._agent_failures = 0
        except _RemoteLogTruncated:
            self.spool.truncate(0)
            yield Truncated(0)
        except RayError as error:
            self._agent_failures += 1
            self._status_polled_at = -1e9  # poll at once: does the agent alone fail, or the whole head?
            if self._agent_failures >= _AGENT_MAX_FAILURES and not self._outage:
                self._fall_back("websocket")
                yield Notice("text", f"the head's log file could not be read: {error.detail}")

    async def _fetch_range(self, offset: int) -> AsyncGenerator[bytes, None]:
        """The file's bytes from `offset` to its current end."""
        import aiohttp

        url = f"{self.agent_url}/logs/job-driver-{self.job_id}.log"
        # identity: a compressed body could not be resumed in its middle
        headers = {"Range": f"bytes={offset}-", "Accept-Encoding": "identity"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=15)
        async with self.jobs.request("GET", url, headers=headers, timeout=timeout) as answer:
            if answer.status == 416 or (answer.status == 404 and self.status == "PENDING"):
                total = answer.headers.get("Content-Range", "").rpartition("/")[2]
                if total.isdigit() and int(total) < offset:
                    raise _RemoteLogTruncated
                return
            await self.jobs.raise_for_status(answer)
            skip = offset if answer.status == 200 else 0  # a server without range support sends everything
            async for data in answer.content.iter_any():
                kept, skip = data[skip:], max(0, skip - len(data))
                if kept:
                    yield kept

    async def _resume_range(self) -> AsyncGenerator[FollowEvent, None]:
        """Try the agent again; when it answers, the inexact end of the spool is dropped and read again."""
        self._agent_tried_at = time.monotonic()
        try:
            async with contextlib.aclosing(self._fetch_range(self.spool.exact_size)) as pieces:
                await anext(pieces, None)
        except (RayError, _RemoteLogTruncated):
            return
        self.mode, self._agent_failures = "range", 0
        await self._close_websocket()
        yield Notice("bytes", "the head's own log file can be read again")

    # -- Ray's own text

    def _fall_back(self, mode: ReadMode) -> None:
        self.mode, self._agent_tried_at = mode, time.monotonic()

    async def _read_text(self, ended: bool) -> AsyncGenerator[FollowEvent, None]:
        try:
            if self.mode == "websocket" and not ended:
                async for event in self._read_websocket():
                    yield event
            elif ended or time.monotonic() - self._full_read_at > _FULL_READ_INTERVAL_S:
                self._full_read_at = time.monotonic()
                async for event in self._read_full():
                    yield event
            self._failures = 0
        except RayError:
            self._failures += 1
            await self._close_websocket()

    async def _read_full(self) -> AsyncGenerator[FollowEvent, None]:
        """Read all the text that Ray has; what is already in the spool is skipped by length."""
        await self._close_websocket()
        async with self.jobs.request("GET", f"{self.jobs.base_url}/api/jobs/{self.job_id}/logs") as answer:
            await self.jobs.raise_for_status(answer)
            text = str((await answer.json(content_type=None)).get("logs") or "").encode()
        new = text[self.spool.text_length() :]
        if new:
            yield LogChunk(self.spool.append(new, exact=False), new)

    async def _read_websocket(self) -> AsyncGenerator[FollowEvent, None]:
        """Read the WebSocket's messages until it is silent for one poll interval or ends."""
        import aiohttp

        ws = self._ws or await self._open_websocket()
        while True:
            try:
                message = await ws.receive(timeout=self.poll_interval_s)
            except TimeoutError:
                return
            if message.type is aiohttp.WSMsgType.TEXT:
                data = message.data.encode()
                new, self._skip = data[self._skip :], max(0, self._skip - len(data))
                if new:
                    yield LogChunk(self.spool.append(new, exact=False), new)
                continue
            code = ws.close_code
            await self._close_websocket()
            if code == _CLOSE_TOO_BIG or message.type is aiohttp.WSMsgType.ERROR:
                self._fall_back("full")
            # Poll the status now: the stream may end while the job continues.
            self._status_polled_at = -1e9
            self._stream_end = f"the stream ended (close code {code})"
            return

    async def _open_websocket(self) -> aiohttp.ClientWebSocketResponse:
        import aiohttp

        url = f"{self.jobs.base_url}/api/jobs/{self.job_id}/logs/tail"
        try:
            ws = await asyncio.wait_for(self.jobs.session.ws_connect(url, max_msg_size=0), timeout=15)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise RayUnreachable(
                "The log stream cannot be opened", str(error) or type(error).__name__
            ) from error
        self._ws, self._skip = ws, self.spool.text_length()
        return ws

    async def _close_websocket(self) -> None:
        ws, self._ws = self._ws, None
        if ws is not None:
            await ws.close()

    async def close(self) -> None:
        await self._close_websocket()
        self.spool.close()
