"""Server-side `filter`: Compute's regular expressions and AIP-160.

`name eq ".*x.*"` is of the first kind, `state = READY AND labels.a:*` of the second. Both join terms with
AND, OR, NOT, `-`, parentheses, or nothing (which means AND); as in AIP-160, OR binds tighter than AND.
Sources: the `filter` parameter in Compute's discovery document, and requests of gcloud 528. That unknown
fields and `eq` on a list are rejected is from reports of Compute's users.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from grpo_wizard.steps.emulator.context import JSON, ApiError
from grpo_wizard.steps.emulator.google.shared.self_links import COMPUTE
from grpo_wizard.steps.emulator.server.discovery_documents import Document, Method
from grpo_wizard.steps.emulator.server.field_masks import list_item_field

FilterPredicate = Callable[[JSON], bool]
_TOKEN = re.compile(r"""\s*(?:("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(!=|<=|>=|[=<>:()])|([^\s()=<>:!"']+))""")
_EXPRESSION = re.compile(r"\s*([^\s\"'][^\s]*)")  # an unquoted regular expression ends at a space
_NOT_RE2 = re.compile(r"\(\?(?:[=!#>]|<[=!]|P=)|\\[1-9]")  # lookaround and backreferences
_OPERATORS = {
    "eq": "~",
    "ne": "!~",
    "=": "=",
    "!=": "!=",
    ":": ":",
    "<": "<",
    ">": ">",
    "<=": "<=",
    ">=": ">=",
}


def parse_filter(text: str) -> FilterPredicate:
    """Return the predicate of a `filter`. Raises ApiError 400 if it is invalid."""
    return _parse(text)[0]


def check_filter_fields(document: Document, method: Method, text: str) -> None:
    """Raise Compute's ApiError 400 for a filter on a field that the listed resources lack."""
    if document.service != COMPUTE or not text.strip():
        return
    for field, sign in _parse(text)[1]:
        schema = list_item_field(document, method, field)
        if schema is None or ("~" in sign and schema.get("type") == "array"):
            raise _invalid_filter(text)


def _parse(text: str) -> tuple[FilterPredicate, list[tuple[str, str]]]:
    """Return the predicate, and (field, sign) of each term."""
    if not text.strip():
        return (lambda _: True), []
    reader = _FilterParser(text)
    test = reader.parse_and()
    if reader.peek() is not None:
        raise _invalid_filter(text)
    return test, reader.terms


def _invalid_filter(text: str) -> ApiError:
    return ApiError(
        400,
        f"Invalid value for field 'filter': '{text}'. Invalid list filter expression.",
        "INVALID_ARGUMENT",
        "invalid",
    )


class _FilterParser:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.terms: list[tuple[str, str]] = []
        self.tokens: list[str] = []
        end, where = len(text.rstrip()), 0
        while where < end:
            where = self._token(where)

    def _token(self, where: int) -> int:
        """Read one token; an unquoted value after `eq` and `ne` is one token, whatever it contains."""
        expression = _EXPRESSION.match(self.text, where) if self.tokens[-1:] in (["eq"], ["ne"]) else None
        if expression and len(self.tokens) > 1:
            word = _balanced(expression.group(1))
            if word:
                self.tokens.append(word)
                return expression.start(1) + len(word)
        found = _TOKEN.match(self.text, where)
        if not found:
            raise self.error()
        self.tokens.append(found.group(0).strip())
        return found.end()

    def error(self) -> ApiError:
        return _invalid_filter(self.text)

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def next_token(self) -> str:
        token = self.peek()
        if token is None:
            raise self.error()
        self.at += 1
        return token

    def parse_and(self) -> FilterPredicate:
        tests = [self.parse_or()]
        while self.peek() not in (None, ")"):
            if self.peek() == "AND":
                self.next_token()
            tests.append(self.parse_or())
        return tests[0] if len(tests) == 1 else lambda item: all(test(item) for test in tests)

    def parse_or(self) -> FilterPredicate:
        tests = [self.parse_factor()]
        while self.peek() == "OR":
            self.next_token()
            tests.append(self.parse_factor())
        return tests[0] if len(tests) == 1 else lambda item: any(test(item) for test in tests)

    def parse_factor(self) -> FilterPredicate:
        token = self.next_token()
        if token == "NOT" or (token[0] == "-" and token != "-"):
            inner = self.parse_factor() if token == "NOT" else self.parse_term(token[1:])
            return lambda item: not inner(item)
        if token == "(":
            inner = self.parse_and()
            if self.next_token() != ")":
                raise self.error()
            return inner
        return self.parse_term(token)

    def parse_term(self, field: str) -> FilterPredicate:
        sign = _OPERATORS.get(self.next_token())
        if sign is None or field in _OPERATORS or field in (")", "AND", "OR"):
            raise self.error()
        value = _unquote(self.next_token())
        self.terms.append((field, sign))
        if sign in ("~", "!~"):
            if _NOT_RE2.search(value):
                raise self.error()
            try:
                shape = re.compile(value)
            except re.error:
                raise self.error() from None
            return lambda item: bool(shape.fullmatch(_text(_field_value(item, field)))) == (sign == "~")
        return lambda item: _compare(_field_value(item, field), sign, value)


def _balanced(word: str) -> str:
    """Read a word up to the closing parenthesis of one opened before it."""
    depth = 0
    for at, letter in enumerate(word):
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return word[:at]
    return word


def _unquote(token: str) -> str:
    """A quoted value without its quotes.

    Only quotes are unescaped: `\\b` and `\\-` belong to the regular expression.
    """
    if token[:1] in "\"'" and len(token) > 1:
        return re.sub(r"\\([\"'])", r"\1", token[1:-1])
    return token


def _field_value(item: Any, field: str) -> Any:
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
    return _compare_ordered(text, sign, want)


def _compare_ordered(text: str, sign: str, want: str) -> bool:
    left: Any = text
    right: Any = want
    try:
        left, right = float(text), float(want)
    except ValueError:
        pass
    return bool({"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[sign])
