"""What stands in the fields before anybody typed: the tutorial's values in a rehearsal, its variables otherwise."""

from __future__ import annotations

import os
import tomllib
from importlib.resources import files
from typing import Any

from grpo_wizard.steps.registry import fields
from grpo_wizard.tui.commands.init import from_environment

AnswersByStep = dict[str, dict[str, Any]]


def tutorial_answers() -> AnswersByStep:
    """The tutorial's own answers: a fresh rehearsal's world holds what they name."""
    document: AnswersByStep = tomllib.loads(
        files("grpo_wizard.assets").joinpath("answers-tutorial.toml").read_text("utf-8")
    )
    return document


def environment_answers() -> AnswersByStep:
    """Answers from the tutorial's own variables, as far as they are set."""
    return from_environment(os.environ)


def prefill_for_mode(mode: str) -> AnswersByStep:
    """What a deployment of this mode begins with."""
    return tutorial_answers() if mode == "rehearsal" else environment_answers()


def tutorial_variables() -> list[str]:
    """The names of the tutorial's variables."""
    return [name for _step, field in fields() for name in field.env if field.kind != "secret"]
