"""Asking a running server for its drills. Standard library only, as life.py."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grpo_wizard.steps.emulator import process

JSON = dict[str, Any]
_DRILLS = "/_rehearsal/drills"
_SOON = 5.0  # seconds that a title line waits for an answer


def listed(address: process.Address) -> list[JSON]:
    """Every drill: its texts, `running`, `since`. Raises RehearsalError where the server is gone."""
    return _changed(address, "GET", _DRILLS)


def begin(address: process.Address, names: Iterable[str]) -> list[JSON]:
    """Begins drills. Raises RehearsalError naming those that there are."""
    found: list[JSON] = []
    for name in names:
        found = _changed(address, "POST", f"{_DRILLS}/{name}")
    return found


def end(address: process.Address, names: Iterable[str] = ()) -> list[JSON]:
    """Ends drills; all of them where none is named. Raises RehearsalError naming those that there are."""
    found: list[JSON] = []
    for path in [f"{_DRILLS}/{name}" for name in names] or [_DRILLS]:
        found = _changed(address, "DELETE", path)
    return found


def running(home: Path) -> tuple[str, ...]:
    """The drills that run in this home's rehearsal; none where none runs. Never raises, and asks nothing but this."""
    try:
        address = process.known(home)
        drills = _changed(address, "GET", _DRILLS, _SOON) if address else []
    except (process.RehearsalError, OSError):
        return ()
    return tuple(drill["name"] for drill in drills if drill["running"])


def _changed(address: process.Address, method: str, path: str, timeout: float = 30) -> list[JSON]:
    try:
        drills: list[JSON] = process.ask(address.base_url, address.token, method, path, timeout)["drills"]
    except urllib.error.HTTPError as error:
        with error:
            said = json.loads(error.read() or b"{}").get("error", {}).get("message", str(error))
        raise process.RehearsalError(str(said)) from None
    except (OSError, ValueError) as error:
        raise process.RehearsalError(
            f"The rehearsal at {address.base_url} does not answer ({error})."
        ) from None
    return drills
