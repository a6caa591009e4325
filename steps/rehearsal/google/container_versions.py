"""GKE's versions: the server config with its channels, and which version a create or upgrade means."""

from __future__ import annotations

import re
from typing import Any

from ..contract import JSON, ApiError, Call, serves
from .catalogue import ground, regions, zones
from .links import place


def _gke() -> JSON:
    return dict(ground()["gke"])


def order(version: str) -> tuple[int, ...]:
    """A key that sorts versions by age: `1.34.3-gke.1245000` -> (1, 34, 3, 1245000)."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def check_location(where: str | None) -> None:
    """Refuses what is neither region nor zone."""
    if where is not None and where not in regions() and where not in zones():
        raise ApiError(400, f'Location "{where}" does not exist.', "INVALID_ARGUMENT", "badRequest")


@serves("container.projects.locations.getServerConfig")
def server_config(call: Call) -> JSON:
    """Versions by channel, image types."""
    check_location(place(str(call.params["name"]))[1])
    gke = _gke()
    every = _every()
    channels = [
        {
            "channel": name,
            "defaultVersion": data["default"],
            "validVersions": list(data["valid"]),
            "upgradeTargetVersion": data["default"],
        }
        for name, data in gke["channels"].items()
    ]
    return {
        "defaultClusterVersion": gke["channels"][gke["default_channel"]]["default"],
        "validMasterVersions": every,
        "validNodeVersions": every,
        "defaultImageType": gke["image_types"][0],
        "validImageTypes": gke["image_types"],
        "channels": channels,
    }


def _every() -> list[str]:
    found = {version for data in _gke()["channels"].values() for version in data["valid"]}
    return sorted(found, key=order, reverse=True)


def choose(asked: Any, channel: str) -> str:
    """The full version that `asked` means.

    "" or "-" is the channel's default; else "latest", "1.34", "1.34.3" or a full one.
    """
    data = _gke()["channels"].get(channel)
    valid = sorted(data["valid"], key=order, reverse=True) if data else _every()
    if asked in (None, "", "-"):
        return str(data["default"]) if data else str(_gke()["channels"]["REGULAR"]["default"])
    if asked == "latest":
        return str(valid[0])
    for version in valid:
        if version == asked or version.startswith((f"{asked}.", f"{asked}-")):
            return str(version)
    where = f" in the {channel} release channel" if data else ""
    raise ApiError(
        400,
        f'Master version "{asked}" is unsupported{where}. No valid versions with the prefix "{asked}" found.',
        "INVALID_ARGUMENT",
        "badRequest",
    )
