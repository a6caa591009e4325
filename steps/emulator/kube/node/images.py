"""Which images exist, how long pulls take, and how they fail."""

from __future__ import annotations

import fnmatch
import re
from functools import cache

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api.schemas import read_asset


@cache
def _known_images() -> list[JSON]:
    rows: list[JSON] = read_asset("images.json")["known"]
    return rows


def split_image(image: str) -> tuple[str, str]:
    """Return repository and tag, without Docker Hub's prefixes; the tag defaults to `latest`."""
    name, _, digest = image.partition("@")
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        head, tag = name, "" if digest else "latest"
    head = re.sub(r"^(index\.)?docker\.io/", "", head)
    return head.removeprefix("library/"), tag or digest


def pull_seconds(image: str, project: str) -> float | None:
    """Return the duration of a pull; None if the image does not exist.

    Images of the project's own registry exist.
    """
    name, tag = split_image(image)
    if re.match(rf"^[a-z0-9-]+-docker\.pkg\.dev/{re.escape(project)}/", name) or name.startswith(
        f"gcr.io/{project}/"
    ):
        return 60.0
    for row in _known_images():
        if fnmatch.fnmatch(name, row["image"]) and (tag.startswith("sha256:") or re.search(row["tags"], tag)):
            return float(row["pull_seconds"])
    return None


def image_size(image: str) -> int:
    """Return an image's size in bytes, for the event's text."""
    name, _ = split_image(image)
    return int(next((r["bytes"] for r in _known_images() if fnmatch.fnmatch(name, r["image"])), 100_000_000))


def pull_error(image: str) -> str:
    """Return containerd's error for an image that cannot be pulled."""
    name, tag = split_image(image)
    host = name.split("/")[0]
    full = name if "." in host else f"docker.io/{name if '/' in name else 'library/' + name}"
    head = f'failed to pull and unpack image "{full}:{tag}": failed to resolve reference "{full}:{tag}": '
    if any(fnmatch.fnmatch(name, r["image"]) for r in _known_images()):
        return f"rpc error: code = NotFound desc = {head}{full}:{tag}: not found"
    return (
        f"rpc error: code = Unknown desc = {head}pull access denied, repository does not exist or "
        "may require "
        "authorization: server message: insufficient_scope: authorization failed"
    )
