"""Split the bytes of a job's log, as they arrive, into clean lines.

Ray, tqdm and terminals decorate the stream: ANSI colors, `(Actor pid=1, ip=…)` before a worker's line (they nest),
`[repeated 15x across cluster]` after one, carriage returns between the states of a progress bar. Lines are split as
bytes and decoded whole, so a chunk may end anywhere, even inside a character. Text is never changed: `[/]` stays `[/]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from grpo_wizard.steps.training.grammar import TqdmBar, parse

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
# Ray 2.49 and 2.60: worker.py's print_worker_logs; vLLM's engine adds its own of the same form behind it.
_PREFIX = re.compile(
    r"\((?:(?P<actor>[^()\n]{1,200}?) )?(?:pid=(?P<pid>\d+)(?:, ip=(?P<ip>[0-9a-fA-F.:]+))?)\) ?"
    r"|\((?P<daemon>raylet|gcs_server|autoscaler [^()\n]{0,80})(?:, ip=(?P<daemon_ip>[0-9a-fA-F.:]+))?\) ?"
)
_SPLIT_POINT = re.compile(rf"(?:{_PREFIX.pattern})|\r")
_DRIVER = re.compile(
    r"[▶📊🔍🚀]|=+ (?:Step|Epoch)| +[•-] |Saving checkpoint|Logged data|Max number|Timeout has"
)
_RANK = re.compile(r"\[rank=(\d+)\]$")
_REPEATED = re.compile(r" ?\[repeated (\d+)x across cluster\](?: \(Ray deduplicates logs by default\..*\))?$")
_BAR_END = re.compile(r"\d+/\d+ \[[^\]\r\n]*<[^\]\r\n]*\]")


@dataclass(frozen=True, slots=True)
class LineSource:
    """Who wrote a line, from Ray's prefix. `actor` is its repr, such as `DTensorPolicyWorker[rank=0]`; no `ip` means the
    driver's node."""

    actor: str
    pid: int | None = None
    ip: str | None = None

    @property
    def rank(self) -> int | None:
        """The rank in `…[rank=3]`, if the repr has one."""
        found = _RANK.search(self.actor)
        return int(found[1]) if found else None


@dataclass(slots=True)
class LogLine:
    """One clean line.

    `offset`: where its bytes begin in the stream. `sources`: outermost first, empty for the driver itself.
    `repeated`: how many more of it Ray folded.
    """

    text: str
    offset: int = 0
    sources: tuple[LineSource, ...] = ()
    repeated: int = 0


def truncate(text: str, limit: int = 2000) -> str:
    """Shorten a text to `limit` characters and say how many were omitted."""
    return text if len(text) <= limit else f"{text[:limit]}… [+{len(text) - limit} characters]"


def strip_ansi(text: str) -> str:
    """Remove terminal control sequences."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def clean_line(raw: str, offset: int = 0) -> list[LogLine]:
    """Clean one raw line; return two or three when the driver and a worker wrote into the same one.

    Ray writes a worker's line and its newline separately, from a thread of the driver: what the driver prints in
    between is glued to it, before or behind (observed in a job's log of Ray 2.60).
    """
    text = strip_ansi(raw)
    if "pid=" not in text and "\r" not in text and ("%" not in text or text.endswith(("]", "] "))):
        return [
            _parse_line(text, offset)
        ]  # nothing is glued to the line, or nothing follows the progress bar
    lines: list[LogLine] = []
    for part in _split_before_prefix(text):
        lines += _split_glued(_parse_line(part, offset))
    return lines


def _parse_line(text: str, offset: int) -> LogLine:
    text, sources = _strip_prefixes(text)
    if "\r" in text:
        states = [state for state in text.split("\r") if state.strip()]
        text, inner = _strip_prefixes(states[-1] if states else "")  # what a terminal would show
        sources += inner
    if text.endswith((" across cluster]", "options.)")) and (found := _REPEATED.search(text)):
        return LogLine(text[: found.start()], offset, sources, int(found[1]))
    return LogLine(text, offset, sources)


def _split_before_prefix(text: str) -> list[str]:
    """Split before a worker's prefix, or a bar's first state, where the text before it is a line of the driver."""
    if text.startswith("(") and text.count("pid=") == 1 and "\r" not in text:
        return [text]
    for found in _SPLIT_POINT.finditer(text, 1):
        if _is_driver(text[: found.start()]):
            return [text[: found.start()], text[found.start() :]]
    return [text]


def _split_glued(line: LogLine) -> list[LogLine]:
    """Split where a line of the driver follows a worker's, or any text follows the end of a bar."""
    text = line.text
    if "%" in text and (bar := _BAR_END.search(text)) and text[bar.end() :].strip():
        rest = text[bar.end() :]
        return [
            replace(line, text=text[: bar.end()]),
            LogLine(rest if _is_driver(rest) else rest.lstrip(" "), line.offset),
        ]
    for found in _DRIVER.finditer(text, 1) if line.sources else ():
        if _is_driver(text[found.start() :]):
            return [replace(line, text=text[: found.start()]), LogLine(text[found.start() :], line.offset)]
    return [line]


def _is_driver(text: str) -> bool:
    """Whether this is exactly a line that only the training loop prints."""
    return not isinstance(parse(text), TqdmBar | None)


def _strip_prefixes(text: str) -> tuple[str, tuple[LineSource, ...]]:
    if not text.startswith("("):
        return text, ()
    sources: list[LineSource] = []
    while text.startswith("(") and (found := _PREFIX.match(text)):
        sources.append(_source(found))
        text = text[found.end() :]
    return text, tuple(sources)


def _source(found: re.Match[str]) -> LineSource:
    if found["daemon"]:
        return LineSource(found["daemon"], None, found["daemon_ip"])
    return LineSource(found["actor"] or "", int(found["pid"]), found["ip"])


class LineReader:
    """Split chunks of bytes into complete lines; what follows the last newline waits for the next chunk."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset  # of the first byte not yet given as a line
        self._buffer: list[bytes] = []  # a list: joining a 1.3 MB line chunk by chunk would be quadratic

    def feed(self, data: bytes) -> list[LogLine]:
        """Return the lines that `data` completes."""
        end = data.rfind(b"\n")
        if end < 0:
            self._buffer.append(data)
            return []
        block = b"".join([*self._buffer, data[: end + 1]])
        self._buffer = [data[end + 1 :]]
        lines: list[LogLine] = []
        for raw in block.split(b"\n")[:-1]:
            lines += clean_line(raw.decode("utf-8", "replace"), self.offset)
            self.offset += len(raw) + 1
        return lines

    def pending(self) -> str:
        """Return the unfinished last line as it looks now, for a live view, without an incomplete last character."""
        text = b"".join(self._buffer).decode("utf-8", "ignore")
        return clean_line(text)[-1].text if text else ""

    def flush(self) -> list[LogLine]:
        """Return the unfinished last line at the end of the stream."""
        raw = b"".join(self._buffer)
        self._buffer = []
        if not raw:
            return []
        lines = clean_line(raw.decode("utf-8", "replace"), self.offset)
        self.offset += len(raw)
        return lines
