"""Query and control the drills of a running server. Standard library only."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grpo_wizard.steps.emulator import process

JSON = dict[str, Any]
_DRILLS_PATH = "/_rehearsal/drills"
_QUICK_TIMEOUT_S = 5.0  # how long rendering a title may wait for the server


def list_drills(address: process.ServerAddress) -> list[JSON]:
    """Return every drill with its texts, `running` and `since`. Raises EmulatorError if no server answers."""
    return _request_drills(address, "GET", _DRILLS_PATH)


def begin(address: process.ServerAddress, names: Iterable[str]) -> list[JSON]:
    """Start drills. Raises EmulatorError, which lists the available drills, for an unknown name."""
    found: list[JSON] = []
    for name in names:
        found = _request_drills(address, "POST", f"{_DRILLS_PATH}/{name}")
    return found


def end(address: process.ServerAddress, names: Iterable[str] = ()) -> list[JSON]:
    """End the named drills, or all of them.

    Raises EmulatorError, which lists the available drills, for an unknown name.
    """
    found: list[JSON] = []
    for path in [f"{_DRILLS_PATH}/{name}" for name in names] or [_DRILLS_PATH]:
        found = _request_drills(address, "DELETE", path)
    return found


def active_drills(home: Path) -> tuple[str, ...]:
    """Return the names of this home's active drills; empty where no server runs. Never raises."""
    try:
        address = process.last_known(home)
        drills = _request_drills(address, "GET", _DRILLS_PATH, _QUICK_TIMEOUT_S) if address else []
    except (process.EmulatorError, OSError):
        return ()
    return tuple(drill["name"] for drill in drills if drill["running"])


def _request_drills(
    address: process.ServerAddress, method: str, path: str, timeout: float = 30
) -> list[JSON]:
    try:
        drills: list[JSON] = process.send_request(address.base_url, address.token, method, path, timeout)[
            "drills"
        ]
    except urllib.error.HTTPError as error:
        with error:
            message = json.loads(error.read() or b"{}").get("error", {}).get("message", str(error))
        raise process.EmulatorError(str(message)) from None
    except (OSError, ValueError) as error:
        raise process.EmulatorError(
            f"The emulator at {address.base_url} is not responding ({error})."
        ) from None
    return drills
