"""One of the seven steps as questions, then its checks as lines, then what to do about them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from typing import Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.model import Field, Step
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.engine.preflight import Checked, unanswered
from grpo_wizard.steps.registry import NAMES, step
from grpo_wizard.tui.controllers.deployment import look_at
from grpo_wizard.tui.controllers.enable_apis import enable
from grpo_wizard.tui.controllers.launch import same_here
from grpo_wizard.tui.controllers.threads import in_thread
from grpo_wizard.tui.plain import drills
from grpo_wizard.tui.plain.console import BEFORE, ENOUGH, sentence
from grpo_wizard.tui.plain.context import Leave, Table
from grpo_wizard.tui.plain.question import Question, typed_as
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.viewmodels.navigation import neighbour

_FILE = re.compile(r" [\w-]+\.(?:yaml|sh)\b")
LEVELS = {"pass": _("pass"), "info": _("info"), "warn": _("warning"), "block": _("blocked")}


class StepRoom:
    """A step: `run` goes through it and returns the place to go to."""

    def __init__(self, table: Table, name: str) -> None:
        self.table, self.step = table, step(name)
        self.desk, self.talk = table.open_desk, table.talk

    def run(self, ask: bool = False) -> str:
        """Asks everything when the step was not passed yet, or `ask`; else shows what was answered."""
        number = NAMES.index(self.step.name) + 1
        title = _("Step {n} of {all}: {title}").format(n=number, all=len(NAMES), title=self.step.title)
        self.table.head(title, self.step.purpose)
        try:
            if ask or not self.desk.draft.passed(self.step.name):
                self._ask_all()
            else:
                self._list_answers()
            self.check()
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
        wrong = self.desk.draft.wrong_in(self.step.name)
        text = _("Advanced settings, {n} questions?").format(n=len(advanced))
        if any(field.name in wrong for field in advanced) or self.talk.yes(text):
            self._ask(advanced)

    def _ask(self, fields: Sequence[Field]) -> bool:
        """In order; `<` goes back by one. False when the rest shall not be asked."""
        at, asked = 0, list[int]()
        while at < len(fields):
            if not self.desk.draft.is_shown(fields[at]):
                at += 1
                continue
            said = Question(self.table, self.step.name, fields[at]).ask()
            if said == ENOUGH:
                return False
            if said == BEFORE:
                at = asked.pop() if asked else at
                continue
            asked.append(at)
            at += 1
        return True

    def _list_answers(self) -> None:
        draft = self.desk.draft
        wrong = draft.wrong_in(self.step.name)
        for field in self._shown():
            if field.kind == "secret":
                value = (
                    draft.secrets[field.name].hint() if field.name in draft.secrets else _("not given here")
                )
            else:
                value = typed_as(draft.value(self.step.name, field)) or _("none")
            self.talk.say(f"{field.label}: " + (_("missing or refused") if field.name in wrong else value))

    def _shown(self) -> list[Field]:
        return [field for field in self.step.fields if self.desk.draft.is_shown(field)]

    def change(self) -> None:
        """One answer by its number, or all of them again."""
        fields = self._shown()
        self.talk.list([f"{n}: {field.label}" for n, field in enumerate(fields, 1)])
        while True:
            typed = self.talk.ask(_("Which answer, 1 to {n}, or a for all (a):").format(n=len(fields)))
            if typed.lower() in ("", "a"):
                self._ask_all()
                return
            if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(fields):
                Question(self.table, self.step.name, fields[int(typed) - 1]).ask()
                return
            self.talk.say(_("Refused: a number from 1 to {n}, or a.").format(n=len(fields)))

    # --- checks

    def check(self, anew: bool = False) -> None:
        """Every check of the step, each as a line."""
        self._see(_("looking at the cloud"), look(self.table, self.step, anew))

    def _see(self, doing: str, looking: Coroutine[Any, Any, list[Checked]]) -> None:
        self.found: list[Checked] = []
        self.outside: WizardError | None = None
        try:
            self.found = self.table.wait(doing, looking)
        except WizardError as error:
            self.outside = error
            self.table.trouble(error)
        for checked in self.found:
            self.talk.say(check_line(checked))

    @property
    def _blocks(self) -> int:
        return sum(checked.finding.level == "block" for checked in self.found) + (self.outside is not None)

    # --- going on

    def _menu(self) -> str:
        while True:
            wrong = self.desk.draft.wrong_in(self.step.name)
            chosen = self.talk.choose(
                self._state(wrong), self._ways(bool(wrong)), "" if wrong or self._blocks else "n"
            )
            if chosen == "l":
                self.save(self.step.name)
                raise Leave
            if chosen in ("n", "g", "b"):
                place = neighbour(self.step.name, -1 if chosen == "b" else 1)
                self.save(place or self.step.name)
                return place
            if chosen == "w":
                self._say_creates()
                continue
            if chosen == "c":
                self.change()
            if chosen == drills.KEY:
                drills.DrillRoom(self.table).run()
            if chosen == "e":
                self._enable_apis()
            else:
                self.check(anew=chosen in ("r", drills.KEY))

    def _state(self, wrong: dict[str, str]) -> str:
        if wrong:
            labels = ", ".join(self.step.field(name).label for name in wrong)
            return _("Missing or refused: {names}.").format(names=labels)
        if not self._blocks:
            return _("No check blocks.")
        return ngettext("{n} blocked check.", "{n} blocked checks.", self._blocks).format(n=self._blocks)

    def _ways(self, wrong: bool) -> dict[str, str]:
        on = {} if wrong else {"g": _("go on anyway")} if self._blocks else {"n": _("next")}
        back = {"b": _("back")} if neighbour(self.step.name, -1) else {"b": _("back to the deployments")}
        more = {"c": _("change answers"), "r": _("check again"), "w": _("what this creates")}
        if self.desk.writable and unanswered(self.found):
            more["e"] = _("enable the APIs, free")
        return {**on, **more, **drills.ways(self.table), **back, "l": _("leave")}

    def _enable_apis(self) -> None:
        try:
            self.table.wait(_("enabling the APIs"), enable(self.desk))
        except WizardError as error:
            self.table.trouble(error)
            return
        self.talk.say(
            _("The APIs are on. A new one may take minutes to be felt: the checks look until then.")
        )
        self._see(_("waiting until the new APIs are felt"), look_until_felt(self.table, self.step))
        if unanswered(self.found):
            self.talk.say(_("Not felt yet: check again in a few minutes."))

    def _say_creates(self) -> None:
        """Each thing with the command that would make it."""
        answers, _missing = self.desk.draft.look()
        try:
            made = list(self.step.resources(answers))
        except (KeyError, ValueError):
            self.talk.say(_("What it creates follows when the answers are complete."))
            return
        if not made:
            self.talk.say(_("Creates nothing: later steps use these answers."))
        for resource in made:
            self.talk.say(
                _("Creates: {kind} {name}.").format(kind=resource.kind.replace("_", " "), name=resource.name)
            )
            if resource.command:
                self.talk.say(_("Command: {command}").format(command=resource.command))
        if any(_FILE.search(resource.command) for resource in made):
            self.talk.say(_("What the files hold that commands name, a script writes that is made by:"))
            self.talk.say(_("Script: {command}").format(command=same_here(self.desk, "export")))

    def save(self, place: str) -> None:
        """Writes this step's answers and where to go on. Raises StateError."""
        if self.desk.writable:
            self.desk.draft.save_step(self.step.name, place)


