"""The view models of Review, of the lanes of Run, and of failures: tables of what is shown for which input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from decision_samples import a_resource, observed
from sample_answers import TUTORIAL

from grpo_wizard.state.home import Home
from grpo_wizard.state.lock import Lock
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.core.model import Check, CheckFinding
from grpo_wizard.steps.engine.options import ApplyOptions
from grpo_wizard.steps.engine.plan import Decision
from grpo_wizard.steps.engine.preflight import CheckResult
from grpo_wizard.steps.registry import STEP_NAMES
from grpo_wizard.tui.controllers.deployment import DeploymentController
from grpo_wizard.tui.style.theme import DARK
from grpo_wizard.tui.viewmodels.failures import group_by_cause, join_names
from grpo_wizard.tui.viewmodels.lanes import lane_groups, lane_key
from grpo_wizard.tui.viewmodels.review import (
    ReviewOptions,
    ReviewRow,
    launch_blocker,
    review_rows,
    toggle_difference,
)

POOL = a_resource("node_pool", "gpu-pool", "cluster")
POOL_ID = "cluster.node_pool.gpu-pool"


def _decision(action: Any, note: str = "") -> Decision:
    return Decision(POOL, action, observed(), "none", note)


def _result(level: Any, title: str = "GPU quota", detail: str = "", fix: str = "") -> CheckResult:
    check = Check(id="quota", title=title, run=lambda answers, reader: ())
    return CheckResult("quotas", check, CheckFinding(level, title, detail, fix))


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[DeploymentController]:
    home = Home(tmp_path)
    StateStore(home).create("nemo", "rehearsal", {name: dict(TUTORIAL.get(name, {})) for name in STEP_NAMES})
    opened = DeploymentController(home, "nemo", {}, "max")
    yield opened
    opened.release_lock()


def _rows(
    controller: DeploymentController,
    decisions: Sequence[Decision] | None = (),
    results: Sequence[CheckResult] | None = (),
    options: ReviewOptions | None = None,
) -> list[ReviewRow]:
    return review_rows(
        controller.draft, decisions, results, options or ReviewOptions(), controller.price_book
    )


# --- Review


def test_review_shows_a_line_per_step_and_marks_invalid_answers(controller: DeploymentController) -> None:
    controller.draft.invalid_values["networks.network"] = ("My-Net", "lowercase letters only")
    rows = {row.key: row for row in _rows(controller) if row.key in STEP_NAMES}
    assert list(rows) == list(STEP_NAMES)
    assert {name: row.status for name, row in rows.items()} == {
        name: "block" if name == "networks" else "done" for name in STEP_NAMES
    }
    assert rows["networks"].body == "missing or invalid: Network"
    assert rows["project"].body.startswith("my-project · us-central1")


@pytest.mark.parametrize(
    ("decisions", "key", "title", "body"),
    [
        ([_decision("adopt")], "adopt", "Adopt 1 matching resource", "gpu-pool"),
        ([_decision("replace", "spec differs")], "replace", "Replace node_pool gpu-pool", "spec differs"),
        ([_decision("conflict", f"differs; --replace {POOL_ID}")], "replace", "Replace node_pool", "differs"),
        ([_decision("conflict", "belongs to another")], "cluster", "conflict", "node_pool gpu-pool belongs"),
    ],
)
def test_review_shows_existing_resources(
    decisions: list[Decision], key: str, title: str, body: str, controller: DeploymentController
) -> None:
    rows = _rows(controller, decisions)
    start = next(n for n, row in enumerate(rows) if row.title == "Existing resources")
    row = rows[start + 1]
    assert (row.key, row.title[: len(title)], row.body[: len(body)]) == (key, title, body)


def test_review_lists_blocking_findings_first_with_their_fix(controller: DeploymentController) -> None:
    results = [
        _result("pass"),
        _result("warn", "Token"),
        _result("block", "GPU quota", "8 of 16 left", "Request more."),
    ]
    rows = _rows(controller, results=results)
    start = next(n for n, row in enumerate(rows) if row.title == "Check findings")
    first, second, override = rows[start + 1 : start + 4]
    assert (first.status, first.body) == ("block", "GPU quota: 8 of 16 left → Request more.")
    assert (second.status, second.body) == ("warn", "Token")
    assert (override.key, override.enabled) == ("anyway", False)
    assert next(row for row in rows if row.key == "quotas").status == "block"


def test_review_without_findings_has_no_such_heading(controller: DeploymentController) -> None:
    for results in (None, [_result("pass"), _result("info")]):
        assert "Check findings" not in [row.title for row in _rows(controller, results=results)]


@pytest.mark.parametrize(
    ("decisions", "results", "options", "reason"),
    [
        (None, None, ReviewOptions(), "reading cloud resources…"),
        ([], None, ReviewOptions(), "reading cloud resources…"),
        ([], [], ReviewOptions(), ""),
        ([_decision("create")], [_result("warn")], ReviewOptions(), ""),
        ([_decision("conflict", "taken")], [], ReviewOptions(), "conflict: gpu-pool taken"),
        ([_decision("adopt")], [], ReviewOptions(), "Some resources already exist."),
        ([_decision("adopt")], [], ReviewOptions(adopt=True), ""),
        ([], [_result("block", detail="0 left")], ReviewOptions(), "check failed: GPU quota: 0 left"),
        ([], [_result("block"), _result("block")], ReviewOptions(), "check failed: GPU quota (and 1 more)"),
        ([], [_result("block")], ReviewOptions(skip_checks=True), ""),
    ],
)
def test_launch_blocker(
    decisions: list[Decision] | None,
    results: list[CheckResult] | None,
    options: ReviewOptions,
    reason: str,
    controller: DeploymentController,
) -> None:
    found = launch_blocker(controller, decisions, results, options)
    assert found.startswith(reason) and bool(found) is bool(reason)


def test_launch_blocker_names_missing_answers_before_anything_else(controller: DeploymentController) -> None:
    controller.draft.invalid_values["quotas.reservation"] = ("-", "a name")
    assert launch_blocker(controller, None, None, ReviewOptions()) == "missing or invalid: Reservation"


def test_launch_blocker_names_the_process_that_holds_the_lock(controller: DeploymentController) -> None:
    controller.release_lock()
    with Lock(controller.home, "nemo", "grpo-wizard apply --yes"):
        second = DeploymentController(controller.home, "nemo", {}, "max")
        reason = launch_blocker(second, [], [], ReviewOptions())
    assert reason.startswith("locked by grpo-wizard apply --yes (process ")


def test_review_options_toggle_and_become_options_of_apply() -> None:
    options = ReviewOptions()
    replace = ReviewRow("replace", "", target=(POOL_ID, None))
    for row in (ReviewRow("adopt", ""), ReviewRow("anyway", ""), replace):
        options.toggle(row)
    assert options.apply_options() == ApplyOptions(adopt=True, replace=(POOL_ID,), skip_checks=True)
    for row in (ReviewRow("adopt", ""), ReviewRow("anyway", ""), replace):
        options.toggle(row)
    assert options.apply_options() == ApplyOptions()


def test_toggle_difference_sets_the_tutorials_value_and_back(controller: DeploymentController) -> None:
    def version() -> Any:
        return controller.draft.validate()[0].cluster.version

    def row() -> ReviewRow:
        return next(r for r in _rows(controller) if r.target == ("cluster.version", ""))

    default = version()
    assert default and row().enabled
    toggle_difference(controller.draft, row())
    assert version() == "" and row().enabled is False
    assert StateStore(controller.home).load("nemo").answers["cluster"]["version"] == ""
    toggle_difference(controller.draft, row())
    assert version() == default and row().enabled


@pytest.mark.parametrize("width", [40, 76, 116])
def test_review_row_text_fits_the_width_and_keeps_its_status(width: int) -> None:
    colours = {"muted": "white", "success": DARK.success, "error": DARK.error, "secondary": "white"}
    for row in (
        ReviewRow("project", "Project", "my-project · " * 12, "done"),
        ReviewRow("adopt", "Adopt 3 matching resources", "a, b, c, " * 12, enabled=True),
        ReviewRow("", "Check findings"),
    ):
        text = row.text(colours, width)
        assert text.cell_len <= width
        assert not row.status or text.plain.endswith("✓ done")


# --- lanes


@pytest.mark.parametrize(
    ("id", "key"),
    [
        ("project.api.compute.googleapis.com", "project"),
        ("networks.network.nemo-net", "networks"),
        ("lustre.peering.nemo-net", "peering"),
        ("lustre.lustre.nemo-lustre", "lustre"),
        ("lustre.pvc.lustre-pvc", "volume"),
        ("cluster.cluster.nemo-cluster", "cluster"),
        ("cluster.node_pool.gpu-pool", "pool"),
        ("cluster.daemonset.installer", "devices"),
        ("raycluster.secret.tokens", "access"),
        ("raycluster.raycluster.ray", "raycluster"),
        ("grpo.job.nemo", "job"),
    ],
)
def test_lane_key(id: str, key: str) -> None:
    assert lane_key(id) == key
    assert key in {group.key for group in lane_groups()}


def test_lane_title_has_the_name_of_one_resource_and_the_number_of_several() -> None:
    group = next(group for group in lane_groups() if group.key == "pool")
    assert group.title([POOL]) == "GPU pool gpu-pool"
    assert group.title([POOL, POOL]) == "2 node pools"


# --- failures


@pytest.mark.parametrize(
    ("entries", "groups"),
    [
        ([], []),
        ([("a", "quota")], [["a"]]),
        ([("a", "quota"), ("b", "quota")], [["a", "b"]]),
        ([("a", "quota"), ("b", "denied"), ("c", "quota")], [["a", "c"], ["b"]]),
    ],
)
def test_group_by_cause_keeps_the_order_of_first_occurrence(
    entries: list[tuple[str, str]], groups: list[list[str]]
) -> None:
    found = group_by_cause(entries, lambda entry: entry[1])
    assert [[name for name, _cause in group] for group in found] == groups


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b", "c"], "a, b, c"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
    ],
)
def test_join_names(names: list[str], text: str) -> None:
    assert join_names(names) == text
