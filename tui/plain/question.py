"""One question: its label, what may be typed, the value that Enter keeps; help on `?`; a refusal, then the question again."""

from __future__ import annotations

import os

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.answers import Field, InvalidValue
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.tui.controllers.draft import Draft
from grpo_wizard.tui.plain.console import BACK, HELP, NONE, SKIP
from grpo_wizard.tui.plain.context import PlainSession
from grpo_wizard.tui.style.i18n import _

_MAX_CHOICES_IN_PROMPT = 6


class FieldPrompt:
    """A field of a step, under the answers given so far."""

    def __init__(self, ui: PlainSession, step_name: str, field: Field) -> None:
        self.ui, self.step_name, self.field = ui, step_name, field
        self._numbered_choices: tuple[str, ...] = field.choices

    @property
    def _draft(self) -> Draft:
        return self.ui.active_controller.draft

    @property
    def key(self) -> str:
        """step.field"""
        return f"{self.step_name}.{self.field.name}"

    def ask(self) -> str:
        """Until there is an answer. Returns nothing, or BEFORE, or ENOUGH when that was typed instead."""
        talk = self.ui.console
        while True:
            typed = talk.ask_hidden(self.prompt()) if self.field.kind == "secret" else talk.ask(self.prompt())
            if typed in (BACK, SKIP):
                return typed
            if typed == HELP:
                self.print_help()
            elif (rule := self._submit(typed)) == "":
                return ""
            else:
                talk.print(_("Refused: {rule}").format(rule=end_with_period(rule)))

    def _submit(self, typed: str) -> str:
        """Nothing when it is answered, else the sentence of the refusal. Enter keeps what is there."""
        field, draft = self.field, self._draft
        if not typed:
            return draft.errors_in(self.step_name).get(field.name, "")
        if typed == NONE and field.optional and field.kind != "secret":
            typed = ""
        rule = draft.set(self.step_name, field, self._resolve_choice(typed))
        draft.invalid_values.pop(
            self.key, None
        )  # the answer before it stands: here the question comes again at once
        if not rule and field.kind == "secret":
            self.ui.console.print(_("Given: {hint}.").format(hint=draft.secrets[field.name].masked()))
        return rule

    def _resolve_choice(self, typed: str) -> str:
        """What was listed may be named by its number."""
        choices = self._numbered_choices
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
        return f"{label}{self._input_hint()} ({self._current_value()}):"

    def _input_hint(self) -> str:
        field = self.field
        if field.kind == "secret":
            return ", " + _("hidden")
        if field.kind == "switch":
            return ", " + _("yes or no")
        if field.kind in ("integer", "number"):
            return f", {self._allowed_text()}"
        if len(field.choices) > _MAX_CHOICES_IN_PROMPT:
            return ", " + _("? lists all {n}").format(n=len(field.choices))
        if field.choices:
            return " [" + ", ".join(f"{n}: {choice}" for n, choice in enumerate(field.choices, 1)) + "]"
        listed = ", " + _("? lists those found") if field.choices_from else ""
        return listed + (", " + _("- for none") if field.optional else "")

    def _allowed_text(self) -> str:
        """What is allowed, as the field itself says when it refuses."""
        try:
            self.field.parse("\0")
        except InvalidValue as refusal:
            return str(refusal)
        return ""

    def _current_value(self) -> str:
        field, draft = self.field, self._draft
        if field.kind != "secret":
            return as_typed(draft.value(self.step_name, field)) or (
                _("none") if field.optional else _("must be answered")
            )
        if field.name in draft.secrets:
            return draft.secrets[field.name].masked()
        return next(
            (_("from {name}").format(name=name) for name in field.env if os.environ.get(name)), _("none")
        )

    def print_help(self) -> None:
        """The help, the choices, and what the cloud holds."""
        talk, field = self.ui.console, self.field
        talk.print(_("Help: {text}").format(text=field.help))
        if field.choices:
            talk.print_list([f"{n}: {choice}" for n, choice in enumerate(field.choices, 1)])
        elif self._allowed_text():
            talk.print(_("Allowed: {rule}").format(rule=end_with_period(self._allowed_text())))
        if field.choices_from:
            self._list_suggestions()
        talk.print(
            _("Enter keeps what stands in brackets; < goes to the question before; ! goes on to the checks.")
        )

    def _list_suggestions(self) -> None:
        talk, desk = self.ui.console, self.ui.active_controller
        try:
            found = self.ui.wait(_("looking at the cloud"), desk.suggestions_for(self.field))
        except WizardError as error:
            talk.print(_("Not listed: {title}").format(title=end_with_period(error.title)))
            return
        self._numbered_choices = tuple(each.value for each in found)
        talk.print(_("Found:") if found else _("Found: none."))
        talk.print_list(
            [f"{n}: {one.value}" + (f": {one.title}" if one.title else "") for n, one in enumerate(found, 1)]
        )


def as_typed(value: object) -> str:
    """A value as one would type it."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)
