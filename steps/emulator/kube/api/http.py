"""HTTP handling: paths to kinds, access, content types, verbs."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml
from aiohttp import web

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import (
    auth,
    discovery,
    kinds,
    protobuf,
    selectors,
    status,
    subresources,
    tables,
    writes,
)
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.api.watch import WatchRequest
from grpo_wizard.steps.emulator.kube.api.writes import WriteOptions
from grpo_wizard.steps.emulator.kube.context import ClusterContext

_LOG = logging.getLogger(__name__)
_PATCHES = (writes.JSON_PATCH, writes.MERGE_PATCH, writes.STRATEGIC_MERGE_PATCH, writes.APPLY_PATCH)
_UNAUTHENTICATED_PATHS = ("/healthz", "/livez", "/readyz")


@dataclass(frozen=True)
class RequestTarget:
    """The target of a path. `name` is empty for collections, `subresource` for the object itself."""

    kind: Kind
    namespace: str
    name: str
    subresource: str


def parse_path(known: dict[tuple[str, str, str], Kind], path: str) -> RequestTarget | None:
    """Return the target of `/api/v1/…` or `/apis/G/V/…`; None if no such resource is served."""
    parts = [p for p in path.split("/") if p]
    group, ver, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and (group, ver, rest[2]) in known:
        namespace, rest = rest[1], rest[2:]
    kind = known.get((group, ver, rest[0])) if rest else None
    if kind is None or len(rest) > 3:
        return None
    return RequestTarget(kind, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else "")


class ApiServer:
    """Handles all requests of one cluster."""

    def __init__(self, kube: ClusterContext) -> None:
        self.kube, self.store = kube, kube.store
        self.known = {(k.group, k.version, k.plural): k for k in kube.store.kinds}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Handle one request; errors become Status bodies."""
        try:
            return await self._route(request)
        except status.StatusError as error:
            return _json(error.body(), error.code)

    async def _route(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path in _UNAUTHENTICATED_PATHS:
            return web.Response(text="ok")
        caller = auth.authenticate(
            request.headers.get("Authorization", ""),
            self.kube.token,
            self.kube.controller_state_for("keys")["tokens"],
            self.kube.clock.now(),
            self.store,
        )
        found = self._discovery(request, path.rstrip("/") or "/")
        if found is not None:
            return found
        if not path.startswith(("/api/", "/apis/")) or path.count("/") < 3:
            return self._not_found(request)
        target = parse_path(self.known, path)
        if target is None:
            return web.Response(status=404, text="404 page not found\n")
        verb = _request_verb(request, target)
        resource = target.kind.plural + (f"/{target.subresource}" if target.subresource else "")
        auth.require_access(
            self.store,
            caller,
            target.kind,
            auth.AccessRequest(verb, target.kind.group, resource, target.namespace, target.name),
        )
        if target.kind in kinds.REVIEWS:
            return _json(subresources.review(self.store, target.kind, caller, await _read_body(request)), 201)
        if target.subresource and target.subresource != "status":
            return await subresources.serve(
                self.kube, target, request, await _read_body(request, stream=True)
            )
        return await self._object(request, target, verb)

    def _not_found(self, request: web.Request) -> web.Response:
        if request.path.startswith(("/api", "/apis", "/openapi")):
            return web.Response(status=404, text="404 page not found\n")
        _LOG.warning("not emulated: %s %s", request.method, request.path)
        return _json(
            status.StatusError(
                501, "NotImplemented", f"not emulated: {request.method} {request.path}"
            ).body(),
            501,
        )

    def _discovery(self, request: web.Request, path: str) -> web.Response | None:
        known, parts = self.store.kinds, [p for p in path.split("/") if p]
        body: JSON | None = None
        if path == "/version":
            body = discovery.version(self.kube.version)
        elif path in ("/api", "/apis"):
            if "apidiscovery.k8s.io;v=v2;" in request.headers.get("Accept", "") + ";":
                raw = msgspec.json.encode(discovery.aggregated(known, path == "/api"))
                return web.Response(body=raw, headers={"Content-Type": discovery.AGGREGATED})
            body = discovery.group_list(known) if path == "/apis" else discovery.api_versions(request.host)
        elif path == "/openapi/v2":
            return web.Response(body=discovery.OPENAPI_V2, headers={"Content-Type": discovery.PROTO_V2})
        elif path == "/openapi/v3":
            body = discovery.openapi_index(known)
        elif path.startswith("/openapi/v3/"):
            group, ver = ("", parts[3]) if parts[2] == "api" else (parts[3], parts[-1])
            body = discovery.openapi(known, group, ver)
        elif parts[:1] == ["api"] and len(parts) == 2:
            body = discovery.resource_list(known, "", parts[1])
        elif parts[:1] == ["apis"] and len(parts) in (2, 3):
            body = (
                discovery.group(known, parts[1])
                if len(parts) == 2
                else discovery.resource_list(known, *parts[1:])
            )
        return None if body is None else _json(body)

    async def _object(self, request: web.Request, at: RequestTarget, verb: str) -> web.StreamResponse:
        match verb:
            case "get":
                return self._respond(request, at.kind, self.store.get(at.kind, at.namespace, at.name))
            case "list":
                return self._list(request, at)
            case "watch":
                return await self._watch(request, at)
            case "create":
                how = _write_options(request)
                made = writes.create(self.store, at.kind, at.namespace, await _read_body(request), how)
                return self._respond(request, at.kind, made, 201, how)
            case "update":
                how = _write_options(request)
                body = await _read_body(request)
                put = writes.replace(self.store, at.kind, at.namespace, at.name, body, how, at.subresource)
                return self._respond(request, at.kind, put, 200, how)
            case "patch":
                return await self._patch(request, at)
            case "delete":
                return await self._delete(request, at)
            case "deletecollection":
                return await self._delete_all(request, at)
        raise status.method_not_allowed()

    async def _patch(self, request: web.Request, at: RequestTarget) -> web.Response:
        media, how = request.content_type, _write_options(request)
        if media not in _PATCHES:
            raise status.unsupported_media(media, list(_PATCHES))
        if media == writes.APPLY_PATCH and "fieldManager" not in request.query:
            raise status.bad_request(
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required '
                "for apply patch"
            )
        body = await _read_body(request)
        obj, made = writes.patch(self.store, at.kind, at.namespace, at.name, media, body, how, at.subresource)
        return self._respond(request, at.kind, obj, 201 if made else 200, how)

    async def _delete(self, request: web.Request, at: RequestTarget) -> web.Response:
        options = _delete_options(request, await _read_body(request))
        dry = "All" in (request.query.get("dryRun"), *options.get("dryRun", ()))
        obj, gone = writes.delete(self.store, at.kind, at.namespace, at.name, options, dry)
        if gone:
            return _json(status.success(at.kind, at.name, obj["metadata"]["uid"]))
        return _json(obj)

    async def _delete_all(self, request: web.Request, at: RequestTarget) -> web.Response:
        options = _delete_options(request, await _read_body(request))
        rows = self._select(request, at)
        for obj in rows:
            writes.delete(
                self.store,
                at.kind,
                obj["metadata"].get("namespace", ""),
                obj["metadata"]["name"],
                options,
                request.query.get("dryRun") == "All",
            )
        return _json(self._to_list(at.kind, rows))

    def _select(self, request: web.Request, at: RequestTarget) -> list[JSON]:
        test = _selector_filter(request)
        return [o for o in self.store.list(at.kind, at.namespace) if test(o)]

    def _to_list(self, kind: Kind, rows: list[JSON], more: JSON | None = None) -> JSON:
        return {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(self.store.version), **(more or {})},
            "items": [self.store.encoded(kind, row) for row in rows],
        }

    def _list(self, request: web.Request, at: RequestTarget) -> web.Response:
        rows, more = self._select(request, at), {}
        limit, start = int(request.query.get("limit") or 0), int(request.query.get("continue") or 0)
        if limit and len(rows) > start + limit:
            more = {"continue": str(start + limit), "remainingItemCount": len(rows) - start - limit}
        rows = rows[start : start + limit] if limit else rows[start:]
        if _wants_table(request):
            table = self._table(request, at.kind, rows)
            table["metadata"].update(more)
            return _json(table)
        return _json(self._to_list(at.kind, rows, more))

    def _table(self, request: web.Request, kind: Kind, rows: list[JSON], headers: bool = True) -> JSON:
        return tables.render(
            kind,
            rows,
            self.kube.clock.now(),
            str(self.store.version),
            request.query.get("includeObject", "Metadata"),
            headers,
        )

    def _respond(
        self, request: web.Request, kind: Kind, obj: JSON, code: int = 200, how: WriteOptions | None = None
    ) -> web.Response:
        body = self._table(request, kind, [obj]) if _wants_table(request) else obj
        response = _json(body, code)
        for note in how.warnings if how else ():
            response.headers.add("Warning", f'299 - "{note.replace(chr(34), chr(92) + chr(34))}"')
        return response

    async def _watch(self, request: web.Request, at: RequestTarget) -> web.StreamResponse:
        query, table = request.query, _wants_table(request)
        first = True

        def shape(obj: JSON) -> JSON:
            nonlocal first
            if not table:
                return obj
            headers, first = first, False
            return self._table(request, at.kind, [obj], headers)

        test = _selector_filter(request)
        if at.name:
            wanted, inner = at.name, test

            def test(obj: JSON) -> bool:
                return bool(obj["metadata"]["name"] == wanted) and inner(obj)

        return await WatchRequest(
            self.store,
            at.kind,
            at.namespace,
            test,
            query.get("resourceVersion", ""),
            query.get("sendInitialEvents") == "true",
            query.get("allowWatchBookmarks") == "true",
            float(query.get("timeoutSeconds") or 1800),
            shape,
        ).serve(request)


