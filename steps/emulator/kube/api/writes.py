"""The write verbs: admission, defaulting, validation, storage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import defaults, kinds, patches, schemas, status, validation
from grpo_wizard.steps.emulator.kube.api import server_side_apply as ssa
from grpo_wizard.steps.emulator.kube.api.copies import deep_copy
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.api.store import ObjectStore

MERGE_PATCH, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC_MERGE_PATCH, APPLY_PATCH = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)


@dataclass
class WriteOptions:
    """Options of a write: query parameters, and the warnings to return."""

    dry_run: bool = False
    field_validation: str = "Warn"  # fieldValidation: Ignore | Warn | Strict
    field_manager: str = "unknown"
    force: bool = False
    warnings: list[str] = field(default_factory=list)


def create(store: ObjectStore, kind: Kind, namespace: str, body: JSON, options: WriteOptions) -> JSON:
    """POST a new object."""
    obj = _prepare(store, kind, namespace, body, options)
    obj["metadata"].pop("resourceVersion", None)
    defaults.set_defaults(kind, obj)
    validation.check_rules(kind, obj, None)
    if kind.has_status and kind.is_custom:
        obj.pop("status", None)
    obj = ssa.track_update(schemas.schema_of(kind), None, obj, options.field_manager, store.now())
    return store.create(kind, obj, dry_run=options.dry_run)


def _prepare(store: ObjectStore, kind: Kind, namespace: str, body: JSON, how: WriteOptions) -> JSON:
    if (
        not isinstance(body, dict)
        or body.get("kind", kind.kind) != kind.kind
        or body.get("apiVersion", kind.api_version) != kind.api_version
    ):
        got = body.get("kind") if isinstance(body, dict) else type(body).__name__
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): got {got!r} "
            f"{body.get('apiVersion', '') if isinstance(body, dict) else ''}"
        )
    clean, notes = validation.check_schema(kind, body, how.field_validation)
    how.warnings += notes
    obj: JSON = {"apiVersion": kind.api_version, "kind": kind.kind, **deep_copy(clean)}
    meta = obj.setdefault("metadata", {})
    for key in _SERVER_OWNED:
        meta.pop(key, None)
    if kind.namespaced:
        _check_namespace(store, kind, namespace, meta)
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)
    return obj


def _check_namespace(store: ObjectStore, kind: Kind, namespace: str, meta: JSON) -> None:
    if meta.get("namespace", namespace) != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    home = store.get(kinds.NAMESPACE, "", namespace)
    if home["status"].get("phase") == "Terminating":
        raise status.forbidden(
            kind,
            str(meta.get("name", "")),
            f"unable to create new content in namespace {namespace} because it is being terminated",
        )


def replace(
    store: ObjectStore,
    kind: Kind,
    namespace: str,
    name: str,
    body: JSON,
    options: WriteOptions,
    sub: str = "",
) -> JSON:
    """PUT a whole object, or its status."""
    if isinstance(body, dict) and (body.get("metadata") or {}).get("name", name) != name:
        raise status.bad_request(
            f"the name of the object ({body['metadata']['name']}) does not match the name on the URL ({name})"
        )
    old = store.find(kind, namespace, name)
    if old is None:
        raise status.not_found(kind, name)
    uid = (body.get("metadata") or {}).get("uid")
    return _store_new(
        store,
        kind,
        old,
        {**body, "metadata": {**body.get("metadata", {}), "name": name, "uid": uid}},
        options,
        sub,
    )


def _store_new(
    store: ObjectStore,
    kind: Kind,
    old: JSON,
    new: JSON,
    how: WriteOptions,
    sub: str,
    *,
    applied: bool = False,
) -> JSON:
    """Store the new version; shared by PUT and PATCH."""
    clean, notes = validation.check_schema(kind, new, how.field_validation)
    how.warnings += notes
    obj: JSON = {"apiVersion": kind.api_version, "kind": kind.kind, **deep_copy(clean)}
    meta = obj["metadata"] = {**obj.get("metadata", {}), "name": old["metadata"]["name"]}
    if kind.namespaced:
        meta["namespace"] = old["metadata"]["namespace"]
    if sub == "status":
        version = meta.get("resourceVersion")
        obj = {**deep_copy(old), "status": obj.get("status", {})}
        obj["metadata"]["resourceVersion"] = version
    elif kind.has_status:
        obj["status"] = deep_copy(old.get("status", {}))
        if not obj["status"] and "status" not in old:
            del obj["status"]
    version = obj["metadata"].get("resourceVersion")
    if sub != "status":
        _keep_server_set_values(kind, old, obj)
        validation.check_rules(kind, obj, old)
        if not applied:
            obj = ssa.track_update(schemas.schema_of(kind), old, obj, how.field_manager, store.now())
    obj["metadata"]["resourceVersion"] = version
    return store.update(kind, obj, dry_run=how.dry_run)


def _keep_server_set_values(kind: Kind, old: JSON, obj: JSON) -> None:
    """Keep values that the server chose at creation and that a PUT omits."""
    kept = {
        kinds.SERVICE: ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"),
        kinds.PVC: ("volumeName",),
        kinds.POD: ("nodeName",),
        kinds.PV: ("claimRef",),
    }.get(kind, ())
    for key in kept:
        if key in old.get("spec", {}) and key not in obj.get("spec", {}):
            obj.setdefault("spec", {})[key] = old["spec"][key]
    status_of = obj.get("status")
    defaults.set_defaults(kind, obj)
    if status_of is not None:
        obj["status"] = status_of


def patch(
    store: ObjectStore,
    kind: Kind,
    namespace: str,
    name: str,
    media: str,
    body: Any,
    options: WriteOptions,
    sub: str = "",
) -> tuple[JSON, bool]:
    """PATCH in any of the four formats; returns True if server-side apply created the object."""
    old = store.find(kind, namespace, name)
    node = schemas.schema_of(kind)
    if media == APPLY_PATCH:
        return _apply(store, kind, namespace, name, body, old, options, sub)
    if old is None:
        raise status.not_found(kind, name)
    if media == STRATEGIC_MERGE_PATCH and kind.is_custom:
        raise status.unsupported_media(media, [JSON_PATCH, MERGE_PATCH, APPLY_PATCH])
    if media == STRATEGIC_MERGE_PATCH:
        _check_patch(kind, body, options)
        new = patches.strategic(node, old, body)
    elif media == MERGE_PATCH:
        new = patches.merge(old, body)
    else:
        new = patches.json_patch(old, body)
    if not isinstance(new, dict) or (new.get("metadata") or {}).get("name") != name:
        raise status.bad_request("the name of the object may not be changed by a patch")
    asked = (body.get("metadata") or {}).get("resourceVersion") if isinstance(body, dict) else None
    new = {**new, "metadata": {**new["metadata"], "resourceVersion": asked}}
    return _store_new(store, kind, old, new, options, sub), False


def _check_patch(kind: Kind, body: JSON, how: WriteOptions) -> None:
    """Check a strategic merge patch for unknown fields; its `$` directives are not fields."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if not k.startswith("$")}
        return (
            [plain(v) for v in value if not (isinstance(v, dict) and "$patch" in v)]
            if isinstance(value, list)
            else value
        )

    found = schemas.SchemaErrors()
    schemas.validate(schemas.schema_of(kind), plain(body), "", found)
    notes = [f'unknown field "{path}"' for path in found.unknown_fields]
    if notes and how.field_validation == "Strict":
        raise status.bad_request(f"strict decoding error: {', '.join(notes)}")
    how.warnings += notes if how.field_validation == "Warn" else []


