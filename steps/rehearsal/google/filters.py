"""Server-side `filter`: Compute's regular expressions and AIP-160.

`name eq ".*x.*"` is of the first kind, `state = READY AND labels.a:*` of the second.
Both have terms joined by AND, OR, NOT, parentheses, or nothing (which means AND).
Source: the `filter` parameter's text in '
                             r'Compute's discovery document; what gcloud sends: recorded with gcloud 528.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..contract import JSON, ApiError

Test = Callable[[JSON], bool]
_TOKEN = re.compile(r"""\s*(?:("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(!=|<=|>=|[=<>:()])|([^\s()=<>:!"']+))""")
_WORDS = {"eq": "~", "ne": "!~", "=": "=", "!=": "!=", ":": ":", "<": "<", ">": ">", "<=": "<=", ">=": ">="}


def parse(text: str) -> Test:
    """The test that a `filter` states. Raises ApiError 400 where it cannot be read."""
    if not text.strip():
        return lambda _: True
    reader = _Reader(text)
    test = reader.any_of()
    if reader.peek() is not None:
        raise reader.bad()
    return test


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.tokens: list[str] = []
        end = len(text.rstrip())
        where = 0
        while where < end:
            found = _TOKEN.match(text, where)
            if not found:
                raise self.bad()
            self.tokens.append(found.group(0).strip())
            where = found.end()

    def bad(self) -> ApiError:
        return ApiError(
            400,
            f"Invalid value for field 'filter': '{self.text}'. Invalid list filter expression.",
            "INVALID_ARGUMENT",
            "invalid",
        )

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self) -> str:
        token = self.peek()
        if token is None:
            raise self.bad()
        self.at += 1
        return token

    def any_of(self) -> Test:
        tests = [self.all_of()]
        while self.peek() == "OR":
            self.take()
            tests.append(self.all_of())
        return tests[0] if len(tests) == 1 else lambda item: any(test(item) for test in tests)

    def all_of(self) -> Test:
        tests = [self.one()]
        while self.peek() not in (None, "OR", ")"):
            if self.peek() == "AND":
                self.take()
            tests.append(self.one())
        return tests[0] if len(tests) == 1 else lambda item: all(test(item) for test in tests)

    def one(self) -> Test:
        token = self.take()
        if token in ("NOT", "-"):
            inner = self.one()
            return lambda item: not inner(item)
        if token == "(":
            inner = self.any_of()
            if self.take() != ")":
                raise self.bad()
            return inner
        return self.term(token)

    def term(self, field: str) -> Test:
        sign = _WORDS.get(self.take())
        if sign is None or field in _WORDS or field in (")", "AND", "OR"):
            raise self.bad()
        value = _plain(self.take())
        if sign in ("~", "!~"):
            try:
                shape = re.compile(value)
            except re.error:
                raise self.bad() from None
            return lambda item: bool(shape.fullmatch(_text(_find(item, field)))) == (sign == "~")
        return lambda item: _compare(_find(item, field), sign, value)


def _plain(token: str) -> str:
    """A quoted value without its quotes.

    Only quotes are unescaped: `\\b` and `\\-` belong to the regular expression.
    """
    if token[:1] in "\"'" and len(token) > 1:
        return re.sub(r"\\([\"'])", r"\1", token[1:-1])
    return token


def _find(item: Any, field: str) -> Any:
    for part in field.split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return item


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _compare(have: Any, sign: str, want: str) -> bool:
    text = _text(have)
    if sign == ":":
        if want == "*":
            return have not in (None, "", [], {})
        values = [_text(one) for one in have] if isinstance(have, list | dict) else [text]
        return any(want.lower() in one.lower() for one in values)
    if sign in ("=", "!="):
        return (
            text == want or ("*" in want and bool(re.fullmatch(re.escape(want).replace(r"\*", ".*"), text)))
        ) == (sign == "=")
    return _ordered(text, sign, want)


def _ordered(text: str, sign: str, want: str) -> bool:
    left: Any = text
    right: Any = want
    try:
        left, right = float(text), float(want)
    except ValueError:
        pass
    return bool({"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[sign])
