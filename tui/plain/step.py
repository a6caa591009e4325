"""A step: its questions, then its checks as lines, then a menu."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.answers import Field, NotAnswered
from grpo_wizard.steps.core.model import Step
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.preflight import CheckResult, fold_pending, inconclusive
from grpo_wizard.steps.registry import STEP_NAMES, step
from grpo_wizard.tui.controllers.deployment import run_single_check
from grpo_wizard.tui.controllers.enable_apis import enable
from grpo_wizard.tui.controllers.launch import cli_command
from grpo_wizard.tui.controllers.threads import in_thread
from grpo_wizard.tui.plain import drills
from grpo_wizard.tui.plain.console import BACK, SKIP
from grpo_wizard.tui.plain.context import PlainSession, Quit
from grpo_wizard.tui.plain.question import FieldPrompt, as_typed
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.viewmodels.navigation import adjacent_screen

_FILE = re.compile(r" [\w-]+\.(?:yaml|sh)\b")
LEVEL_LABELS = {"pass": _("pass"), "info": _("info"), "warn": _("warning"), "block": _("blocked")}


class StepView:
    """Asks, checks and offers a menu. `run` returns the name of the next view."""

    def __init__(self, ui: PlainSession, name: str) -> None:
        self.ui, self.step = ui, step(name)
        self.controller, self.console = ui.active_controller, ui.console

    def run(self, ask: bool = False) -> str:
        """Ask the questions if `ask`, or on the first visit; otherwise list the answers."""
        number = STEP_NAMES.index(self.step.name) + 1
        title = _("Step {n} of {all}: {title}").format(n=number, all=len(STEP_NAMES), title=self.step.title)
        self.ui.print_heading(title, self.step.purpose)
        try:
            if ask or not self.controller.draft.was_visited(self.step.name):
                self._ask_all()
            else:
                self._list_answers()
            self.run_checks()
            return self._menu()
        except (KeyboardInterrupt, EOFError):
            self.save(self.step.name)
            raise

    def _ask_all(self) -> None:
        """Ask the basic questions; ask the advanced ones on request, or if one of their answers is invalid."""
        if not self._ask([field for field in self.step.fields if not field.advanced]):
            return
        advanced = [field for field in self.step.fields if field.advanced]
        if not advanced:
            return
        wrong = self.controller.draft.errors_in(self.step.name)
        text = _("Show {n} advanced settings?").format(n=len(advanced))
        if any(field.name in wrong for field in advanced) or self.console.confirm(text):
            self._ask(advanced)

    def _ask(self, fields: Sequence[Field]) -> bool:
        """Ask in order; `<` returns to the previous question. Return False if the rest is skipped."""
        at, asked = 0, list[int]()
        while at < len(fields):
            if not self.controller.draft.is_shown(fields[at]):
                at += 1
                continue
            typed = FieldPrompt(self.ui, self.step.name, fields[at]).ask()
            if typed == SKIP:
                return False
            if typed == BACK:
                at = asked.pop() if asked else at
                continue
            asked.append(at)
            at += 1
        return True

    def _list_answers(self) -> None:
        draft = self.controller.draft
        wrong = draft.errors_in(self.step.name)
        for field in self._visible_fields():
            if field.kind == "secret":
                value = (
                    draft.secrets[field.name].masked()
                    if field.name in draft.secrets
                    else _("not set in this session")
                )
            else:
                value = as_typed(draft.value(self.step.name, field)) or _("none")
            self.console.print(
                f"{field.label}: " + (_("missing or invalid") if field.name in wrong else value)
            )

    def _visible_fields(self) -> list[Field]:
        return [field for field in self.step.fields if self.controller.draft.is_shown(field)]

    def change(self) -> None:
        """Ask one question by its number, or all of them."""
        fields = self._visible_fields()
        self.console.print_list([f"{n}: {field.label}" for n, field in enumerate(fields, 1)])
        while True:
            typed = self.console.ask(_("Which answer, 1 to {n}, or a for all (a):").format(n=len(fields)))
            if typed.lower() in ("", "a"):
                self._ask_all()
                return
            if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(fields):
                FieldPrompt(self.ui, self.step.name, fields[int(typed) - 1]).ask()
                return
            self.console.print(_("Invalid: type a number from 1 to {n}, or a.").format(n=len(fields)))

    def run_checks(self, refresh: bool = False) -> None:
        """Run every check of the step and print the results."""
        self._run_checks(_("running the checks"), run_step_checks(self.ui, self.step, refresh))

    def _run_checks(self, activity: str, checks: Coroutine[None, None, list[CheckResult]]) -> None:
        self.results: list[CheckResult] = []
        self.check_error: WizardError | None = None
        try:
            self.results = self.ui.wait(activity, checks)
        except WizardError as error:
            self.check_error = error
            self.ui.print_error(error)
        ran, waiting = fold_pending(self.results)
        for result in ran:
            self.console.print(format_check(result))
        for text in waiting:
            self.console.print(_("Check: {level}: {title}").format(level=LEVEL_LABELS["info"], title=text))

    @property
    def _blocking_count(self) -> int:
        return sum(checked.finding.level == "block" for checked in self.results) + (
            self.check_error is not None
        )

    def _menu(self) -> str:
        while True:
            wrong = self.controller.draft.errors_in(self.step.name)
            chosen = self.console.choose(
                self._status_text(wrong),
                self._menu_options(bool(wrong)),
                "" if wrong or self._blocking_count else "n",
            )
            if chosen == "l":
                self.save(self.step.name)
                raise Quit
            if chosen in ("n", "g", "b"):
                place = adjacent_screen(self.step.name, -1 if chosen == "b" else 1)
                self.save(place or self.step.name)
                return place
            if chosen == "w":
                self._print_resources()
                continue
            if chosen == "c":
                self.change()
            if chosen == drills.MENU_KEY:
                drills.DrillView(self.ui).run()
            if chosen == "e":
                self._enable_apis()
            else:
                self.run_checks(refresh=chosen in ("r", drills.MENU_KEY))

    def _status_text(self, wrong: dict[str, str]) -> str:
        if wrong:
            labels = ", ".join(self.step.field(name).label for name in wrong)
            return _("Missing or invalid: {names}.").format(names=labels)
        if not self._blocking_count:
            return _("No check is blocking.")
        return ngettext("{n} check is blocking.", "{n} checks are blocking.", self._blocking_count).format(
            n=self._blocking_count
        )

    def _menu_options(self, wrong: bool) -> dict[str, str]:
        forward = {} if wrong else {"g": _("continue anyway")} if self._blocking_count else {"n": _("next")}
        back = (
            {"b": _("back")} if adjacent_screen(self.step.name, -1) else {"b": _("back to the deployments")}
        )
        more = {"c": _("change answers"), "r": _("check again"), "w": _("show what this step creates")}
        if self.controller.writable and inconclusive(self.results):
            more["e"] = _("enable the APIs (free)")
        return {**forward, **more, **drills.menu_option(self.ui), **back, "l": _("leave")}

    def _enable_apis(self) -> None:
        try:
            self.ui.wait(_("enabling the APIs"), enable(self.controller))
        except WizardError as error:
            self.ui.print_error(error)
            return
        self.console.print(
            _(
                "The APIs are enabled. They can take a few minutes to take effect; the checks will repeat until then."
            )
        )
        self._run_checks(
            _("waiting for the APIs to take effect"), run_checks_until_effective(self.ui, self.step)
        )
        if inconclusive(self.results):
            self.console.print(_("The APIs have not taken effect yet. Check again in a few minutes."))

    def _print_resources(self) -> None:
        """Print each resource of the step with the equivalent command."""
        answers, _missing = self.controller.draft.validate()
        try:
            resources = list(self.step.resources(answers))
        except (NotAnswered, ValueError):
            self.console.print(_("The resources will appear once all answers are set."))
            return
        if not resources:
            self.console.print(_("This step creates nothing; later steps use its answers."))
        for resource in resources:
            self.console.print(
                _("Creates: {kind} {name}.").format(kind=resource.kind.replace("_", " "), name=resource.name)
            )
            if resource.command:
                self.console.print(_("Command: {command}").format(command=resource.command))
        if any(_FILE.search(resource.command) for resource in resources):
            self.console.print(_("This script generates the files that these commands use:"))
            self.console.print(_("Script: {command}").format(command=cli_command(self.controller, "export")))

    def save(self, destination: str) -> None:
        """Save this step's answers and the view to return to. Raise StateError."""
        if self.controller.writable:
            self.controller.draft.save_step(self.step.name, destination)


