"""Secrets: a type that never prints, logs or serializes its value; only `reveal()` returns it."""

import hmac
import os
import unicodedata
from pathlib import Path
from typing import Any, NoReturn

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from grpo_wizard.state.errors import InvalidSecret

MASK = "********"
_VISIBLE_CHARS = 4
_MAX_LENGTH = 4096
_TRIMMED_NOTE = "Leading and trailing whitespace was removed from the token."
_RULE = f"A token is one word of at most {_MAX_LENGTH} visible ASCII characters."


class Secret:
    """A token. Its text forms are masked; pickle, JSON and pydantic refuse to serialize it."""

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        """Return the token, for the one request or Kubernetes Secret that needs it."""
        return self.__value

    def masked(self) -> str:
        """Return enough to tell two tokens apart: the last 4 characters, none of a token shorter than 12."""
        shown = self.__value[-_VISIBLE_CHARS:] if len(self.__value) >= 3 * _VISIBLE_CHARS else ""
        return MASK + shown

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return False
        return hmac.compare_digest(_bytes(self), _bytes(other))

    def __hash__(self) -> int:
        return hash(self.__value)

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: object) -> "Secret":
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret must not be pickled")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.is_instance_schema(
            cls, serialization=core_schema.plain_serializer_function_ser_schema(_refuse_to_serialise)
        )


def _bytes(secret: Secret) -> bytes:
    return secret.reveal().encode("utf-8", "surrogatepass")


def _refuse_to_serialise(_: Secret) -> NoReturn:
    raise TypeError("a secret must not be serialised")


def parse_secret(raw: str) -> tuple[Secret, str | None]:
    """Return the token without surrounding whitespace, and a note if some was removed.

    Raises InvalidSecret for blanks inside, invisible and non-ASCII characters: they fail later, deep in the
    job, as a bad HTTP header.
    """
    token = raw.strip()
    wrong, note = _secret_error(token), None if token == raw else _TRIMMED_NOTE
    if wrong:
        raw = token = MASK  # tracebacks that print local variables (Textual's do) must not show it
        raise InvalidSecret(wrong, _RULE, "Copy it again, without any surrounding text.")
    return Secret(token), note


def from_environment(name: str) -> tuple[Secret, str | None] | None:
    """Read a token from an environment variable; None if unset or blank. Raises InvalidSecret."""
    return parse_secret(os.environ[name]) if os.environ.get(name, "").strip() else None


def from_file(path: Path) -> tuple[Secret, str | None]:
    """Read a token from a file that contains nothing else. Raises InvalidSecret."""
    try:
        with path.open("rb") as file:
            return parse_secret(file.read(4 * _MAX_LENGTH).decode("utf-8"))
    except OSError as error:
        title = f"The token file {path} cannot be read"
        raise InvalidSecret(title, f"{error.strerror}.", "Choose another file.") from None
    except UnicodeDecodeError:
        # Its text and its `object` hold the bytes of the token: not chained.
        title = f"The token file {path} is not UTF-8 text"
    raise InvalidSecret(title, _RULE, "Save it as plain text.")


def _secret_error(token: str) -> str:
    """Explain why the token is malformed, without showing it; "" if it is not."""
    if not token:
        return "The token is empty"
    if len(token) > _MAX_LENGTH:
        return "The token is too long"
    odd = next((index for index, char in enumerate(token) if not "!" <= char <= "~"), None)
    return (
        "" if odd is None else f"The token contains {_describe_character(token[odd])} as character {odd + 1}"
    )


def _describe_character(char: str) -> str:
    if char.isalnum():
        return "a non-ASCII letter or digit"
    kind = (
        "a whitespace character" if char.isspace() else unicodedata.name(char, "a control character").lower()
    )
    return f"{kind} (U+{ord(char):04X})"
