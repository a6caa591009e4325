"""GKE's versions: the server config with its channels, and the version selected by a create or upgrade."""

from __future__ import annotations

import re
from typing import Any

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, handles
from grpo_wizard.steps.emulator.google.shared.fixtures import load_fixtures, regions, zones
from grpo_wizard.steps.emulator.google.shared.self_links import parse_parent


def _load_versions() -> JSON:
    return dict(load_fixtures()["gke"])


def version_key(version: str) -> tuple[int, ...]:
    """Return a sort key: `1.34.3-gke.1245000` -> (1, 34, 3, 1245000)."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def check_location(where: str | None) -> None:
    """Reject what is neither region nor zone."""
    if where is not None and where not in regions() and where not in zones():
        raise ApiError(400, f'Location "{where}" does not exist.', "INVALID_ARGUMENT", "badRequest")


@handles("container.projects.locations.getServerConfig")
def server_config(call: ApiCall) -> JSON:
    """Return versions by channel, and image types."""
    check_location(parse_parent(str(call.params["name"]))[1])
    gke = _load_versions()
    every = _all_versions()
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


def _all_versions() -> list[str]:
    found = {version for data in _load_versions()["channels"].values() for version in data["valid"]}
    return sorted(found, key=version_key, reverse=True)


def _invalid_argument(message: str) -> ApiError:
    return ApiError(400, message, "INVALID_ARGUMENT", "badRequest")


def _minor(version: str) -> int:
    return version_key(version)[1]


def _channel(name: str) -> list[str]:
    """Return a channel's versions, newest first; those of all channels if it does not exist."""
    data = _load_versions()["channels"].get(name)
    return sorted(data["valid"], key=version_key, reverse=True) if data else _all_versions()


def _newest_match(asked: str, valid: list[str]) -> str | None:
    """Return the newest version that matches `asked`: "latest", "1.34", "1.34.3" or a full version."""
    if asked == "latest":
        return valid[0]
    fits = (asked, f"{asked}.", f"{asked}-")
    return next((one for one in valid if one == asked or one.startswith(fits[1:])), None)


def _is_full_version(asked: str) -> bool:
    return "-gke." in asked


def resolve_version(asked: Any, channel: str) -> str:
    """Return the control plane version that `asked` selects on a channel; "" or "-" selects the channel's default.

    Error texts are GKE's: a prefix without a match (quoted 2025), a full version not on the channel
    (terraform-google-kubernetes-engine issue 2177, 2024-11), one on no channel (plural issue 1308, 2024-05).
    """
    data = _load_versions()["channels"].get(channel)
    if asked in (None, "", "-"):
        return str(data["default"]) if data else str(_load_versions()["channels"]["REGULAR"]["default"])
    found = _newest_match(str(asked), _channel(channel))
    if found:
        return found
    if not _is_full_version(str(asked)):
        raise _invalid_argument(f'No valid versions with the prefix "{asked}" found.')
    if data:
        raise _not_in_channel(channel)
    raise _invalid_argument(f'Master version "{asked}" is unsupported.')


def _not_in_channel(channel: str) -> ApiError:
    listed = ", ".join(sorted(_channel(channel), key=version_key))
    return _invalid_argument(
        f'Master version must be one of "{channel}" channel supported versions [{listed}].'
    )


def resolve_upgrade(asked: Any, channel: str, now: str) -> str:
    """Return the version of a control plane upgrade: no minor may be skipped, and no downgrade.

    Both error texts are inferred from GKE's documentation of upgrades (2026-11).
    """
    chosen = resolve_version(asked, channel)
    if _minor(chosen) < _minor(now):
        raise _invalid_argument(
            f'Master cannot be upgraded to "{chosen}": cannot downgrade the master from "{now}".'
        )
    if _minor(chosen) > _minor(now) + 1:
        raise _invalid_argument(
            f'Master cannot be upgraded to "{chosen}": cannot upgrade the master from "{now}" by more than a minor '
            "version."
        )
    return chosen


def check_channel(channel: str, now: str) -> None:
    """Reject a channel that lacks a cluster's version."""
    if channel in _load_versions()["channels"] and version_key(now) > version_key(_channel(channel)[0]):
        raise _not_in_channel(channel)


_MAX_MINOR_SKEW = (
    2  # minor versions by which nodes may lag behind the control plane (GKE's version skew policy, 2026-11)
)


def resolve_node_version(asked: Any, master: str) -> str:
    """Return the version requested for a pool's nodes; "" or "-" selects the control plane's.

    Texts: unsupported (jetstack/terraform-google-gke-cluster issue 28), newer minor
    (terraform-provider-google issue 6405, rancher issue 32143), newer patch (terraform-provider-google issue
    1682); too old: inferred.
    """
    if asked in (None, "", "-"):
        return master
    fitting = [one for one in _all_versions() if version_key(one) <= version_key(master)]
    chosen = (
        master
        if asked == master
        else _newest_match(str(asked), fitting) or _newest_match(str(asked), _all_versions())
    )
    if chosen is None:
        text = "Node version" if _is_full_version(str(asked)) else "No valid versions with the prefix"
        raise _invalid_argument(
            f'{text} "{asked}" {"is unsupported" if _is_full_version(str(asked)) else "found"}.'
        )
    if _minor(chosen) > _minor(master):
        raise _invalid_argument(
            f'Node version "{chosen}" must not have a greater minor version than master version "{master}".'
        )
    if version_key(chosen) > version_key(master):
        raise _invalid_argument(
            f'desired node version "{chosen}" cannot be greater than current master version "{master}".'
        )
    if _minor(chosen) < _minor(master) - _MAX_MINOR_SKEW:
        raise _invalid_argument(
            f'Node version "{chosen}" must not be more than {_MAX_MINOR_SKEW} minor versions older than master version '
            f'"{master}".'
        )
    return chosen
