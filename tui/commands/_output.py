"""What headless commands print: human text and JSON to stdout, diagnostics to stderr. Every document says its schema, mode and deployment."""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from grpo_wizard.state.errors import WizardError

SCHEMA = 1


def json_safe(value: Any) -> Any:
    """Numbers that are not finite become texts: a bare NaN is no JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {key: json_safe(item) for key, item in value.items()}
    return [json_safe(item) for item in value] if isinstance(value, list | tuple) else value


def envelope(mode: str, deployment: str | None) -> dict[str, Any]:
    return {"schema": SCHEMA, "mode": mode, "deployment": deployment}


def print_json(mode: str, deployment: str | None, document: Mapping[str, Any]) -> None:
    """One line; flushed, so that a reader sees events as they happen."""
    write_data(json.dumps(json_safe(envelope(mode, deployment) | dict(document)), ensure_ascii=False) + "\n")


def write_data(text: str) -> None:
    """What another program reads is UTF-8 whatever the locale: a `?` for a letter would be another value."""
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(text)


def print_error(error: WizardError, args: argparse.Namespace) -> None:
    """An error, to stderr; with --json the same as one object on stdout too. Commands can be pasted as they stand."""
    told = error.to_json() | {"command": with_global_options(error.command, args)}
    if getattr(args, "json", False):
        said = envelope("rehearsal" if args.rehearse else "real", args.deployment)
        write_data(json.dumps(said | {"ok": False, "error": told}, ensure_ascii=False) + "\n")
    lines = [f"error: {error.title}"] + [
        f"  {name}: {told[key]}"
        for name, key in (("why", "detail"), ("fix", "fix"), ("command", "command"))
        if told[key]
    ]
    print("\n".join(lines), file=sys.stderr)


def with_global_options(command: str, args: argparse.Namespace) -> str:
    """A command of ours with the options that this call was given; others as they are."""
    words = command.split()
    if words[:1] != ["grpo-wizard"] or {"--help", "--keys"} & {*words}:
        return command
    home = "" if "--home" in words else args.home or ""
    if words[1:2] in (["rehearse"], ["rehearsal"]):
        return command + deployment_flags(False, "", home)
    rehearse = args.rehearse and "--rehearse" not in words
    return command + deployment_flags(
        rehearse, "" if "--deployment" in words else args.deployment or "", home
    )


def deployment_flags(rehearse: bool, deployment: str, home: str = "") -> str:
    """What a command needs to mean the same deployment. `home`: as it was given, if it was."""
    return (
        (" --rehearse" if rehearse else "")
        + (f" --deployment {deployment}" if deployment else "")
        + (f" --home {shlex.quote(home)}" if home else "")
    )


def status_glyph(key: str) -> str:
    """A sign's glyph, in ASCII where the terminal knows no more."""
    from grpo_wizard.tui.style.icons import status_icon, terminal_supports_unicode, to_ascii

    mark = status_icon(key).glyph
    return mark if terminal_supports_unicode() else to_ascii(mark)


def format_hourly_price(known: float, unknown: int = 0) -> str:
    """Never a guess: parts without a known price are counted beside the sum."""
    return f"{known:.2f} USD/h" + (f" + {unknown} parts without a known price" if unknown else "")


def resource_label(id: str) -> str:
    """`cluster.node_pool.gpu-pool` is `node pool gpu-pool`."""
    kind, _dot, name = id.partition(".")[2].partition(".")
    return f"{kind.replace('_', ' ')} {name}".strip()


def format_plan_counts(rows: Iterable[Mapping[str, Any]]) -> str:
    """`48 to delete, 9 to keep`: of a teardown also how many are `not there`."""
    counts: dict[str, int] = {}
    for row in rows:
        gone = row["action"] == "delete" and row.get("state") == "absent"
        words = "not there" if gone else f"to {row['action']}"
        counts[words] = counts.get(words, 0) + 1
    ordered = sorted(counts, key=["to keep", "not there"].__contains__)
    return ", ".join(f"{counts[words]} {words}" for words in ordered) or "nothing"
