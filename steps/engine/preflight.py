"""Preflight: run the checks of all steps. Nothing is created; a check that cannot run warns, it does not block."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.core.cloud_reader import CloudReader
from grpo_wizard.steps.core.model import Check, CheckFinding, Step
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.result import failure

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

_MAX_CONCURRENCY = 24
_MAX_SERVICES_NAMED = 3
_SKIP = "Correct the settings, or skip the checks with --skip-checks."
_RETRY = "A newly enabled API can take a few minutes to take effect. Re-run apply, or skip the checks with --skip-checks."
_BLOCKING_CAUSES = {
    "auth": "Sign-in",
    "clock": "System clock",
    "quota_project": "Quota project",
    "billing": "Billing",
}
"""Kinds of errors without whose fix nothing can be created -> the title of the finding."""


@dataclass(frozen=True)
class Pending:
    """Why a check cannot run yet: its project does not exist, or an API is disabled or not in effect yet."""

    reason: Literal["project", "api"]
    service: str = ""
    """The API's name, such as `compute.googleapis.com`, if known."""

    @property
    def detail(self) -> str:
        if self.reason == "project":
            return "Will run once the project exists."
        return f"Waiting for {self.service or 'an API'}, which apply will enable."


@dataclass(frozen=True)
class CheckResult:
    """One finding of a check, or why the check is pending."""

    step: str
    check: Check
    finding: CheckFinding
    pending: Pending | None = None

    @property
    def id(self) -> str:
        return f"{self.step}.{self.check.id}"

    def to_json(self) -> dict[str, str]:
        finding = self.finding
        return {
            "id": self.id,
            "step": self.step,
            "level": finding.level,
            "title": finding.title,
            "detail": finding.detail,
            "fix": finding.fix,
        }


class _ProjectProbe:
    """Remembers whether its reader was asked anything that only an existing project can answer."""

    def __init__(self, reader: CloudReader, answers: Answers) -> None:
        self._answers, self.depends_on_project = answers, False
        self.reader = reader.observed(self._note)

    def _note(self, project: str) -> None:
        self.depends_on_project |= project == self._answers.project.project_id

    def project_missing(self) -> bool:
        """Return whether the answers are meaningless because the project does not exist or is not visible."""
        try:
            project_id = self._answers.project.project_id if self.depends_on_project else ""
            return bool(project_id) and self.reader.project(project=project_id) is None
        except WizardError:
            return False  # reported by the project's own check


def run_check(step: str, check: Check, answers: Answers, reader: CloudReader) -> list[CheckResult]:
    """Run one check. Blocks on network calls; run it in a thread."""
    probe = _ProjectProbe(reader, answers)
    pending: Pending | None = None
    try:
        findings = [_titled(finding, check.title) for finding in check.run(answers, probe.reader)]
    except WizardError as error:
        if getattr(error, "kind", "") == "api_disabled":
            pending = Pending("api", getattr(error, "service", ""))
        findings = [_inconclusive_finding(check.title, error)]
    if probe.project_missing():
        pending = Pending("project")
    if pending:
        findings = [CheckFinding("info", check.title, detail=pending.detail)]
    return [CheckResult(step, check, finding, pending) for finding in findings]


def _titled(finding: CheckFinding, title: str) -> CheckFinding:
    return finding if finding.title else replace(finding, title=title)


def _inconclusive_finding(title: str, error: WizardError) -> CheckFinding:
    """Return the finding of a check that failed to run: a warning, unless the cause stops everything else too."""
    kind = getattr(error, "kind", "")
    detail = " ".join(end_with_period(text) for text in (error.title, error.detail) if text)
    if kind in _BLOCKING_CAUSES:
        return CheckFinding("block", _BLOCKING_CAUSES[kind], detail=detail, fix=error.command or error.fix)
    # If a permission is missing, the fix would be to run `check`, which is what is running.
    fix = "" if kind == "denied" else error.fix
    return CheckFinding("warn", title, detail=f"Could not be checked: {detail}", fix=fix)


def _deduplicate(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Keep the first of several checks that are blocked by the same cause."""
    blocked: set[tuple[str, str]] = set()
    kept = []
    for result in results:
        finding = result.finding
        own_title = finding.title == result.check.title and finding.title not in _BLOCKING_CAUSES.values()
        is_shared_cause = finding.level == "block" and not own_title
        if not is_shared_cause or (finding.title, finding.fix) not in blocked:
            kept.append(result)
        if is_shared_cause:
            blocked.add((finding.title, finding.fix))
    return kept


def fold_pending(results: Sequence[CheckResult]) -> tuple[list[CheckResult], list[str]]:
    """Separate checks that wait for the same reason: return the other results and one line per reason."""
    groups: dict[str, list[CheckResult]] = {}
    for result in results:
        if result.pending:
            groups.setdefault(result.pending.reason, []).append(result)
    folded = {reason: group for reason, group in groups.items() if len(group) > 1}
    others = [result for result in results if not result.pending or result.pending.reason not in folded]
    return others, [_format_pending(reason, group) for reason, group in folded.items()]


def _format_pending(reason: str, group: Sequence[CheckResult]) -> str:
    if reason == "project":
        return f"{len(group)} checks will run once the project exists."
    services = {result.pending.service.partition(".")[0]: None for result in group if result.pending}
    names = [name for name in services if name]
    more = ", …" if len(names) > _MAX_SERVICES_NAMED else ""
    listed = f" ({', '.join(names[:_MAX_SERVICES_NAMED])}{more})" if names else ""
    return f"{len(group)} checks are waiting for APIs that apply will enable{listed}."


async def run_checks(steps: Iterable[Step], answers: Answers, reader: CloudReader) -> list[CheckResult]:
    """Run every check of the steps at the same time. Return the results in the order of the steps."""
    loop = asyncio.get_running_loop()
    # A pool of its own: asyncio's default has only four threads more than the machine has processors.
    with ThreadPoolExecutor(_MAX_CONCURRENCY, "check") as pool:
        running = [
            loop.run_in_executor(pool, run_check, step.name, check, answers, reader)
            for step in steps
            for check in step.checks
        ]
        results = await asyncio.gather(*running)
    return _deduplicate(result for group in results for result in group)


def blocking(results: Sequence[CheckResult]) -> list[CheckResult]:
    return [result for result in results if result.finding.level == "block"]


def inconclusive(results: Sequence[CheckResult]) -> list[CheckResult]:
    """Return the checks that wait for the project or for an API."""
    return [result for result in results if result.pending]


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
    if blocked := blocking(results):
        return [
            failure(f"check {one.id}", one.finding.title, one.finding.detail, one.finding.fix or _SKIP)
            for one in blocked
        ]
    return [_pending_failure(one) for one in inconclusive(results)]


def _pending_failure(result: CheckResult) -> dict[str, str]:
    """Word the failure alike for all checks that wait for the same API, so that front ends can group them."""
    if result.pending and result.pending.reason == "project":
        return failure(f"check {result.id}", "The project does not exist yet", "", _RETRY)
    service = (result.pending and result.pending.service) or "An API"
    return failure(f"check {result.id}", f"{service} has not taken effect yet", "", _RETRY)
