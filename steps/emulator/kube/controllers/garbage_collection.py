"""Deletion: owners and dependents, foreground and orphan, namespaces, protection of volumes."""

from __future__ import annotations

from grpo_wizard.steps.emulator.kube.api import kinds, writes
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.core import Kube
from grpo_wizard.steps.emulator.server.context import JSON

_PVC_GUARD, _PV_GUARD = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"


# Kubernetes forgets events after an hour; here the oldest go when there are more than these. Fewer than what waiting
# pods are told again and again would make events come and go for ever.
EVENTS, EVENTS_A_POD = 3000, 6


def reconcile(kube: Kube) -> None:
    """Only looks when something was deleted, is being deleted, or could have lost its owner."""
    _forget_events(kube)
    seen = kube.note("garbage")
    if seen.get("departures") == kube.store.departures and not seen.get("leaving"):
        return
    everything = [(k, o) for k, o in kube.store.every() if k is not kinds.EVENT]
    uids = {obj["metadata"]["uid"]: obj for _, obj in everything}
    for kind, obj in everything:
        if obj["metadata"].get("ownerReferences"):
            _orphaned(kube, kind, obj, uids)
    leaving = [(k, o) for k, o in everything if "deletionTimestamp" in o["metadata"]]
    for kind, obj in leaving:
        _leaving(kube, kind, obj, everything)
    # Pods leave by themselves; what else lingers waits for its dependents or users.
    seen.update(departures=kube.store.departures, leaving=sum(1 for k, _ in leaving if k is not kinds.POD))


def _forget_events(kube: Kube) -> None:
    if kube.store.count(kinds.EVENT) <= EVENTS + EVENTS_A_POD * kube.store.count(kinds.POD):
        return
    events = sorted(kube.store.list(kinds.EVENT), key=lambda e: int(e["metadata"]["resourceVersion"]))
    for event in events[: EVENTS // 3]:
        kube.store.remove(kinds.EVENT, event)
    known = {e["metadata"]["name"] for e in kube.store.list(kinds.EVENT)}
    index = kube.note("events")
    for key in [k for k, name in index.items() if name not in known]:
        del index[key]


def _orphaned(kube: Kube, kind: Kind, obj: JSON, uids: dict[str, JSON]) -> None:
    owners = obj["metadata"]["ownerReferences"]
    if any(o["uid"] in uids and not _foreground(uids[o["uid"]]) for o in owners):
        return
    if "deletionTimestamp" not in obj["metadata"]:
        _delete(kube, kind, obj)


def _foreground(owner: JSON) -> bool:
    meta = owner["metadata"]
    return "deletionTimestamp" in meta and "foregroundDeletion" in meta.get("finalizers", ())


def _delete(kube: Kube, kind: Kind, obj: JSON) -> None:
    meta = obj["metadata"]
    if kube.store.find(kind, meta.get("namespace", ""), meta["name"]) is not None:
        writes.delete(kube.store, kind, meta.get("namespace", ""), meta["name"], {}, False)


def _leaving(kube: Kube, kind: Kind, obj: JSON, everything: list[tuple[Kind, JSON]]) -> None:
    meta = obj["metadata"]
    finalizers = meta.get("finalizers", ())
    if kind is kinds.NAMESPACE:
        _empty(kube, obj)
    dependents = [
        (k, o)
        for k, o in everything
        if any(r["uid"] == meta["uid"] for r in o["metadata"].get("ownerReferences", ()))
    ]
    if "foregroundDeletion" in finalizers and not dependents:
        _release(kube, kind, obj, "foregroundDeletion")
    if "orphan" in finalizers:
        for dependent_kind, dependent in dependents:
            kube.change(
                dependent_kind,
                dependent,
                lambda o: o["metadata"].update(
                    ownerReferences=[r for r in o["metadata"]["ownerReferences"] if r["uid"] != meta["uid"]]
                ),
            )
        _release(kube, kind, obj, "orphan")
    if _PVC_GUARD in finalizers and not _claim_in_use(kube, obj):
        _release(kube, kind, obj, _PVC_GUARD)
    if _PV_GUARD in finalizers and obj.get("status", {}).get("phase") != "Bound":
        _release(kube, kind, obj, _PV_GUARD)


def _release(kube: Kube, kind: Kind, obj: JSON, finalizer: str) -> None:
    kube.change(
        kind,
        obj,
        lambda o: o["metadata"].update(
            finalizers=[f for f in o["metadata"].get("finalizers", ()) if f != finalizer]
        ),
    )


def _claim_in_use(kube: Kube, claim: JSON) -> bool:
    meta = claim["metadata"]
    return any(
        v.get("persistentVolumeClaim", {}).get("claimName") == meta["name"]
        for pod in kube.store.list(kinds.POD, meta["namespace"])
        for v in pod["spec"].get("volumes", ())
        if pod["status"].get("phase") not in ("Succeeded", "Failed")
    )


def _empty(kube: Kube, namespace: JSON) -> None:
    name = namespace["metadata"]["name"]
    inside = [(k, o) for k, o in kube.store.every() if o["metadata"].get("namespace") == name]
    for kind, obj in inside:
        if "deletionTimestamp" not in obj["metadata"]:
            _delete(kube, kind, obj)
    if not any(o["metadata"].get("namespace") == name for _, o in kube.store.every()):
        kube.store.remove(kinds.NAMESPACE, namespace)
