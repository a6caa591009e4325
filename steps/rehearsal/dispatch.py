"""From a request to a handler.

The document's method, its checks, the API's being enabled, the handler, its answer.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import checks
from .contract import HANDLERS, ApiError, Call
from .documents import Document, Method, document
from .drill_refusals import meet
from .google.gate import refuse_disabled
from .routes import Place
from .world import Store

JSON = dict[str, Any]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """One request, of HTTP or of a batch's part."""

    place: Place
    http_method: str
    query: Mapping[str, list[str]]
    body: bytes
    headers: Mapping[str, str]
    operation_error: JSON | None = None


@dataclass
class Dispatcher:
    """Answers requests from one world.

    `checked` counts answers by method id; `violations` those that break their own schema.
    """

    world: Store
    caller: str
    check_answers: bool = False
    checked: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    async def answer(self, asked: Asked) -> JSON:
        """The answer's body. Raises ApiError for every other status than 200."""
        doc, method, path_params = self._find(asked)
        params = checks.check_query(doc, method, asked.query)
        params |= {name: self._by_id(value) for name, value in path_params.items()}
        call = Call(
            self.world,
            asked.place.service,
            method.id,
            asked.http_method,
            asked.place.path,
            params,
            checks.check_body(doc, method, _json(asked.body)),
            self.caller,
            asked.place.host,
            asked.operation_error,
            asked.headers,
        )
        handler = HANDLERS.get(method.id)
        refuse_disabled(call, asked.headers)
        if handler is None:
            _log.warning("not served: %s %s (%s)", asked.http_method, asked.place.path, method.id)
            raise ApiError(
                501,
                f"The rehearsal does not serve {method.id} ({asked.http_method} {asked.place.path}).",
                "UNIMPLEMENTED",
            )
        meet(call)
        result = handler(call)
        body: JSON = await result if inspect.isawaitable(result) else result
        if self.check_answers:
            self._check(doc, method, body)
        return body

    def _find(self, asked: Asked) -> tuple[Document, Method, dict[str, str]]:
        place = asked.place
        doc = document(place.service, place.path) if place.service else None
        found = doc.find(asked.http_method, place.path) if doc else None
        if doc is None or found is None:
            _log.warning("unknown: %s %s %s", asked.http_method, place.service or "(no service)", place.path)
            known = place.service and doc
            raise ApiError(
                404 if known else 501,
                f"The requested URL {place.path} was not found on this server."
                if known
                else f"The rehearsal stands in for no service at {place.path}.",
                "NOT_FOUND" if known else "UNIMPLEMENTED",
            )
        return doc, *found

    def _by_id(self, value: str) -> str:
        """Projects are known by id; paths may name them by number."""
        parts = value.split("/", 2)
        if parts[0] == "projects" and len(parts) > 1 and parts[1].isdigit():
            return "/".join([parts[0], self.world.project_id(parts[1]), *parts[2:]])
        return self.world.project_id(value) if value.isdigit() else value

    def _check(self, doc: Document, method: Method, body: JSON) -> None:
        self.checked[method.id] = self.checked.get(method.id, 0) + 1
        wrong = checks.answer_violations(doc, method, body)
        for text in wrong:
            _log.error("answer of %s: %s", method.id, text)
        self.violations += [f"{method.id}: {text}" for text in wrong]


def _json(raw: bytes) -> Any:
    if not raw.strip():
        return None
    try:
        return json.loads(raw)
    except ValueError as problem:
        raise ApiError(
            400, f"Invalid JSON payload received. {problem}", "INVALID_ARGUMENT", "parseError"
        ) from None
