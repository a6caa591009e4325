"""What headless commands print: human text and JSON to stdout, diagnostics to stderr. Every document says its schema, mode and deployment."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from grpo_wizard.state.errors import WizardError

SCHEMA = 1


def finite(value: Any) -> Any:
    """Numbers that are not finite become texts: a bare NaN is no JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def head(mode: str, deployment: str | None) -> dict[str, Any]:
    return {"schema": SCHEMA, "mode": mode, "deployment": deployment}


def print_json(mode: str, deployment: str | None, document: Mapping[str, Any]) -> None:
    """One line; flushed, so that a reader sees events as they happen."""
    print(json.dumps(finite(head(mode, deployment) | dict(document)), ensure_ascii=False), flush=True)


def problem(error: WizardError, as_json: bool = False) -> None:
    """An error, to stderr; with --json the same as one object on stdout too."""
    if as_json:
        print(
            json.dumps({"schema": SCHEMA, "ok": False, "error": error.as_dict()}, ensure_ascii=False),
            flush=True,
        )
    lines = [f"error: {error.title}"] + [
        f"  {name}: {text}"
        for name, text in (("why", error.detail), ("fix", error.fix), ("command", error.command))
        if text
    ]
    print("\n".join(lines), file=sys.stderr)


def glyph(key: str) -> str:
    """A sign's glyph, in ASCII where the terminal knows no more."""
    from grpo_wizard.tui.glyphs import sign, to_ascii, unicode_here

    mark = sign(key).glyph
    return mark if unicode_here() else to_ascii(mark)


def duration(seconds: float) -> str:
    """8 s, 1 m 52 s, 2 h 05 m."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    return (
        f"{whole // 60} m {whole % 60:02d} s"
        if whole < 3600
        else f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    )


def money(known: float, unknown: int = 0) -> str:
    """Never a guess: parts without a known price are counted beside the sum."""
    return f"{known:.2f} USD/h" + (f" + {unknown} parts without a known price" if unknown else "")
