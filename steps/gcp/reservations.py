"""Reservations: the forms in which the API names them."""

from __future__ import annotations

import re
from typing import Any

from grpo_wizard.steps.core.answers import InvalidValue

_RESERVATION_PATTERN = re.compile(
    r"(?:https://[a-z.]*googleapis\.com/compute/[a-z0-9]+/)?"
    r"(?:projects/(?P<project>(?:[a-z0-9.-]+:)?[a-z][-a-z0-9]*)/(?:zones/(?P<zone>[a-z0-9-]+)/)?reservations/)?"
    r"(?P<name>[a-z]([-a-z0-9]{0,61}[a-z0-9])?)"
    r"(?:/reservationBlocks/(?P<block>[a-z]([-a-z0-9]*[a-z0-9])?)(?:/reservationSubBlocks/(?P<sub>[a-z]([-a-z0-9]*[a-z0-9])?))?)?"
)


def parse_reservation(value: str) -> dict[str, str | None]:
    """The parts of a reservation in any form that the API takes: project, zone, name, block, sub."""
    match = _RESERVATION_PATTERN.fullmatch(value.strip())
    if not match:
        raise InvalidValue(
            "a reservation's name, projects/P/reservations/N, either with /reservationBlocks/B and /reservationSubBlocks/S, or its URL"
        )
    return match.groupdict()


def validate_reservation(raw: Any) -> str:
    """The parser of the field: any form that the API takes, kept as it was typed."""
    parse_reservation(str(raw))
    return str(raw).strip()


def affinity_value(value: str, project: str) -> str:
    """What a node pool's reservationAffinity takes: the bare name, or the full path once a project or a block is named."""
    parts = parse_reservation(value)
    owner = parts["project"] or project
    if owner == project and not parts["block"]:
        return str(parts["name"])
    path = f"projects/{owner}/reservations/{parts['name']}"
    path += f"/reservationBlocks/{parts['block']}" if parts["block"] else ""
    return path + (f"/reservationSubBlocks/{parts['sub']}" if parts["sub"] else "")
