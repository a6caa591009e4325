"""Label and field selectors, as query strings and as objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import status

ObjectPredicate = Callable[[JSON], bool]
_SPLIT = re.compile(r",(?![^()]*\))")
_SETS = re.compile(r"^(\S+)\s+(in|notin)\s*\(([^)]*)\)$")


def matches_labels(selector: JSON | None, labels: dict[str, str]) -> bool:
    """Match a metav1.LabelSelector against labels. None matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(k) == v for k, v in wanted.items()) and all(
        matches_expression(e, labels) for e in selector.get("matchExpressions") or ()
    )


def matches_expression(expression: JSON, labels: dict[str, str]) -> bool:
    """Evaluate one requirement: In, NotIn, Exists, DoesNotExist, Gt, Lt."""
    value, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(values[0])
        case "Lt":
            return value is not None and value.isdigit() and int(value) < int(values[0])
    return False


def parse_labels(text: str) -> list[JSON]:
    """Parse `a=b,c in (d,e),!f` into requirements."""
    return [_requirement(part.strip()) for part in _SPLIT.split(text) if part.strip()]


def _requirement(part: str) -> JSON:
    if found := _SETS.match(part):
        values = [v.strip() for v in found[3].split(",")]
        return {"key": found[1], "operator": "In" if found[2] == "in" else "NotIn", "values": values}
    for sign, operator in (("!=", "NotIn"), ("==", "In"), ("=", "In")):
        if sign in part:
            key, value = part.split(sign, 1)
            return {"key": key.strip(), "operator": operator, "values": [value.strip()]}
    if part.startswith("!"):
        return {"key": part[1:], "operator": "DoesNotExist"}
    if not re.match(r"^[A-Za-z0-9]", part) or " " in part:
        raise status.bad_request(f"unable to parse requirement: found {part!r}, expected: identifier")
    return {"key": part, "operator": "Exists"}


def field_value(obj: JSON, path: str) -> str:
    """Return the value of a field selector's path as text."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def build_selector(labels: str, fields: str) -> ObjectPredicate:
    """Return one predicate for both query parameters."""
    requirements = parse_labels(labels)
    terms = [
        (k.rstrip("!="), v, "!" in sign)
        for k, sign, v in (
            re.match(r"^([^=!]+)(!=|==|=)(.*)$", t).groups()  # type: ignore[union-attr]
            for t in fields.split(",")
            if re.match(r"^([^=!]+)(!=|==|=)(.*)$", t)
        )
    ]

    def test(obj: JSON) -> bool:
        have = obj["metadata"].get("labels") or {}
        return all(matches_expression(r, have) for r in requirements) and all(
            (field_value(obj, path) == value) != negated for path, value, negated in terms
        )

    return test
