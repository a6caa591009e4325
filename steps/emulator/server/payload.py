"""Parse a request's JSON body.

Error texts follow protobuf's JSON reader (json_stream_parser.cc): what was expected, the surrounding text,
and a caret below the position.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from grpo_wizard.steps.emulator.context import ApiError

_CONTEXT_CHARS = 20  # characters shown before and after the position
_MESSAGES = {
    "Expecting property name enclosed in double quotes": "Expected an object key or }.",
    "Illegal trailing comma before end of object": "Expected an object key or }.",
    "Expecting ':' delimiter": "Expected : between key:value pair.",
    "Unterminated string starting at": "Closing quote expected in string.",
    "Extra data": "Parsing terminated before end of input.",
}


def parse_body(raw: bytes) -> Any:
    """Parse a body; None for an empty one. Raises ApiError 400 if it is not JSON, or nested too deep."""
    if not raw.strip():
        return None
    try:
        return json.loads(raw, parse_constant=_reject_constant)
    except json.JSONDecodeError as wrong:
        raise _parse_error(_error_message(wrong), wrong.doc, wrong.pos) from None
    except UnicodeDecodeError:
        raise _parse_error("Encountered non UTF-8 code points.", "", 0) from None
    except RecursionError:
        raise _parse_error("Message too deep. Max recursion depth reached.", "", 0) from None


def _reject_constant(name: str) -> NoReturn:
    """Reject NaN and Infinity, which Python accepts but JSON does not have."""
    raise json.JSONDecodeError("Expecting value", name, 0)


def _error_message(wrong: json.JSONDecodeError) -> str:
    at_end = wrong.pos >= len(wrong.doc.rstrip())
    if wrong.msg == "Expecting value":
        return "Unexpected end of string. Expected a value." if at_end else "Unexpected token."
    if wrong.msg == "Expecting ',' delimiter":
        text = "Expected , or ] after array value." if _in_array(wrong.doc[: wrong.pos]) else ""
        return _at_end_message(at_end, text or "Expected , or } after key:value pair.")
    return _at_end_message(at_end, _MESSAGES.get(wrong.msg, "Unexpected token."))


def _at_end_message(at_end: bool, text: str) -> str:
    return f"Unexpected end of string. {text}" if at_end and text.startswith("Expected") else text


def _in_array(before: str) -> bool:
    """Return whether the innermost open bracket is an array's."""
    plain = re.sub(r'"(?:\\.|[^"\\])*"', "", before)
    open_: list[str] = []
    for letter in plain:
        if letter in "[{":
            open_.append(letter)
        elif letter in "]}" and open_:
            open_.pop()
    return bool(open_) and open_[-1] == "["


def _parse_error(sentence: str, text: str, at: int) -> ApiError:
    begin = max(0, at - _CONTEXT_CHARS)
    shown = f"\n{text[begin : at + _CONTEXT_CHARS]}\n{' ' * (at - begin)}^"
    return ApiError(
        400, f"Invalid JSON payload received. {sentence}{shown}", "INVALID_ARGUMENT", "parseError"
    )
