"""The register of what can be asked of the outside, and what the questions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grpo_wizard.steps.clients.context import Cloud, absent_is_none, call
from grpo_wizard.steps.clients.google.compute import compute
from grpo_wizard.steps.clients.serialization import JSON, document

QUESTIONS: dict[str, Callable[..., Any]] = {}


def question(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function (cloud, **about) answerable by its name."""
    QUESTIONS[function.__name__] = function
    return function


def compute_one(cloud: Cloud, client: str, **request: Any) -> JSON | None:
    return absent_is_none(compute(cloud, client).get, "compute", request)


def compute_all(cloud: Cloud, client: str, **request: Any) -> list[JSON]:
    return [document(one) for one in call("compute", compute(cloud, client).list, request=request)]
