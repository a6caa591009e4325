"""A pod's files: the contents of its volumes as folders of this machine, and why a mount fails."""

from __future__ import annotations

import base64
import os
import re
import shutil
from pathlib import Path

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.drills import kubernetes
from grpo_wizard.steps.emulator.kube.api import auth, kinds
from grpo_wizard.steps.emulator.kube.api.kinds import Kind
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import volumes

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_DRILL_MESSAGE = (
    'MountVolume.MountDevice failed for volume "{name}" : rpc error: code = Internal desc = '
    "Could not mount: mount "
    "failed: exit status 5\nOutput: mount.lustre: mount failed: Input/output error\nIs the MGS running?\n"
)
_TOKEN_S = 365 * 24 * 3600


def _sources(volume: JSON) -> list[tuple[Kind, JSON, str]]:
    """Return the Secrets and ConfigMaps of a volume: kind, source, name."""
    found = (
        [(kinds.SECRET, volume["secret"], volume["secret"].get("secretName", ""))]
        if "secret" in volume
        else []
    )
    if "configMap" in volume:
        found.append((kinds.CONFIG_MAP, volume["configMap"], volume["configMap"].get("name", "")))
    for source in volume.get("projected", {}).get("sources", ()):
        for key, kind in (("secret", kinds.SECRET), ("configMap", kinds.CONFIG_MAP)):
            if key in source:
                found.append((kind, source[key], source[key].get("name", "")))
    return found


def mount_failure(kube: ClusterContext, pod: JSON) -> str:
    """Return why this pod's volumes cannot be set up; empty if they can."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes", ()):
        for kind, source, name in _sources(volume):
            if not source.get("optional") and kube.store.find(kind, namespace, name) is None:
                noun = kind.kind.lower()
                return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {noun} "{name}" not found'
        if "persistentVolumeClaim" in volume:
            pv = volumes.volume_of(kube, pod, volume)
            if pv is None:
                return f'MountVolume.SetUp failed for volume "{volume["name"]}" : persistentvolume not found'
            if kubernetes.drill_of(pod) == "mount" or (
                kubernetes.is_active("lustre-mount") and volumes.is_lustre(pv)
            ):
                return _DRILL_MESSAGE.format(name=pv["metadata"]["name"])
            if why := volumes.mount_error(kube, pv):
                return why
    return ""


def pod_folder(kube: ClusterContext, pod: JSON) -> Path:
    """Return the private folder of one pod."""
    return kube.root / "pods" / str(pod["metadata"]["uid"])


def mounts(kube: ClusterContext, pod: JSON, container: JSON) -> dict[str, Path]:
    """Return mountPath -> file or folder on this machine; writes the files."""
    known = {v["name"]: v for v in pod["spec"].get("volumes", ())}
    found = {}
    for mount in container.get("volumeMounts", ()):
        local_path = _volume_folder(kube, pod, known[mount["name"]])
        if mount.get("subPath"):
            local_path = local_path / _safe_relative_path(mount["subPath"])
            if not local_path.exists():
                local_path.mkdir(parents=True)
        found[mount["mountPath"].rstrip("/") or "/"] = local_path
    return found


def _safe_relative_path(path: str) -> str:
    """Return a relative path that stays within its folder."""
    parts = [p for p in path.split("/") if p not in ("", ".")]
    if ".." in parts:
        raise ValueError(f"subPath must not contain '..': {path}")
    return "/".join(parts)


def _volume_folder(kube: ClusterContext, pod: JSON, volume: JSON) -> Path:
    if "persistentVolumeClaim" in volume:
        pv = volumes.volume_of(kube, pod, volume)
        csi = (pv or {}).get("spec", {}).get("csi") or {}
        handle = csi.get("volumeHandle") or (pv or {"metadata": {"name": "unbound"}})["metadata"]["name"]
        local_path = kube.lustre_folder(handle)
    elif "hostPath" in volume:
        node = re.sub(r"[^-a-z0-9]", "_", pod["spec"].get("nodeName", "none"))
        local_path = (
            kube.root / "nodes" / node / _safe_relative_path(volume["hostPath"]["path"].replace("..", "__"))
        )
    else:
        local_path = pod_folder(kube, pod) / re.sub(r"[^-a-z0-9]", "_", volume["name"])
    local_path.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_volume(kube, pod, volume, local_path)
    return local_path


def _write_volume(kube: ClusterContext, pod: JSON, volume: JSON, local_path: Path) -> None:
    namespace = pod["metadata"]["namespace"]
    wanted: dict[str, bytes] = {}
    for kind, source, name in _sources(volume):
        obj = kube.store.find(kind, namespace, name)
        data = data_bytes(obj) if obj else {}
        names = {i["key"]: i["path"] for i in source.get("items", ())} or {k: k for k in data}
        wanted |= {_safe_relative_path(names[k]): v for k, v in data.items() if k in names}
    for source in volume.get("projected", {}).get("sources", ()):
        if "serviceAccountToken" in source:
            wanted[_safe_relative_path(source["serviceAccountToken"]["path"])] = service_account_token(
                kube, pod
            ).encode()
        for entry in source.get("downwardAPI", {}).get("items", ()):
            wanted[_safe_relative_path(entry["path"])] = namespace.encode()
    if not wanted and not _sources(volume):
        return
    for path in [
        p for p in local_path.rglob("*") if p.is_file() and str(p.relative_to(local_path)) not in wanted
    ]:
        path.unlink()
    for name, content in wanted.items():
        _write_if_changed(local_path / name, content)


def data_bytes(obj: JSON) -> dict[str, bytes]:
    """Return the entries of a Secret or ConfigMap as bytes."""
    if obj["kind"] == "Secret":
        return {k: base64.b64decode(v) for k, v in (obj.get("data") or {}).items()}
    return {
        **{k: str(v).encode() for k, v in (obj.get("data") or {}).items()},
        **{k: base64.b64decode(v) for k, v in (obj.get("binaryData") or {}).items()},
    }


def _write_if_changed(path: Path, data: bytes) -> None:
    """Write a private file if it changed; readers never see a partial file."""
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)


def service_account_token(kube: ClusterContext, pod: JSON) -> str:
    """Return the token of the pod's ServiceAccount, the same for the pod's lifetime."""
    issued = kube.controller_state_for("issued")
    uid = pod["metadata"]["uid"]
    if uid not in issued:
        issued[uid] = auth.issue_token(
            kube.controller_state_for("keys")["tokens"],
            pod["metadata"]["namespace"],
            pod["spec"].get("serviceAccountName", "default"),
            kube.clock.now() + _TOKEN_S,
        )
    return str(issued[uid])


def remove_pod_folder(kube: ClusterContext, pod: JSON) -> None:
    """Delete the pod's own files; Lustre's stay."""
    shutil.rmtree(pod_folder(kube, pod), ignore_errors=True)
    kube.controller_state_for("issued").pop(pod["metadata"]["uid"], None)


def data_versions(kube: ClusterContext, pod: JSON) -> str:
    """Return the versions of its Secrets and ConfigMaps that a pod's files should show."""
    found = [
        kube.store.find(kind, pod["metadata"]["namespace"], name)
        for volume in pod["spec"].get("volumes", ())
        for kind, _, name in _sources(volume)
    ]
    return ",".join(o["metadata"]["resourceVersion"] if o else "-" for o in found)
