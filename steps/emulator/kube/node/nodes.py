"""Nodes follow the node pools: they join, advertise their GPUs, and are removed or preempted."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.api.defaults import random_suffix
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.node import addressing, failures, machines

# Real durations in seconds: a GPU node joins about 4 min after it is requested (NVIDIA/aicr issue 2764), others after
# about 90 s; driver and device plugin take about another minute.
JOIN_S, JOIN_GPU_S, DRIVER_S = 90.0, 240.0, 60.0


def pool_of(node: JSON) -> str:
    return str(node["metadata"]["labels"]["cloud.google.com/gke-nodepool"])


def zone_of(node: JSON) -> str:
    return str(node["metadata"]["labels"]["topology.kubernetes.io/zone"])


def reconcile(kube: ClusterContext) -> None:
    """Create and remove nodes until every pool and zone has the cloud's node count."""
    pools = {p["name"]: p for p in kube.cloud.pools(kube.cluster_key)}
    standing: dict[tuple[str, str], list[JSON]] = {}
    for node in kube.store.list(kinds.NODE):
        standing.setdefault((pool_of(node), zone_of(node)), []).append(node)
    wanted = {
        (name, zone): count
        for name in pools
        for zone, count in kube.cloud.node_counts(kube.cluster_key, name).items()
    }
    for key in {*wanted, *standing}:
        _scale_pool(kube, pools.get(key[0]), key, wanted.get(key, 0), standing.get(key, []))
    for name in [n for n in kube.controller_state_for("pools") if n not in pools]:
        del kube.controller_state_for("pools")[name]
    for name in pools:
        kube.controller_state_for("pools").setdefault(name, True)
    for node in kube.store.list(kinds.NODE):
        if pool_of(node) in pools:
            _advertise_gpus(kube, pools[pool_of(node)], node)
            _apply_node_faults(kube, node)
    for pool in pools.values():
        _upgrade_nodes(kube, pool)


def _scale_pool(
    kube: ClusterContext, pool: JSON | None, key: tuple[str, str], wanted: int, standing: list[JSON]
) -> None:
    for index in range(len(standing), wanted):
        if pool is not None and _may_join(kube, pool, key, index):
            _join(kube, pool, key[1])
    surplus = len(standing) - wanted
    if surplus > 0:  # the emptiest first; on a real resize the instance group chooses
        for node in sorted(standing, key=lambda n: len(pods_on_node(kube, n["metadata"]["name"])))[:surplus]:
            remove_node(kube, node)


def _upgrade_nodes(kube: ClusterContext, pool: JSON) -> None:
    """Replace one node whose version differs from its pool's.

    During an upgrade, the pool contains its `target` and how many nodes may be renewed by now; surge 1: the
    new node joins before the old one is removed with its pods.
    """
    ahead = pool.get("rehearsalUpgrade") or {}
    right = ahead.get("target") or pool.get("version")
    nodes = [n for n in kube.store.list(kinds.NODE) if pool_of(n) == pool["name"]]
    old = [n for n in nodes if n["status"]["nodeInfo"]["kubeletVersion"] != f"v{right}"]
    if right and old and len(nodes) - len(old) < ahead.get("renewed", len(nodes)):
        _join(kube, pool, zone_of(old[0]), right)
        remove_node(kube, old[0])


def _may_join(kube: ClusterContext, pool: JSON, key: tuple[str, str], index: int) -> bool:
    first = pool["name"] not in kube.controller_state_for(
        "pools"
    )  # nodes of a new pool are created by the pool's own operation
    timer = f"join/{key[0]}/{key[1]}/{index}"
    if first or kube.timer_expired(timer, JOIN_GPU_S if machines.accelerators(pool)[0] else JOIN_S):
        kube.cancel_timers(timer)
        return True
    return False


