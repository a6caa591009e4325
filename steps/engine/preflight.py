"""Preflight: all checks of all steps side by side. Creates nothing; one that cannot run warns, it does not block."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.core.model import Check, CheckFinding, CloudReader, Step
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.result import failure

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

_MAX_CONCURRENCY = 24
_PENDING_SUFFIX = ": cannot be looked up yet"
_PROJECT_PENDING = "looked up once the project is there"


@dataclass(frozen=True)
class CheckResult:
    """What one check of one step saw."""

    step: str
    check: Check
    finding: CheckFinding

    @property
    def id(self) -> str:
        return f"{self.step}.{self.check.id}"

    def to_json(self) -> dict[str, str]:
        seen = self.finding
        return {
            "id": self.id,
            "step": self.step,
            "level": seen.level,
            "title": seen.title,
            "detail": seen.detail,
            "fix": seen.fix,
        }


class _ProjectProbe:
    """A world that remembers whether it was asked what only an existing project can answer."""

    def __init__(self, reader: CloudReader, answers: Answers) -> None:
        self._world, self._answers, self.mode = reader, answers, reader.mode
        self.depends_on_project = False

    @property
    def _project(self) -> str:
        """Read when it is needed: while answers are still given, what asks nothing of it must not wait for it."""
        return str(self._answers.project.project_id)

    def ask(self, question: str, **about: Any) -> Any:
        if question != "project" and "project" in about:
            self.depends_on_project |= about["project"] == self._project
        return self._world.ask(question, **about)

    def project_missing(self) -> bool:
        """The answers came from a project that is not there, or that may not be seen: they say nothing."""
        try:
            return self.depends_on_project and self._world.ask("project", project=self._project) is None
        except WizardError:
            return False  # the check of the project says what is wrong with the question


def run_check(step: str, check: Check, answers: Answers, reader: CloudReader) -> list[CheckResult]:
    """Blocking; run it in a thread."""
    watched = _ProjectProbe(reader, answers)
    try:
        found = list(check.run(answers, watched))
    except WizardError as error:
        found = [_inconclusive_finding(check.title, error)]
    if watched.project_missing():
        found = [CheckFinding("info", f"{check.title}{_PENDING_SUFFIX}", _PROJECT_PENDING)]
    return [CheckResult(step, check, finding) for finding in found]


def _inconclusive_finding(title: str, error: WizardError) -> CheckFinding:
    """Of a check that could not run. Without a valid sign-in, or a payer, nothing at all can be done, and that blocks."""
    kind = getattr(error, "kind", "")
    if kind in ("auth", "clock", "quota_project", "billing"):
        return CheckFinding("block", error.title, error.detail, error.command or error.fix)
    if kind == "api_disabled":
        again = "it is looked up again before anything billable is made"
        return CheckFinding("info", f"{title}{_PENDING_SUFFIX}", f"{error.title}; {again}")
    # Of a missing permission `check` names the role: here that advice would lead in a circle.
    fix = "" if kind == "denied" else error.fix
    return CheckFinding("warn", f"{title}: could not be looked up", error.detail or error.title, fix)


def _deduplicate(found: Iterable[CheckResult]) -> list[CheckResult]:
    """One trouble that stops several checks stands in the first of them."""
    blocked: set[tuple[str, str]] = set()
    kept = []
    for checked in found:
        seen = checked.finding
        if seen.level != "block" or (seen.title, seen.fix) not in blocked:
            kept.append(checked)
        if seen.level == "block":
            blocked.add((seen.title, seen.fix))
    return kept


def _collapse_pending(found: Iterable[CheckResult]) -> list[CheckResult]:
    """All that waits for the project is one line, behind what the first step says of the project itself."""
    listed = list(found)
    waiting = [checked for checked in listed if checked.finding.detail == _PROJECT_PENDING]
    if len(waiting) < 2:
        return listed
    last = [checked for checked in waiting if checked.step == waiting[0].step][-1]
    title = f"{len(waiting)} checks of what is in the project{_PENDING_SUFFIX}"
    one = CheckResult(last.step, last.check, CheckFinding("info", title, _PROJECT_PENDING))
    return [
        one if checked is last else checked for checked in listed if checked is last or checked not in waiting
    ]


async def run_checks(steps: Iterable[Step], answers: Answers, reader: CloudReader) -> list[CheckResult]:
    """All of them, in the order of steps."""
    loop = asyncio.get_running_loop()
    # A pool of its own: asyncio's has no more threads than processors and four.
    with ThreadPoolExecutor(_MAX_CONCURRENCY, "check") as pool:
        looks = [
            loop.run_in_executor(pool, run_check, step.name, check, answers, reader)
            for step in steps
            for check in step.checks
        ]
        found = await asyncio.gather(*looks)
    return _deduplicate(_collapse_pending(checked for group in found for checked in group))


def blocking(found: Sequence[CheckResult]) -> list[CheckResult]:
    return [checked for checked in found if checked.finding.level == "block"]


def inconclusive(found: Sequence[CheckResult]) -> list[CheckResult]:
    """What an API that is off, or enabled a moment ago and not in effect yet, left unknown."""
    return [checked for checked in found if checked.finding.title.endswith(_PENDING_SUFFIX)]


async def preflight_gate(session: Session) -> list[dict[str, str]]:
    """Run every check once more, with the APIs enabled; returns what blocks or stays unknown as failures.

    An API takes effect minutes after it was enabled: in an empty project all checks are inconclusive at first.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + backoff.force_delete_after(session.cloud.time_scale)
    for delay in backoff.poll_intervals(session.cloud.time_scale):
        reader = CachedCloudReader(session.cloud, session.deployment.lineage)
        results = await run_checks(session.workflow.steps, session.answers, reader)
        if blocking(results) or not inconclusive(results) or loop.time() > until:
            break
        await asyncio.sleep(delay)
    default_fix = (
        "A new API can take minutes to take effect: re-run apply, or skip the checks with --skip-checks."
    )
    return [
        failure(
            f"check {result.id}",
            result.finding.title,
            result.finding.detail,
            result.finding.fix or default_fix,
        )
        for result in blocking(results) or inconclusive(results)
    ]
