"""The logger: the run's folder exp_NNN and train_data_stepN.jsonl. For W&B only the API key is checked."""

from __future__ import annotations

import json
import netrc
import os
import re
from pathlib import Path
from typing import Any

from toy_grpo.places import local


class UsageError(Exception):
    """Stands for wandb's error of this name."""


def experiment_folder(log_dir: str) -> str:
    """Create and return <log_dir>/exp_NNN with the next free number, as the pod's path."""
    base = local(log_dir)
    base.mkdir(parents=True, exist_ok=True)
    taken = [int(found[1]) for entry in base.iterdir() if (found := re.fullmatch(r"exp_(\d+)", entry.name))]
    name = f"exp_{max(taken, default=0) + 1:03d}"
    (base / name).mkdir()
    return f"{log_dir}/{name}"


def wandb(config: dict[str, Any]) -> None:
    """Raise UsageError if W&B is enabled without an API key. A rehearsal sends nothing to W&B."""
    if not config["logger"]["wandb_enabled"]:
        return
    path = local(os.environ.get("NETRC") or Path.home() / ".netrc")
    if not os.environ.get("WANDB_API_KEY") and not (path.is_file() and netrc.netrc(str(path)).hosts):
        raise UsageError("api_key not configured (no-tty). call wandb.login(key=[your_api_key])")
    print("wandb: API key found; a rehearsal sends nothing", flush=True)


def write_samples(folder: str, step: int, samples: list[dict[str, Any]]) -> None:
    """Write one line per sample; the lines of a group are adjacent."""
    name = f"{folder}/train_data_step{step}.jsonl"
    local(name).write_text("".join(json.dumps(sample) + "\n" for sample in samples), encoding="utf-8")
    print(f"Logged data to {name}", flush=True)