def _json(body: Any, code: int = 200) -> web.Response:
    return web.Response(status=code, body=msgspec.json.encode(body), content_type="application/json")


def _request_verb(request: web.Request, at: RequestTarget) -> str:
    match request.method:
        case "GET" if at.subresource in ("exec", "portforward", "attach"):
            return "create"  # since Kubernetes 1.35 a stream needs `create`, whichever method opens it
        case "GET" if request.query.get("watch") in ("true", "1"):
            return "watch"
        case "GET":
            return "get" if at.name else "list"
        case "DELETE":
            return "delete" if at.name else "deletecollection"
        case "POST" if not at.name or at.subresource:
            return "create"
        case "PUT" if at.name:
            return "update"
        case "PATCH" if at.name:
            return "patch"
    raise status.method_not_allowed()


def _wants_table(request: web.Request) -> bool:
    return "as=Table" in request.headers.get("Accept", "").split(",")[0]


def _write_options(request: web.Request) -> WriteOptions:
    query = request.query
    dry = query.get("dryRun")
    if dry not in (None, "", "All"):
        raise status.bad_request(f'dryRun: Unsupported value: "{dry}": supported values: "All"')
    agent = request.headers.get("User-Agent", "unknown").split("/")[0]
    return WriteOptions(
        dry == "All",
        query.get("fieldValidation") or "Warn",
        query.get("fieldManager") or agent,
        query.get("force") in ("true", "1"),
    )


def _selector_filter(request: web.Request) -> selectors.ObjectPredicate:
    return selectors.build_selector(
        request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    )


def _delete_options(request: web.Request, body: Any) -> JSON:
    options: JSON = dict(body) if isinstance(body, dict) else {}
    for key in ("propagationPolicy", "gracePeriodSeconds"):
        if key in request.query:
            options[key] = request.query[key]
    if options.get("orphanDependents"):
        options["propagationPolicy"] = "Orphan"
    if isinstance(options.get("gracePeriodSeconds"), str):
        options["gracePeriodSeconds"] = int(options["gracePeriodSeconds"])
    return options


async def _read_body(request: web.Request, *, stream: bool = False) -> Any:
    """Return the decoded body: JSON, or YAML for apply. None for streams without one."""
    if stream and request.method == "GET":
        return None
    raw = await request.read()
    if not raw:
        return {}
    try:
        if request.content_type == protobuf.MEDIA_TYPE:
            return protobuf.decode(raw)
        if "yaml" in request.content_type and not raw.lstrip().startswith(b"{"):
            return yaml.safe_load(raw)
        return msgspec.json.decode(raw)
    except (ValueError, yaml.YAMLError) as error:
        raise status.bad_request(f"the object provided is unrecognized: {error}") from error
