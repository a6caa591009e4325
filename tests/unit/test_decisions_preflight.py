"""What a check that could not run means: what blocks, what waits, what only warns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from decision_samples import a_session
from http_responder import error, http_responder
from sample_answers import answers

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.core.model import Check, CheckFinding
from grpo_wizard.steps.engine.preflight import (
    CheckResult,
    Pending,
    _pending_failure,
    blocking,
    fold_pending,
    inconclusive,
    preflight_gate,
    run_check,
    run_checks,
)
from grpo_wizard.steps.registry import step

ANSWERS = answers()
PROJECT = {"GET /v3/projects/my-project": (200, {"name": "projects/123", "state": "ACTIVE"})}
NETWORKS = {
    f"GET /projects/{id}/global/networks": (200, {"items": [{"name": "one"}]})
    for id in ("my-project", "another")
}
DENIED = error(403, "The caller does not have permission", "forbidden")
EMPTY: dict[str, Any] = {}
Run = Callable[[Any, CachedCloudReader], Sequence[CheckFinding]]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Callable[..., CachedCloudReader]]:
    """Makes what checks read the cloud through, from documents that a server on loopback answers with."""
    with ExitStack() as stack:

        def connect(**documents: Any) -> CachedCloudReader:
            server = stack.enter_context(http_responder({**NETWORKS, **documents}))
            return CachedCloudReader(a_session(tmp_path / server.url[-5:], ANSWERS, server.url).cloud)

        yield connect


def _lists_networks(project: str = "my-project") -> Run:
    return lambda answers, cloud: [
        CheckFinding("pass", f"Networks {[one.name for one in cloud.networks(project=project)]}")
    ]


def _fails(error: WizardError) -> Run:
    def run(answers: Any, cloud: Any) -> list[CheckFinding]:
        raise error

    return run


def _reports(*findings: CheckFinding) -> Run:
    return lambda answers, cloud: list(findings)


def _check(run: Run, id: str = "quota") -> Check:
    return Check(id=id, title="GPU quota", run=run)  # type: ignore[arg-type]


def _only(found: list[CheckResult]) -> CheckFinding:
    [result] = found
    return result.finding


@pytest.mark.parametrize(
    "kind,level,title",
    [
        ("auth", "block", "Sign-in"),
        ("clock", "block", "System clock"),
        ("quota_project", "block", "Quota project"),
        ("billing", "block", "Billing"),
        ("api_disabled", "info", "GPU quota"),
        ("denied", "warn", "GPU quota"),
        ("transient", "warn", "GPU quota"),
        ("refused", "warn", "GPU quota"),
        ("not_found", "warn", "GPU quota"),
    ],
)  # fmt: skip
def test_what_an_error_of_the_cloud_means_for_a_check(reader: Any, kind: str, level: str, title: str) -> None:
    error = CloudError(
        kind, "the title", "the detail", "the fix", "the command", service="lustre.googleapis.com"
    )
    found = run_check("quotas", _check(_fails(error)), ANSWERS, reader())
    finding = _only(found)
    assert (finding.level, finding.title) == (level, title)
    assert bool(blocking(found)) == (level == "block") and bool(inconclusive(found)) == (level == "info")
    if level == "block":
        assert (finding.detail, finding.fix) == ("the title. the detail.", "the command")
    if level == "info":
        assert (
            finding.detail == "Waiting for lustre.googleapis.com, which apply will enable."
            and not finding.fix
        )
    if level == "warn":
        assert finding.detail == "Could not be checked: the title. the detail."
        assert finding.fix == ("" if kind == "denied" else "the fix")


def test_an_error_without_a_kind_warns_and_one_without_a_command_names_its_fix(reader: Any) -> None:
    finding = _only(
        run_check("quotas", _check(_fails(WizardError("the title", "", "the fix"))), ANSWERS, reader())
    )
    assert (finding.level, finding.detail, finding.fix) == (
        "warn",
        "Could not be checked: the title.",
        "the fix",
    )
    blocked = run_check(
        "quotas", _check(_fails(CloudError("auth", "no sign-in", "", "sign in"))), ANSWERS, reader()
    )
    assert _only(blocked).fix == "sign in"


@pytest.mark.parametrize(
    "documents,run,level",
    [
        (PROJECT, _lists_networks(), "pass"),
        ({"GET /v3/projects/my-project": DENIED}, _lists_networks(), "info"),
        (EMPTY, _lists_networks(), "info"),
        (EMPTY, _lists_networks("another"), "pass"),
        (EMPTY, _reports(CheckFinding("pass", "no question")), "pass"),
        ({"GET /v3/projects/my-project": error(500, "backend error")}, _lists_networks(), "pass"),
        (EMPTY, lambda answers, cloud: [CheckFinding("pass", f"{cloud.project(project='my-project')}")], "pass"),
    ],
    ids=["exists", "may not be seen", "missing", "another project's", "asks nothing", "unknown", "the project's own check"],
)  # fmt: skip
def test_what_a_missing_project_answers_counts_for_nothing(
    reader: Any, documents: dict[str, Any], run: Run, level: str
) -> None:
    found = run_check("quotas", _check(run), ANSWERS, reader(**documents))
    assert _only(found).level == level and bool(inconclusive(found)) == (level == "info")


def _run(steps: dict[str, list[Check]], reader: CachedCloudReader) -> list[CheckResult]:
    listed = [replace(step(name), checks=checks) for name, checks in steps.items()]
    return asyncio.run(run_checks(listed, ANSWERS, reader))


def test_results_come_in_the_order_of_the_steps(reader: Any) -> None:
    both = _reports(CheckFinding("pass", "one"), CheckFinding("warn", "two"))
    found = _run(
        {"project": [_check(both, "x")], "quotas": [_check(_lists_networks(), "y")]}, reader(**PROJECT)
    )
    assert [(result.id, result.finding.title) for result in found] == [
        ("project.x", "one"),
        ("project.x", "two"),
        ("quotas.y", "Networks ['one']"),
    ]
    assert found[1].to_json() == {
        "id": "project.x",
        "step": "project",
        "level": "warn",
        "title": "two",
        "detail": "",
        "fix": "",
    }


def test_one_cause_that_blocks_several_checks_is_reported_once(reader: Any) -> None:
    expired = _fails(CloudError("auth", "no sign-in", "", "sign in"))
    other = _reports(CheckFinding("block", "no sign-in", detail="", fix="another fix"))
    steps = {"project": [_check(expired, "x"), _check(other, "y")], "quotas": [_check(expired, "z")]}
    assert [result.id for result in _run(steps, reader())] == ["project.x", "project.y"]


def test_findings_of_one_check_are_all_reported_though_their_fix_is_the_same(reader: Any) -> None:
    both = _reports(
        CheckFinding("block", detail="No Ray operator.", fix="Use another."),
        CheckFinding("block", detail="No Dataplane V2.", fix="Use another."),
    )
    found = _run({"cluster": [_check(both)]}, reader())
    assert [result.finding.detail for result in found] == ["No Ray operator.", "No Dataplane V2."]
    assert {result.finding.title for result in found} == {"GPU quota"}  # the check's own


def test_the_same_warning_of_two_checks_is_reported_twice(reader: Any) -> None:
    warning = _reports(CheckFinding("warn", "low", detail="", fix="raise it"))
    blocked = _reports(CheckFinding("block", "low", detail="", fix="raise it"))
    found = _run({"quotas": [_check(warning, "x"), _check(warning, "y")]}, reader())
    assert [result.id for result in found] == ["quotas.x", "quotas.y"]
    mixed = _run({"quotas": [_check(blocked, "x"), _check(warning, "y")]}, reader())
    assert [result.finding.level for result in mixed] == ["block", "warn"]


def test_checks_that_wait_for_the_project_keep_an_entry_each_and_fold_into_one_line(reader: Any) -> None:
    free, waits = _reports(CheckFinding("pass", "free")), _lists_networks()
    steps = {
        "project": [_check(free, "first"), _check(waits, "x"), _check(waits, "y")],
        "quotas": [_check(waits, "z"), _check(free, "last")],
    }
    found = _run(steps, reader())
    assert [result.id for result in found] == [
        "project.first", "project.x", "project.y", "quotas.z", "quotas.last",
    ]  # fmt: skip
    waiting = inconclusive(found)
    assert [result.pending for result in waiting] == [Pending("project")] * 3
    assert {(result.finding.level, result.finding.title) for result in waiting} == {("info", "GPU quota")}
    others, lines = fold_pending(found)
    assert [result.id for result in others] == ["project.first", "quotas.last"]
    assert lines == ["3 checks will run once the project exists."]


def _off(*services: str) -> list[CheckResult]:
    return [
        result
        for service in services
        for result in run_check(
            "quotas",
            _check(_fails(CloudError("api_disabled", "off", service=service))),
            ANSWERS,
            _no_question(),
        )
    ]


def _no_question() -> CachedCloudReader:
    """For checks that ask nothing: a request would fail, because nothing listens there."""
    return CachedCloudReader(CloudContext("rehearsal", None, "me@example.com", "http://127.0.0.1:9"))


def test_checks_that_wait_for_apis_fold_into_one_line_that_names_them() -> None:
    found = _off("compute.googleapis.com", "container.googleapis.com", "compute.googleapis.com")
    assert fold_pending(found) == (
        [],
        ["3 checks are waiting for APIs that apply will enable (compute, container)."],
    )
    many = _off(*(f"{name}.googleapis.com" for name in "abcde"))
    assert fold_pending(many)[1] == ["5 checks are waiting for APIs that apply will enable (a, b, c, …)."]


def test_a_single_check_that_waits_keeps_its_own_line() -> None:
    [found] = _off("compute.googleapis.com")
    assert fold_pending([found]) == ([found], [])
    assert found.finding.title == "GPU quota" and "compute.googleapis.com" in found.finding.detail


def test_a_check_reads_the_answers_and_one_question_of_the_project_is_enough_to_wait(reader: Any) -> None:
    def run(answers: Any, cloud: Any) -> list[CheckFinding]:
        networks = cloud.networks(project=answers.project.project_id)
        cloud.networks(project="another")
        return [CheckFinding("pass", f"{len(networks)} in {answers.project.project_id}")]

    assert _only(run_check("quotas", _check(run), ANSWERS, reader(**PROJECT))).title == "1 in my-project"
    [result] = run_check("quotas", _check(run), ANSWERS, reader())
    assert result.pending == Pending("project")


def test_a_check_of_a_disabled_api_waits_for_it_by_name(reader: Any) -> None:
    named = CloudError("api_disabled", "disabled")
    named.service = "lustre.googleapis.com"
    [result] = run_check("lustre", _check(_fails(named)), ANSWERS, reader())
    assert result.pending == Pending("api", "lustre.googleapis.com")
    [passed] = run_check("lustre", _check(_reports(CheckFinding("pass", "fine"))), ANSWERS, reader())
    assert passed.pending is None


def _waiting(*pending: Pending | None) -> list[CheckResult]:
    return [
        CheckResult("quotas", _check(_reports()), CheckFinding("info", "later"), each) for each in pending
    ]


def test_two_checks_that_wait_for_the_same_fold_and_one_does_not() -> None:
    two = _waiting(Pending("project"), Pending("project"), None, Pending("api", "compute.googleapis.com"))
    others, lines = fold_pending(two)
    assert others == two[2:] and len(lines) == 1 and lines[0].startswith("2 ")
    assert fold_pending(two[1:]) == (two[1:], [])


@pytest.mark.parametrize(
    "services,named",
    [((), ""), (("a", "a"), "(a)"), (("a", "b", "c"), "(a, b, c)"), (("a", "b", "c", "d"), "(a, b, c, …)")],
)
def test_the_line_names_three_apis_at_most(services: tuple[str, ...], named: str) -> None:
    pending = [Pending("api", f"{name}.googleapis.com") for name in services] or [Pending("api")] * 2
    _, [line] = fold_pending(_waiting(*pending))
    assert named in line and ("(" in line) == bool(named) and line.rstrip(".").endswith(named or "enable")


@pytest.mark.parametrize(
    "findings,fixes",
    [
        ([], []),
        ([CheckFinding("warn", "low", "", "raise it"), CheckFinding("info", "later")], []),
        ([CheckFinding("block", "short", "of 8", "ask for more")], ["ask for more"]),
        ([CheckFinding("block", "short", "of 8")], ["--skip-checks"]),
    ],
    ids=["passes", "warnings", "blocks", "blocks, and the check knows no fix"],
)
def test_what_stops_an_apply_before_it_creates_anything_billable(
    tmp_path: Path, findings: list[CheckFinding], fixes: list[str]
) -> None:
    session = a_session(tmp_path, ANSWERS)
    checked = replace(step("quotas"), checks=[_check(_reports(*findings))])
    session.workflow = replace(session.workflow, steps=(checked,))
    failures = asyncio.run(preflight_gate(session))
    assert len(failures) == len(fixes)
    for failed, fix in zip(failures, fixes, strict=True):
        assert (failed["id"], failed["title"], failed["detail"]) == ("check quotas.quota", "short", "of 8")
        assert fix in failed["fix"]


@pytest.mark.parametrize(
    "pending,title",
    [
        (Pending("project"), "project"),
        (Pending("api", "compute.googleapis.com"), "compute.googleapis.com"),
        (Pending("api"), "API"),
        (None, "API"),
    ],
)
def test_what_is_still_unknown_stops_an_apply_and_may_be_retried(pending: Pending | None, title: str) -> None:
    result = CheckResult("quotas", _check(_reports()), CheckFinding("info", "later"), pending)
    failed = _pending_failure(result)
    assert failed["id"] == "check quotas.quota" and title in failed["title"] and failed["detail"] == ""
    assert "Re-run apply" in failed["fix"]
