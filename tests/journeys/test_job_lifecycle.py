"""The job, from submission to release: a real Ray head, a real GRPO run, the real command. One head for all, to spare minutes."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from cli_harness import ANSWERS, JSON, NAME, CliHarness, cli_harness, fault
from emulator_server import wait_until

from grpo_wizard.steps.clients.kubernetes.api import connect_cluster
from grpo_wizard.steps.clients.ray.head import RayHeadConnection
from grpo_wizard.steps.clients.ray.job_driver import submission_id
from grpo_wizard.steps.emulator import process as emulator_process
from grpo_wizard.steps.jobs.watch import JobWatcher, job_resource
from grpo_wizard.tui.commands._session import open_session

CANARY = "hf_canaryXq7Zp0nothingelselookslikethis"
_JOB = "grpo.job."


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliHarness]:
    """The tutorial's deployment up to the RayCluster. The head receives the first submission at once; its answer takes
    ten minutes."""
    slow_answer = fault("ray", "POST", "/api/jobs/", nth=1, delay_s=600)
    with cli_harness(tmp_path_factory.mktemp("job"), [slow_answer], ray="real") as walk:
        done = walk.run("init", "--answers", str(ANSWERS), "--set", "grpo.release_minutes=20")
        assert done.returncode == 0, done.stderr
        walk.events("apply", "--yes", "--until", "raycluster", "--json")
        yield walk


@pytest.fixture(scope="module")
def killed_request(harness: CliHarness) -> str:
    """The request id of a submission whose apply was killed (SIGKILL) after the head had the job, before the answer."""
    apply = harness.start("apply", "--yes", "--json")
    wait_until(lambda: apply.poll() is None and _intent(harness), 120)
    request = str(_intent(harness)["request_id"])
    wait_until(lambda: submission_id(request) in _submitted_ids(harness), 60)
    record = _intent(harness)
    assert record["request_id"] == request, "the intent is still unanswered when the process is killed"
    assert not record["identity"] and not record["operation"] and not record["done_at"]
    assert apply.poll() is None
    os.kill(apply.pid, signal.SIGKILL)
    apply.wait()
    return request


@pytest.fixture(scope="module")
def trained(harness: CliHarness, killed_request: str) -> CliHarness:
    """The job's ten steps are done; apply was killed once while it submitted the job."""
    done = harness.run("apply", "--yes", "--wait", "--json", timeout=400, HF_TOKEN=CANARY)
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-2000:])
    return harness


def _intent(harness: CliHarness) -> JSON:
    """The record of a job whose creation was requested and not yet confirmed; empty where there is none."""
    records = harness.state()["resources"].items()
    pending = (
        r for id, r in records if id.startswith(_JOB) and r["origin"] == "intended" and r["request_id"]
    )
    return next(pending, {})


def _submitted_ids(harness: CliHarness) -> set[str]:
    """The submission ids that the Ray head knows."""
    return {str(job["submission_id"]) for job in _jobs(harness) if job.get("submission_id")}


def _ask(walk: CliHarness, address: Callable[[RayHeadConnection, str], str]) -> bytes:
    """One plain GET on the head, by the wizard's own port-forward. `address`: of the head and its job's id."""

    async def ask() -> bytes:
        session = open_session(
            argparse.Namespace(home=str(walk.home), deployment=NAME, rehearse=True, speed=None)
        )
        watch = JobWatcher(session)
        async with watch.open() as head, head.jobs.request("GET", address(head, watch.job_id)) as answer:
            return await answer.read()

    return asyncio.run(ask())


def _jobs(walk: CliHarness) -> list[JSON]:
    found: list[JSON] = json.loads(_ask(walk, lambda head, job: head.dashboard_url + "/api/jobs/"))
    return found


def test_killed_between_submission_and_answer_there_is_one_job(
    trained: CliHarness, killed_request: str
) -> None:
    submitted = [job for job in _jobs(trained) if job.get("submission_id")]
    assert [job["submission_id"] for job in submitted] == [submission_id(killed_request)]
    assert submitted[0]["status"] == "SUCCEEDED"


def test_ten_rows_whose_reward_rises(trained: CliHarness) -> None:
    document = trained.json("metrics")
    rewards = [row["avg_reward"] for row in document["rows"]]
    assert [row["step"] for row in document["rows"]] == list(range(1, 11))
    first, last = sum(rewards[:3]) / 3, sum(rewards[-3:]) / 3
    assert last >= 2 * first, rewards
    assert document["job"]["status"] == "SUCCEEDED"
    assert trained.json("health")["verdict"] == "healthy"


def test_checkpoints_are_listed_whole(trained: CliHarness) -> None:
    listing = trained.json("checkpoints")
    assert listing["resume_step"] == 10
    assert [row["name"] for row in listing["checkpoints"] if row["complete"]] == ["step_10"]


