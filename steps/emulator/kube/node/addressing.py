"""Names and addresses of nodes, their pods and devices, as assigned by instance groups and ranges.

The cloud returns a pool's ranges in `rehearsalRanges`: "nodes", and each additional subnet by its name.
Without them (a cluster without a cloud below it), the tutorial's ranges are used.
"""

from __future__ import annotations

import hashlib
import ipaddress

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.context import ClusterContext

_DEFAULT_POD_RANGE, _DEFAULT_NODE_RANGE = "10.4.0.0/14", "10.128.0.0/20"
_POD_CIDR_PREFIX = 24  # prefix length of a node's pod range
_EXTERNAL_RANGE = "203.0.113.0/24"  # RFC 5737: reserved for documentation, so that no real host is named


def instance_group_name(kube: ClusterContext, pool: JSON, zone: str) -> str:
    """Return the name of a zone's instance group and the prefix of its instances: `gke-CLUSTER-POOL-HASH`."""
    for link in pool.get("instanceGroupUrls", ()):
        if f"/zones/{zone}/" in link:
            return str(link).rpartition("/")[2].removesuffix("-grp")
    digest = hashlib.sha256(f"{kube.cluster_key}/{pool['name']}/{zone}".encode()).hexdigest()[:8]
    return f"gke-{kube.name[:18]}-{pool['name'][:20]}-{digest}"


def _nth_address(cidr: str, number: int) -> str:
    """Return the address of instance `number`: Google reserves the first two and the last two of a range."""
    net = ipaddress.IPv4Network(cidr)
    return str(net[2 + number % max(net.num_addresses - 4, 1)])


def pod_cidr(pool: JSON, number: int) -> str:
    """Return a node's pod range within the cluster's."""
    whole = ipaddress.IPv4Network(
        (pool.get("networkConfig") or {}).get("podIpv4CidrBlock") or _DEFAULT_POD_RANGE
    )
    size = 2 ** (32 - _POD_CIDR_PREFIX)
    first = int(whole.network_address) + number % max(whole.num_addresses // size, 1) * size
    return f"{ipaddress.IPv4Address(first)}/{_POD_CIDR_PREFIX}"


def node_addresses(pool: JSON, number: int, name: str) -> list[JSON]:
    """Return a node's `addresses`; nodes of a pool with private nodes have no external one."""
    rows = [
        ("InternalIP", _nth_address(_range(pool, "nodes", _DEFAULT_NODE_RANGE), number)),
        ("Hostname", name),
    ]
    if not (pool.get("networkConfig") or {}).get("enablePrivateNodes"):
        rows.insert(1, ("ExternalIP", _nth_address(_EXTERNAL_RANGE, number)))
    return [{"type": kind, "address": address} for kind, address in rows]


def _range(pool: JSON, name: str, otherwise: str) -> str:
    return str((pool.get("rehearsalRanges") or {}).get(name) or otherwise)


def allocate_pod_ip(kube: ClusterContext, pod: JSON) -> str:
    """Return the next address in its node's pod range; the node's own for a pod on the host network."""
    if pod["spec"].get("hostNetwork"):
        return str(pod["status"].get("hostIP", ""))
    name = pod["spec"]["nodeName"]
    given = kube.controller_state_for("pod_addresses")
    number = given[name] = given.get(name, 0) + 1
    found = kube.store.find(kinds.NODE, "", name)
    return _nth_address(found["spec"]["podCIDR"] if found else pod_cidr({}, 0), number)


def release_node(kube: ClusterContext, node: str) -> None:
    """Release the addresses of a deleted node."""
    kube.controller_state_for("pod_addresses").pop(node, None)


def device_address(kube: ClusterContext, pod: JSON, network: str, index: int) -> str:
    """Return the address of a node's NIC on a Device network: the node's number in that network's subnet."""
    known = kube.store.find(kinds.NETWORK, "", network)
    named = ((known or {}).get("spec", {}).get("parametersRef") or {}).get("name", network)
    param = kube.store.find(kinds.GKE_NETWORK_PARAM_SET, "", named)
    found = kube.store.find(kinds.NODE, "", pod["spec"]["nodeName"])
    pools = {p["name"]: p for p in kube.cloud.pools(kube.cluster_key)}
    if param is None or found is None:
        return _nth_address(f"192.168.{index}.0/24", 0)
    pool = pools.get(found["metadata"]["labels"]["cloud.google.com/gke-nodepool"], {})
    own = ipaddress.IPv4Address(found["status"]["addresses"][0]["address"])
    number = (
        int(own) - int(ipaddress.IPv4Network(_range(pool, "nodes", _DEFAULT_NODE_RANGE)).network_address) - 2
    )
    return _nth_address(_range(pool, param["spec"].get("vpcSubnet", ""), f"192.168.{index}.0/24"), number)
