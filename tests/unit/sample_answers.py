"""Complete answers for unit tests: the tutorial's, with what a test changes laid over them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.registry import validate

TUTORIAL = tomllib.loads(
    (Path(__file__).parents[2] / "assets" / "answers-tutorial.toml").read_text(encoding="utf-8")
)
_SET = re.compile(r"Set (\w+)\.(\w+)=(\S+?)[.,]*(?= |$)")
_OVERRIDE = re.compile(r"(?:In grpo\.overrides, set|Add) (\S+?)=(\S+?)(?: to grpo\.overrides)?\.")


def answers(**changed: Any) -> Answers:
    """`grpo__max_num_steps=5` changes that answer; everything else is the tutorial's."""
    given = {step: dict(fields) for step, fields in TUTORIAL.items()}
    for name, value in changed.items():
        step, _, field = name.partition("__")
        given[step][field] = value
    return validate(given)


def apply_fix(fix: str, changed: dict[str, Any]) -> dict[str, Any]:
    """What a fix says, done: the same changes with the suggested value in them."""
    done = dict(changed)
    if found := _OVERRIDE.fullmatch(fix):
        key = found[1]
        others = [text for text in done.get("grpo__overrides", []) if text.lstrip("+").split("=")[0] != key]
        return done | {"grpo__overrides": [*others, f"{key}={found[2]}"]}
    found = _SET.match(fix)
    assert found, f"a fix that cannot be followed: {fix}"
    return done | {f"{found[1]}__{found[2]}": found[3]}
