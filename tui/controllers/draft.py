"""The answers of a deployment while they are edited: valid values, invalid input, and what is saved.

Only values that differ from their default or were prefilled are saved, so that a default derived from another answer
(the machine type from the GPU) stays derived. A visited step is saved even if it has no values.
"""

from __future__ import annotations

from typing import Any

from grpo_wizard.state.model import Deployment, Value
from grpo_wizard.state.secret import Secret
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.core.answers import AnswerValue, Field, InvalidValue, NotAnswered
from grpo_wizard.steps.core.model import Step
from grpo_wizard.steps.registry import STEP_NAMES, STEPS, step, validate_partial

AnswersByStep = dict[str, dict[str, Any]]


class Draft:
    """Answers being edited.

    `working_answers`: valid values by step and field; `invalid_values`: (raw input, reason) by "step.field".
    """

    def __init__(self, store: StateStore, deployment: Deployment, prefill: AnswersByStep) -> None:
        self.store, self.deployment = store, deployment
        self.prefill = {name: dict(values) for name, values in prefill.items()}
        self.working_answers: AnswersByStep = {
            name: dict(prefill.get(name, {})) | dict(deployment.answers.get(name, {})) for name in STEP_NAMES
        }
        self.invalid_values: dict[str, tuple[Any, str]] = {}
        self.secrets: dict[str, Secret] = {}
        self._drop_values_equal_to_default()

    def _drop_values_equal_to_default(self) -> None:
        """Drop values that equal a default derived from other answers, so that they stay derived."""
        answers, _ = validate_partial(self.working_answers)
        for each in STEPS:
            for field in each.fields:
                values = self.working_answers[each.name]
                if (
                    field.name in values
                    and callable(field.default)
                    and field.default_for(answers) == values[field.name]
                ):
                    del values[field.name]
                    self.prefill.get(each.name, {}).pop(field.name, None)

    def validate(self) -> tuple[Answers, dict[str, str]]:
        """(valid answers, reason by "step.field" for each that is missing or invalid)."""
        known, missing = validate_partial(self.working_answers)
        missing |= {key: rule for key, (_, rule) in self.invalid_values.items()}
        return known.without(self.invalid_values), missing

    def value(self, step_name: str, field: Field) -> object:
        """The field's content: invalid input, else the answer, else an empty string."""
        key = f"{step_name}.{field.name}"
        if key in self.invalid_values:
            return self.invalid_values[key][0]
        answers, _ = self.validate()
        answer = answers.of(step_name).get(field.name)
        return self.working_answers[step_name].get(field.name, "") if answer is None else answer

    def set(self, step_name: str, field: Field, raw: object) -> str:
        """Set a field from raw input. Returns why it is invalid, or an empty string."""
        key = f"{step_name}.{field.name}"
        self.invalid_values.pop(key, None)
        if field.kind == "secret":
            return self._set_secret(key, field, str(raw))
        if isinstance(raw, str) and not raw.strip() and not field.optional and field.default is None:
            self.working_answers[step_name].pop(field.name, None)
            return self.validate()[1].get(key, "")
        try:
            self.working_answers[step_name][field.name] = field.parse(raw)
        except InvalidValue as error:
            self.invalid_values[key] = (raw, str(error))
            return str(error)
        return ""

    def _set_secret(self, key: str, field: Field, raw: str) -> str:
        from grpo_wizard.state.errors import InvalidSecret
        from grpo_wizard.state.secret import parse_secret

        self.secrets.pop(field.name, None)
        if not raw.strip():
            return ""
        try:
            self.secrets[field.name] = parse_secret(raw)[0]
        except InvalidSecret as error:
            reason = f"{error.title}. {error.detail}"
            self.invalid_values[key] = ("", reason)  # the input is not kept: it may contain a token
            return reason
        return ""

    def is_shown(self, field: Field) -> bool:
        """Whether the field applies, given the other answers."""
        answers, _ = self.validate()
        try:
            return field.shown_when(answers)
        except NotAnswered:
            return True

    def errors_in(self, step_name: str) -> dict[str, str]:
        """Reason by field name for each answer of the step that is missing or invalid."""
        return {
            key.partition(".")[2]: rule
            for key, rule in self.validate()[1].items()
            if key.partition(".")[0] == step_name
        }

    def was_visited(self, step_name: str) -> bool:
        """Whether the step was saved before."""
        return step_name in self.deployment.answers

    def step_status(self, step_name: str) -> str:
        """Status of the step: done, block (an answer is invalid, or missing after a visit), or todo."""
        if any(key.partition(".")[0] == step_name for key in self.invalid_values):
            return "block"
        if not self.was_visited(step_name):
            return "todo"
        return "block" if self.errors_in(step_name) else "done"

    def save_step(self, step_name: str, screen_name: str) -> None:
        """Save the step's answers and the screen to reopen. Raises StateError."""
        self.deployment.answers[step_name] = self._values_to_save(step(step_name))
        self.save_screen(screen_name)

    def freeze(self, answers: Answers, screen_name: str) -> None:
        """Save every answer, including defaults: another release must continue with the same values."""
        self.deployment.answers = answers.to_values()
        self.save_screen(screen_name)

    def save_screen(self, screen_name: str) -> None:
        """Save the screen to reopen."""
        self.deployment.place = screen_name
        self.store.save(self.deployment)

    def _values_to_save(self, each: Step) -> dict[str, Value]:
        answers, _ = self.validate()
        saved: dict[str, Value] = {}
        for field in each.fields:
            value = answers.of(each.name).get(field.name)
            if field.name not in self.working_answers[each.name] or value is None:
                continue
            if field.name in self.prefill.get(each.name, {}) or value != _default(field, answers):
                saved[field.name] = value
        return saved

    def resume_screen(self) -> str:
        """The screen to reopen: the step where the wizard was left, else the first unvisited one, else review."""
        if self.deployment.place in STEP_NAMES:
            return self.deployment.place
        return next((name for name in STEP_NAMES if not self.was_visited(name)), "review")


def _default(field: Field, answers: Answers) -> AnswerValue | None:
    try:
        return field.default_for(answers)
    except NotAnswered:
        return None
