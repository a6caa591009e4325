"""Discovery: versions, groups, resources, and the OpenAPI document that announces fieldValidation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api.kinds import Kind

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def version(master: str) -> JSON:
    """Return /version of a GKE control plane such as `1.33.5-gke.1162000`."""
    major, minor = master.split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{master}",
        "gitCommit": "rehearsal",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "go1.24.6",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def groups(kinds: Iterable[Kind]) -> dict[tuple[str, str], list[Kind]]:
    found: dict[tuple[str, str], list[Kind]] = {}
    for kind in kinds:
        found.setdefault((kind.group, kind.version), []).append(kind)
    return found


def aggregated(kinds: Iterable[Kind], core: bool) -> JSON:
    """Return the APIGroupDiscoveryList of /api (core) or /apis."""
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {"version": ver, "freshness": "Current", "resources": [_aggregated(k) for k in rows]}
            ],
        }
        for (group, ver), rows in groups(kinds).items()
        if (group == "") == core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _gvk(kind: Kind) -> JSON:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _aggregated(kind: Kind) -> JSON:
    row: JSON = {
        "resource": kind.plural,
        "responseKind": _gvk(kind),
        "singularResource": kind.kind.lower(),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if kind.categories:
        row["categories"] = list(kind.categories)
    subs = [
        {"subresource": name, "responseKind": gvk, "verbs": verbs} for name, gvk, verbs in _subresources(kind)
    ]
    return {**row, "subresources": subs} if subs else row


def _subresources(kind: Kind) -> list[tuple[str, JSON, list[str]]]:
    special = {
        "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
        "token": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
    }
    verbs = {
        "log": ["get"],
        "exec": ["create", "get"],
        "attach": ["create", "get"],
        "portforward": ["create", "get"],
        "eviction": ["create"],
        "binding": ["create"],
        "token": ["create"],
    }
    rows = [
        (s, special.get(s, _gvk(kind)), verbs.get(s, ["get", "patch", "update"])) for s in kind.subresources
    ]
    return [*rows, *([("status", _gvk(kind), ["get", "patch", "update"])] if kind.has_status else [])]


def api_versions(host: str) -> JSON:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
    }


def _group(group: str, ver: str) -> JSON:
    entry = {"groupVersion": f"{group}/{ver}", "version": ver}
    return {"name": group, "versions": [entry], "preferredVersion": entry}


def group_list(kinds: Iterable[Kind]) -> JSON:
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(group, ver) for group, ver in groups(kinds) if group],
    }


def group(kinds: Iterable[Kind], name: str) -> JSON | None:
    found = [ver for g, ver in groups(kinds) if g == name and name]
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, found[0])} if found else None


def resource_list(kinds: Iterable[Kind], group: str, ver: str) -> JSON | None:
    """Return the older APIResourceList of one group version."""
    rows = groups(kinds).get((group, ver))
    if rows is None:
        return None
    resources: list[JSON] = []
    for kind in rows:
        row: JSON = {
            "name": kind.plural,
            "singularName": kind.kind.lower(),
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        row.update({"shortNames": list(kind.short_names)} if kind.short_names else {})
        row.update({"categories": list(kind.categories)} if kind.categories else {})
        resources.append(row)
        resources += [
            {
                "name": f"{kind.plural}/{sub}",
                "singularName": "",
                "namespaced": kind.namespaced,
                **gvk,
                "verbs": verbs,
            }
            for sub, gvk, verbs in _subresources(kind)
        ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{ver}" if group else ver,
        "resources": resources,
    }


# An OpenAPI v2 document without paths or definitions, in protobuf: swagger "2.0", info {title, version}. kubectl
# requests it for kinds that v3 lacks (a `v1 List`, an unknown kind). Without it kubectl fails; with it, kubectl sends
# the request and shows the server's own error.
PROTO_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OPENAPI_V2 = b"\n\x032.0\x12\x10\n\nKubernetes\x12\x02v1"


def openapi_index(kinds: Iterable[Kind]) -> JSON:
    paths = {}
    for group, ver in groups(kinds):
        name = f"apis/{group}/{ver}" if group else f"api/{ver}"
        paths[name] = {
            "serverRelativeURL": f"/openapi/v3/{name}?hash={hashlib.sha256(name.encode()).hexdigest()}"
        }
    return {"paths": paths}


def openapi(kinds: Iterable[Kind], group: str, ver: str) -> JSON | None:
    """Return a group version's OpenAPI document: its PATCH operations, which tell kubectl that
    fieldValidation is supported.
    """
    rows = groups(kinds).get((group, ver))
    if rows is None:
        return None
    root = f"/apis/{group}/{ver}" if group else f"/api/{ver}"
    query = [
        {"name": name, "in": "query", "schema": {"type": "string"}}
        for name in ("dryRun", "fieldManager", "fieldValidation", "force")
    ]
    paths = {}
    for kind in rows:
        scope = "/namespaces/{namespace}" if kind.namespaced else ""
        paths[f"{root}{scope}/{kind.plural}/{{name}}"] = {
            "patch": {
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": _gvk(kind),
                "parameters": query,
                "responses": {"200": {"description": "OK"}},
            }
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1"},
        "paths": paths,
        "components": {"schemas": {}},
    }
