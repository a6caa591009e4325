"""The register of what can be asked of the outside, and what the questions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grpo_wizard.steps.clients.context import CloudContext, call, get_or_none
from grpo_wizard.steps.clients.google.compute import compute_client
from grpo_wizard.steps.clients.serialization import JSON, to_json

QUERIES: dict[str, Callable[..., Any]] = {}


def query(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function (cloud, **about) answerable by its name."""
    QUERIES[function.__name__] = function
    return function


def get_compute(cloud: CloudContext, client: str, **request: Any) -> JSON | None:
    return get_or_none(compute_client(cloud, client).get, "compute", request)


def list_compute(cloud: CloudContext, client: str, **request: Any) -> list[JSON]:
    return [to_json(one) for one in call("compute", compute_client(cloud, client).list, request=request)]
