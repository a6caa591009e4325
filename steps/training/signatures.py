"""Failures by what they print: the table in assets/signatures.toml, matched line by line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from grpo_wizard.steps.training.lines import LogLine, truncate


@dataclass(frozen=True, slots=True)
class Signature:
    """One failure; the head of the table explains the fields."""

    id: str
    level: str
    title: str
    advice: str
    source: str
    needles: list[str] = field(default_factory=list)
    pattern: str = ""
    phase: str | None = None
    lasting: bool = False


@dataclass(slots=True)
class SignatureMatch:
    """A signature found in a log: its first line, how often, in which step, and the steps started by its last line."""

    signature: Signature
    title: str
    evidence: str
    since_step: int | None
    count: int = 1
    rows_at_last_match: int = 0
    after_end: bool = False


@cache
def load_signatures() -> tuple[Signature, ...]:
    """Return all signatures in the order in which they are tried."""
    text = resources.files("grpo_wizard.assets").joinpath("signatures.toml").read_text(encoding="utf-8")
    return tuple(Signature(**entry) for entry in tomllib.loads(text)["signature"])


@cache
def _compiled_needles() -> tuple[tuple[str, Signature, re.Pattern[str] | None], ...]:
    # Literals first: 40 of them cost about a microsecond a line, 40 regular expressions about twenty.
    return tuple(
        (needle, sign, re.compile(sign.pattern) if sign.pattern else None)
        for sign in load_signatures()
        for needle in sign.needles
    )


_SECRET = re.compile(
    r"\bhf_[A-Za-z0-9]{8,}|\b[0-9a-f]{40}\b|(?<=TOKEN=)\S+|(?<=API_KEY=)\S+|(?<=PASSWORD=)\S+"
)


def redact(text: str) -> str:
    """Shorten a log line for a finding and mask what looks like a secret."""
    return _SECRET.sub("***", truncate(text.strip(), 300))


def match_signature(line: LogLine, phase: str | None) -> tuple[Signature, str] | None:
    """Return the first signature in the table that this line matches, with its title; None when there is none."""
    text = line.text
    for needle, signature, pattern in _compiled_needles():
        if needle not in text or (signature.phase is not None and signature.phase != phase):
            continue
        found = pattern.search(text) if pattern else None
        if pattern is None or found is not None:
            return signature, _title(signature, found, line)
    return None


def record_match(
    seen: dict[str, SignatureMatch],
    found: tuple[Signature, str],
    line: LogLine,
    step: int | None,
    rows: int,
    after_end: bool,
) -> None:
    """Count a match; repeats are folded into the first."""
    signature, title = found
    known = seen.get(signature.id)
    count = 1 + line.repeated
    if known is None:
        seen[signature.id] = SignatureMatch(signature, title, redact(line.text), step, count, rows, after_end)
    else:
        known.count += count
        known.rows_at_last_match, known.after_end = rows, known.after_end and after_end


def _title(signature: Signature, found: re.Match[str] | None, line: LogLine) -> str:
    groups = {key: value or "?" for key, value in (found.groupdict() if found else {}).items()}
    if groups.get("rank") == "?":
        ranks = [source.rank for source in line.sources if source.rank is not None]
        groups["rank"] = str(ranks[-1]) if ranks else "?"
    if groups.get("ms", "?").isdigit():
        groups["minutes"] = f"{int(groups['ms']) / 60000:g}"
    return signature.title.format(**groups)
