"""One of the seven steps as questions, then its checks as lines, then what to do about them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from typing import Any

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
    """A step: `run` goes through it and returns the place to go to."""

    def __init__(self, ui: PlainSession, name: str) -> None:
        self.ui, self.step = ui, step(name)
        self.controller, self.console = ui.active_controller, ui.console

    def run(self, ask: bool = False) -> str:
        """Asks everything when the step was not passed yet, or `ask`; else shows what was answered."""
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

    # --- asking

    def _ask_all(self) -> None:
        """The usual questions; the rarely asked when they are wanted, or when one of them has no right answer."""
        if not self._ask([field for field in self.step.fields if not field.advanced]):
            return
        advanced = [field for field in self.step.fields if field.advanced]
        if not advanced:
            return
        wrong = self.controller.draft.errors_in(self.step.name)
        text = _("Advanced settings, {n} questions?").format(n=len(advanced))
        if any(field.name in wrong for field in advanced) or self.console.confirm(text):
            self._ask(advanced)

    def _ask(self, fields: Sequence[Field]) -> bool:
        """In order; `<` goes back by one. False when the rest shall not be asked."""
        at, asked = 0, list[int]()
        while at < len(fields):
            if not self.controller.draft.is_shown(fields[at]):
                at += 1
                continue
            said = FieldPrompt(self.ui, self.step.name, fields[at]).ask()
            if said == SKIP:
                return False
            if said == BACK:
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
                    draft.secrets[field.name].masked() if field.name in draft.secrets else _("not given here")
                )
            else:
                value = as_typed(draft.value(self.step.name, field)) or _("none")
            self.console.print(
                f"{field.label}: " + (_("missing or refused") if field.name in wrong else value)
            )

    def _visible_fields(self) -> list[Field]:
        return [field for field in self.step.fields if self.controller.draft.is_shown(field)]

    def change(self) -> None:
        """One answer by its number, or all of them again."""
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
            self.console.print(_("Refused: a number from 1 to {n}, or a.").format(n=len(fields)))

    # --- checks

    def run_checks(self, refresh: bool = False) -> None:
        """Every check of the step, each as a line."""
        self._run_checks(_("looking at the cloud"), run_step_checks(self.ui, self.step, refresh))

    def _run_checks(self, activity: str, checks: Coroutine[Any, Any, list[CheckResult]]) -> None:
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

    # --- going on

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
            return _("Missing or refused: {names}.").format(names=labels)
        if not self._blocking_count:
            return _("No check blocks.")
        return ngettext("{n} blocked check.", "{n} blocked checks.", self._blocking_count).format(
            n=self._blocking_count
        )

    def _menu_options(self, wrong: bool) -> dict[str, str]:
        on = {} if wrong else {"g": _("go on anyway")} if self._blocking_count else {"n": _("next")}
        back = (
            {"b": _("back")} if adjacent_screen(self.step.name, -1) else {"b": _("back to the deployments")}
        )
        more = {"c": _("change answers"), "r": _("check again"), "w": _("what this creates")}
        if self.controller.writable and inconclusive(self.results):
            more["e"] = _("enable the APIs, free")
        return {**on, **more, **drills.menu_option(self.ui), **back, "l": _("leave")}

    def _enable_apis(self) -> None:
        try:
            self.ui.wait(_("enabling the APIs"), enable(self.controller))
        except WizardError as error:
            self.ui.print_error(error)
            return
        self.console.print(
            _("The APIs are on. A new one may take minutes to be felt: the checks look until then.")
        )
        self._run_checks(
            _("waiting until the new APIs are felt"), run_checks_until_effective(self.ui, self.step)
        )
        if inconclusive(self.results):
            self.console.print(_("Not felt yet: check again in a few minutes."))

    def _print_resources(self) -> None:
        """Each thing with the command that would make it."""
        answers, _missing = self.controller.draft.validate()
        try:
            made = list(self.step.resources(answers))
        except (NotAnswered, ValueError):
            self.console.print(_("What it creates follows when the answers are complete."))
            return
        if not made:
            self.console.print(_("Creates nothing: later steps use these answers."))
        for resource in made:
            self.console.print(
                _("Creates: {kind} {name}.").format(kind=resource.kind.replace("_", " "), name=resource.name)
            )
            if resource.command:
                self.console.print(_("Command: {command}").format(command=resource.command))
        if any(_FILE.search(resource.command) for resource in made):
            self.console.print(_("What the files hold that commands name, a script writes that is made by:"))
            self.console.print(_("Script: {command}").format(command=cli_command(self.controller, "export")))

    def save(self, destination: str) -> None:
        """Writes this step's answers and where to go on. Raises StateError."""
        if self.controller.writable:
            self.controller.draft.save_step(self.step.name, destination)


async def run_step_checks(ui: PlainSession, step: Step, refresh: bool = False) -> list[CheckResult]:
    """The step's checks side by side, under the answers as they are now. Raises WizardError."""
    await ui.active_controller.cloud()  # tokens that were typed since the clients were opened go along
    world = await ui.active_controller.cloud_reader(
        refresh or any(field.kind == "secret" for field in step.fields)
    )
    answers, _missing = ui.active_controller.draft.validate()
    found = await asyncio.gather(
        *(in_thread(run_single_check, step.name, check, answers, world) for check in step.checks)
    )
    seen = [checked for group in found for checked in group]
    if any(needs_recheck(checked) for checked in seen):
        await ui.active_controller.cloud_reader(
            refresh=True
        )  # what was in the way may be gone at the next look
    return seen


async def run_checks_until_effective(ui: PlainSession, step: Step) -> list[CheckResult]:
    """The same, again and again until no API that is not felt yet hides anything; minutes at most. Raises WizardError."""
    found: list[CheckResult] = []
    for wait in backoff.propagation_polls((await ui.active_controller.cloud()).time_scale):
        found = await run_step_checks(ui, step, refresh=True)
        if not inconclusive(found):
            break
        await asyncio.sleep(wait)
    return found


def needs_recheck(checked: CheckResult) -> bool:
    """Whether it saw trouble, or could not look."""
    return checked.finding.level in ("warn", "block") or bool(inconclusive([checked]))


def format_check(checked: CheckResult) -> str:
    """`Check: blocked: CPUs: n2 needs 80, 24 are left. Fix: ask for quota at …`"""
    seen = checked.finding
    detail = f" {end_with_period(seen.detail)}" if seen.detail else ""
    fix = " " + _("Fix: {fix}").format(fix=seen.fix) if seen.fix else ""
    return (
        _("Check: {level}: {title}").format(level=LEVEL_LABELS[seen.level], title=end_with_period(seen.title))
        + detail
        + fix
    )
