"""Following a job on a real Ray head over a network that breaks: nothing is lost, doubled or changed."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from proxies import ClosingProxy, CuttingProxy
from ray_head import RayHead, free_port

from grpo_wizard.steps.clients.ray.jobs_api import (
    Job,
    JobExists,
    RayAuthError,
    RayJobNotFound,
    RayJobsClient,
    RayUnreachable,
    new_job_id,
)
from grpo_wizard.steps.clients.ray.log_follower import (
    FollowEvent,
    LogChunk,
    Notice,
    StatusChange,
    Truncated,
    follow,
)

LIMIT_S = 90  # a mistake shall fail, not wait; on an idle machine no test takes 15
TOKEN = "a-token-of-this-test-only-0123456789"

# Carriage returns, both newlines, halves of characters between two writes, bytes that are no UTF-8 (when
# asked for).
TALKER = """
import os, sys, time
def say(data):
    os.write(1, data)
rounds, pause, odd = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "odd"
for n in range(rounds):
    say(b"\\rbar %d" % n + b"\\rbar %d.5" % n + b"\\r\\n")
    half = "\u25b6 Training policy...".encode()
    say(half[:2]); time.sleep(pause / 2); say(half[2:] + b"\\n")
    say(b"line %d " % n + b"x" * 300 + b"\\n")
    if odd: say(b"\\xff\\xfe odd bytes\\n")
    time.sleep(pause / 2)
while len(sys.argv) > 4 and not os.path.exists(sys.argv[4]):
    time.sleep(0.1)
