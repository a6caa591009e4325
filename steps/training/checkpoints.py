"""Checkpoints by their files: which are complete, how big, and from which one a restart would resume.

NeMo RL v0.5.0 writes into tmp_step_N and renames it to step_N, resumes from the highest N by name without checking its
contents, and leaves old_step_N when it is killed during the swap:
https://github.com/NVIDIA-NeMo/RL/blob/v0.5.0/nemo_rl/utils/checkpoint.py#L112
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_FOLDER = re.compile(r"^(?P<kind>tmp_|old_)?step_(?P<step>\d+)$")
_INFO_FILE, _DATALOADER_FILE = "training_info.json", "train_dataloader.pt"
_WEIGHTS_DIR = "policy/weights/"
_DU = re.compile(r"^(\d+)\s+(\S.*)$")


@dataclass
class Checkpoint:
    """One folder. `state`: complete; incomplete (renamed, but files are missing); interrupted (tmp_); swap (old_)."""

    name: str
    step: int
    path: str
    state: str
    size_bytes: int = 0
    files: int = 0
    missing: list[str] = field(default_factory=list)
    latest: bool = False  # NeMo RL would resume from this one
    note: str = ""

    @property
    def complete(self) -> bool:
        """Whether a run can resume from it."""
        return self.state == "complete"

    def to_json(self) -> dict[str, Any]:
        """Return the row with the keys of `checkpoints --json`."""
        return {**vars(self), "complete": self.complete}


@dataclass
class CheckpointListing:
    """All folders by step. `latest_step`: what NeMo RL picks by name; `resume_step`: the newest complete one."""

    rows: list[Checkpoint]
    latest_step: int | None
    resume_step: int | None
    warning: str = ""

    def to_json(self) -> dict[str, Any]:
        """`{"checkpoints": […], "latest_step", "resume_step", "warning"}`"""
        return {
            "checkpoints": [row.to_json() for row in self.rows],
            "latest_step": self.latest_step,
            "resume_step": self.resume_step,
            "warning": self.warning,
        }


def parse_du(text: str, unit: int = 1) -> list[tuple[str, int]]:
    """Parse `du -ab DIR` (unit 1) or `du -a DIR` (unit 1024) into (path, bytes) of files, without folder totals."""
    found = [(m[2].rstrip("/"), int(m[1]) * unit) for m in map(_DU.match, text.splitlines()) if m]
    folders = {path.rsplit("/", n)[0] for path, _ in found for n in range(1, path.count("/") + 1)}
    return [(path, size) for path, size in found if path not in folders]


def list_from_files(files: Iterable[tuple[str, int]]) -> CheckpointListing:
    """Group (path, size in bytes) of files below a checkpoint folder by checkpoint. Paths may be absolute or relative."""
    inside: dict[str, tuple[Checkpoint, list[str]]] = {}
    for path, size in files:
        parts = path.split("/")
        for depth, part in enumerate(parts):
            if found := _FOLDER.match(part):
                _add(inside, "/".join(parts[: depth + 1]), found, "/".join(parts[depth + 1 :]), size)
                break
    rows = [_check_completeness(row, names) for row, names in inside.values()]
    rows.sort(key=lambda row: (row.step, row.name))
    return _build_listing(rows)


def _add(
    inside: dict[str, tuple[Checkpoint, list[str]]], path: str, found: re.Match[str], rest: str, size: int
) -> None:
    state = {"tmp_": "interrupted", "old_": "swap", None: "complete"}[found["kind"]]
    row, names = inside.setdefault(path, (Checkpoint(found[0], int(found["step"]), path, state), []))
    if rest:
        row.size_bytes, row.files = row.size_bytes + size, row.files + 1
        names.append(rest)


def _check_completeness(row: Checkpoint, names: list[str]) -> Checkpoint:
    row.missing = [name for name in (_INFO_FILE,) if name not in names]
    if not any(name.startswith("train_dataloader") for name in names):
        row.missing.append(_DATALOADER_FILE)
    if not _has_weights(names):
        row.missing.append(_WEIGHTS_DIR.rstrip("/"))
    if row.state == "complete" and row.missing:
        row.state = "incomplete"
        row.note = "Files are missing. Move the folder away, or the job will fail at startup."
    elif row.state == "interrupted":
        row.note = "The save was interrupted or is still in progress."
    elif row.state == "swap":
        row.note = "Left behind by a crash during the rename. It may be the only good copy of its step."
    return row


def _has_weights(names: list[str]) -> bool:
    """DTensor v1 has weights/.metadata, v2 weights/model/, Megatron weights/iter_N/; a listing may hide dot files."""
    below = [name[len(_WEIGHTS_DIR) :] for name in names if name.startswith(_WEIGHTS_DIR)]
    return any(
        name == ".metadata" or name.startswith(("model/", "iter_")) or name.endswith((".distcp", ".npz"))
        for name in below
    )


def _build_listing(rows: list[Checkpoint]) -> CheckpointListing:
    named = [row for row in rows if row.state in ("complete", "incomplete")]
    if not named:
        kept = [row for row in rows if row.state == "swap" and not row.missing]
        warning = (
            f"Only {kept[-1].name} is complete. Rename it to step_{kept[-1].step} to resume from it."
            if kept
            else ""
        )
        return CheckpointListing(rows, None, None, warning)
    newest = max(named, key=lambda row: row.step)
    newest.latest = True
    whole = [row.step for row in named if row.complete]
    warning = (
        ""
        if newest.complete
        else (
            f"{newest.name} is incomplete ({', '.join(newest.missing)} missing), "
            "but NeMo RL would resume from it. Move it away."
        )
    )
    return CheckpointListing(rows, newest.step, max(whole) if whole else None, warning)
