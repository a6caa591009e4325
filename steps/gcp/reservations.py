"""Reservations: the forms in which the API names them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from grpo_wizard.steps.core.answers import InvalidValue

_RESERVATION_PATTERN = re.compile(
    r"(?:https://[a-z.]*googleapis\.com/compute/[a-z0-9]+/)?"
    r"(?:projects/(?P<project>(?:[a-z0-9.-]+:)?[a-z][-a-z0-9]*)/(?:zones/(?P<zone>[a-z0-9-]+)/)?reservations/)?"
    r"(?P<name>[a-z]([-a-z0-9]{0,61}[a-z0-9])?)"
    r"(?:/reservationBlocks/(?P<block>[a-z]([-a-z0-9]*[a-z0-9])?)(?:/reservationSubBlocks/(?P<sub_block>[a-z]([-a-z0-9]*[a-z0-9])?))?)?"
)


@dataclass(frozen=True, kw_only=True)
class ReservationName:
    """The parts of a reservation's name. A part that was not given is empty."""

    name: str
    project: str = ""
    zone: str = ""
    block: str = ""
    sub_block: str = ""


def parse_reservation(value: str) -> ReservationName:
    """Parse any form that the API accepts. Raises InvalidValue."""
    match = _RESERVATION_PATTERN.fullmatch(value.strip())
    if not match:
        raise InvalidValue(
            "must be a reservation name or projects/P/reservations/N, optionally with /reservationBlocks/B and /reservationSubBlocks/S, or a reservation URL"
        )
    return ReservationName(**{part: text or "" for part, text in match.groupdict().items()})


def validate_reservation(raw: object) -> str:
    """Accept any form that the API accepts, as it was typed."""
    parse_reservation(str(raw))
    return str(raw).strip()


def affinity_value(value: str, project: str) -> str:
    """What a node pool's reservationAffinity takes: the bare name, or the full path of another project's or a block."""
    reservation = parse_reservation(value)
    owner = reservation.project or project
    if owner == project and not reservation.block:
        return reservation.name
    path = f"projects/{owner}/reservations/{reservation.name}"
    path += f"/reservationBlocks/{reservation.block}" if reservation.block else ""
    return path + (f"/reservationSubBlocks/{reservation.sub_block}" if reservation.sub_block else "")
