"""From a request to a handler.

The document's method, its checks, the API's being enabled, the handler, its answer.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_wizard.steps.emulator.drills.refusals import meet
from grpo_wizard.steps.emulator.google.orgpolicy import effects
from grpo_wizard.steps.emulator.google.serviceusage.api_enablement import refuse_disabled
from grpo_wizard.steps.emulator.google.shared.filters import refuse_unknown
from grpo_wizard.steps.emulator.server import field_masks, payload, schema_checks
from grpo_wizard.steps.emulator.server.context import HANDLERS, ApiError, Call
from grpo_wizard.steps.emulator.server.discovery_documents import DOCUMENTS, Document, Method, document, load
from grpo_wizard.steps.emulator.server.routes import Place
from grpo_wizard.steps.emulator.store.world import Store

JSON = dict[str, Any]
_BETA = "compute/beta"  # the world keeps what v1 has
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

    async def answer(self, asked: Asked) -> JSON | None:
        """The answer's body; None for a method that answers with none (204).

        Raises ApiError for every other status.
        """
        doc, method, path_params = self._find(asked)
        handler = HANDLERS.get(method.id)
        if handler is None:
            _log.warning("not served: %s %s (%s)", asked.http_method, asked.place.path, method.id)
            raise ApiError(
                501,
                f"The rehearsal does not serve {method.id} ({asked.http_method} {asked.place.path}).",
                "UNIMPLEMENTED",
            )
        try:
            call, mask = self._checked(asked, doc, method, path_params)
        except RecursionError:
            raise ApiError(400, "Request contains an invalid argument.", "INVALID_ARGUMENT") from None
        refuse_disabled(call, asked.headers)
        effects.refuse(call)
        meet(call)
        result = handler(call)
        body: JSON = await result if inspect.isawaitable(result) else result
        if doc.prefix == _BETA:
            body = schema_checks.known_part(doc, method.response, body)
        if self.check_answers:
            self._check(doc, method, body)
        if method.response is None and not body and doc.common:  # of Google alone
            return None
        return field_masks.cut(mask, body) if mask else body

    def _checked(
        self, asked: Asked, doc: Document, method: Method, path_params: dict[str, str]
    ) -> tuple[Call, field_masks.Tree | None]:
        """The call that a request is, and what of its answer it wants. Raises ApiError 400."""
        schema_checks.check_path(doc, method, path_params)
        params = schema_checks.check_query(doc, method, asked.query)
        refuse_unknown(doc, method, str(params.get("filter", "")))
        params |= {name: self._by_id(value) for name, value in path_params.items()}
        body = schema_checks.check_body(doc, method, payload.read(asked.body))
        if doc.prefix == _BETA:
            body = schema_checks.known_part(load(doc.service, "compute/v1"), method.request, body)
        place = asked.place
        call = Call(
            self.world,
            place.service,
            method.id,
            asked.http_method,
            place.path,
            params,
            body,
            self.caller,
            place.host,
            asked.operation_error,
            asked.headers,
        )
        return call, field_masks.mask(doc, method, field_masks.asked(asked.query, asked.headers))

    def _find(self, asked: Asked) -> tuple[Document, Method, dict[str, str]]:
        place = asked.place
        doc = document(place.service, place.path) if place.service else None
        found = doc.find(asked.http_method, place.path) if doc else None
        if doc is None or found is None:
            _log.warning("unknown: %s %s %s", asked.http_method, place.service or "(no service)", place.path)
            # A version that Google has and nobody here serves is told from one that is not.
            known = place.service in DOCUMENTS and "alpha" not in place.path.split("/projects/")[0]
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
        wrong = schema_checks.answer_violations(doc, method, body)
        for text in wrong:
            _log.error("answer of %s: %s", method.id, text)
        self.violations += [f"{method.id}: {text}" for text in wrong]
