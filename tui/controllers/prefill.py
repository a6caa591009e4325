"""Initial answers: the tutorial's values in a rehearsal, else the tutorial's environment variables."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from grpo_wizard.steps.registry import fields

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


def from_environment(environment: Mapping[str, str]) -> AnswersByStep:
    """Answers from the tutorial's own variables. Tokens are not answers: they are read where they are needed."""
    given: AnswersByStep = {}
    for step, field in fields():
        value = next((environment[name] for name in field.env if environment.get(name)), None)
        if value is not None and field.kind != "secret":
            given.setdefault(step.name, {})[field.name] = as_utf8(value)
    return given


def as_utf8(value: str) -> str:
    """Undo surrogate escapes: where the locale is ASCII, Python leaves other bytes as they came (PEP 383)."""
    try:
        return os.fsencode(value).decode("utf-8")
    except UnicodeError:
        return value
