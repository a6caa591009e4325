"""Reviews and small subresources: scale, eviction, token; streams are passed on to streams/."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import auth, kinds, patches, status, writes
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.api.store import ObjectStore, format_timestamp
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.streams import router

if TYPE_CHECKING:
    from grpo_wizard.steps.emulator.kube.api.http import RequestTarget


def _json(body: JSON, code: int = 200) -> web.Response:
    return web.Response(status=code, body=msgspec.json.encode(body), content_type="application/json")


def review(store: ObjectStore, kind: Kind, caller: auth.KubeCaller, body: JSON) -> JSON:
    """Answer a SelfSubjectAccessReview, SelfSubjectRulesReview or SelfSubjectReview."""
    answer: JSON = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {},
        "spec": body.get("spec", {}),
    }
    if kind is kinds.SELF_SUBJECT_REVIEW:
        return {**answer, "status": {"userInfo": {"username": caller.name, "groups": list(caller.groups)}}}
    if kind is kinds.SELF_SUBJECT_RULES_REVIEW:
        rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        return {
            **answer,
            "status": {
                "resourceRules": [rule] if caller.admin else [],
                "nonResourceRules": [],
                "incomplete": not caller.admin,
            },
        }
    asked = answer["spec"].get("resourceAttributes")
    if asked is None:
        return {**answer, "status": {"allowed": caller.admin}}
    resource = asked.get("resource", "") + (f"/{asked['subresource']}" if asked.get("subresource") else "")
    ask = auth.AccessRequest(
        asked.get("verb", ""),
        asked.get("group", ""),
        resource,
        asked.get("namespace", ""),
        asked.get("name", ""),
    )
    granted = auth.is_allowed(store, caller, ask)
    return {**answer, "status": {"allowed": granted, **({} if granted else {"reason": "no matching role"})}}


async def serve(
    kube: ClusterContext, at: RequestTarget, request: web.Request, body: Any
) -> web.StreamResponse:
    """Serve a subresource other than status."""
    if at.subresource not in at.kind.subresources:
        return web.Response(status=404, text="404 page not found\n")
    obj = kube.store.get(at.kind, at.namespace, at.name)
    match at.subresource:
        case "scale":
            return _scale(kube, at, request, body, obj)
        case "token":
            return _token(kube, at, body)
        case "eviction":
            options = {"gracePeriodSeconds": (body.get("deleteOptions") or {}).get("gracePeriodSeconds")}
            writes.delete(kube.store, at.kind, at.namespace, at.name, options, False)
            return _json(
                {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
            )
        case "log" | "exec" | "portforward":
            return await router.serve(kube, obj, at.subresource, request)
    return _json(status.StatusError(501, "NotImplemented", f"not emulated: {request.path}").body(), 501)


def _scale(
    kube: ClusterContext, at: RequestTarget, request: web.Request, body: Any, obj: JSON
) -> web.Response:
    def shown(o: JSON) -> JSON:
        meta = {
            k: o["metadata"][k] for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        }
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": meta,
            "spec": {"replicas": o["spec"].get("replicas", 0)},
            "status": {"replicas": o.get("status", {}).get("replicas", 0)},
        }

    if request.method == "GET":
        return _json(shown(obj))
    wanted = body if request.method == "PUT" else patches.merge(shown(obj), body)
    version = wanted.get("metadata", {}).get("resourceVersion") if request.method == "PUT" else None
    new = {
        **obj,
        "metadata": {**obj["metadata"], "resourceVersion": version},
        "spec": {**obj["spec"], "replicas": int(wanted["spec"].get("replicas", 0))},
    }
    return _json(shown(kube.store.update(at.kind, new, dry_run=request.query.get("dryRun") == "All")))


def _token(kube: ClusterContext, at: RequestTarget, body: Any) -> web.Response:
    seconds = int((body.get("spec") or {}).get("expirationSeconds") or 3600)
    expires = kube.clock.now() + seconds
    token = auth.issue_token(kube.controller_state_for("keys")["tokens"], at.namespace, at.name, expires)
    return _json(
        {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": at.name, "namespace": at.namespace},
            "spec": body.get("spec", {}),
            "status": {"token": token, "expirationTimestamp": format_timestamp(expires)},
        },
        201,
    )
