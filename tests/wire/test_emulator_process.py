"""The emulator's process: one per home, found again, rejected at another speed, killed and restarted."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from emulator_server import EmulatorServer, start_emulator, wait_until

from grpo_wizard.steps.emulator import process as emulator_process

MODULE = [sys.executable, "-m", "grpo_wizard.steps.emulator"]


def test_two_starts_at_once_end_with_one_server(tmp_path: Path) -> None:
    found: list[emulator_process.ServerAddress] = []
    threads = [
        threading.Thread(target=lambda: found.append(emulator_process.start(tmp_path, "max", ray="none")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert len(found) == 4
        assert len({(a.pid, a.base_url) for a in found}) == 1
    finally:
        emulator_process.stop(tmp_path)


def test_another_speed_is_refused_in_one_sentence(rehearsal: EmulatorServer) -> None:
    with pytest.raises(emulator_process.EmulatorError, match="is running at speed max, not 60"):
        emulator_process.start(rehearsal.home, 60)
    with pytest.raises(emulator_process.EmulatorError, match="is running at speed max, not 60"):
        emulator_process.connect(rehearsal.base_url, rehearsal.token, 60)
    assert emulator_process.start(rehearsal.home).pid == rehearsal.address.pid


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "fast"])
def test_a_speed_that_is_none_is_refused(tmp_path: Path, speed: str) -> None:
    with pytest.raises(emulator_process.EmulatorError, match="greater than 0"):
        emulator_process.start(tmp_path, speed)


def test_a_server_named_by_the_environment_is_joined(
    rehearsal: EmulatorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(emulator_process.URL_ENV, rehearsal.base_url)
    with pytest.raises(emulator_process.EmulatorError, match=emulator_process.TOKEN_ENV):
        emulator_process.find(tmp_path)
    monkeypatch.setenv(emulator_process.TOKEN_FILE_ENV, rehearsal.address.token_file)
    joined = emulator_process.start(tmp_path / "other", "max")
    assert (joined.pid, joined.token) == (rehearsal.address.pid, rehearsal.token)
    monkeypatch.setenv(emulator_process.TOKEN_ENV, "wrong")
    with pytest.raises(emulator_process.EmulatorError, match="401"):
        emulator_process.find(tmp_path)


@pytest.mark.parametrize("url", ["http://198.51.100.1:80", "https://example.com", "nowhere"])
def test_a_server_beyond_loopback_is_not_asked(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(emulator_process.URL_ENV, url)
    monkeypatch.setenv(emulator_process.TOKEN_ENV, "some-token")
    with pytest.raises(emulator_process.EmulatorError, match=r"must name a server on 127\.0\.0\.1"):
        emulator_process.start(tmp_path)


def test_the_servers_environment_holds_no_token_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    monkeypatch.setenv("WANDB_API_KEY", "wandb-canary")
    try:
        address = emulator_process.start(tmp_path, "max", ray="none")
        assert not {"HF_TOKEN", "WANDB_API_KEY"} & set(psutil.Process(address.pid).environ())
    finally:
        emulator_process.stop(tmp_path)


def test_stop_ends_the_process_and_a_second_stop_finds_none(tmp_path: Path) -> None:
    server = start_emulator(tmp_path, ray="none")
    assert emulator_process.status(tmp_path)["running"]
    assert emulator_process.stop(tmp_path)
    assert emulator_process.find(tmp_path) is None
    assert not emulator_process.stop(tmp_path)
    assert emulator_process.status(tmp_path) == {"running": False}
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(server.base_url.rpartition(":")[2])), 1).close()


def test_serve_prints_one_line_and_says_how_to_use_it(tmp_path: Path) -> None:
    env_file = tmp_path / "env.sh"
    options = ["--home", str(tmp_path), "--speed", "max", "--ray", "none", "--env-file", str(env_file)]
    with subprocess.Popen([*MODULE, "serve", *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = json.loads(process.stdout.readline())
        second = subprocess.run([*MODULE, "serve", *options], capture_output=True, text=True, check=False)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stdout.read() == ""
    assert {"base_url", "pid", "kube_urls", "token_file", "env"} <= set(line)
    assert line["pid"] == process.pid
    assert {
        "HTTPS_PROXY",
        "CLOUDSDK_CONFIG",
        "KUBECONFIG",
        emulator_process.URL_ENV,
        emulator_process.TOKEN_ENV,
    } <= set(line["env"])
    assert f"export KUBECONFIG={line['env']['KUBECONFIG']}" in env_file.read_text()
    assert stat.S_IMODE(Path(line["token_file"]).stat().st_mode) == 0o600
    assert stat.S_IMODE(env_file.stat().st_mode) == 0o600
    assert second.returncode == 1 and "already running" in second.stderr


def test_killed_in_the_middle_it_comes_back_with_its_world_and_what_was_to_come(tmp_path: Path) -> None:
    server = start_emulator(tmp_path, "6", ray="none")  # enabling: 12 s / 6 = 2 s
    path = "/serviceusage/v1/projects/my-project/services/lustre.googleapis.com"
    _, operation = server.call("POST", f"{path}:enable", {})
    assert not operation.get("done")
    deadline = time.monotonic() + 10
    os.kill(server.address.pid, signal.SIGKILL)
    again = start_emulator(tmp_path, "6", ray="none")
    try:
        assert again.address.pid != server.address.pid
        assert again.token == server.token
        while not operation.get("done"):
            assert time.monotonic() < deadline
            _, operation = again.call("GET", f"/serviceusage/v1/{operation['name']}")
            time.sleep(0.05)
        assert again.call("GET", path)[1]["state"] == "ENABLED"
        assert [row["name"] for row in again.cloud_resources()] == ["lustre.googleapis.com"]
    finally:
        emulator_process.stop(tmp_path)


def test_files_with_secrets_are_for_their_owner_only(rehearsal: EmulatorServer) -> None:
    rehearsal.enable("compute.googleapis.com")
    folder = rehearsal.home / "rehearsal"
    wait_until((folder / "world.json").exists)
    for name in ("token", "world.json", "address.json", "ca.key", "server.log"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(rehearsal.record.stat().st_mode) == 0o600
    assert rehearsal.token not in (folder / "server.log").read_text()


def test_it_ends_by_itself_when_nobody_asks(tmp_path: Path) -> None:
    server = start_emulator(tmp_path, ray="none", idle_minutes=0.02)
    deadline = time.monotonic() + 15
    while (tmp_path / "rehearsal/address.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert server.address.pid not in (os.getpid(), 0)


def test_every_path_wants_the_token(rehearsal: EmulatorServer) -> None:
    paths = (
        "/_rehearsal/world",
        "/_rehearsal/status",
        "/compute/v1/projects/my-project",
        "/nowhere",
        "/huggingface/~wrong/api/whoami-v2",
    )
    for path in paths:
        for header in ("", "Bearer wrong", "Basic eDp3cm9uZw=="):
            status, body = rehearsal.call("GET", path, headers={"Authorization": header})
            assert status == 401, path
            assert "OAuth 2 access token" in json.dumps(body)


def test_life_is_light_to_import() -> None:
    script = (
        "import sys; import grpo_wizard.steps.emulator.process; "
        "print([m for m in ('aiohttp', 'cryptography', 'msgspec', 'google', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
