"""Readable, fully quoted bash: comments, multi-line commands, here-documents."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterable, Mapping

_WIDTH = 100
_INDENT = "  "


def comment(text: str, hanging: str = "") -> list[str]:
    """Wrap text as comment lines; lines after the first are indented by `hanging`."""
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
    """Quote one word of a command line. `variables` maps whole words to their quoted replacements."""
    if text in variables:
        return variables[text]
    flag, equals, value = text.partition("=")
    if equals and flag.startswith("--"):
        return f"{flag}={shlex.quote(value)}" if value else f"{flag}="
    return shlex.quote(text)


def command_lines(words: Iterable[str], variables: Mapping[str, str] | None = None) -> list[str]:
    """A command line; a long one has each flag on a line of its own."""
    parts = [quote_word(text, variables or {}) for text in words]
    line = " ".join(parts)
    if len(line) <= _WIDTH:
        return [line]
    first = next((n for n, part in enumerate(parts) if part.startswith("--")), len(parts))
    rows = [" ".join(parts[:first]), *(_INDENT + part for part in parts[first:])]
    return [f"{row} \\" for row in rows[:-1]] + [rows[-1]]


def here_document(text: str, sink: str, tag: str = "YAML") -> list[str]:
    """Pass `text` to `sink` without expansion. The end tag gets a number if it occurs in the text."""
    lines = text.rstrip("\n").split("\n")
    number = 0
    while (mark := f"{tag}{number or ''}") in lines:
        number += 1
    return [sink.replace("<<", f"<<'{mark}'"), *lines, mark]


def to_yaml(document: Mapping[str, object]) -> str:
    """A manifest as people write it: in the order of its keys, multi-line texts as blocks."""
    import yaml as library

    class Dumper(library.SafeDumper):
        """Block style for multi-line texts, and no anchors: repeated parts are written out."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: library.SafeDumper, value: str) -> library.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    plain = json.loads(json.dumps(document))
    return str(library.dump(plain, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=4096))


def placeholders(text: str) -> list[str]:
    """Names of the shell variables that the manifest refers to as `@NAME@`."""
    return sorted(set(re.findall(r"@([A-Z][A-Z_]+)@", text)))
