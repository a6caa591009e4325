"""Volumes: binds claims, and mounts Lustre or reports why it cannot."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds, quantities
from grpo_wizard.steps.emulator.kube.context import ClusterContext

LUSTRE_DRIVER = "lustre.csi.storage.gke.io"


def reconcile(kube: ClusterContext) -> None:
    claims = {c["metadata"]["uid"]: c for c in kube.store.list(kinds.PVC)}
    for pv in kube.store.list(kinds.PV):
        _update_volume_phase(kube, pv, claims)
    for claim in claims.values():
        if claim["status"].get("phase") == "Pending" and "deletionTimestamp" not in claim["metadata"]:
            _bind(kube, claim)
        elif (
            claim["status"].get("phase") == "Bound"
            and kube.store.find(kinds.PV, "", claim["spec"]["volumeName"]) is None
        ):
            kube.set_status(kinds.PVC, claim, phase="Lost")


def _update_volume_phase(kube: ClusterContext, pv: JSON, claims: dict[str, JSON]) -> None:
    ref, phase = pv["spec"].get("claimRef"), pv["status"].get("phase")
    if not ref or not ref.get("uid"):
        if phase in ("Pending", None):
            kube.set_status(kinds.PV, pv, phase="Available")
    elif ref["uid"] not in claims and phase == "Bound":
        if pv["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            kube.set_status(kinds.PV, pv, phase="Released")
            kube.record_event(
                kinds.PV,
                pv,
                "VolumeFailedDelete",
                "persistentvolume deletion is not emulated for dynamically managed instances",
                "persistentvolume-controller",
                warning=True,
            )
        else:
            kube.set_status(kinds.PV, pv, phase="Released")


def _bind(kube: ClusterContext, claim: JSON) -> None:
    meta, spec = claim["metadata"], claim["spec"]
    wanted = spec.get("volumeName")
    for pv in kube.store.list(kinds.PV):
        if wanted in (None, "", pv["metadata"]["name"]) and (why := _mismatch(pv, claim)) is not None:
            if why == "":
                _bind_to(kube, pv, claim)
                return
            if wanted:
                kube.record_event(
                    kinds.PVC,
                    claim,
                    "VolumeMismatch",
                    f'Cannot bind to requested volume "{wanted}": {why}',
                    "persistentvolume-controller",
                    warning=True,
                ) if _is_new_message(kube, meta["uid"], why) else None
                return
    if wanted:
        return
    name = spec.get("storageClassName", "")
    storage_class = kube.store.find(kinds.STORAGE_CLASS, "", name) if name else None
    if storage_class is None:
        text = (
            f'storageclass.storage.k8s.io "{name}" not found'
            if name
            else "no persistent volumes available for this claim and no storage class is set"
        )
        reason, warning = ("ProvisioningFailed", True) if name else ("FailedBinding", False)
    elif storage_class.get("volumeBindingMode") == "WaitForFirstConsumer":
        reason, text, warning = (
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
            False,
        )
    else:
        reason, text, warning = (
            "ExternalProvisioning",
            (
                "Waiting for a volume to be created either by the external "
                f"provisioner '{storage_class['provisioner']}' or manually by the "
                "system administrator."
            ),
            False,
        )
    if _is_new_message(kube, meta["uid"], text):
        kube.record_event(kinds.PVC, claim, reason, text, "persistentvolume-controller", warning=warning)


def _is_new_message(kube: ClusterContext, uid: str, text: str) -> bool:
    """Return True the first time: the controller repeats itself, but one event is enough."""
    last_messages = kube.controller_state_for("told")
    if last_messages.get(uid) == text:
        return False
    last_messages[uid] = text
    return True


def _mismatch(pv: JSON, claim: JSON) -> str | None:
    """Return why a volume does not fit a claim: "" if it fits, None if it is not a candidate."""
    ref, spec, meta = pv["spec"].get("claimRef"), claim["spec"], claim["metadata"]
    if "deletionTimestamp" in pv["metadata"] or pv["status"].get("phase") == "Released":
        return "volume already bound to a different claim." if spec.get("volumeName") else None
    is_bound_to_claim = ref and ref["name"] == meta["name"] and ref.get("namespace", "") == meta["namespace"]
    if ref and (not is_bound_to_claim or ref.get("uid", meta["uid"]) != meta["uid"]):
        return "volume already bound to a different claim." if spec.get("volumeName") else None
    if pv["spec"].get("storageClassName", "") != spec.get("storageClassName", ""):
        return "storageClassName does not match"
    if not set(spec["accessModes"]) <= set(pv["spec"]["accessModes"]):
        return "incompatible accessMode"
    asked = quantities.parse_quantity(spec["resources"]["requests"]["storage"])
    return (
        ""
        if quantities.parse_quantity(pv["spec"]["capacity"]["storage"]) >= asked
        else "requested PV is too small"
    )


def _bind_to(kube: ClusterContext, pv: JSON, claim: JSON) -> None:
    meta = claim["metadata"]

    def own(p: JSON) -> None:
        p["spec"]["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        }
        p["status"]["phase"] = "Bound"

    kube.edit_object(kinds.PV, pv, own)

    def take(c: JSON) -> None:
        c["spec"]["volumeName"] = pv["metadata"]["name"]
        c["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
        c["status"] = {
            "phase": "Bound",
            "accessModes": pv["spec"]["accessModes"],
            "capacity": {"storage": pv["spec"]["capacity"]["storage"]},
        }

    kube.edit_object(kinds.PVC, claim, take)


def pending_claim(kube: ClusterContext, pod: JSON) -> str:
    """Return why the scheduler must wait for this pod's claims; empty if all are bound."""
    for volume in pod["spec"].get("volumes", ()):
        name = volume.get("persistentVolumeClaim", {}).get("claimName")
        if not name:
            continue
        claim = kube.store.find(kinds.PVC, pod["metadata"]["namespace"], name)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if "deletionTimestamp" in claim["metadata"]:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if claim["status"].get("phase") != "Bound":
            return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def volume_of(kube: ClusterContext, pod: JSON, volume: JSON) -> JSON | None:
    """Return the PersistentVolume of a pod's volume."""
    name = volume.get("persistentVolumeClaim", {}).get("claimName")
    claim = kube.store.find(kinds.PVC, pod["metadata"]["namespace"], name) if name else None
    return kube.store.find(kinds.PV, "", claim["spec"].get("volumeName", "")) if claim else None


