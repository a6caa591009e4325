"""The keys of every JSON document and event line, as the design fixes them: a key too many or too few is a fault."""

from __future__ import annotations

from typing import Any

import fastjsonschema

JSON = dict[str, Any]
TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
TEXTS = {"type": "array", "items": TEXT}
PRICE = {"type": ["number", "null"]}


def object_schema(properties: JSON, optional: tuple[str, ...] = ()) -> JSON:
    """An object with exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": [k for k in properties if k not in optional],
    }


def array_of(item: JSON) -> JSON:
    return {"type": "array", "items": item}


HEADER = {"schema": {"const": 1}, "mode": {"enum": ["real", "rehearsal"]}, "deployment": TEXT}
RESOURCE_FIELDS = {
    "id": TEXT,
    "kind": TEXT,
    "name": TEXT,
    "step": TEXT,
    "needs": TEXTS,
    "usd_per_hour": PRICE,
}
STEPS = {"enum": ["project", "quotas", "networks", "cluster", "lustre", "raycluster", "grpo"]}
FAILURE = object_schema({"id": TEXT, "title": TEXT, "detail": TEXT, "fix": TEXT})

RESERVATION = {
    "anyOf": [
        {"type": "null"},
        object_schema(
            {
                "name": TEXT,
                "project": TEXT,
                "machines": {"type": ["integer", "null"]},
                "machine_type": TEXT,
                "ends": {"type": ["string", "null"]},
                "usd_per_hour": PRICE,
            }
        ),
    ]
}

CHECK = object_schema(
    HEADER
    | {
        "ok": FLAG,
        "checks": array_of(
            object_schema(
                {
                    "id": TEXT,
                    "step": STEPS,
                    "level": {"enum": ["pass", "info", "warn", "block"]},
                    "title": TEXT,
                    "detail": TEXT,
                    "fix": TEXT,
                }
            )
        ),
    }
)
PLAN = object_schema(
    HEADER
    | {
        "resources": array_of(
            object_schema(
                RESOURCE_FIELDS
                | {
                    "action": {
                        "enum": ["create", "keep", "adopt", "change", "replace", "conflict", "delete"]
                    },
                    "command": TEXT,
                    "usual_seconds": {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2},
                    "note": TEXT,
                }
            )
        ),
        "usd_per_hour": object_schema({"known": NUMBER, "unknown": TEXTS}),
        "price_sources": {"type": "object", "additionalProperties": TEXT},
        "expected_seconds": NUMBER,
        "expected_seconds_range": {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2},
        "reservation": RESERVATION,
        "differences": array_of(
            object_schema({"name": TEXT, "what": TEXT, "why": TEXT, "on": FLAG, "switch": {}}, ("switch",))
        ),
    }
)
STATUS = object_schema(
    HEADER
    | {
        "resources": array_of(
            object_schema(
                RESOURCE_FIELDS
                | {
                    "state": {"enum": ["absent", "creating", "ready", "failed", "deleting"]},
                    "origin": {"enum": ["created", "adopted", "none"]},
                    "detail": TEXT,
                    "drift": TEXTS,
                }
            )
        ),
        "job": {"type": ["object", "null"], "required": ["id", "status", "step", "total_steps"]},
        "spent_usd": object_schema({"known": NUMBER, "since": {"type": ["string", "null"]}}),
        "reservation": RESERVATION,
    }
)

_EVENT = HEADER | {"time": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}}
_PLANNED = object_schema({"id": TEXT, "action": TEXT, "needs": TEXTS, "state": TEXT}, ("needs", "state"))
EVENTS = {
    name: object_schema(_EVENT | {"event": {"const": name}} | keys, optional)
    for name, (keys, optional) in {
        "plan": ({"resources": array_of(_PLANNED)}, ()),
        "resource_started": ({"id": TEXT, "action": TEXT, "title": TEXT}, ()),
        "resource_waiting": ({"id": TEXT, "detail": TEXT, "seconds": NUMBER}, ()),
        "resource_done": ({"id": TEXT, "action": TEXT, "seconds": NUMBER}, ()),
        "resource_failed": ({"id": TEXT, "title": TEXT, "detail": TEXT, "fix": TEXT, "command": TEXT}, ()),
        "retry": ({"id": TEXT, "detail": TEXT, "after_seconds": NUMBER}, ("id",)),
        "notice": ({"id": TEXT, "detail": TEXT}, ("id",)),
        "summary": (
            {
                "ok": FLAG,
                "created": NUMBER,
                "adopted": NUMBER,
                "kept": NUMBER,
                "deleted": NUMBER,
                "failed": array_of(FAILURE),
                "seconds": NUMBER,
                "usd_per_hour": NUMBER,
                "next": TEXT,
            },
            (),
        ),
    }.items()
}


def assert_valid(document: JSON, schema: JSON) -> None:
    """Raises fastjsonschema.JsonSchemaValueException with the path and the rule."""
    fastjsonschema.compile(schema)(document)


def assert_valid_events(lines: list[JSON]) -> None:
    """Every line, and the story as a whole: a plan first, the summary last and once."""
    for line in lines:
        assert_valid(line, EVENTS[line["event"]])
    assert lines[0]["event"] == "plan"
    assert [line["event"] for line in lines].count("summary") == 1 and lines[-1]["event"] == "summary"
