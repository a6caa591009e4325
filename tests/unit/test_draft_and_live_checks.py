"""The answers while they are edited, and the checks that run beside them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from sample_answers import TUTORIAL
from textual.app import App
from textual.screen import Screen

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.home import Home
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.core.cloud_reader import CloudReader
from grpo_wizard.steps.core.model import Check, CheckFinding
from grpo_wizard.steps.registry import STEP_NAMES, step
from grpo_wizard.tui.controllers.deployment import DeploymentController
from grpo_wizard.tui.controllers.draft import Draft
from grpo_wizard.tui.controllers.live_checks import LiveChecks

COMPLETE = {name: dict(TUTORIAL.get(name, {})) for name in STEP_NAMES}


def _draft(home: Path, saved: dict[str, dict[str, Any]] | None = None, **prefill: dict[str, Any]) -> Draft:
    store = StateStore(Home(home))
    return Draft(store, store.create("nemo", "rehearsal", saved or {}), prefill)


# --- Draft


@pytest.mark.parametrize(
    ("field", "raw", "value", "error"),
    [
        ("network", "other-net", "other-net", ""),
        ("network", "My-Net", None, "lowercase letters"),
        ("network", "", None, "!"),
    ],
)
def test_set_takes_or_rejects_a_value(
    field: str, raw: str, value: str | None, error: str, tmp_path: Path
) -> None:
    draft = _draft(tmp_path, COMPLETE)
    message = draft.set("networks", step("networks").field(field), raw)
    assert error.strip("!") in message and bool(message) is bool(error)
    answers, missing = draft.validate()
    assert getattr(answers.networks, field, None) == value if value else f"networks.{field}" in missing
    assert draft.value("networks", step("networks").field(field)) == raw, "the input stays in the field"


@pytest.mark.parametrize(
    ("saved", "invalid", "expected"),
    [
        ({}, False, "todo"),
        ({"networks": {}}, False, "done"),
        ({"networks": {}}, True, "block"),
        ({}, True, "block"),
        ({"quotas": {}}, False, "todo"),
    ],
)
def test_step_status(saved: dict[str, dict[str, Any]], invalid: bool, expected: str, tmp_path: Path) -> None:
    draft = _draft(tmp_path, saved)
    if invalid:
        draft.set("networks", step("networks").field("network"), "My-Net")
    assert draft.step_status("networks") == expected


def test_a_visited_step_with_a_missing_answer_blocks(tmp_path: Path) -> None:
    draft = _draft(tmp_path, {"project": {}})
    assert draft.step_status("project") == "block" and "project_id" in draft.errors_in("project")


def test_save_keeps_only_what_differs_from_a_default_or_was_prefilled(tmp_path: Path) -> None:
    draft = _draft(tmp_path, project={"project_id": "my-project", "region": "us-central1"})
    networks = step("networks")
    default = networks.field("network").default
    assert isinstance(default, str)
    draft.set("networks", networks.field("network"), default)
    draft.set("networks", networks.field("rdma_prefix"), "other")
    draft.save_step("networks", "cluster")
    draft.save_step("project", "cluster")
    saved = StateStore(Home(tmp_path)).load("nemo")
    assert saved.answers["networks"] == {"rdma_prefix": "other"} and saved.place == "cluster"
    assert saved.answers["project"]["project_id"] == "my-project"


def test_a_derived_default_follows_its_source_until_it_is_set(tmp_path: Path) -> None:
    draft = _draft(tmp_path, COMPLETE)
    quotas = step("quotas")
    assert draft.value("quotas", quotas.field("machine_type")) == "a4-highgpu-8g"
    draft.set("quotas", quotas.field("gpu_type"), "nvidia-h200-141gb")
    assert draft.value("quotas", quotas.field("machine_type")) == "a3-ultragpu-8g"


@pytest.mark.parametrize(
    ("raw", "is_set", "error"),
    [("hf_abcdefghijklmnopqrstuvwxyz", True, ""), ("", False, ""), ("has spaces in it", False, "!")],
)
def test_a_secret_is_kept_apart_and_never_saved(raw: str, is_set: bool, error: str, tmp_path: Path) -> None:
    draft = _draft(tmp_path, COMPLETE)
    message = draft.set("project", step("project").field("hf_token"), raw)
    assert bool(message) is bool(error) and ("hf_token" in draft.secrets) is is_set
    draft.save_step("project", "project")
    state = (tmp_path / "deployments" / "nemo" / "state.json").read_text()
    assert not raw or raw not in state + repr(draft.invalid_values)


@pytest.mark.parametrize(
    ("place", "visited", "expected"),
    [
        ("", (), "project"),
        ("lustre", ("project",), "lustre"),
        ("", ("project", "quotas"), "networks"),
        ("run", STEP_NAMES, "review"),
    ],
)
def test_resume_screen(place: str, visited: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    draft = _draft(tmp_path, {name: {} for name in visited})
    draft.deployment.place = place
    assert draft.resume_screen() == expected


# --- LiveChecks


class _Controller(DeploymentController):
    """Its cloud refuses every connection: the checks of these tests read none. `error`: what opening it raises."""

    error: WizardError | None = None

    async def cloud_reader(self, refresh: bool = False) -> CachedCloudReader:
        if self.error is not None:
            raise self.error
        credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
        cloud = CloudContext("rehearsal", credentials, "me@example.com", "http://127.0.0.1:9", "token", 1.0)
        return CachedCloudReader(cloud, "gours12345")


class _StepScreen(Screen[None]):
    """What LiveChecks needs of a screen: workers, a controller, and to be told of findings."""

    def __init__(self, controller: DeploymentController, *checks: Check) -> None:
        super().__init__()
        self.controller = controller
        self.shown = 0
        self.checks = LiveChecks(self, replace(step("networks"), checks=checks))  # type: ignore[arg-type]

    def show_findings(self) -> None:
        self.shown += 1


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[_Controller]:
    StateStore(Home(tmp_path)).create("nemo", "rehearsal", COMPLETE)
    opened = _Controller(Home(tmp_path), "nemo", {}, "max")
    yield opened
    opened.release_lock()


def _run(screen: _StepScreen, act: Any) -> None:
    async def main() -> None:
        app: App[None] = App()
        async with app.run_test() as pilot:
            await app.push_screen(screen)
            await act(pilot)

    asyncio.run(main())


async def _settle(pilot: Any, screen: _StepScreen) -> None:
    for _ in range(400):
        if screen.checks.is_settled:
            return
        await pilot.pause(0.02)
    raise AssertionError("the checks did not settle")


def _check(id: str, *findings: CheckFinding, error: WizardError | None = None, **more: Any) -> Check:
    def run(answers: Answers, reader: CloudReader) -> list[CheckFinding]:
        if error is not None:
            raise error
        return list(findings)

    return Check(id=id, title=id.title(), run=run, **more)


def _api_disabled() -> CloudError:
    error = CloudError("api_disabled", "The API is disabled")
    error.service = "compute.googleapis.com"
    return error


def test_findings_are_pending_first_then_those_of_the_checks(controller: _Controller) -> None:
    screen = _StepScreen(controller, _check("quota", CheckFinding("block", "Quota", "0 left", "Ask.")))

    async def act(pilot: Any) -> None:
        screen.checks.run_all()
        assert [(row.level, row.title) for row in screen.checks.findings()] == [("look", "Quota")]
        assert not screen.checks.is_settled
        await _settle(pilot, screen)
        [row] = screen.checks.findings()
        assert (row.level, row.title, row.detail, row.fix) == ("block", "Quota", "0 left", "Ask.")

    _run(screen, act)


def test_checks_that_wait_for_an_api_share_one_row_and_offer_to_enable_it(controller: _Controller) -> None:
    waiting = [_check(f"c{n}", error=_api_disabled()) for n in range(3)]
    screen = _StepScreen(controller, *waiting, _check("ok", CheckFinding("pass", "Ok")))

    async def act(pilot: Any) -> None:
        screen.checks.run_all()
        await _settle(pilot, screen)
        rows = screen.checks.findings()
        assert [row.level for row in rows] == ["pass", "info"]
        assert rows[1].title.startswith("3 checks")
        assert screen.checks.needs_apis
        screen.checks.set_activity("Enabling the APIs")
        assert not screen.checks.needs_apis and screen.checks.findings()[0].title == "Enabling the APIs"

    _run(screen, act)


def test_an_error_of_the_cloud_is_one_row(controller: _Controller) -> None:
    controller.error = WizardError("The credentials have expired", "", "Sign in.", "gcloud auth login")
    screen = _StepScreen(controller, _check("a"), _check("b"))

    async def act(pilot: Any) -> None:
        screen.checks.run_all()
        await _settle(pilot, screen)
        [row] = screen.checks.findings()
        assert (row.level, row.title, row.fix) == (
            "block",
            "The credentials have expired",
            "gcloud auth login",
        )
        controller.error = None
        screen.checks.run_all()
        await _settle(pilot, screen)
        assert screen.checks.findings() == []

    _run(screen, act)


def test_only_the_newest_run_of_a_check_counts(controller: _Controller) -> None:
    first_may_end, calls = threading.Event(), list[int]()

    def run(answers: Answers, reader: CloudReader) -> list[CheckFinding]:
        calls.append(len(calls))
        number = calls[-1]
        if number == 0:
            first_may_end.wait(10)
        return [CheckFinding("block" if number == 0 else "pass", f"Run {number}")]

    screen = _StepScreen(
        controller, Check(id="c", title="C", run=run, needs=lambda answers: answers.networks.network)
    )

    async def act(pilot: Any) -> None:
        screen.checks.run_all()
        while not calls:
            await pilot.pause(0.02)
        screen.checks.mark_stale({"networks.network"})
        assert not screen.checks.is_settled
        screen.checks.run_all()
        await _settle(pilot, screen)
        first_may_end.set()
        await pilot.pause(0.2)
        assert [row.title for row in screen.checks.findings()] == ["Run 1"]

    try:
        _run(screen, act)
    finally:
        first_may_end.set()


def test_mark_stale_touches_only_checks_that_need_the_field(controller: _Controller) -> None:
    kept = _check("kept", CheckFinding("pass", "Kept"), needs=lambda answers: answers.networks.rdma_prefix)
    stale = _check("stale", CheckFinding("pass", "Stale"), needs=lambda answers: answers.networks.network)
    screen = _StepScreen(controller, kept, stale)

    async def act(pilot: Any) -> None:
        screen.checks.run_all()
        await _settle(pilot, screen)
        screen.checks.mark_stale({"networks.network"})
        assert [row.level for row in screen.checks.findings()] == ["pass", "look"]

    _run(screen, act)
