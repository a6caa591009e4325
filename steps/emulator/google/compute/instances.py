"""Instances, read-only: the nodes of GKE's node pools, which are the emulator's only instances.

An instance is listed once its node has joined. Names, labels and tags are GKE's, from clusters of 2025.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from grpo_wizard.steps.emulator.context import CLUSTERS, JSON, ApiCall, Record, ResourceStore, handles
from grpo_wizard.steps.emulator.google.compute.catalog import check_zone
from grpo_wizard.steps.emulator.google.compute.collections import project_of
from grpo_wizard.steps.emulator.google.compute.networks import is_roce
from grpo_wizard.steps.emulator.google.shared.fixtures import zones
from grpo_wizard.steps.emulator.google.shared.ids import to_pacific
from grpo_wizard.steps.emulator.google.shared.lists import aggregated_response, compute_list
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    CONTAINER,
    not_found_error,
    self_link,
    with_request_host,
)

_POOL, _ZONE = "cloud.google.com/gke-nodepool", "topology.kubernetes.io/zone"


def nodes(store: ResourceStore, project: str) -> Iterator[tuple[Record, Record, JSON]]:
    """Yield (cluster, pool, node) for every node."""
    for cluster in store.all(CONTAINER, "cluster", project=project):
        kube = CLUSTERS.get(cluster.key)
        for node in kube.nodes() if kube else ():
            pool = store.get(CONTAINER, f"{cluster.key}/nodePools/{node['metadata']['labels'][_POOL]}")
            if pool is not None:
                yield cluster, pool, node


def stable_id(key: str) -> str:
    """Return a stable made-up id: instances are not stored, they are derived from the nodes."""
    return str(int(hashlib.sha256(key.encode()).hexdigest()[:15], 16) + 2**60)


def node_zone(node: JSON) -> str:
    """Return the zone of a node's instance."""
    return str(node["metadata"]["labels"][_ZONE])


def node_instances(store: ResourceStore, project: str) -> list[tuple[str, JSON]]:
    """Yield (zone, instance) for every node."""
    return [
        (node_zone(node), _instance(store, cluster, pool, node))
        for cluster, pool, node in nodes(store, project)
    ]


def _instance(store: ResourceStore, cluster: Record, pool: Record, node: JSON) -> JSON:
    zone, name, config = node_zone(node), node["metadata"]["name"], pool.body["config"]
    where = f"projects/{cluster.project}/zones/{zone}"
    body: JSON = {
        "kind": "compute#instance",
        "id": stable_id(f"{where}/instances/{name}"),
        "name": name,
        "zone": self_link(where),
        "selfLink": self_link(f"{where}/instances/{name}"),
        "creationTimestamp": to_pacific(node["metadata"]["creationTimestamp"]),
        "machineType": self_link(f"{where}/machineTypes/{config['machineType']}"),
        "status": "RUNNING",
        "canIpForward": False,
        "networkInterfaces": _network_interfaces(store, cluster, pool, node),
        "scheduling": _scheduling(config),
        "labels": _labels(cluster, pool),
        "tags": {"items": [f"gke-{cluster.name}-{str(cluster.body['id'])[:8]}-node"]},
        "metadata": {"kind": "compute#metadata", "items": _metadata(store, cluster, pool, zone)},
    }
    if config.get("accelerators"):
        body["guestAccelerators"] = [
            {
                "acceleratorType": self_link(f"{where}/acceleratorTypes/{card['acceleratorType']}"),
                "acceleratorCount": int(card["acceleratorCount"]),
            }
            for card in config["accelerators"]
        ]
    if config.get("reservationAffinity"):
        body["reservationAffinity"] = dict(config["reservationAffinity"])
    return body


def _scheduling(config: JSON) -> JSON:
    spot = bool(config.get("spot") or config.get("preemptible"))
    stays = spot or bool(config.get("accelerators"))
    return {
        "preemptible": spot,
        "automaticRestart": not spot,
        "onHostMaintenance": "TERMINATE" if stays else "MIGRATE",
        "provisioningModel": "SPOT" if spot else "STANDARD",
    }


def _labels(cluster: Record, pool: Record) -> JSON:
    return {
        **cluster.body.get("resourceLabels", {}),
        **pool.body["config"].get("resourceLabels", {}),
        "goog-gke-node": "",
        "goog-k8s-cluster-name": cluster.name,
        "goog-k8s-cluster-location": cluster.location,
        "goog-k8s-node-pool-name": pool.name,
    }


def _metadata(store: ResourceStore, cluster: Record, pool: Record, zone: str) -> list[JSON]:
    links = [str(link) for link in pool.body["instanceGroupUrls"]]
    group = next((link.rpartition("/")[2] for link in links if f"/zones/{zone}/" in link), "")
    number = store.project_number(cluster.project)
    return [
        {"key": "cluster-name", "value": cluster.name},
        {"key": "cluster-location", "value": cluster.location},
        {"key": "created-by", "value": f"projects/{number}/zones/{zone}/instanceGroupManagers/{group}"},
    ]


def _network_interfaces(store: ResourceStore, cluster: Record, pool: Record, node: JSON) -> list[JSON]:
    """Return nic0 in the cluster's network with the node's addresses, and one NIC per additional network."""
    at = {row["type"]: row["address"] for row in node["status"]["addresses"]}
    first = store.get(COMPUTE, str(cluster.extra["subnetwork"]))
    more = [store.get(COMPUTE, key) for key in pool.extra.get("subnetworks", ())]
    rows = [_network_interface(store, subnet, index) for index, subnet in enumerate([first, *more]) if subnet]
    rows[0]["networkIP"] = at["InternalIP"]
    if "ExternalIP" in at:
        access = {"kind": "compute#accessConfig", "name": "external-nat", "type": "ONE_TO_ONE_NAT"}
        rows[0]["accessConfigs"] = [{**access, "natIP": at["ExternalIP"], "networkTier": "PREMIUM"}]
    return rows


def _network_interface(store: ResourceStore, subnet: Record, index: int) -> JSON:
    link = str(subnet.body["network"])
    network = store.get(COMPUTE, link[link.index("projects/") :])
    return {
        "kind": "compute#networkInterface",
        "name": f"nic{index}",
        "network": link,
        "subnetwork": self_link(subnet.key),
        "stackType": "IPV4_ONLY",
        "nicType": "MRDMA" if network and is_roce(network) else "GVNIC",
    }


@handles("compute.instances.get")
def get(call: ApiCall) -> JSON:
    """Return one instance."""
    zone, name = check_zone(call), str(call.params["instance"])
    for where, body in node_instances(call.store, project_of(call)):
        if (where, body["name"]) == (zone, name):
            return with_request_host(call, body)
    raise not_found_error(f"projects/{project_of(call)}/zones/{zone}/instances/{name}")


@handles("compute.instances.list")
def list_(call: ApiCall) -> JSON:
    """List a zone's instances."""
    zone = check_zone(call)
    found = [body for where, body in node_instances(call.store, project_of(call)) if where == zone]
    return compute_list(call, "instanceList", found)


@handles("compute.instances.aggregatedList")
def aggregated_list(call: ApiCall) -> JSON:
    """List every zone's instances."""
    items = [(f"zones/{zone}", body) for zone, body in node_instances(call.store, project_of(call))]
    scopes = [f"zones/{zone}" for zone in zones()]
    return aggregated_response(call, "instanceAggregatedList", "instances", items, scopes)
