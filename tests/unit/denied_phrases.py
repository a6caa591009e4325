"""Finds phrases that the project does not use in its texts: `python tests/unit/denied_phrases.py [ROOT]` lists them by file.

Read are the string literals of the product that a user can meet (two words or more, no docstring, no pattern), the texts in
the TOML files of `assets/`, and the Markdown pages.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What is denied, and what to write instead.
DENIED = {
    r"\b(?:go|goes|going|went) on\b(?! sale)": "continue, resume, keep running",
    r"\banew\b": "again, re-create",
    r"\b(?:is|are|was|were) (?:already )?there\b(?! (?:is|are|any|a|an|no)\b)": "exists",
    r"\bthere already\b": "already exists",
    r"\bbe(?:ar|ars|aring|re)\b(?! with)": "labelled, has",
    r"\bfelt\b": "take effect",
    r"\bcosts? on\b": "is still billed",
    r"\bgo(?:es)? on costing\b": "is still billed",
    r"\bstands?\b(?! (?:for|in for|by|out|alone|still)\b)": "exists, is ready",
    r"\bstood\b": "existed",
    r"\bthings?\b": "resource (or name it)",
    r"(?<!there )(?<!There )\b(?:is|are|was) no (?!longer\b|more than\b|less than\b|later than\b|problem\b)": "is not a, there is no",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\blook(?:s|ed|ing)? at\b": "check, refresh, read",
    r"\bcannot be looked up\b": "cannot be checked",
    r"\b(?:the|our|its|a|one) marks?\b": "label",
    r"\b(?:takes?|taken|taking|took) (?:it |them |all )?down\b": "delete, destroy",
    r"\bmade (?:again|first|by (?:it|this))\b": "create",
    r"\b(?:make|makes|making) (?:it|them) again\b": "re-create",
    r"\bnobody\b": "say who or what",
    r"\bsays? so\b": "say what is reported",
    r"\btold\b": "reported",
    r"\bwhole road\b": "end to end",
    r"\bstrangers?'?s?\b": "another owner",
    r"\bnamesakes?\b": "a resource with the same name",
    r"\bit stays so\b": "this persists",
    r"\bat a teardown\b": "on destroy",
    r"\bnowhere\b(?! else)": "not found",
    r"\bsomebody else\b": "another owner",
    r"\bwhat is wanted\b": "the configuration",
}
# Texts in which such a phrase is right; each with its reason. Keys: file and a part of the text.
EXEMPT: dict[tuple[str, str], str] = {}
_ROOMS = ("tui", "steps", "state")
# Answers of the emulated services are in the words of Google, Kubernetes and Ray; nothing here edits those.
_FOREIGN_WORDS = ("steps/emulator/google/", "steps/emulator/kube/", "steps/emulator/drills/refusals.py")
_PATTERN_CALLS = {"compile", "match", "search", "fullmatch", "sub", "findall", "finditer", "split"}
_COMPILED = {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in DENIED.items()}


@dataclass(frozen=True)
class Hit:
    """One denied phrase in one text."""

    file: str
    line: int
    phrase: str
    instead: str
    text: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {self.phrase!r} -> {self.instead}: {' '.join(self.text.split())[:160]}"
        )


def product_texts(root: Path) -> Iterator[tuple[str, int, str]]:
    """File, line and text of every string literal of the product that can reach a user."""
    for room in _ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not name.startswith(_FOREIGN_WORDS):
                for line, text in literal_texts(ast.parse(path.read_text("utf-8"))):
                    yield name, line, text
    for path in sorted((root / "assets").rglob("*.toml")):
        for text in _toml_texts(tomllib.loads(path.read_text("utf-8"))):
            yield path.relative_to(root).as_posix(), 0, text


def page_texts(root: Path) -> Iterator[tuple[str, int, str]]:
    """File, line and text of the Markdown pages, without what stands in code blocks and in back quotes."""
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        fenced = False
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            fenced ^= line.lstrip().startswith("```")
            if not fenced:
                yield path.relative_to(root).as_posix(), number, re.sub(r"`[^`]*`", "``", line)


def literal_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of literals of two words or more; f-strings come as one text, with {} for each value."""
    skipped = {id(node) for node in _not_texts(tree)}

    def visit(node: ast.AST) -> Iterator[tuple[int, str]]:
        if id(node) in skipped:
            return
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values),
            )
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    yield from visit(part.value)
            return
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    return ((line, text) for line, text in visit(tree) if re.search(r"[A-Za-z}][,;:.)]* +[A-Za-z{(]", text))


def _not_texts(tree: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, strings that are statements, and patterns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr):
            yield node.value
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _PATTERN_CALLS
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
        ):
            yield from node.args[:1]


def _toml_texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in ("pattern", "patterns", "match", "source", "regex"):
                yield from _toml_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _toml_texts(item)
    elif isinstance(value, str) and " " in value:
        yield value


def hits(root: Path) -> list[Hit]:
    """All of them, but for those that are exempt."""
    found = []
    for texts in (product_texts(root), page_texts(root)):
        for file, line, text in texts:
            if any(file == where and part in text for where, part in EXEMPT):
                continue
            shown = re.sub(r"{[^{}]*}", "{}", text)  # the name of a placeholder is no text
            for pattern, instead in _COMPILED.items():
                found += [Hit(file, line, m.group(), instead, text) for m in pattern.finditer(shown)]
    return found


def main() -> None:
    """Lists the hits by file, then the files by number of hits."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    found = hits(root)
    counts: dict[str, int] = {}
    for hit in sorted(found, key=lambda hit: (hit.file, hit.line)):
        counts[hit.file] = counts.get(hit.file, 0) + 1
        print(hit)
    print()
    for file, count in sorted(counts.items(), key=lambda entry: -entry[1]):
        print(f"{count:5} {file}")
    print(f"{len(found):5} in all")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
