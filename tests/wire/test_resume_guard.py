"""A checkpoint folder that is full: said in the plan, refused by apply, and by the job's own driver before it submits."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import JSON, NAME, CliHarness, DeploymentRecord, cli_harness

from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.ray.job_driver import JobDriver, no_steps_left_reason
from grpo_wizard.steps.engine.refresh import resource_context
from grpo_wizard.steps.jobs.watch import job_resource
from grpo_wizard.steps.training.checkpoints import CheckpointListing
from grpo_wizard.tui.commands._session import open_session

FOLDER = "nemo_rl_gemma3_27b"


@pytest.fixture(scope="module")
def walk(deployed: DeploymentRecord, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliHarness]:
    """All resources up to the RayCluster; no Ray behind it, and no job."""
    home = deployed.copy(tmp_path_factory.mktemp("full") / "home")
    with cli_harness(home) as found:
        yield found


def _lustre(walk: CliHarness) -> Path:
    [folder] = (walk.home / "rehearsal" / "kube" / "lustre").iterdir()
    return folder


def _save(walk: CliHarness, step: int) -> None:
    for name in ("training_info.json", "train_dataloader.pt", "policy/weights/.metadata"):
        path = _lustre(walk) / FOLDER / f"step_{step}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def _create(walk: CliHarness) -> None:
    session = open_session(
        argparse.Namespace(home=str(walk.home), deployment=NAME, rehearse=True, speed=None)
    )
    JobDriver().create(session.cloud, resource_context(session, job_resource(session), {}))


def _job(walk: CliHarness, code: int = 0) -> JSON:
    found: JSON = next(r for r in walk.json("plan", code=code)["resources"] if r["kind"] == "job")
    return found


def test_a_half_full_folder_is_no_obstacle(walk: CliHarness) -> None:
    _save(walk, 9)
    assert _job(walk)["action"] == "create"


def test_a_full_folder_is_a_conflict_in_the_plan_and_apply_sends_nothing(walk: CliHarness) -> None:
    _save(walk, 10)
    job = _job(walk, code=1)
    assert job["action"] == "conflict" and "already holds step_10" in job["note"]
    assert "Raise grpo.max_num_steps" in job["note"]
    before = len(walk.server.recorded_requests())
    [failure] = walk.events("apply", "--yes", "--json", code=1)[-1]["failed"]
    assert failure["id"] == f"grpo.job.{FOLDER.replace('_', '-')}" and "no step is left" in failure["detail"]
    assert walk.mutating_requests(before) == []


def test_the_driver_refuses_too_for_a_head_that_was_not_there_when_the_plan_was_made(
    walk: CliHarness,
) -> None:
    with pytest.raises(CloudError) as refused:
        _create(walk)
    assert (refused.value.kind, refused.value.transient) == ("conflict", False)
    assert "another grpo.checkpoint_dir" in refused.value.fix


@pytest.mark.parametrize(
    "latest,last,full", [(None, 10, False), (9, 10, False), (10, 10, True), (11, 10, True)]
)
def test_the_boundary(latest: int | None, last: int, full: bool) -> None:
    listing = CheckpointListing([], latest, latest)
    assert bool(no_steps_left_reason(listing, {"max_num_steps": last, "checkpoint_dir": "/data/x"})) == full


def test_another_folder_goes_on(walk: CliHarness) -> None:
    assert walk.run("init", "--set", "grpo.checkpoint_dir=/data/second").returncode == 0
    assert _job(walk)["action"] == "create"
