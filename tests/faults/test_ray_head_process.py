"""The life of a head: one start for many connections, two at most, loopback only, and nothing left whatever
ends the server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import psutil
import pytest
from ray_job_client import TOKEN, pod_view, ray_jobs_api

from grpo_wizard.steps.emulator.ray import supervisor
from grpo_wizard.steps.emulator.ray.head_process import SupervisedProcess, private_folder, short_folder
from grpo_wizard.steps.emulator.ray.heads import LocalRayHeadManager
from grpo_wizard.steps.emulator.ray.processes import find_processes

SERVER = """
import asyncio, pathlib, sys
sys.path.insert(0, {tests!r})
from ray_job_client import pod_view
from grpo_wizard.steps.emulator.ray.heads import LocalRayHeadManager
async def main():
    heads = LocalRayHeadManager(pathlib.Path(sys.argv[1]))
    print(*await heads.connect(pod_view(pathlib.Path(sys.argv[1])), 8265), flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def _notes(root: Path) -> list[dict[str, str]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in (root / "heads").glob("*.json")]


def _left(notes: list[dict[str, str]]) -> list[str]:
    return [str(process) for note in notes for process in find_processes(note["mark"], note["folder"])]


def _until_none_is_left(notes: list[dict[str, str]], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while left := _left(notes):
        assert time.monotonic() < end, left
        time.sleep(0.3)


def _beyond_loopback(notes: list[dict[str, str]]) -> set[str]:
    """Listening addresses of the head's processes that are not 127.0.0.1."""
    found = set()
    for note in notes:
        for process in find_processes(note["mark"], note["folder"]):
            for connection in process.net_connections("inet"):
                if (
                    connection.status == psutil.CONN_LISTEN
                    and connection.laddr.ip.removeprefix("::ffff:") != "127.0.0.1"
                ):
                    found.add(f"{process.name()} {connection.laddr}")
    return found


async def _statuses(url: str) -> list[int]:
    found = []
    async with aiohttp.ClientSession() as session:
        for headers in (
            {},
            {"Authorization": "Bearer wrong-token-wrong-token-wrong-tok"},
            {"Authorization": f"Bearer {TOKEN}"},
        ):
            async with session.get(url, headers=headers) as answer:
                found.append(answer.status)
    return found


async def _life(root: Path) -> None:
    heads = LocalRayHeadManager(root, limit=1)
    view = pod_view(root)
    try:
        many = await asyncio.gather(
            *(heads.connect(view, 8265) for _ in range(40)), heads.connect(view, 52365)
        )
        assert len(set(many)) == 2 and {host for host, _ in many} == {"127.0.0.1"}
        notes = _notes(root)
        assert len(notes) == 1
        assert await _statuses(f"http://127.0.0.1:{many[0][1]}/api/version") == [401, 403, 200]
        assert await _statuses(f"http://127.0.0.1:{many[-1][1]}/logs/") == [401, 403, 200]
        assert _beyond_loopback(notes) == set()
        with pytest.raises(ConnectionError, match="already running 1 Ray head "):
            await heads.connect(pod_view(root, "second"), 8265)
        with pytest.raises(ConnectionError, match="Nothing is listening on port 6379"):
            await heads.connect(view, 6379)
        folder = Path(notes[0]["folder"])
        assert folder.stat().st_mode & 0o777 == 0o700
        async with ray_jobs_api(heads, view) as ray:
            async with ray.session.post(
                "/api/jobs/", json={"entrypoint": "sleep 600 & nohup setsid sleep 600"}
            ) as answer:
                assert answer.status == 200
            await asyncio.sleep(3)
    finally:
        await heads.close()
    assert _left(notes) == [] and not folder.exists() and _notes(root) == []


def test_one_start_for_all_on_loopback_behind_a_token_and_nothing_left(tmp_path: Path) -> None:
    asyncio.run(_life(tmp_path))


def test_no_ray_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match=r"The emulator is running without Ray \(--ray none\)\."):
        asyncio.run(LocalRayHeadManager(tmp_path, enabled=False).connect(pod_view(tmp_path), 8265))


def test_a_head_ends_with_a_server_that_was_killed_and_with_a_guard_that_was_killed(tmp_path: Path) -> None:
    script = SERVER.format(tests=str(Path(__file__).parent))
    server = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None and server.stdout.readline().startswith("127.0.0.1 ")
    notes = _notes(tmp_path)
    assert len(_left(notes)) > 5
    os.kill(int(notes[0]["pid"]), signal.SIGSTOP)  # a guard that cannot do its work
    server.kill()
    server.wait()
    assert len(_left(notes)) > 5
    LocalRayHeadManager(tmp_path)  # the next server sweeps
    assert _left(notes) == [] and not Path(notes[0]["folder"]).exists() and _notes(tmp_path) == []
    server = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None and server.stdout.readline().startswith("127.0.0.1 ")
    notes = _notes(tmp_path)
    server.kill()
    server.wait()
    _until_none_is_left(notes)
    assert not Path(notes[0]["folder"]).exists()


def test_a_folder_of_a_server_killed_before_its_head_started_is_removed_by_the_next(tmp_path: Path) -> None:
    notes = private_folder(tmp_path / "heads")
    created, named_only = (
        SupervisedProcess(f"tag-{n}", short_folder(), notes / f"pod-{n}.json") for n in range(2)
    )
    for head in (created, named_only):
        head.create_folder()
    (named_only.folder / named_only.tag).unlink()
    LocalRayHeadManager(tmp_path)
    assert not created.folder.exists() and not named_only.folder.exists() and _notes(tmp_path) == []


def test_what_a_server_starts_can_be_interrupted_where_the_server_ignores_sigint(tmp_path: Path) -> None:
    show = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT))"]
    command = [sys.executable, str(Path(supervisor.__file__)), "a-tag", str(tmp_path), *show]
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    with subprocess.Popen(ignoring, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "default_int_handler" in process.stdout.readline()


@pytest.mark.heavy
def test_a_head_that_died_is_started_again_at_the_next_connection(tmp_path: Path) -> None:
    async def whole() -> None:
        heads = LocalRayHeadManager(tmp_path)
        try:
            before = await heads.connect(pod_view(tmp_path), 8265)
            notes = _notes(tmp_path)
            for process in find_processes(notes[0]["mark"], notes[0]["folder"]):
                if "gcs_server" in process.name():
                    process.kill()
            for _ in range(150):
                if not _left(notes):
                    break
                await asyncio.sleep(0.2)
            assert await heads.connect(pod_view(tmp_path), 8265) == before
        finally:
            await heads.close()

    asyncio.run(whole())
