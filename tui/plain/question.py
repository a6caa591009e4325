"""One question: asks for a field's value until it is valid, with help on `?`."""

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
    """The question of one field, given the answers so far."""

    def __init__(self, ui: PlainSession, step_name: str, field: Field) -> None:
        self.ui, self.step_name, self.field = ui, step_name, field
        self._numbered_choices: tuple[str, ...] = field.choices

    @property
    def _draft(self) -> Draft:
        return self.ui.active_controller.draft

    @property
    def key(self) -> str:
        """`step.field`"""
        return f"{self.step_name}.{self.field.name}"

    def ask(self) -> str:
        """Ask until the answer is valid. Return an empty string, or BACK or SKIP if that was typed instead."""
        console = self.ui.console
        while True:
            is_secret = self.field.kind == "secret"
            typed = console.ask_hidden(self.prompt()) if is_secret else console.ask(self.prompt())
            if typed in (BACK, SKIP):
                return typed
            if typed == HELP:
                self.print_help()
            elif (rule := self._submit(typed)) == "":
                return ""
            else:
                console.print(_("Invalid: {rule}").format(rule=end_with_period(rule)))

    def _submit(self, typed: str) -> str:
        """Save the answer. Return an empty string, or why it is invalid. An empty line keeps the current value."""
        field, draft = self.field, self._draft
        if not typed:
            return draft.errors_in(self.step_name).get(field.name, "")
        if typed == NONE and field.optional and field.kind != "secret":
            typed = ""
        rule = draft.set(self.step_name, field, self._resolve_choice(typed))
        draft.invalid_values.pop(self.key, None)  # the question is asked again at once
        if not rule and field.kind == "secret":
            self.ui.console.print(_("Set: {hint}.").format(hint=draft.secrets[field.name].masked()))
        return rule

    def _resolve_choice(self, typed: str) -> str:
        """Replace the number of a listed choice by the choice."""
        choices = self._numbered_choices
        if (
            typed in choices
            or not typed.isascii()
            or not typed.isdigit()
            or not 1 <= int(typed) <= len(choices)
        ):
            return typed
        return choices[int(typed) - 1]

    def prompt(self) -> str:
        """Return `GPU [1: nvidia-b200, 2: nvidia-h200-141gb] (nvidia-b200):`."""
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
        listed = ", " + _("? lists suggestions") if field.choices_from else ""
        return listed + (", " + _("- for none") if field.optional else "")

    def _allowed_text(self) -> str:
        """Return what is allowed, in the words of the field's own error."""
        try:
            self.field.parse("\0")
        except InvalidValue as error:
            return str(error)
        return ""

    def _current_value(self) -> str:
        field, draft = self.field, self._draft
        if field.kind != "secret":
            return as_typed(draft.value(self.step_name, field)) or (
                _("none") if field.optional else _("required")
            )
        if field.name in draft.secrets:
            return draft.secrets[field.name].masked()
        return next(
            (_("from ${name}").format(name=name) for name in field.env if os.environ.get(name)), _("none")
        )

    def print_help(self) -> None:
        """Print the field's help, its choices, and suggestions from the cloud."""
        console, field = self.ui.console, self.field
        console.print(_("Help: {text}").format(text=field.help))
        if field.choices:
            console.print_list([f"{n}: {choice}" for n, choice in enumerate(field.choices, 1)])
        elif self._allowed_text():
            console.print(_("Allowed: {rule}").format(rule=end_with_period(self._allowed_text())))
        if field.choices_from:
            self._list_suggestions()
        console.print(
            _(
                "Enter keeps the value in parentheses; < returns to the previous question; ! skips to the checks."
            )
        )

    def _list_suggestions(self) -> None:
        console, controller = self.ui.console, self.ui.active_controller
        try:
            found = self.ui.wait(_("reading the project"), controller.suggestions_for(self.field))
        except WizardError as error:
            console.print(_("No suggestions: {title}").format(title=end_with_period(error.title)))
            return
        self._numbered_choices = tuple(each.value for each in found)
        console.print(_("Suggestions:") if found else _("Nothing found."))
        console.print_list(
            [
                f"{n}: {one.value}" + (f": {one.title}" if one.title not in ("", one.value) else "")
                for n, one in enumerate(found, 1)
            ]
        )


def as_typed(value: object) -> str:
    """Format a value the way it would be typed."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)
