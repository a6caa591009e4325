"""Reservations: the forms in which the Compute API names them."""

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
    """Split a reservation, in any form that the API accepts, into project, zone, name, block and sub.

    Raises InvalidValue.
    """
    match = _RESERVATION_PATTERN.fullmatch(value.strip())
    if not match:
        raise InvalidValue(
            "must be a reservation name or projects/P/reservations/N, optionally with /reservationBlocks/B and /reservationSubBlocks/S, or a URL"
        )
    return match.groupdict()


def validate_reservation(raw: Any) -> str:
    """Validate a reservation and return it as it was typed. Raises InvalidValue."""
    parse_reservation(str(raw))
    return str(raw).strip()


def affinity_value(value: str, project: str) -> str:
    """Return the value for a node pool's `reservationAffinity`: the name, or the full path if a project or block is given."""
    parts = parse_reservation(value)
    owner = parts["project"] or project
    if owner == project and not parts["block"]:
        return str(parts["name"])
    path = f"projects/{owner}/reservations/{parts['name']}"
    path += f"/reservationBlocks/{parts['block']}" if parts["block"] else ""
    return path + (f"/reservationSubBlocks/{parts['sub']}" if parts["sub"] else "")
