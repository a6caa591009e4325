"""Instance groups and their managers: one of each for every zone of a node pool. They are only read.

GKE's autoscaler is Kubernetes' own: Compute's list of autoscalers stays empty.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.google.compute.catalog import check_zone
from grpo_wizard.steps.emulator.google.compute.collections import project_of
from grpo_wizard.steps.emulator.google.compute.instances import identity, node_zone, nodes
from grpo_wizard.steps.emulator.google.shared.fixtures import zones
from grpo_wizard.steps.emulator.google.shared.ids import pacific_of
from grpo_wizard.steps.emulator.google.shared.lists import aggregated, listed
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER, last, missing, sent, stored
from grpo_wizard.steps.emulator.server.context import JSON, Call, Record, World, serves

_KINDS = {"instanceGroups": "instanceGroup", "instanceGroupManagers": "instanceGroupManager"}


def _groups(world: World, project: str, collection: str) -> list[tuple[str, JSON]]:
    """(zone, group or manager) of every pool's every zone."""
    standing: dict[tuple[str, str], int] = {}
    for _, pool, node in nodes(world, project):
        place = pool.key, node_zone(node)
        standing[place] = standing.get(place, 0) + 1
    found = []
    for pool in world.all(CONTAINER, "node_pool", project=project):
        for link in pool.body["instanceGroupUrls"]:
            zone = str(link).split("/zones/")[1].split("/")[0]
            body = _head(world, pool, zone, collection, last(str(link)))
            have = standing.get((pool.key, zone), 0)
            found.append((zone, body | _sizes(pool, zone, collection, have, body)))
    return found


def _head(world: World, pool: Record, zone: str, collection: str, name: str) -> JSON:
    where = f"projects/{pool.project}/zones/{zone}"
    cluster = world.get(CONTAINER, pool.key.split("/nodePools/")[0])
    made = str(cluster.body["createTime"]) if cluster else "1970-01-01T00:00:00+00:00"
    body: JSON = {
        "kind": f"compute#{_KINDS[collection]}",
        "id": identity(f"{where}/{collection}/{name}"),
        "name": name,
        "zone": stored(where),
        "creationTimestamp": pacific_of(made),
        "selfLink": stored(f"{where}/{collection}/{name}"),
    }
    if collection == "instanceGroups" and cluster:
        body["network"] = stored(str(cluster.extra["network"]))
        body["subnetwork"] = stored(str(cluster.extra["subnetwork"]))
    return body


def _sizes(pool: Record, zone: str, collection: str, have: int, body: JSON) -> JSON:
    if collection == "instanceGroups":
        return {"size": have, "namedPorts": []}
    wanted = int(pool.extra.get("sizes", {}).get(zone, 0))
    busy = {"none": min(have, wanted), "creating": max(wanted - have, 0), "deleting": max(have - wanted, 0)}
    base, name = body["zone"], str(body["name"])
    return {
        "baseInstanceName": name.removesuffix("-grp"),
        "instanceGroup": f"{base}/instanceGroups/{name}",
        "instanceTemplate": _template(pool.project, name),
        "targetSize": wanted,
        "currentActions": busy,
        "status": {"isStable": have == wanted},
    }


def _template(project: str, group: str) -> str:
    return stored(f"projects/{project}/global/instanceTemplates/{group.removesuffix('-grp')}")


def _collection(call: Call) -> str:
    return call.method_id.split(".")[1]


@serves("compute.instanceGroups.get", "compute.instanceGroupManagers.get")
def get(call: Call) -> JSON:
    """One group, or its manager."""
    collection, zone = _collection(call), check_zone(call)
    name = str(call.params[_KINDS[collection]])
    for where, body in _groups(call.world, project_of(call), collection):
        if (where, body["name"]) == (zone, name):
            return sent(call, body)
    raise missing(f"projects/{project_of(call)}/zones/{zone}/{collection}/{name}")


@serves("compute.instanceGroups.list", "compute.instanceGroupManagers.list")
def list_(call: Call) -> JSON:
    """A zone's groups, or managers."""
    collection, zone = _collection(call), check_zone(call)
    found = [body for where, body in _groups(call.world, project_of(call), collection) if where == zone]
    return listed(call, f"{_KINDS[collection]}List", found)


@serves("compute.instanceGroups.aggregatedList", "compute.instanceGroupManagers.aggregatedList")
def aggregated_list(call: Call) -> JSON:
    """Every zone's groups, or managers."""
    collection = _collection(call)
    items = [(f"zones/{zone}", body) for zone, body in _groups(call.world, project_of(call), collection)]
    scopes = [f"zones/{zone}" for zone in zones()]
    return aggregated(call, f"{_KINDS[collection]}AggregatedList", collection, items, scopes)


@serves("compute.instanceGroupManagers.listManagedInstances")
def list_managed(call: Call) -> JSON:
    """A manager's machines, with what it does to each: nothing."""
    rows = [
        {
            "instance": row["instance"],
            "name": last(row["instance"]),
            "instanceStatus": row["status"],
            "currentAction": "NONE",
            "version": {
                "instanceTemplate": _template(project_of(call), str(call.params["instanceGroupManager"]))
            },
        }
        for row in _members(call, "instanceGroupManager")
    ]
    return sent(call, {"managedInstances": rows})


@serves("compute.instanceGroups.listInstances")
def list_instances(call: Call) -> JSON:
    """A group's machines."""
    rows = _members(call, "instanceGroup")
    return sent(call, {"kind": "compute#instanceGroupsListInstances", "items": rows})


def _members(call: Call, kind: str) -> list[JSON]:
    zone, name = check_zone(call), str(call.params[kind])
    where = f"projects/{project_of(call)}/zones/{zone}"
    begins = f"{name.removesuffix('-grp')}-"
    names = [
        str(node["metadata"]["name"])
        for _, _, node in nodes(call.world, project_of(call))
        if node_zone(node) == zone
    ]
    return [
        {"instance": stored(f"{where}/instances/{one}"), "status": "RUNNING"}
        for one in sorted(names)
        if one.startswith(begins)
    ]


@serves("compute.autoscalers.list")
def autoscalers(call: Call) -> JSON:
    """None: GKE has its own."""
    check_zone(call)
    return listed(call, "autoscalerList", [])


@serves("compute.autoscalers.aggregatedList")
def every_autoscaler(call: Call) -> JSON:
    """None, in any zone."""
    scopes = [f"zones/{zone}" for zone in zones()]
    return aggregated(call, "autoscalerAggregatedList", "autoscalers", [], scopes)
