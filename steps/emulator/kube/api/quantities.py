"""Kubernetes quantities: `500G`, `2400Gi`, `150m`."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}
_QUANTITY = re.compile(r"^([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:(m|u|n|k|[MGTPE]i?|Ki)|[eE]([+-]?\d+))?$")


def parse_quantity(value: Any) -> Fraction:
    """Return the value in base units (cores, bytes, items). Raises ValueError if it is not a quantity."""
    found = _QUANTITY.match(str(value))
    if not found:
        raise ValueError(f"quantities must match the regular expression '{_QUANTITY.pattern}'")
    number, unit, exponent = found.groups()
    small = {"m": 1000, "u": 10**6, "n": 10**9}
    if unit in small:
        return Fraction(number) / small[unit]
    return Fraction(number) * (Fraction(10) ** int(exponent) if exponent else _UNITS[unit or ""])


def format_cpu(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{int(value * 1000)}m"


def format_memory(value: Fraction) -> str:
    """Return the quantity in the largest unit that divides it evenly, binary before decimal."""
    whole = int(value)
    for unit in ("Gi", "Mi", "Ki", "G", "M", "k"):
        if whole and whole % _UNITS[unit] == 0:
            return f"{whole // _UNITS[unit]}{unit}"
    return str(whole)
