"""Printing of the commands: text and JSON to stdout, diagnostics to stderr. Every document has schema, mode and deployment."""

from __future__ import annotations

import argparse
import json
import math
import shlex
import shutil
import sys
from collections.abc import Mapping

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.style.text import wrap_text

SCHEMA = 1


def print_wrapped(text: str, hanging: int = 0) -> None:
    """Print text; on a terminal, wrapped between words. Continuation lines start at column `hanging`."""
    if sys.stdout.isatty():
        text = wrap_text(text, shutil.get_terminal_size().columns, hanging)
    print(text, flush=True)


def json_safe(value: object) -> object:
    """Replace numbers that JSON cannot express (NaN, infinity) by strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {key: json_safe(item) for key, item in value.items()}
    return [json_safe(item) for item in value] if isinstance(value, list | tuple) else value


def envelope(mode: str, deployment: str | None) -> dict[str, object]:
    """Return the keys that every document starts with."""
    return {"schema": SCHEMA, "mode": mode, "deployment": deployment}


def print_json(mode: str, deployment: str | None, document: Mapping[str, object]) -> None:
    """Print one line and flush it, so that a reader sees events as they happen."""
    write_data(json.dumps(json_safe(envelope(mode, deployment) | dict(document)), ensure_ascii=False) + "\n")


def write_data(text: str) -> None:
    """Write data for other programs as UTF-8 in every locale: a letter replaced by `?` would be another value."""
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(text)


def print_error(error: WizardError, args: argparse.Namespace) -> None:
    """Print an error to stderr and, with --json, also as one object to stdout. Its command can be pasted as it is."""
    texts = error.to_json() | {"command": with_global_options(error.command, args)}
    if getattr(args, "json", False):
        document = envelope("rehearsal" if args.rehearse else "real", args.deployment)
        write_data(json.dumps(document | {"ok": False, "error": texts}, ensure_ascii=False) + "\n")
    labels = (("Why", "detail"), ("Fix", "fix"), ("Command", "command"))
    lines = [f"  {label}: {texts[key]}" for label, key in labels if texts[key]]
    print("\n".join([f"Error: {error.title.removesuffix('.')}", *lines]), file=sys.stderr)


def with_global_options(command: str, args: argparse.Namespace) -> str:
    """Add this call's --rehearse, --deployment and --home to a grpo-wizard command. Return other commands unchanged."""
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
    """Return the options that select this deployment. `home` is the value of --home, if given."""
    return (
        (" --rehearse" if rehearse else "")
        + (f" --deployment {deployment}" if deployment else "")
        + (f" --home {shlex.quote(home)}" if home else "")
    )


def status_glyph(key: str) -> str:
    """Return a status icon's glyph, in ASCII on terminals without Unicode."""
    from grpo_wizard.tui.style.icons import status_icon, terminal_supports_unicode, to_ascii

    glyph = status_icon(key).glyph
    return glyph if terminal_supports_unicode() else to_ascii(glyph)
