"""A deployment's answers while they are being given: what is known, what was refused, what is saved.

Saved are the values that differ from their default or were prefilled, so that a default that follows from another
answer (the machine type from the GPU) keeps following it. A step that was passed stands in the state, even empty.
"""

from __future__ import annotations

from typing import Any

from grpo_wizard.state.model import Deployment
from grpo_wizard.state.secret import Secret
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.core.answers import AnswerValue, Field, InvalidValue, NotAnswered
from grpo_wizard.steps.core.model import Step
from grpo_wizard.steps.registry import STEP_NAMES, STEPS, step, validate_partial

AnswersByStep = dict[str, dict[str, Any]]


class Draft:
    """`working` are the answers of this moment, `refused` by step.field what was typed and why it is not taken."""

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
        """A value that equals a default made from other answers is taken for that default."""
        answers, _ = validate_partial(self.working_answers)
        for each in STEPS:
            for field in each.fields:
                mine = self.working_answers[each.name]
                if (
                    field.name in mine
                    and callable(field.default)
                    and field.default_for(answers) == mine[field.name]
                ):
                    del mine[field.name]
                    self.prefill.get(each.name, {}).pop(field.name, None)

    def validate(self) -> tuple[Answers, dict[str, str]]:
        """Answers as far as they are known, and a sentence for each that is missing or refused, by step.field."""
        known, missing = validate_partial(self.working_answers)
        missing |= {key: rule for key, (_, rule) in self.invalid_values.items()}
        return known.without(self.invalid_values), missing

    def value(self, step_name: str, field: Field) -> Any:
        """What stands in the field: what was typed last, else the answer, else nothing."""
        key = f"{step_name}.{field.name}"
        if key in self.invalid_values:
            return self.invalid_values[key][0]
        answers, _ = self.validate()
        answer = answers.of(step_name).get(field.name)
        return self.working_answers[step_name].get(field.name, "") if answer is None else answer

    def set(self, step_name: str, field: Field, raw: Any) -> str:
        """Takes what was typed. Returns the sentence of the refusal, or nothing."""
        key = f"{step_name}.{field.name}"
        self.invalid_values.pop(key, None)
        if field.kind == "secret":
            return self._set_secret(key, field, str(raw))
        if isinstance(raw, str) and not raw.strip() and not field.optional and field.default is None:
            self.working_answers[step_name].pop(field.name, None)
            return self.validate()[1].get(key, "")
        try:
            self.working_answers[step_name][field.name] = field.parse(raw)
        except InvalidValue as refusal:
            self.invalid_values[key] = (raw, str(refusal))
            return str(refusal)
        return ""

    def _set_secret(self, key: str, field: Field, raw: str) -> str:
        from grpo_wizard.state.errors import InvalidSecret
        from grpo_wizard.state.secret import parse_secret

        self.secrets.pop(field.name, None)
        if not raw.strip():
            return ""
        try:
            self.secrets[field.name] = parse_secret(raw)[0]
        except InvalidSecret as refusal:
            rule = f"{refusal.title} {refusal.detail}"
            self.invalid_values[key] = ("", rule)  # what was typed may be a token all the same
            return rule
        return ""

    def is_shown(self, field: Field) -> bool:
        """Whether the question is to be asked at all under the present answers."""
        answers, _ = self.validate()
        try:
            return field.shown_when(answers)
        except NotAnswered:
            return True

    def errors_in(self, step_name: str) -> dict[str, str]:
        """By field, what keeps this step from being complete."""
        return {
            key.partition(".")[2]: rule
            for key, rule in self.validate()[1].items()
            if key.partition(".")[0] == step_name
        }

    def was_visited(self, step_name: str) -> bool:
        """Whether this step was gone through."""
        return step_name in self.deployment.answers

    def step_status(self, step_name: str) -> str:
        """Of the rail: done, block (something is refused, or missing after it was passed), todo."""
        if any(key.partition(".")[0] == step_name for key in self.invalid_values):
            return "block"
        if not self.was_visited(step_name):
            return "todo"
        return "block" if self.errors_in(step_name) else "done"

    def save_step(self, step_name: str, screen_name: str) -> None:
        """Writes this step's answers and where the wizard stands. Raises StateError."""
        self.deployment.answers[step_name] = self._values_to_save(step(step_name))
        self.save_screen(screen_name)

    def freeze(self, answers: Answers, screen_name: str) -> None:
        """Writes every answer, defaults too: from now on things are made after them, by whatever release goes on."""
        self.deployment.answers = answers.to_values()
        self.save_screen(screen_name)

    def save_screen(self, screen_name: str) -> None:
        """Writes where the wizard stands, if that is news."""
        self.deployment.place = screen_name
        self.store.save(self.deployment)

    def _values_to_save(self, each: Step) -> dict[str, Any]:
        answers, _ = self.validate()
        kept: dict[str, Any] = {}
        for field in each.fields:
            value = answers.of(each.name).get(field.name)
            if field.name not in self.working_answers[each.name] or value is None:
                continue
            if field.name in self.prefill.get(each.name, {}) or value != _default(field, answers):
                kept[field.name] = value
        return kept

    def resume_screen(self) -> str:
        """Where to begin: the step where the wizard was left, else the first that was not passed, else review."""
        if self.deployment.place in STEP_NAMES:
            return self.deployment.place
        return next((name for name in STEP_NAMES if not self.was_visited(name)), "review")


def _default(field: Field, answers: Answers) -> AnswerValue | None:
    try:
        return field.default_for(answers)
    except NotAnswered:
        return None
