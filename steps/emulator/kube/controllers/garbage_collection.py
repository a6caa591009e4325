"""Deletion: owners and dependents, foreground and orphan, namespaces, volume protection."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds, writes
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.context import ClusterContext

_PVC_PROTECTION, _PV_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"


# Kubernetes deletes events after an hour; here the oldest are deleted above this count. A limit below the number of
# repeated events of pending pods would create and delete events forever.
MAX_EVENTS, MAX_EVENTS_PER_POD = 3000, 6


def reconcile(kube: ClusterContext) -> None:
    """Runs only if an object was deleted, is being deleted, or could have lost its owner."""
    _expire_events(kube)
    seen = kube.controller_state_for("garbage")
    if seen.get("departures") == kube.store.deletion_count and not seen.get("leaving"):
        return
    everything = [(k, o) for k, o in kube.store.all_objects() if k is not kinds.EVENT]
    uids = {obj["metadata"]["uid"]: obj for _, obj in everything}
    for kind, obj in everything:
        if obj["metadata"].get("ownerReferences"):
            _delete_if_orphaned(kube, kind, obj, uids)
    leaving = [(k, o) for k, o in everything if "deletionTimestamp" in o["metadata"]]
    for kind, obj in leaving:
        _finalize(kube, kind, obj, everything)
    # Pods are removed by their node; other objects wait for their dependents or users.
    seen.update(
        departures=kube.store.deletion_count, leaving=sum(1 for k, _ in leaving if k is not kinds.POD)
    )


def _expire_events(kube: ClusterContext) -> None:
    if kube.store.count(kinds.EVENT) <= MAX_EVENTS + MAX_EVENTS_PER_POD * kube.store.count(kinds.POD):
        return
    events = sorted(kube.store.list(kinds.EVENT), key=lambda e: int(e["metadata"]["resourceVersion"]))
    for event in events[: MAX_EVENTS // 3]:
        kube.store.remove(kinds.EVENT, event)
    known = {e["metadata"]["name"] for e in kube.store.list(kinds.EVENT)}
    index = kube.controller_state_for("events")
    for key in [k for k, name in index.items() if name not in known]:
        del index[key]


def _delete_if_orphaned(kube: ClusterContext, kind: Kind, obj: JSON, uids: dict[str, JSON]) -> None:
    owners = obj["metadata"]["ownerReferences"]
    if any(o["uid"] in uids and not _is_foreground_deletion(uids[o["uid"]]) for o in owners):
        return
    if "deletionTimestamp" not in obj["metadata"]:
        _delete(kube, kind, obj)


def _is_foreground_deletion(owner: JSON) -> bool:
    meta = owner["metadata"]
    return "deletionTimestamp" in meta and "foregroundDeletion" in meta.get("finalizers", ())


def _delete(kube: ClusterContext, kind: Kind, obj: JSON) -> None:
    meta = obj["metadata"]
    if kube.store.find(kind, meta.get("namespace", ""), meta["name"]) is not None:
        writes.delete(kube.store, kind, meta.get("namespace", ""), meta["name"], {}, False)


def _finalize(kube: ClusterContext, kind: Kind, obj: JSON, everything: list[tuple[Kind, JSON]]) -> None:
    meta = obj["metadata"]
    finalizers = meta.get("finalizers", ())
    if kind is kinds.NAMESPACE:
        _empty_namespace(kube, obj)
    dependents = [
        (k, o)
        for k, o in everything
        if any(r["uid"] == meta["uid"] for r in o["metadata"].get("ownerReferences", ()))
    ]
    if "foregroundDeletion" in finalizers and not dependents:
        _remove_finalizer(kube, kind, obj, "foregroundDeletion")
    if "orphan" in finalizers:
        for dependent_kind, dependent in dependents:
            kube.edit_object(
                dependent_kind,
                dependent,
                lambda o: o["metadata"].update(
                    ownerReferences=[r for r in o["metadata"]["ownerReferences"] if r["uid"] != meta["uid"]]
                ),
            )
        _remove_finalizer(kube, kind, obj, "orphan")
    if _PVC_PROTECTION in finalizers and not _claim_in_use(kube, obj):
        _remove_finalizer(kube, kind, obj, _PVC_PROTECTION)
    if _PV_PROTECTION in finalizers and obj.get("status", {}).get("phase") != "Bound":
        _remove_finalizer(kube, kind, obj, _PV_PROTECTION)


def _remove_finalizer(kube: ClusterContext, kind: Kind, obj: JSON, finalizer: str) -> None:
    kube.edit_object(
        kind,
        obj,
        lambda o: o["metadata"].update(
            finalizers=[f for f in o["metadata"].get("finalizers", ()) if f != finalizer]
        ),
    )


def _claim_in_use(kube: ClusterContext, claim: JSON) -> bool:
    meta = claim["metadata"]
    return any(
        v.get("persistentVolumeClaim", {}).get("claimName") == meta["name"]
        for pod in kube.store.list(kinds.POD, meta["namespace"])
        for v in pod["spec"].get("volumes", ())
        if pod["status"].get("phase") not in ("Succeeded", "Failed")
    )


def _empty_namespace(kube: ClusterContext, namespace: JSON) -> None:
    name = namespace["metadata"]["name"]
    inside = [(k, o) for k, o in kube.store.all_objects() if o["metadata"].get("namespace") == name]
    for kind, obj in inside:
        if "deletionTimestamp" not in obj["metadata"]:
            _delete(kube, kind, obj)
    if not any(o["metadata"].get("namespace") == name for _, o in kube.store.all_objects()):
        kube.store.remove(kinds.NAMESPACE, namespace)
