"""Times, ids and operation names as Google writes them."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from datetime import UTC, datetime, timedelta, timezone

from grpo_wizard.steps.emulator.server.context import ResourceStore

_PACIFIC = timezone(timedelta(hours=-8))


def pacific_timestamp(world: ResourceStore) -> str:
    """Now, as Compute writes it: `2026-11-30T02:05:54.123-08:00`."""
    return datetime.fromtimestamp(world.clock.now(), _PACIFIC).isoformat(timespec="milliseconds")


def to_pacific(text: str) -> str:
    """Another's time (RFC 3339), as Compute writes it."""
    return datetime.fromisoformat(text).astimezone(_PACIFIC).isoformat(timespec="milliseconds")


def utc_timestamp(world: ResourceStore, at: float | None = None) -> str:
    """A time (now) in UTC, as container and lustre write it."""
    moment = datetime.fromtimestamp(world.clock.now() if at is None else at, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def generate_resource_id() -> str:
    """A resource's id: an unsigned 64-bit number as a string."""
    return str(secrets.randbits(62) + 2**62)


def fingerprint(of: object) -> str:
    """Eight bytes that change with what they are made of; Compute's own for no labels.

    In the alphabet for URLs, as Compute writes them (2bsm86CRs-0=) and gcloud sends them back.
    """
    if not of:
        return "42WmSpB8rSM="
    digest = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).digest()
    return base64.urlsafe_b64encode(digest[:8]).decode()


def operation_name(world: ResourceStore) -> str:
    """`operation-1790000000001-6abc…-…`, never twice the same."""
    millis = int(world.clock.now() * 1000)
    return f"operation-{millis}-{secrets.token_hex(6)}-{secrets.token_hex(4)}-{secrets.token_hex(4)}"
