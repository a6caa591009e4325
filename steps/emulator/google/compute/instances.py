"""Instances: the machines of GKE's node pools, which are all the machines that a rehearsal has. They are only read.

One is listed once its node has joined. Names, labels and tags as GKE gives them (seen on clusters of 2025).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from grpo_wizard.steps.emulator.google.compute.catalog import check_zone
from grpo_wizard.steps.emulator.google.compute.collections import project_of
from grpo_wizard.steps.emulator.google.compute.networks import is_roce
from grpo_wizard.steps.emulator.google.shared.fixtures import zones
from grpo_wizard.steps.emulator.google.shared.ids import pacific_of
from grpo_wizard.steps.emulator.google.shared.lists import aggregated, listed
from grpo_wizard.steps.emulator.google.shared.self_links import COMPUTE, CONTAINER, missing, sent, stored
from grpo_wizard.steps.emulator.server.context import JSON, KUBES, Call, Record, World, serves

_POOL, _ZONE = "cloud.google.com/gke-nodepool", "topology.kubernetes.io/zone"


def nodes(world: World, project: str) -> Iterator[tuple[Record, Record, JSON]]:
    """(cluster, pool, node) of every node that stands."""
    for cluster in world.all(CONTAINER, "cluster", project=project):
        kube = KUBES.get(cluster.key)
        for node in kube.nodes() if kube else ():
            pool = world.get(CONTAINER, f"{cluster.key}/nodePools/{node['metadata']['labels'][_POOL]}")
            if pool is not None:
                yield cluster, pool, node


def identity(key: str) -> str:
    """A made-up id that stays the same: machines are not kept in the world, they follow the nodes."""
    return str(int(hashlib.sha256(key.encode()).hexdigest()[:15], 16) + 2**60)


def node_zone(node: JSON) -> str:
    """Where a node's machine stands."""
    return str(node["metadata"]["labels"][_ZONE])


def machines(world: World, project: str) -> list[tuple[str, JSON]]:
    """(zone, instance) of every node."""
    return [
        (node_zone(node), _instance(world, cluster, pool, node))
        for cluster, pool, node in nodes(world, project)
    ]


def _instance(world: World, cluster: Record, pool: Record, node: JSON) -> JSON:
    zone, name, config = node_zone(node), node["metadata"]["name"], pool.body["config"]
    where = f"projects/{cluster.project}/zones/{zone}"
    body: JSON = {
        "kind": "compute#instance",
        "id": identity(f"{where}/instances/{name}"),
        "name": name,
        "zone": stored(where),
        "selfLink": stored(f"{where}/instances/{name}"),
        "creationTimestamp": pacific_of(node["metadata"]["creationTimestamp"]),
        "machineType": stored(f"{where}/machineTypes/{config['machineType']}"),
        "status": "RUNNING",
        "canIpForward": False,
        "networkInterfaces": _cards(world, cluster, pool, node),
        "scheduling": _scheduling(config),
        "labels": _labels(cluster, pool),
        "tags": {"items": [f"gke-{cluster.name}-{str(cluster.body['id'])[:8]}-node"]},
        "metadata": {"kind": "compute#metadata", "items": _metadata(world, cluster, pool, zone)},
    }
    if config.get("accelerators"):
        body["guestAccelerators"] = [
            {
                "acceleratorType": stored(f"{where}/acceleratorTypes/{card['acceleratorType']}"),
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


def _metadata(world: World, cluster: Record, pool: Record, zone: str) -> list[JSON]:
    links = [str(link) for link in pool.body["instanceGroupUrls"]]
    group = next((link.rpartition("/")[2] for link in links if f"/zones/{zone}/" in link), "")
    number = world.project_number(cluster.project)
    return [
        {"key": "cluster-name", "value": cluster.name},
        {"key": "cluster-location", "value": cluster.location},
        {"key": "created-by", "value": f"projects/{number}/zones/{zone}/instanceGroupManagers/{group}"},
    ]


def _cards(world: World, cluster: Record, pool: Record, node: JSON) -> list[JSON]:
    """nic0 in the cluster's network with the node's addresses, and one card a network that the pool adds."""
    at = {row["type"]: row["address"] for row in node["status"]["addresses"]}
    first = world.get(COMPUTE, str(cluster.extra["subnetwork"]))
    more = [world.get(COMPUTE, key) for key in pool.extra.get("subnetworks", ())]
    rows = [_card(world, subnet, index) for index, subnet in enumerate([first, *more]) if subnet]
    rows[0]["networkIP"] = at["InternalIP"]
    if "ExternalIP" in at:
        access = {"kind": "compute#accessConfig", "name": "external-nat", "type": "ONE_TO_ONE_NAT"}
        rows[0]["accessConfigs"] = [{**access, "natIP": at["ExternalIP"], "networkTier": "PREMIUM"}]
    return rows


def _card(world: World, subnet: Record, index: int) -> JSON:
    link = str(subnet.body["network"])
    network = world.get(COMPUTE, link[link.index("projects/") :])
    return {
        "kind": "compute#networkInterface",
        "name": f"nic{index}",
        "network": link,
        "subnetwork": stored(subnet.key),
        "stackType": "IPV4_ONLY",
        "nicType": "MRDMA" if network and is_roce(network) else "GVNIC",
    }


@serves("compute.instances.get")
def get(call: Call) -> JSON:
    """One machine."""
    zone, name = check_zone(call), str(call.params["instance"])
    for where, body in machines(call.world, project_of(call)):
        if (where, body["name"]) == (zone, name):
            return sent(call, body)
    raise missing(f"projects/{project_of(call)}/zones/{zone}/instances/{name}")


@serves("compute.instances.list")
def list_(call: Call) -> JSON:
    """A zone's machines."""
    zone = check_zone(call)
    found = [body for where, body in machines(call.world, project_of(call)) if where == zone]
    return listed(call, "instanceList", found)


@serves("compute.instances.aggregatedList")
def aggregated_list(call: Call) -> JSON:
    """Every zone's machines."""
    items = [(f"zones/{zone}", body) for zone, body in machines(call.world, project_of(call))]
    scopes = [f"zones/{zone}" for zone in zones()]
    return aggregated(call, "instanceAggregatedList", "instances", items, scopes)
