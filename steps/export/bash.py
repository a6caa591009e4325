"""Bash that reads well and quotes everything: comments, commands over several lines, here-documents."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

_WIDTH = 100
_INDENT = "  "


def comment(text: str, hanging: str = "") -> list[str]:
    """One thought as comment lines; lines after the first are set in by `hanging`."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent=f"# {hanging}",
        break_on_hyphens=False,
        break_long_words=False,
    )


def heading(number: int, title: str) -> list[str]:
    return ["", f"# ---- {number}. {title} ".ljust(_WIDTH, "-"), f"say {shlex.quote(f'{number}. {title}')}"]


def assignment(name: str, value: object) -> str:
    return f"{name}={shlex.quote(str(value))}"


def quote_word(text: str, variables: Mapping[str, str]) -> str:
    """One word of a command line. `variables` maps a whole word to what stands for it, quoted already."""
    if text in variables:
        return variables[text]
    flag, equals, value = text.partition("=")
    if equals and flag.startswith("--"):
        return f"{flag}={shlex.quote(value)}" if value else f"{flag}="
    return shlex.quote(text)


def command_lines(words: Iterable[str], variables: Mapping[str, str] | None = None) -> list[str]:
    """A command line; a long one has each flag on its own line."""
    parts = [quote_word(text, variables or {}) for text in words]
    line = " ".join(parts)
    if len(line) <= _WIDTH:
        return [line]
    first = next((n for n, part in enumerate(parts) if part.startswith("--")), len(parts))
    rows = [" ".join(parts[:first]), *(_INDENT + part for part in parts[first:])]
    return [f"{row} \\" for row in rows[:-1]] + [rows[-1]]


def here_document(text: str, sink: str, tag: str = "YAML") -> list[str]:
    """`sink` reads `text` as it is: nothing in it is expanded. A tag that stands in it gets a number."""
    lines = text.rstrip("\n").split("\n")
    number = 0
    while (mark := f"{tag}{number or ''}") in lines:
        number += 1
    return [sink.replace("<<", f"<<'{mark}'"), *lines, mark]


def to_yaml(document: Mapping[str, Any]) -> str:
    """A manifest as people write it: in the order of its keys, texts of several lines as blocks."""
    import yaml as library

    class Dumper(library.SafeDumper):
        """Blocks for long texts, no anchors: a repeated part is written out."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    plain = json.loads(json.dumps(document))
    return str(library.dump(plain, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=4096))


def placeholders(text: str) -> list[str]:
    """Names of the shell variables that `@NAME@` in a manifest stands for."""
    return sorted(set(re.findall(r"@([A-Z][A-Z_]+)@", text)))
