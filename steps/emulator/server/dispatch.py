"""Dispatch a request: find its method, validate it, check that the API is enabled, call the handler."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_wizard.steps.emulator.context import HANDLERS, ApiCall, ApiError
from grpo_wizard.steps.emulator.drills.refusals import apply_faults
from grpo_wizard.steps.emulator.google.orgpolicy import effects
from grpo_wizard.steps.emulator.google.serviceusage.api_enablement import require_api_enabled
from grpo_wizard.steps.emulator.google.shared.filters import check_filter_fields
from grpo_wizard.steps.emulator.server import field_masks, payload, schema_checks
from grpo_wizard.steps.emulator.server.discovery_documents import (
    DOCUMENTS,
    Document,
    Method,
    find_document,
    load_document,
)
from grpo_wizard.steps.emulator.server.routes import Route
from grpo_wizard.steps.emulator.store.persistent_store import PersistentStore

JSON = dict[str, Any]
_BETA = "compute/beta"  # the store keeps v1 resources
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RawRequest:
    """One request, from HTTP or from a part of a batch."""

    route: Route
    http_method: str
    query: Mapping[str, list[str]]
    body: bytes
    headers: Mapping[str, str]
    operation_error: JSON | None = None


@dataclass
class Dispatcher:
    """Answers requests from one store.

    `checked_counts` counts responses by method id; `violations` lists those that violate their own schema.
    """

    store: PersistentStore
    caller: str
    check_answers: bool = False
    checked_counts: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    async def dispatch(self, raw: RawRequest) -> JSON | None:
        """Return the response's body; None for a method without one (204).

        Raises ApiError for every other status.
        """
        doc, method, path_params = self._find_method(raw)
        handler = HANDLERS.get(method.id)
        if handler is None:
            _log.warning("not served: %s %s (%s)", raw.http_method, raw.route.path, method.id)
            raise ApiError(
                501,
                f"The emulator does not implement {method.id} ({raw.http_method} {raw.route.path}).",
                "UNIMPLEMENTED",
            )
        try:
            call, mask = self._to_call(raw, doc, method, path_params)
        except RecursionError:
            raise ApiError(400, "Request contains an invalid argument.", "INVALID_ARGUMENT") from None
        require_api_enabled(call, raw.headers)
        effects.check_location_policy(call)
        apply_faults(call)
        result = handler(call)
        body: JSON = await result if inspect.isawaitable(result) else result
        if doc.prefix == _BETA:
            body = schema_checks.drop_unknown_fields(doc, method.response, body)
        if self.check_answers:
            self._check_response(doc, method, body)
        if method.response is None and not body and doc.common_parameters:  # Google only
            return None
        return field_masks.apply_mask(mask, body) if mask else body

    def _to_call(
        self, raw: RawRequest, doc: Document, method: Method, path_params: dict[str, str]
    ) -> tuple[ApiCall, field_masks.FieldMask | None]:
        """Convert a request to a call and its requested field mask. Raises ApiError 400."""
        schema_checks.check_path(doc, method, path_params)
        params = schema_checks.check_query(doc, method, raw.query)
        check_filter_fields(doc, method, str(params.get("filter", "")))
        params |= {name: self._with_project_id(value) for name, value in path_params.items()}
        body = schema_checks.check_body(doc, method, payload.parse_body(raw.body))
        if doc.prefix == _BETA:
            body = schema_checks.drop_unknown_fields(
                load_document(doc.service, "compute/v1"), method.request, body
            )
        route = raw.route
        call = ApiCall(
            self.store,
            route.service,
            method.id,
            raw.http_method,
            route.path,
            params,
            body,
            self.caller,
            route.base_url,
            raw.operation_error,
            raw.headers,
        )
        return call, field_masks.parse_mask(doc, method, field_masks.requested_mask(raw.query, raw.headers))

    def _find_method(self, raw: RawRequest) -> tuple[Document, Method, dict[str, str]]:
        route = raw.route
        doc = find_document(route.service, route.path) if route.service else None
        found = doc.find(raw.http_method, route.path) if doc else None
        if doc is None or found is None:
            _log.warning("unknown: %s %s %s", raw.http_method, route.service or "(no service)", route.path)
            # Tells a version that the emulator does not implement from one that does not exist.
            known = route.service in DOCUMENTS and "alpha" not in route.path.split("/projects/")[0]
            raise ApiError(
                404 if known else 501,
                f"The requested URL {route.path} was not found on this server."
                if known
                else f"The emulator does not implement a service at {route.path}.",
                "NOT_FOUND" if known else "UNIMPLEMENTED",
            )
        return doc, *found

    def _with_project_id(self, value: str) -> str:
        """Replace a project number in the path by the project's id."""
        parts = value.split("/", 2)
        if parts[0] == "projects" and len(parts) > 1 and parts[1].isdigit():
            return "/".join([parts[0], self.store.project_id(parts[1]), *parts[2:]])
        return self.store.project_id(value) if value.isdigit() else value

    def _check_response(self, doc: Document, method: Method, body: JSON) -> None:
        self.checked_counts[method.id] = self.checked_counts.get(method.id, 0) + 1
        wrong = schema_checks.response_violations(doc, method, body)
        for text in wrong:
            _log.error("answer of %s: %s", method.id, text)
        self.violations += [f"{method.id}: {text}" for text in wrong]
