"""Initial answers: the tutorial's values in a rehearsal, else the tutorial's environment variables."""

from __future__ import annotations

import os
import tomllib
from importlib.resources import files
from typing import Any

from grpo_wizard.steps.registry import fields
from grpo_wizard.tui.commands.init import from_environment

AnswersByStep = dict[str, dict[str, Any]]


def tutorial_answers() -> AnswersByStep:
    """The tutorial's answers; the resources that they name exist in a new emulator."""
    document: AnswersByStep = tomllib.loads(
        files("grpo_wizard.assets").joinpath("answers-tutorial.toml").read_text("utf-8")
    )
    return document


def environment_answers() -> AnswersByStep:
    """Answers from those environment variables of the tutorial that are set."""
    return from_environment(os.environ)


def prefill_for_mode(mode: str) -> AnswersByStep:
    """Initial answers of a deployment of this mode (real or rehearsal)."""
    return tutorial_answers() if mode == "rehearsal" else environment_answers()


def tutorial_variables() -> list[str]:
    """Names of the tutorial's environment variables."""
    return [name for _step, field in fields() for name in field.env if field.kind != "secret"]