def _apply(
    store: ObjectStore,
    kind: Kind,
    namespace: str,
    name: str,
    body: JSON,
    old: JSON | None,
    how: WriteOptions,
    sub: str,
) -> tuple[JSON, bool]:
    meta = {**(body.get("metadata") or {}), "name": name}
    if meta.get("managedFields"):
        raise status.bad_request("metadata.managedFields must be nil")
    body = {**body, "metadata": meta}
    node = schemas.schema_of(kind)
    if old is None:
        obj = _prepare(store, kind, namespace, body, how)
        clean = deep_copy(obj)
        defaults.set_defaults(kind, obj)
        validation.check_rules(kind, obj, None)
        obj["metadata"]["managedFields"] = [
            {
                "manager": how.field_manager,
                "operation": "Apply",
                "apiVersion": kind.api_version,
                "time": store.now(),
                "fieldsType": "FieldsV1",
                "fieldsV1": ssa.fields_of(node, clean),
            }
        ]
        return store.create(kind, obj, dry_run=how.dry_run), True
    clean, notes = validation.check_schema(
        kind, _with_live_required_fields(body, old, kind), how.field_validation
    )
    how.warnings += notes
    new = ssa.apply(node, old, clean, how.field_manager, how.force, store.now())
    new["metadata"]["resourceVersion"] = meta.get("resourceVersion")
    return _store_new(
        store, kind, old, new, WriteOptions(how.dry_run, "Ignore", how.field_manager), sub, applied=True
    ), False


