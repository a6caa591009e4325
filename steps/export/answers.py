"""The answers as a TOML file for `init --answers`, which re-creates the deployment. Secrets are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.steps.core.answers import Field
from grpo_wizard.steps.core.model import Step
from grpo_wizard.steps.registry import STEPS

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def answers_toml(answers: Answers) -> str:
    """Write every answer with its meaning. Secrets are never included."""
    import tomlkit

    document = tomlkit.document()
    document.add(tomlkit.comment("Answers for `grpo-wizard init --answers FILE`."))
    document.add(
        tomlkit.comment(
            "Tokens are never stored in this file. Set HF_TOKEN and WANDB_API_KEY in the environment."
        )
    )
    for step in STEPS:
        document.add(tomlkit.nl())
        document.add(step.name, _table(step, answers))
    return tomlkit.dumps(document)


def _table(step: Step, answers: Answers) -> object:
    import tomlkit

    table = tomlkit.table()
    for field in step.fields:
        value = answers.of(step.name).get(field.name)
        if value is None:
            continue
        item = tomlkit.item(value)
        item.comment(_field_comment(field))
        table.add(field.name, item)
    return table


def _field_comment(field: Field) -> str:
    """The field's label, unit and choices."""
    unit = f", {field.unit}" if field.unit else ""
    choices = f": {' | '.join(field.choices)}" if 1 < len(field.choices) <= 4 else ""
    return f"{field.label}{unit}{choices}"
