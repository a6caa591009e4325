"""Timestamps, ids and operation names in Google's formats."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from datetime import UTC, datetime, timedelta, timezone

from grpo_wizard.steps.emulator.context import ResourceStore

_PACIFIC = timezone(timedelta(hours=-8))


def pacific_timestamp(store: ResourceStore) -> str:
    """Return the current time in Compute's format: `2026-11-30T02:05:54.123-08:00`."""
    return datetime.fromtimestamp(store.clock.now(), _PACIFIC).isoformat(timespec="milliseconds")


def to_pacific(text: str) -> str:
    """Convert a time (RFC 3339) to Compute's format."""
    return datetime.fromisoformat(text).astimezone(_PACIFIC).isoformat(timespec="milliseconds")


def utc_timestamp(store: ResourceStore, at: float | None = None) -> str:
    """Return a time (default: now) in UTC, in the format of container and lustre."""
    moment = datetime.fromtimestamp(store.clock.now() if at is None else at, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def generate_resource_id() -> str:
    """Return a resource id: an unsigned 64-bit number as a string."""
    return str(secrets.randbits(62) + 2**62)


def fingerprint(of: object) -> str:
    """Return eight bytes derived from the content; Compute's own value for no labels.

    In the URL-safe alphabet, as Compute returns them (2bsm86CRs-0=) and gcloud sends them back.
    """
    if not of:
        return "42WmSpB8rSM="
    digest = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).digest()
    return base64.urlsafe_b64encode(digest[:8]).decode()


def operation_name(store: ResourceStore) -> str:
    """Return a unique `operation-1790000000001-6abc…-…`."""
    millis = int(store.clock.now() * 1000)
    return f"operation-{millis}-{secrets.token_hex(6)}-{secrets.token_hex(4)}-{secrets.token_hex(4)}"