def test_the_log_is_the_heads_own_file_byte_for_byte(trained: CliHarness) -> None:
    spool = (trained.home / "deployments" / NAME / "job.log").read_bytes()
    assert len(spool) > 10_000
    assert spool == _ask(trained, lambda head, job: f"{head.agent_url}/logs/job-driver-{job}.log")
    # subprocess reads text: a carriage return comes back as a newline
    assert trained.run("logs").stdout.encode() == spool.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def test_the_token_is_in_the_secret_and_the_mounted_file_and_nowhere_else(trained: CliHarness) -> None:
    holders = {
        str(path.relative_to(trained.home))
        for path in trained.home.rglob("*")
        if path.is_file() and CANARY.encode() in path.read_bytes()
    }
    # the world's file counts as the cluster's Secret store
    assert all(
        ("pods/" in name and name.endswith("/hf_token")) or name.startswith("rehearsal/world")
        for name in holders
    ), holders
    assert any(name.endswith("/hf_token") for name in holders)
    assert CANARY not in str(_jobs(trained))
    assert CANARY.encode() not in _ask(
        trained, lambda head, job: head.dashboard_url + "/api/v0/tasks?detail=1&limit=10000"
    )
    notes = [json.loads(note.read_text()) for note in (trained.home / "rehearsal" / "heads").glob("*.json")]
    logs = [file for note in notes for file in Path(note["folder"]).rglob("*.log") if file.is_file()]
    assert any(file.name == "runtime_env_agent.log" for file in logs)
    for file in logs:
        assert CANARY.encode() not in file.read_bytes(), file
    for process in psutil.process_iter():
        try:
            assert CANARY not in " ".join(process.cmdline())
        except psutil.Error:
            continue


def test_the_gpu_nodes_are_released_with_no_wizard_running(trained: CliHarness) -> None:
    until = time.monotonic() + 90
    while not _released(trained):
        assert time.monotonic() < until, (
            "20 rehearsed minutes after the job's end the workers are still there"
        )
        time.sleep(1)
    rows = {row["id"]: row for row in trained.json("status")["resources"]}
    ray = next(row for id, row in rows.items() if id.startswith("raycluster.raycluster."))
    assert (ray["state"], ray["drift"]) == ("ready", [])
    again = trained.events("apply", "--yes", "--json")
    assert again[-1]["ok"] and again[-1]["created"] == 0  # SUCCEEDED with the same parameters: kept


def _released(walk: CliHarness) -> bool:
    """The sidecar's note is on the RayCluster, and no worker pod is left."""
    session = open_session(
        argparse.Namespace(home=str(walk.home), deployment=NAME, rehearse=True, speed=None)
    )
    where = job_resource(session).parent
    kube = connect_cluster(session.cloud, where["project"], where["location"], where["cluster"])
    path = f"/apis/ray.io/v1/namespaces/{where['namespace']}/rayclusters/{where['raycluster']}"
    ray = kube.get(path) if kube else None
    workers = [
        row for row in walk.server.cloud_resources() if row["kind"] == "pod" and "worker" in row["name"]
    ]
    return bool(ray and ray["metadata"].get("annotations", {}).get("grpo-wizard/released")) and not workers


def test_other_parameters_conflict_while_running_and_a_stopped_job_goes_on_from_its_checkpoint(
    trained: CliHarness,
) -> None:
    longer = (
        "init",
        "--set",
        "grpo.max_num_steps=30",
        "--set",
        "grpo.checkpoint_dir=/data/second",
        "--set",
        "grpo.release_minutes=10080",
        "--set",
        "grpo.overrides=checkpointing.save_period=5",
    )
    assert trained.run(*longer).returncode == 0
    fault = trained.home / "rehearsal" / "job-faults.json"
    fault.write_text('{"fault": "stall@8"}')
    started = trained.events("apply", "--yes", "--json")
    assert started[-1]["ok"], started[-1]
    assert "raycluster.raycluster.ray-cluster-kuberay" not in {
        e["id"] for e in started if e["event"] == "resource_started"
    }
    assert trained.run("init", "--set", "grpo.seed=7").returncode == 0
    plan = trained.json("plan", code=1)
    assert next(r for r in plan["resources"] if r["kind"] == "job")["action"] == "conflict"
    assert trained.run("init", "--set", "grpo.seed=42").returncode == 0
    _wait_for_step(trained, 7)
    assert trained.run("stop").returncode == 0
    fault.unlink()
    assert trained.json("status")["job"]["status"] == "STOPPED"
    plan = trained.json("plan")
    job = next(r for r in plan["resources"] if r["kind"] == "job")
    assert job["action"] == "create" and "step_5" in job["note"]
    done = trained.run("apply", "--yes", "--wait", "--json", timeout=400)
    assert done.returncode == 0, done.stdout[-2000:]
    rows = trained.json("metrics")["rows"]
    assert [row["step"] for row in rows] == list(range(1, 31))


def _wait_for_step(walk: CliHarness, step: int) -> None:
    until = time.monotonic() + 180
    while not any(row["step"] >= step for row in walk.json("metrics")["rows"]):
        assert time.monotonic() < until
        time.sleep(0.5)


def test_nothing_of_ours_is_left_after_the_end(trained: CliHarness) -> None:
    """Last of the file: it takes everything down."""
    assert trained.events("destroy", "--confirm", NAME, "--json")[-1]["ok"]
    emulator_process.stop(trained.home)
    left = []
    for process in psutil.process_iter():
        try:
            if (
                str(trained.home) in " ".join([*process.cmdline(), *process.environ().values()])
                and process.pid != os.getpid()
            ):
                left.append(process.cmdline())
        except psutil.Error:
            continue
    assert left == []
