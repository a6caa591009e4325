"""One question: its label, what may be typed, the value that Enter keeps; help on `?`; a refusal, then the question again."""

from __future__ import annotations

import os
from typing import Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.model import Field, Refused
from grpo_wizard.tui.controllers.draft import Draft
from grpo_wizard.tui.plain.console import BEFORE, ENOUGH, HELP, NOTHING, sentence
from grpo_wizard.tui.plain.context import Table
from grpo_wizard.tui.style.i18n import _

_MOST_IN_PROMPT = 6


class Question:
    """A field of a step, under the answers given so far."""

    def __init__(self, table: Table, step_name: str, field: Field) -> None:
        self.table, self.step_name, self.field = table, step_name, field
        self._choices: tuple[str, ...] = field.choices

    @property
    def _draft(self) -> Draft:
        return self.table.open_desk.draft

    @property
    def key(self) -> str:
        """step.field"""
        return f"{self.step_name}.{self.field.name}"

    def ask(self) -> str:
        """Until there is an answer. Returns nothing, or BEFORE, or ENOUGH when that was typed instead."""
        talk = self.table.talk
        while True:
            typed = talk.hidden(self.prompt()) if self.field.kind == "secret" else talk.ask(self.prompt())
            if typed in (BEFORE, ENOUGH):
                return typed
            if typed == HELP:
                self.explain()
            elif (rule := self._take(typed)) == "":
                return ""
            else:
                talk.say(_("Refused: {rule}").format(rule=sentence(rule)))

    def _take(self, typed: str) -> str:
        """Nothing when it is answered, else the sentence of the refusal. Enter keeps what is there."""
        field, draft = self.field, self._draft
        if not typed:
            return draft.wrong_in(self.step_name).get(field.name, "")
        if typed == NOTHING and field.optional and field.kind != "secret":
            typed = ""
        rule = draft.set(self.step_name, field, self._meant(typed))
        draft.refused.pop(
            self.key, None
        )  # the answer before it stands: here the question comes again at once
        if not rule and field.kind == "secret":
            self.table.talk.say(_("Given: {hint}.").format(hint=draft.secrets[field.name].hint()))
        return rule

    def _meant(self, typed: str) -> str:
        """What was listed may be named by its number."""
        choices = self._choices
        if (
            typed in choices
            or not typed.isascii()
            or not typed.isdigit()
            or not 1 <= int(typed) <= len(choices)
        ):
            return typed
        return choices[int(typed) - 1]

    # --- what is said

    def prompt(self) -> str:
        """`GPU [1: nvidia-b200, 2: nvidia-h200-141gb] (nvidia-b200):`"""
        field = self.field
        label = field.label + (f", {field.unit}" if field.unit and field.kind == "choice" else "")
        return f"{label}{self._ways()} ({self._kept()}):"

    def _ways(self) -> str:
        field = self.field
        if field.kind == "secret":
            return ", " + _("hidden")
        if field.kind == "switch":
            return ", " + _("yes or no")
        if field.kind in ("integer", "number"):
            return f", {self._rule()}"
        if len(field.choices) > _MOST_IN_PROMPT:
            return ", " + _("? lists all {n}").format(n=len(field.choices))
        if field.choices:
            return " [" + ", ".join(f"{n}: {choice}" for n, choice in enumerate(field.choices, 1)) + "]"
        listed = ", " + _("? lists those found") if field.choices_from else ""
        return listed + (", " + _("- for none") if field.optional else "")

    def _rule(self) -> str:
        """What is allowed, as the field itself says when it refuses."""
        try:
            self.field.parse("\0")
        except Refused as refusal:
            return str(refusal)
        return ""

    def _kept(self) -> str:
        field, draft = self.field, self._draft
        if field.kind != "secret":
            return typed_as(draft.value(self.step_name, field)) or (
                _("none") if field.optional else _("must be answered")
            )
        if field.name in draft.secrets:
            return draft.secrets[field.name].hint()
        return next(
            (_("from {name}").format(name=name) for name in field.env if os.environ.get(name)), _("none")
        )

    def explain(self) -> None:
        """The help, the choices, and what the cloud holds."""
        talk, field = self.table.talk, self.field
        talk.say(_("Help: {text}").format(text=field.help))
        if field.choices:
            talk.list([f"{n}: {choice}" for n, choice in enumerate(field.choices, 1)])
        elif self._rule():
            talk.say(_("Allowed: {rule}").format(rule=sentence(self._rule())))
        if field.choices_from:
            self._list_found()
        talk.say(
            _("Enter keeps what stands in brackets; < goes to the question before; ! goes on to the checks.")
        )

    def _list_found(self) -> None:
        talk, desk = self.table.talk, self.table.open_desk
        try:
            found = self.table.wait(_("looking at the cloud"), desk.found_for(self.field))
        except WizardError as error:
            talk.say(_("Not listed: {title}").format(title=sentence(error.title)))
            return
        self._choices = tuple(each.value for each in found)
        talk.say(_("Found:") if found else _("Found: none."))
        talk.list(
            [f"{n}: {one.value}" + (f": {one.title}" if one.title else "") for n, one in enumerate(found, 1)]
        )


def typed_as(value: Any) -> str:
    """A value as one would type it."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)