def _with_live_required_fields(body: JSON, old: JSON, kind: Kind) -> JSON:
    """Complete an applied configuration, which may be partial, with required fields of the live object."""
    found = schemas.SchemaErrors()
    schemas.validate(schemas.schema_of(kind), body, "", found)
    if not found.missing_fields:
        return body
    done = deep_copy(body)
    for path in found.missing_fields:
        at, live, parts = done, old, path.split(".")
        for part in parts[:-1]:
            at, live = at.get(part, {}), live.get(part, {})
        if isinstance(at, dict) and isinstance(live, dict) and parts[-1] in live:
            at[parts[-1]] = live[parts[-1]]
    return done


def delete(
    store: ObjectStore, kind: Kind, namespace: str, name: str, options: JSON, dry_run: bool
) -> tuple[JSON, bool]:
    """DELETE; returns True if the object is gone at once, False if it remains for now.

    Finalizers, a pod's node or a namespace's contents can delay it.
    """
    obj = store.get(kind, namespace, name)
    wanted = options.get("preconditions") or {}
    meta = obj["metadata"]
    for key in ("uid", "resourceVersion"):
        if wanted.get(key) and wanted[key] != meta[key]:
            raise status.conflict(
                kind,
                name,
                f"Precondition failed: {key} in precondition: {wanted[key]}, {key} in "
                f"object meta: {meta[key]}",
            )
    if dry_run:
        return obj, True
    policy = options.get("propagationPolicy") or "Background"
    finalizers = list(meta.get("finalizers", ()))
    if policy == "Foreground" and "foregroundDeletion" not in finalizers:
        finalizers.append("foregroundDeletion")
    if policy == "Orphan" and "orphan" not in finalizers:
        finalizers.append("orphan")
    grace = options.get("gracePeriodSeconds")
    if kind is kinds.POD and grace is None:
        grace = obj["spec"].get("terminationGracePeriodSeconds", 30)
    lingers = (
        bool(finalizers)
        or kind is kinds.NAMESPACE
        or (kind is kinds.POD and obj["spec"].get("nodeName") and grace != 0)
    )
    if not lingers:
        return store.remove(kind, obj), True
    if "deletionTimestamp" in meta and finalizers == list(meta.get("finalizers", ())):
        return obj, False
    new = store.mark_deleted(kind, obj, int(grace or 0), finalizers)
    if kind is kinds.NAMESPACE:
        new = store.update(kind, {**new, "status": {**new["status"], "phase": "Terminating"}})
    return new, False