async def run_step_checks(ui: PlainSession, step: Step, refresh: bool = False) -> list[CheckResult]:
    """Run the step's checks at the same time, on the current answers. Raise WizardError."""
    controller = ui.active_controller
    await controller.cloud()  # reconnects with tokens typed since
    reader = await controller.cloud_reader(refresh or any(field.kind == "secret" for field in step.fields))
    answers, _missing = controller.draft.validate()
    groups = await asyncio.gather(
        *(in_thread(run_single_check, step.name, check, answers, reader) for check in step.checks)
    )
    results = [result for group in groups for result in group]
    if any(needs_recheck(result) for result in results):
        await controller.cloud_reader(refresh=True)  # the problem may be solved by the next run
    return results


async def run_checks_until_effective(ui: PlainSession, step: Step) -> list[CheckResult]:
    """Repeat the checks until every API is in effect, for minutes at most. Raise WizardError."""
    results: list[CheckResult] = []
    for delay in backoff.propagation_polls((await ui.active_controller.cloud()).time_scale):
        results = await run_step_checks(ui, step, refresh=True)
        if not inconclusive(results):
            break
        await asyncio.sleep(delay)
    return results


def needs_recheck(result: CheckResult) -> bool:
    """Return whether the check found a problem or could not run."""
    return result.finding.level in ("warn", "block") or result.pending is not None


def format_check(result: CheckResult) -> str:
    """Return `Check: blocked: CPU quota. Needs 80 N2 CPUs, 24 are available. Fix: …`."""
    finding = result.finding
    detail = f" {end_with_period(finding.detail)}" if finding.detail else ""
    fix = " " + _("Fix: {fix}").format(fix=finding.fix) if finding.fix else ""
    title = end_with_period(finding.title)
    return _("Check: {level}: {title}").format(level=LEVEL_LABELS[finding.level], title=title) + detail + fix