async def look(table: Table, step: Step, anew: bool = False) -> list[Checked]:
    """The step's checks side by side, under the answers as they are now. Raises WizardError."""
    await table.open_desk.cloud()  # tokens that were typed since the clients were opened go along
    world = await table.open_desk.world(anew or any(field.kind == "secret" for field in step.fields))
    answers, _missing = table.open_desk.draft.look()
    found = await asyncio.gather(
        *(in_thread(look_at, step.name, check, answers, world) for check in step.checks)
    )
    seen = [checked for group in found for checked in group]
    if any(is_open(checked) for checked in seen):
        await table.open_desk.world(anew=True)  # what was in the way may be gone at the next look
    return seen


async def look_until_felt(table: Table, step: Step) -> list[Checked]:
    """The same, again and again until no API that is not felt yet hides anything; minutes at most. Raises WizardError."""
    found: list[Checked] = []
    for wait in backoff.until_felt((await table.open_desk.cloud()).pace):
        found = await look(table, step, anew=True)
        if not unanswered(found):
            break
        await asyncio.sleep(wait)
    return found


def is_open(checked: Checked) -> bool:
    """Whether it saw trouble, or could not look."""
    return checked.finding.level in ("warn", "block") or bool(unanswered([checked]))


def check_line(checked: Checked) -> str:
    """`Check: blocked: CPUs: n2 needs 80, 24 are left. Fix: ask for quota at …`"""
    seen = checked.finding
    detail = f" {sentence(seen.detail)}" if seen.detail else ""
    fix = " " + _("Fix: {fix}").format(fix=seen.fix) if seen.fix else ""
    return (
        _("Check: {level}: {title}").format(level=LEVELS[seen.level], title=sentence(seen.title))
        + detail
        + fix
    )
