"""The exported script, run by the real gcloud and kubectl, makes the same world as `apply` does."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cli_harness import APPLY, CliHarness, cli_harness, normalized_resources
from emulator_server import EmulatorServer

TOOLS = ("bash", "gcloud", "kubectl", "gke-gcloud-auth-plugin", "curl")
JOB = "\n# ---- 9. The job"


def _missing() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def _run(script: Path, server: EmulatorServer, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**server.env, "POLL_SECONDS": "1", **more}
    return subprocess.run(["bash", str(script)], capture_output=True, text=True, timeout=560, env=environment)


def _world(server: EmulatorServer) -> dict[str, Any]:
    """Names and specs, without an address's labels.

    gcloud has no flag for those (the description bears the mark all the same), and it says false where the
    SDK says nothing.
    """
    rows, deadline = server.cloud_resources(), time.monotonic() + 5
    while any(row["state"] == "creating" for row in rows) and time.monotonic() < deadline:
        time.sleep(0.1)  # a RayCluster's own word comes a moment after its pods'
        rows = server.cloud_resources()
    for row in rows:
        if row["kind"] == "address":
            row["spec"].pop("labels", None)
    world: dict[str, Any] = _said(normalized_resources(rows))
    return world


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _said(item) for key, item in value.items() if item not in (False, None, {})}
    return [_said(item) for item in value] if isinstance(value, list) else value


def _exported(walk: CliHarness, *words: str) -> str:
    done = walk.run("export", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_export_writes_a_script_or_answers_that_begin_the_same_deployment(tmp_path: Path) -> None:
    with cli_harness(tmp_path / "home") as walk:
        walk.init()
        file = tmp_path / "deployment.sh"
        done = walk.run("export", "--out", str(file))
        assert (done.returncode, done.stdout) == (0, "")
        assert os.access(file, os.X_OK) and file.read_text() == _exported(walk)
        answers = tmp_path / "answers.toml"
        answers.write_text(_exported(walk, "--answers"))
        again = walk.run("init", "--answers", str(answers), "--deployment", "again")
        assert again.returncode == 0, again.stderr
        assert _exported(walk, "--answers", "--deployment", "again") == answers.read_text()
        nowhere = walk.run("export", "--deployment", "again", "--out", str(tmp_path / "no" / "where"))
        assert nowhere.returncode == 2 and "Cannot write" in nowhere.stderr


@pytest.mark.heavy
@pytest.mark.skipif(bool(_missing()), reason=f"not installed here: {', '.join(_missing())}")
def test_gcloud_and_kubectl_make_the_world_that_apply_makes(tmp_path: Path) -> None:
    """About three minutes: a gcloud command takes some seconds. The job is left out, as no Ray runs here."""
    with cli_harness(tmp_path / "applied") as walk:
        walk.init()
        walk.events(*APPLY)
        applied = _world(walk.server)
    with cli_harness(tmp_path / "scripted") as walk:
        walk.init()
        script = tmp_path / "deployment.sh"
        script.write_text(_exported(walk).partition(JOB)[0] + "\n")
        done = _run(script, walk.server, HF_TOKEN="hf_canary_value")
        assert done.returncode == 0, done.stderr[-3000:]
        scripted, recorded = _world(walk.server), walk.server.record.read_text()
        plan = walk.json("plan")["resources"]
    assert set(scripted) == set(applied)
    assert [name for name in applied if applied[name] != scripted[name]] == []
    assert "hf_canary_value" not in done.stdout + done.stderr + recorded
    # The script wrote the deployment's mark: the wizard knows everything as its own.
    assert {row["action"] for row in plan if row["kind"] != "job"} == {"keep"}