def is_lustre(pv: JSON) -> bool:
    return (pv["spec"].get("csi") or {}).get("driver") == LUSTRE_DRIVER


def mount_error(kube: ClusterContext, pv: JSON) -> str:
    """Return the Lustre CSI node driver's mount error; empty if the mount succeeds."""
    csi = pv["spec"].get("csi") or {}
    name = pv["metadata"]["name"]
    if not is_lustre(pv):
        return ""
    if "lustre" not in kube.addons:
        return (
            f'MountVolume.MountDevice failed for volume "{name}" : kubernetes.io/csi: '
            "attacher.MountDevice failed "
            f"to create newCsiDriverClient: driver name {LUSTRE_DRIVER} not found in the list of "
            "registered CSI drivers"
        )
    seen = csi.get("volumeAttributes") or {}
    instance = kube.cloud.lustre_instance(csi["volumeHandle"])
    target = f"{seen.get('ip')}@tcp:/{seen.get('filesystem')}"
    failed = (
        f'MountVolume.MountDevice failed for volume "{name}" : rpc error: code = Internal desc = '
        "Could not mount "
        f'"{target}" at "/var/lib/kubelet/plugins/kubernetes.io/csi/{LUSTRE_DRIVER}/globalmount": mount '
        "failed: exit "
        "status {status}\nMounting command: mount\nMounting arguments: -t lustre " + f"{target} "
        f"/var/lib/kubelet/plugins/kubernetes.io/csi/{LUSTRE_DRIVER}/globalmount\nOutput: mount.lustre: "
        f"mount {target} "
        "at /var/lib/kubelet/plugins/globalmount failed: {why}\n"
    )
    ip = str((instance or {}).get("mountPoint", "")).split("@")[0]
    served = instance is not None and instance.get("state", "ACTIVE") in ("ACTIVE", "UPDATING")
    # An instance created for GKE's older nodes listens on 6988; nodes must use the same port (lustre-csi-driver issue 104).
    port = 6988 if (instance or {}).get("gkeSupportEnabled") else 988
    if (
        instance is None
        or not served
        or seen.get("ip") != ip
        or port != kube.cloud.lustre_port(kube.cluster_key)
    ):
        return failed.replace("{status}", "5").replace("{why}", "Input/output error\nIs the MGS running?")
    if seen.get("filesystem") != instance.get("filesystem"):
        return failed.replace("{status}", "2").replace(
            "{why}",
            "No such file or directory\nIs the MGS specification correct?\nIs the filesystem name correct?",
        )
    return ""
