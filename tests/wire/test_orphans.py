"""Resources whose answers have changed since: they are read, and deleted, from what the state recorded of them alone."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator

import pytest
from cli_harness import JSON, NAME, CliHarness, DeploymentRecord, cli_harness

from grpo_wizard.steps.clients.driver import ResourceContext
from grpo_wizard.steps.clients.ray.job_driver import OWNER_KEY, JobDriver
from grpo_wizard.steps.clients.ray.jobs_api import Job
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.deployment.session import Session, resource_from_record
from grpo_wizard.steps.engine.refresh import refresh
from grpo_wizard.tui.commands._session import open_session


@pytest.fixture(scope="module")
def walk(deployed: DeploymentRecord, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliHarness]:
    """All resources up to the RayCluster; no Ray behind it, and no job."""
    home = deployed.copy(tmp_path_factory.mktemp("orphans") / "home")
    with cli_harness(home) as found:
        yield found


@pytest.fixture
def session(walk: CliHarness) -> Session:
    return open_session(argparse.Namespace(home=str(walk.home), deployment=NAME, rehearse=True, speed=None))


def test_every_recorded_resource_can_be_read_from_its_record(session: Session) -> None:
    recorded = [resource_from_record(record) for record in session.deployment.resources.values()]
    assert {r.kind for r in recorded} >= {"cluster", "peering", "raycluster", "secret", "pvc"}
    observed = asyncio.run(refresh(session, recorded, strict=True))
    assert {r.id: observed[r.id].state for r in recorded} == {r.id: "ready" for r in recorded}


def test_a_renamed_raycluster_is_planned_as_one_to_create_and_one_to_delete(walk: CliHarness) -> None:
    assert walk.run("init", "--set", "raycluster.raycluster_name=other").returncode == 0
    rows: dict[str, JSON] = {row["id"]: row for row in walk.json("plan")["resources"]}
    assert rows["raycluster.raycluster.other"]["action"] == "create"
    [old] = [row for row in rows.values() if row["kind"] == "raycluster" and row["action"] == "delete"]
    assert old["id"] in rows and not any(row["action"] == "conflict" for row in rows.values())


def test_a_job_that_the_answers_no_longer_name_is_the_one_on_record_alone() -> None:
    old, new, foreign = (
        Job(id, "RUNNING", "python train.py", metadata={OWNER_KEY: owner})
        for id, owner in (("grpo-old", "ours"), ("grpo-new", "ours"), ("grpo-else", "theirs"))
    )
    resource = Resource(step="grpo", kind="job", name="old-folder", spec={})
    orphan = ResourceContext(resource, {}, "", "ours", recorded={"job_id": "grpo-old"})
    driver = JobDriver()
    assert driver._matching_jobs(orphan, [new, old, foreign]) == [old]
    assert driver._matching_jobs(orphan, [new, foreign]) == []
    configured = ResourceContext(resource, {"entrypoint": "python train.py"}, "", "ours")
    assert driver._matching_jobs(configured, [new, old, foreign]) == [new, old]
    observed = driver._observed_state(orphan, old, True)
    assert (observed.state, observed.identity, observed.drift) == ("ready", "grpo-old", ())
