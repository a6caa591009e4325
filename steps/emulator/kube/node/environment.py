"""A container's environment with all references resolved, and the PodView of a Ray pod."""

from __future__ import annotations

import base64
import re

from grpo_wizard.steps.emulator.context import JSON, PodView
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.node import mounts


def resolve_env(kube: ClusterContext, pod: JSON, container: JSON) -> dict[str, str]:
    """Return env and envFrom with valueFrom resolved and $(NAME) expanded."""
    env: dict[str, str] = {}
    namespace = pod["metadata"]["namespace"]
    for source in container.get("envFrom", ()):
        for key, kind in (("secretRef", kinds.SECRET), ("configMapRef", kinds.CONFIG_MAP)):
            obj = kube.store.find(kind, namespace, source[key]["name"]) if key in source else None
            for name, content in (mounts.data_bytes(obj) if obj else {}).items():
                env[source.get("prefix", "") + name] = content.decode(errors="replace")
    for entry in container.get("env", ()):
        value = (
            _value_from(kube, pod, container, entry["valueFrom"])
            if "valueFrom" in entry
            else entry.get("value", "")
        )
        if value is not None:
            env[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda m: env.get(m[1], m[0]), str(value))
    return env


def _value_from(kube: ClusterContext, pod: JSON, container: JSON, source: JSON) -> str | None:
    namespace = pod["metadata"]["namespace"]
    for key, kind in (("secretKeyRef", kinds.SECRET), ("configMapKeyRef", kinds.CONFIG_MAP)):
        if key in source:
            obj = kube.store.find(kind, namespace, source[key]["name"])
            value = mounts.data_bytes(obj).get(source[key]["key"]) if obj else None
            return None if value is None else value.decode(errors="replace")
    if "fieldRef" in source:
        return _field_ref(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        section, _, name = source["resourceFieldRef"]["resource"].partition(".")
        return str(container.get("resources", {}).get(section, {}).get(name, "0"))
    return None


def _field_ref(pod: JSON, path: str) -> str:
    if found := re.match(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    value: object = pod
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


def pod_view(kube: ClusterContext, pod: JSON, container: JSON | None = None) -> PodView:
    """Return what a process that runs for a container (default: the first) may use."""
    container = container or pod["spec"]["containers"][0]
    meta = pod["metadata"]
    cluster = (meta.get("labels") or {}).get("ray.io/cluster", "")
    secret = kube.store.find(kinds.SECRET, meta["namespace"], cluster)
    token = ((secret or {}).get("data") or {}).get("auth_token")
    env = resolve_env(kube, pod, container)
    host, port = kube.url.removeprefix("https://").split(":")
    env.update(KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT=port, HOSTNAME=meta["name"])
    return PodView(
        cluster=kube.cluster_key,
        namespace=meta["namespace"],
        name=meta["name"],
        raycluster=cluster,
        env=env,
        mounts=mounts.mounts(kube, pod, container),
        token=base64.b64decode(token).decode() if token else None,
        kube_url=kube.url,
        kube_ca=kube.ca_path,
        service_account_token=mounts.service_account_token(kube, pod),
    )