say(b"the end, without a newline")
"""
LONG_LINE = """
say(b"\\n" + b"y" * 1300000 + b"\\n" + "  \u2022 Loss: 0.0420\\n".encode())
"""


def talker(rounds: int, pause: float, odd: bool = False, last: str = "", until: Path | None = None) -> str:
    """A job's entrypoint that prints for rounds × pause seconds, then waits until the file `until` is
    there."""
    code = base64.b64encode((TALKER + last).encode()).decode()
    arguments = f"{rounds} {pause} {'odd' if odd else 'plain'} {until or ''}"
    return f"python -c \"import base64;exec(base64.b64decode('{code}'))\" {arguments}"


@pytest.fixture(scope="module")
def head() -> Iterator[RayHead]:
    ray = RayHead(TOKEN)
    try:
        ray.wait_ready()
        yield ray
    finally:
        ray.stop()


class Told:
    """What a follower has told, and what a reader of it would hold."""

    def __init__(self) -> None:
        self.events: list[FollowEvent] = []
        self.text = bytearray()

    def take(self, event: FollowEvent) -> None:
        self.events.append(event)
        if isinstance(event, LogChunk):
            assert event.offset == len(self.text), "bytes lost or doubled"
            self.text += event.data
        elif isinstance(event, Truncated):
            del self.text[event.offset :]

    @property
    def statuses(self) -> list[str]:
        return [event.status for event in self.events if isinstance(event, StatusChange)]

    @property
    def notices(self) -> list[str]:
        return [event.kind for event in self.events if isinstance(event, Notice)]


async def listen(events: AsyncGenerator[FollowEvent, None], told: Told) -> Told:
    async for event in events:
        told.take(event)
    return told


async def submitted(jobs: RayJobsClient, entrypoint: str) -> Job:
    return await jobs.submit(entrypoint, new_job_id("test"), {"who": "tests"})


def test_a_lost_answer_is_looked_up_and_never_repeated(head: RayHead) -> None:
    async def run() -> tuple[Job, list[Job], int]:
        async with CuttingProxy(head.dashboard) as proxy, RayJobsClient(proxy.url, TOKEN) as jobs:
            job_id = new_job_id("lost")
            proxy.swallow_answers = 1
            job = await jobs.submit("sleep 1", job_id)
            return (
                job,
                [j for j in await jobs.list_jobs() if j.entrypoint == "sleep 1"],
                proxy.swallow_answers,
            )

    job, alike, left = asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    assert left == 0, "the answer was swallowed"
    assert [j.id for j in alike] == [job.id]


def test_an_id_is_taken_once_and_the_same_job_is_found_again(head: RayHead) -> None:
    async def run() -> None:
        async with RayJobsClient(head.url, TOKEN) as jobs:
            first = await submitted(jobs, "true")
            assert (await jobs.submit("true", first.id)).id == first.id
            with pytest.raises(JobExists):
                await jobs.submit("false", first.id)

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))


def test_errors_say_what_happened(head: RayHead) -> None:
    async def run() -> None:
        async with RayJobsClient(head.url, TOKEN) as jobs:
            with pytest.raises(RayJobNotFound) as unknown:
                await jobs.get("raysubmit_AAAA")
            assert "apply again" in unknown.value.fix and "404" in unknown.value.detail
            assert (await jobs.version())["version"] == "4"
            assert (await jobs.nodes())[0]["raylet"]["state"] == "ALIVE"
            assert "loadMetricsReport" in await jobs.cluster_status()
        async with RayJobsClient(head.url, "not the token of this head, 0123456789") as jobs:
            with pytest.raises(RayAuthError):
                await jobs.version()
        async with RayJobsClient(f"http://127.0.0.1:{free_port()}", TOKEN) as jobs:
            with pytest.raises(RayUnreachable):
                await jobs.submit("true", "x", attempts=2)
        async with CuttingProxy(head.dashboard) as proxy, RayJobsClient(proxy.url, TOKEN) as jobs:
            proxy.refuse = True
            with pytest.raises(RayUnreachable):
                await jobs.get("x")

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))


def test_the_log_is_the_heads_own_file_although_the_connection_is_cut_ten_times(
    head: RayHead, tmp_path: Path
) -> None:
    async def cut_often(proxies: list[CuttingProxy], told: Told) -> None:
        for _ in range(10):
            size = len(told.text)
            while len(told.text) < size + 400:  # each cut meets a stream that flows
                await asyncio.sleep(0.02)
            for proxy in proxies:
                proxy.drop_connections()

    async def run() -> tuple[Told, str]:
        async with (
            CuttingProxy(head.dashboard) as proxy,
            CuttingProxy(head.agent, allow=1500) as agent,
            RayJobsClient(proxy.url, TOKEN) as jobs,
        ):
            job = await submitted(jobs, talker(60, 0.1, odd=True))
            told = Told()
            cutter = asyncio.create_task(cut_often([proxy, agent], told))
            await listen(
                follow(
                    jobs, job.id, tmp_path / "spool", agent.url, poll_interval_s=0.2, status_interval_s=0.5
                ),
                told,
            )
            await cutter
            assert proxy.cuts == 10 and agent.cuts > 10
            return told, job.id

    told, job_id = asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    own = head.log_file(job_id).read_bytes()
    assert len(own) > 20_000 and b"\xff\xfe" in own and b"\r" in own
    assert (tmp_path / "spool").read_bytes() == own
    assert bytes(told.text) == own
    assert told.statuses[-1] == "SUCCEEDED" and "RUNNING" in told.statuses


def test_a_follower_goes_on_at_the_spools_length(head: RayHead, tmp_path: Path) -> None:
    async def run() -> tuple[int, Told, str]:
        async with RayJobsClient(head.url, TOKEN) as jobs:
            job = await submitted(jobs, talker(20, 0.1))
            events = follow(
                jobs, job.id, tmp_path / "spool", head.agent_url, poll_interval_s=0.2, status_interval_s=0.5
            )
            async for event in events:
                if isinstance(event, LogChunk) and event.offset + len(event.data) > 1000:
                    break
            await events.aclose()
            size = (tmp_path / "spool").stat().st_size
            told = Told()
            told.text += (tmp_path / "spool").read_bytes()
            await listen(
                follow(
                    jobs,
                    job.id,
                    tmp_path / "spool",
                    head.agent_url,
                    poll_interval_s=0.2,
                    status_interval_s=0.5,
                ),
                told,
            )
            return size, told, job.id

    size, told, job_id = asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    first = next(event for event in told.events if isinstance(event, LogChunk))
    assert first.offset == size > 1000
    assert (tmp_path / "spool").read_bytes() == head.log_file(job_id).read_bytes()


def test_text_stands_in_for_a_silent_agent_and_is_replaced_by_the_bytes(
    head: RayHead, tmp_path: Path
) -> None:
    async def run() -> tuple[Told, bytes, str]:
        async with CuttingProxy(head.agent) as agent, RayJobsClient(head.url, TOKEN) as jobs:
            agent.refuse = True
            job = await submitted(jobs, talker(25, 0.16))
            told, read_as_text = Told(), b""
            async for event in follow(
                jobs, job.id, tmp_path / "spool", agent.url, poll_interval_s=0.2, status_interval_s=0.5
            ):
                told.take(event)
                if agent.refuse and len(told.text) > 3000:
                    agent.refuse, read_as_text = False, bytes(told.text)
            return told, read_as_text, job.id

    told, read_as_text, job_id = asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    own = head.log_file(job_id).read_bytes()
    assert told.notices[0] == "text" and "bytes" in told.notices
    assert own.replace(b"\r\n", b"\n").replace(b"\r", b"\n").startswith(read_as_text)
    assert bytes(told.text) == own == (tmp_path / "spool").read_bytes()
    assert not (tmp_path / "spool.exact").exists()


@pytest.mark.parametrize(("code", "times"), [(1000, 2), (1009, 99)])
def test_the_end_of_a_stream_is_not_the_end_of_the_job(
    head: RayHead, tmp_path: Path, code: int, times: int
) -> None:
    ends = 2 if code == 1000 else 1  # after 1009 the text is fetched whole, not streamed again

    async def run() -> tuple[Told, str, int]:
        async with (
            ClosingProxy(head.url, code, 1, times) as proxy,
            RayJobsClient(proxy.url, TOKEN) as jobs,
            RayJobsClient(head.url, TOKEN) as direct,
        ):
            job = await submitted(direct, talker(5, 0.1, last=LONG_LINE, until=tmp_path / "go"))
            told = Told()
            async for event in follow(
                jobs, job.id, tmp_path / "spool", poll_interval_s=0.2, status_interval_s=0.5
            ):
                told.take(event)
                if told.notices.count("stream_ended") >= ends:
                    (tmp_path / "go").touch()
            return told, job.id, proxy.streams

    told, job_id, streams = asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    own = head.log_file(job_id).read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert bytes(told.text) == own and own.endswith("  • Loss: 0.0420\n".encode())
    assert told.statuses[-1] == "SUCCEEDED"
    assert streams == (3 if code == 1000 else 1)


def test_a_stopped_job_ends_as_stopped(head: RayHead, tmp_path: Path) -> None:
    async def run() -> Told:
        async with RayJobsClient(head.url, TOKEN) as jobs:
            job = await submitted(jobs, talker(600, 0.1))
            told, stopped = Told(), False
            async for event in follow(
                jobs, job.id, tmp_path / "spool", head.agent_url, poll_interval_s=0.2, status_interval_s=0.5
            ):
                told.take(event)
                if not stopped and len(told.text) > 1000:
                    stopped = await jobs.stop(job.id)
            return told

    told = asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    assert told.statuses[-1] == "STOPPED"
    assert (tmp_path / "spool").read_bytes() == bytes(told.text)


def test_a_job_that_the_head_has_forgotten_is_lost_and_not_submitted_again(
    head: RayHead, tmp_path: Path
) -> None:
    async def run() -> tuple[Told, bytes, list[str]]:
        async with RayJobsClient(head.url, TOKEN) as jobs:
            job = await submitted(jobs, talker(3, 0.1))
            first = await listen(
                follow(jobs, job.id, tmp_path / "spool", head.agent_url, status_interval_s=0.5), Told()
            )
            await jobs.delete(job.id)
            told = Told()
            told.text += first.text
            await listen(
                follow(jobs, job.id, tmp_path / "spool", head.agent_url, status_interval_s=0.5), told
            )
            return (
                told,
                bytes(first.text),
                [known.id for known in await jobs.list_jobs() if known.id == job.id],
            )

    told, before, known = asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    assert told.statuses == ["LOST"] and len(told.events) == 1, "one question, then no more"
    assert (tmp_path / "spool").read_bytes() == before and before and not known


@pytest.mark.heavy
def test_a_job_that_a_new_head_does_not_know_is_lost_and_what_was_read_stays(
    head: RayHead, tmp_path: Path
) -> None:
    async def run() -> tuple[Told, float]:
        async with RayJobsClient(head.url, TOKEN) as jobs:
            job = await submitted(jobs, talker(600, 0.1))
            told, told_at = Told(), 0.0
            async for event in follow(
                jobs, job.id, tmp_path / "spool", head.agent_url, poll_interval_s=0.2, status_interval_s=0.5
            ):
                told.take(event)
                if len(told.text) > 2000 and not told_at:
                    await asyncio.to_thread(head.restart)
                    told_at = time.monotonic()
            return told, time.monotonic() - told_at

    told, seconds = asyncio.run(asyncio.wait_for(run(), LIMIT_S))
    last: Any = told.events[-1]
    assert told.statuses == [*told.statuses[:-1], "LOST"] and "RUNNING" in told.statuses
    assert "restarted at 20" in last.detail
    assert (tmp_path / "spool").read_bytes() == bytes(told.text) and len(told.text) > 2000
    assert seconds < 15
