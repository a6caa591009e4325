"""Parsers for fields. Each takes typed text, or a text, number or boolean from a file, and returns the value or raises InvalidValue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from grpo_wizard.steps.core.answers import InvalidValue

_TRUE, _FALSE = {"true", "yes", "y", "on", "1"}, {"false", "no", "n", "off", "0"}


def text(pattern: str, rule: str, *, max_length: int | None = None) -> Callable[[object], str]:
    """Text that matches all of `pattern`; `rule` is the error sentence."""
    compiled = re.compile(pattern)

    def parse(raw: object) -> str:
        value = raw.strip() if isinstance(raw, str) else raw
        if (
            not isinstance(value, str)
            or not compiled.fullmatch(value)
            or (max_length and len(value) > max_length)
        ):
            raise InvalidValue(rule)
        return value

    return parse


def integer(low: int, high: int | None = None, *, unit: str = "") -> Callable[[object], int]:
    """A whole number from `low` to `high`; `18,000` and `18_000` mean 18000."""
    bounds = f" from {low:,} to {high:,}" if high is not None else f", {low:,} or more"
    rule = f"must be a whole number{' of ' + unit if unit else ''}{bounds}"

    def parse(raw: object) -> int:
        value: object = raw
        if isinstance(raw, str):
            plain = raw.strip().replace("_", "")
            plain = plain.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", plain) else plain
            value = int(plain) if re.fullmatch(r"-?[0-9]{1,15}", plain) else None
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or value < low
            or (high is not None and value > high)
        ):
            raise InvalidValue(rule)
        return value

    return parse


def number(low: float, high: float) -> Callable[[object], float]:
    """A finite number from `low` to `high`."""

    def parse(raw: object) -> float:
        try:
            value = (
                float(raw)
                if isinstance(raw, str | int | float) and not isinstance(raw, bool)
                else float("nan")
            )
        except (TypeError, ValueError):
            value = float("nan")
        if not low <= value <= high:
            raise InvalidValue(f"must be a number from {low:g} to {high:g}")
        return value

    return parse


def switch(raw: object) -> bool:
    """A boolean, or one of the usual words for it."""
    if isinstance(raw, bool):
        return raw
    word = str(raw).strip().lower()
    if word not in _TRUE | _FALSE:
        raise InvalidValue("must be yes or no")
    return word in _TRUE


def choice(allowed: Iterable[str]) -> Callable[[object], str]:
    """One of a fixed list."""
    listed = tuple(allowed)

    def parse(raw: object) -> str:
        value = str(raw).strip()
        if value not in listed:
            raise InvalidValue("must be one of: " + ", ".join(listed))
        return value

    return parse


def optional(parse: Callable[[object], str]) -> Callable[[object], str]:
    """Also accept an empty value."""

    def parse_optional(raw: object) -> str:
        return "" if raw is None or (isinstance(raw, str) and not raw.strip()) else parse(raw)

    return parse_optional


def list_of(parse: Callable[[object], str]) -> Callable[[object], list[str]]:
    """Several values: a list, or text separated by commas or spaces."""

    def parse_list(raw: object) -> list[str]:
        items = raw if isinstance(raw, list) else [part for part in re.split(r"[,\s]+", str(raw)) if part]
        return [parse(item) for item in items]

    return parse_list


def _rfc1035(max_length: int) -> Callable[[object], str]:
    rule = f"must contain only lowercase letters, digits and hyphens, start with a letter, not end with a hyphen, and have at most {max_length} characters"
    return text(r"[a-z]([-a-z0-9]*[a-z0-9])?", rule, max_length=max_length)


# Compute Engine names follow RFC 1035 (63 characters), GKE clusters and pools have 40, and prefixes get suffixes of up to 13:
# https://cloud.google.com/compute/docs/naming-resources
resource_name = _rfc1035(63)
cluster_name = _rfc1035(40)
name_prefix = _rfc1035(50)
service_account = text(
    r"[a-z0-9][-a-z0-9]*@[a-z0-9.-]+\.gserviceaccount\.com",
    "must be a service account email address such as nodes@my-project.iam.gserviceaccount.com",
)
deployment_name = text(
    r"[a-z][-a-z0-9]{0,39}",
    "must be a lowercase letter followed by at most 39 lowercase letters, digits or hyphens",
)
kubernetes_name = _rfc1035(63)
