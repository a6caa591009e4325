"""`metrics`: prints a row per training step, from the job or a saved log."""

from __future__ import annotations

import argparse
import asyncio
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import CommandUsageError
from grpo_wizard.steps.jobs.watch import JobWatcher, load_job
from grpo_wizard.steps.training.reader import LogReader, parse_log
from grpo_wizard.tui.commands._output import print_json
from grpo_wizard.tui.commands._session import mode_of, open_session

_CSV_COLUMNS = (
    "step",
    "epoch",
    "total_steps",
    "batch_size",
    "loss",
    "generation_kl_error",
    "avg_reward",
    "mean_generation_length",
    "total_step_seconds",
    "checkpoint",
)
_TABLE_COLUMNS = (
    ("step", "step", "{}"),
    ("reward", "avg_reward", "{:.4f}"),
    ("loss", "loss", "{:.4f}"),
    ("KL error", "generation_kl_error", "{:.4f}"),
    ("length", "mean_generation_length", "{:.1f}"),
    ("seconds", "total_step_seconds", "{:.2f}"),
)
_EPOCH_COLUMN = ("epoch", "epoch", "{}")


def run(args: argparse.Namespace) -> int:
    if args.source:
        reader = read_log(args.source)
        _print(args, None, reader.to_json() | {"job": None})
        return 0
    session = open_session(args)
    watch: JobWatcher = asyncio.run(load_job(session))
    _print(args, session.deployment.name, {"rows": watch.rows(), "job": watch.to_json()})
    return 0


def read_log(source: str) -> LogReader:
    """Read a saved log, or standard input for `-`."""
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise CommandUsageError(f"Cannot read {source}", error.strerror or str(error)) from error
    return parse_log(data)


def _print(args: argparse.Namespace, deployment: str | None, document: dict[str, Any]) -> None:
    if args.json:
        print_json(mode_of(args), deployment, document)
    elif "eval" in document:
        print("\n".join(f"{key}: {value}" for key, value in document["eval"].items()))
    elif args.csv:
        writer = csv.DictWriter(sys.stdout, _CSV_COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(document["rows"])
    else:
        _print_table(document["rows"])


def _print_table(rows: Sequence[dict[str, object]]) -> None:
    if not rows:
        print("No training step has completed yet.")
        return
    epochs = any(isinstance(epoch := row.get("epoch"), int) and epoch > 1 for row in rows)
    shown = (_TABLE_COLUMNS[0], _EPOCH_COLUMN, *_TABLE_COLUMNS[1:]) if epochs else _TABLE_COLUMNS
    print("  ".join(f"{title:>9}" for title, _, _ in shown))
    for row in rows:
        print("  ".join(f"{_format_cell(row.get(key), form):>9}" for _, key, form in shown))


def _format_cell(value: object, form: str) -> str:
    return "-" if value is None else form.format(value) if isinstance(value, int | float) else str(value)