def _join(kube: ClusterContext, pool: JSON, zone: str, version: str = "") -> None:
    name = f"{addressing.instance_group_name(kube, pool, zone)}-{random_suffix(4)}"
    number = kube.controller_state_for("counters").get("node", 0) + 1
    kube.controller_state_for("counters")["node"] = number
    spec: JSON = {
        "podCIDR": addressing.pod_cidr(pool, number),
        "providerID": f"gce://{kube.project}/{zone}/{name}",
    }
    if taints := machines.node_taints(pool):
        spec["taints"] = taints
    capacity, allocatable = machines.node_resources(pool)
    networks = (pool.get("networkConfig") or {}).get("additionalNodeNetworkConfigs") or []
    node = kube.store.create(
        kinds.NODE,
        {
            "apiVersion": "v1",
            "kind": "Node",
            "spec": spec,
            "metadata": {
                "name": name,
                "labels": machines.node_labels(pool, name, zone),
                "annotations": {
                    "node.gke.io/last-applied-node-labels": "",
                    "rehearsal/subnetworks": ",".join(str(n.get("subnetwork", "")) for n in networks),
                },
            },
            "status": {
                "capacity": capacity,
                "allocatable": allocatable,
                "conditions": _conditions(kube, True),
                "addresses": addressing.node_addresses(pool, number, name),
                "nodeInfo": _node_info(version or pool.get("version") or kube.version),
                "images": [],
            },
        },
    )
    kube.record_event(
        kinds.NODE,
        node,
        "RegisteredNode",
        f"Node {name} event: Registered Node {name} in Controller",
        "node-controller",
    )


def _node_info(version: str) -> JSON:
    return {
        "kubeletVersion": f"v{version}",
        "kubeProxyVersion": f"v{version}",
        "operatingSystem": "linux",
        "architecture": "amd64",
        "osImage": "Container-Optimized OS from Google",
        "kernelVersion": "6.6.93+",
        "containerRuntimeVersion": "containerd://2.0.6",
        "bootID": "",
        "machineID": "",
        "systemUUID": "",
    }


def _conditions(kube: ClusterContext, ready: bool) -> list[JSON]:
    now = kube.timestamp()
    rows = [
        (
            "Ready",
            "True" if ready else "Unknown",
            "KubeletReady" if ready else "NodeStatusUnknown",
            "kubelet is posting ready status" if ready else "Kubelet stopped posting node status.",
        )
    ]
    rows += [
        (f"{what}Pressure", "False", f"KubeletHas{reason}", f"kubelet has {text}")
        for what, reason, text in (
            ("Memory", "SufficientMemory", "sufficient memory available"),
            ("Disk", "NoDiskPressure", "no disk pressure"),
            ("PID", "SufficientPID", "sufficient PID available"),
        )
    ]
    return [
        {
            "type": t,
            "status": s,
            "reason": r,
            "message": m,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for t, s, r, m in rows
    ]


def _advertise_gpus(kube: ClusterContext, pool: JSON, node: JSON) -> None:
    """The device plugin: GPUs become allocatable once the driver is installed."""
    _, count = machines.accelerators(pool)
    if (
        count
        and "nvidia.com/gpu" not in node["status"]["allocatable"]
        and machines.gke_installs_driver(pool)
        and kube.timer_expired(f"driver/{node['metadata']['uid']}", DRIVER_S)
    ):

        def edit(n: JSON) -> None:
            for field in ("capacity", "allocatable"):
                n["status"][field]["nvidia.com/gpu"] = str(count)

        kube.edit_object(kinds.NODE, node, edit)


def pods_on_node(kube: ClusterContext, node: str) -> list[JSON]:
    """Return the pods bound to a node, except those of DaemonSets."""
    return [
        p
        for p in kube.store.list(kinds.POD)
        if p["spec"].get("nodeName") == node and not is_daemon_set_pod(p)
    ]


def is_daemon_set_pod(pod: JSON) -> bool:
    return any(r["kind"] == "DaemonSet" for r in pod["metadata"].get("ownerReferences", ()))


def remove_node(kube: ClusterContext, node: JSON) -> None:
    """Remove a node with its pods."""
    name = node["metadata"]["name"]
    for pod in [p for p in kube.store.list(kinds.POD) if p["spec"].get("nodeName") == name]:
        kube.store.remove(kinds.POD, pod)
    if kube.store.find(kinds.NODE, "", name):
        kube.record_event(
            kinds.NODE,
            node,
            "RemovingNode",
            f"Node {name} event: Removing Node {name} from Controller",
            "node-controller",
        )
        kube.store.remove(kinds.NODE, kube.store.get(kinds.NODE, "", name))
    kube.controller_state_for("lost").pop(name, None)
    addressing.release_node(kube, name)
    for timer in ("driver", "drill", "silent"):
        kube.cancel_timers(f"{timer}/{node['metadata']['uid']}")


def _apply_node_faults(kube: ClusterContext, node: JSON) -> None:
    """A preemption releases the instance's slot in the pool; a repair does not: a new instance joins."""
    if failures.is_preempted(kube, node):
        kube.cloud.release_node(kube.cluster_key, pool_of(node), zone_of(node))
        remove_node(kube, node)
    elif failures.needs_repair(kube, node):
        remove_node(kube, node)
