"""A project that is not there, and APIs that are off: one cause is said once, under its own name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from check_harness import CheckHarness, answers, blocking_texts, check_harness
from cli_harness import cli_harness

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.core.cloud_reader import CloudReader
from grpo_wizard.steps.engine.preflight import Pending, blocking, fold_pending, inconclusive, run_check
from grpo_wizard.steps.project.permissions import APIS, PERMISSIONS
from grpo_wizard.steps.registry import step

NOWHERE, BARE = "acme-rl-lab", "bare-project"
_ABOUT: dict[str, Any] = {
    "project": BARE,
    "region": "us-central1",
    "zone": "us-central1-b",
    "name": "x",
    "wanted": tuple(PERMISSIONS),
    "constraint": "compute.requireShieldedVm",
    "family": "NVIDIA_B200",
    "block": "b",
    "sub_block": "s",
    "quota": "GPUS-PER-GPU-FAMILY-per-project-region",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckHarness]:
    with check_harness(tmp_path_factory.mktemp("nowhere") / "home", []) as made:
        made.server.enable("cloudresourcemanager.googleapis.com")
        status, _ = made.server.call("POST", "/cloudresourcemanager/v3/projects", {"projectId": BARE})
        assert status == 200
        yield made


def test_a_project_that_is_not_there_is_the_only_block_and_the_rest_waits_for_it(world: CheckHarness) -> None:
    found = world.check(project__project_id=NOWHERE)
    assert set(blocking_texts(found)) == {"project.project"}
    text = blocking_texts(found)["project.project"]
    assert f"Project {NOWHERE} was not found" in text and "the rehearsal project is my-project" in text
    waiting = inconclusive(found)
    assert len(waiting) > 20 and {one.pending for one in waiting} == {Pending("project")}
    assert fold_pending(found)[1] == [f"{len(waiting)} checks will run once the project exists."]
    assert not [one for one in found if "Could not be checked" in one.finding.detail]
    assert not [one for one in found if "grpo-wizard check" in one.finding.fix]


def test_a_project_to_be_created_blocks_nothing_and_stays_unanswered_until_it_is_there(
    world: CheckHarness,
) -> None:
    """The gate before anything billable asks again: it must see that these checks have not run."""
    found = world.check(
        project__project_id=NOWHERE,
        project__create_project=True,
        project__billing_account="012345-567890-ABCDEF",
    )
    assert blocking(found) == [] and len(inconclusive(found)) > 20


def test_what_asks_nothing_of_the_project_does_not_wait_for_its_name(world: CheckHarness) -> None:
    """While answers are still given, the project may be unnamed."""
    given = answers().without(["project.project_id"])
    place = next(check for check in step("project").checks if check.id == "place")
    found = run_check("project", place, given, CachedCloudReader(world.cloud()))
    assert [one.finding.level for one in found] == ["pass"]


def test_a_project_that_is_there_has_every_check_of_its_own(world: CheckHarness) -> None:
    assert "networks.profile" in {one.id for one in world.check()}


def test_every_question_whose_api_is_off_names_the_api_by_its_service(world: CheckHarness) -> None:
    asks, off = CachedCloudReader(world.cloud()), set[str]()
    for name, question in vars(CloudReader).items():
        wanted = inspect.signature(question).parameters if inspect.isfunction(question) else {}
        if "project" not in wanted:
            continue
        about = _ABOUT | {"location": "us-central1-b" if "lustre" in name else "us-central1"}
        try:
            getattr(asks, name)(**{key: about[key] for key in wanted if key != "self"})
        except WizardError as error:
            if getattr(error, "kind", "") == "api_disabled":
                service = getattr(error, "service", "")
                assert service in error.title and service in APIS, (name, error.title)
                assert error.command == f"gcloud services enable {service} --project={about['project']}"
                off.add(name)
    assert {"lustre_zones", "lustre_instances", "gke_versions", "networks"} <= off


def test_plan_names_the_project_that_is_not_there(tmp_path: Any) -> None:
    with cli_harness(tmp_path / "home") as walk:
        walk.init("--set", f"project.project_id={NOWHERE}")
        done = walk.run("plan")
        assert done.returncode != 0
        assert "Project not found" in done.stderr and f"Project {NOWHERE} was not found" in done.stderr
        assert "set project.create_project=true" in done.stderr and "googleapis.com" not in done.stderr
