"""Instance groups and their managers, read-only: one of each for every zone of a node pool.

GKE uses Kubernetes' autoscaler, so Compute's list of autoscalers is empty.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON, ApiCall, Record, ResourceStore, handles
from grpo_wizard.steps.emulator.google.compute.catalog import check_zone
from grpo_wizard.steps.emulator.google.compute.collections import project_of
from grpo_wizard.steps.emulator.google.compute.instances import node_zone, nodes, stable_id
from grpo_wizard.steps.emulator.google.shared.fixtures import zones
from grpo_wizard.steps.emulator.google.shared.ids import to_pacific
from grpo_wizard.steps.emulator.google.shared.lists import aggregated_response, compute_list
from grpo_wizard.steps.emulator.google.shared.self_links import (
    CONTAINER,
    basename,
    not_found_error,
    self_link,
    with_request_host,
)

_KINDS = {"instanceGroups": "instanceGroup", "instanceGroupManagers": "instanceGroupManager"}


def _groups(store: ResourceStore, project: str, collection: str) -> list[tuple[str, JSON]]:
    """Yield (zone, group or manager) for every zone of every pool."""
    standing: dict[tuple[str, str], int] = {}
    for _, pool, node in nodes(store, project):
        group = pool.key, node_zone(node)
        standing[group] = standing.get(group, 0) + 1
    found = []
    for pool in store.all(CONTAINER, "node_pool", project=project):
        for link in pool.body["instanceGroupUrls"]:
            zone = str(link).split("/zones/")[1].split("/")[0]
            body = _group_body(store, pool, zone, collection, basename(str(link)))
            have = standing.get((pool.key, zone), 0)
            found.append((zone, body | _sizes(pool, zone, collection, have, body)))
    return found


def _group_body(store: ResourceStore, pool: Record, zone: str, collection: str, name: str) -> JSON:
    where = f"projects/{pool.project}/zones/{zone}"
    cluster = store.get(CONTAINER, pool.key.split("/nodePools/")[0])
    made = str(cluster.body["createTime"]) if cluster else "1970-01-01T00:00:00+00:00"
    body: JSON = {
        "kind": f"compute#{_KINDS[collection]}",
        "id": stable_id(f"{where}/{collection}/{name}"),
        "name": name,
        "zone": self_link(where),
        "creationTimestamp": to_pacific(made),
        "selfLink": self_link(f"{where}/{collection}/{name}"),
    }
    if collection == "instanceGroups" and cluster:
        body["network"] = self_link(str(cluster.extra["network"]))
        body["subnetwork"] = self_link(str(cluster.extra["subnetwork"]))
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
    return self_link(f"projects/{project}/global/instanceTemplates/{group.removesuffix('-grp')}")


def _collection(call: ApiCall) -> str:
    return call.method_id.split(".")[1]


@handles("compute.instanceGroups.get", "compute.instanceGroupManagers.get")
def get(call: ApiCall) -> JSON:
    """Return one group, or its manager."""
    collection, zone = _collection(call), check_zone(call)
    name = str(call.params[_KINDS[collection]])
    for where, body in _groups(call.store, project_of(call), collection):
        if (where, body["name"]) == (zone, name):
            return with_request_host(call, body)
    raise not_found_error(f"projects/{project_of(call)}/zones/{zone}/{collection}/{name}")


@handles("compute.instanceGroups.list", "compute.instanceGroupManagers.list")
def list_(call: ApiCall) -> JSON:
    """List a zone's groups, or managers."""
    collection, zone = _collection(call), check_zone(call)
    found = [body for where, body in _groups(call.store, project_of(call), collection) if where == zone]
    return compute_list(call, f"{_KINDS[collection]}List", found)


@handles("compute.instanceGroups.aggregatedList", "compute.instanceGroupManagers.aggregatedList")
def aggregated_list(call: ApiCall) -> JSON:
    """List every zone's groups, or managers."""
    collection = _collection(call)
    items = [(f"zones/{zone}", body) for zone, body in _groups(call.store, project_of(call), collection)]
    scopes = [f"zones/{zone}" for zone in zones()]
    return aggregated_response(call, f"{_KINDS[collection]}AggregatedList", collection, items, scopes)


@handles("compute.instanceGroupManagers.listManagedInstances")
def list_managed(call: ApiCall) -> JSON:
    """List a manager's instances, with its current action on each: none."""
    rows = [
        {
            "instance": row["instance"],
            "name": basename(row["instance"]),
            "instanceStatus": row["status"],
            "currentAction": "NONE",
            "version": {
                "instanceTemplate": _template(project_of(call), str(call.params["instanceGroupManager"]))
            },
        }
        for row in _members(call, "instanceGroupManager")
    ]
    return with_request_host(call, {"managedInstances": rows})


@handles("compute.instanceGroups.listInstances")
def list_instances(call: ApiCall) -> JSON:
    """List a group's instances."""
    rows = _members(call, "instanceGroup")
    return with_request_host(call, {"kind": "compute#instanceGroupsListInstances", "items": rows})


def _members(call: ApiCall, kind: str) -> list[JSON]:
    zone, name = check_zone(call), str(call.params[kind])
    where = f"projects/{project_of(call)}/zones/{zone}"
    begins = f"{name.removesuffix('-grp')}-"
    names = [
        str(node["metadata"]["name"])
        for _, _, node in nodes(call.store, project_of(call))
        if node_zone(node) == zone
    ]
    return [
        {"instance": self_link(f"{where}/instances/{one}"), "status": "RUNNING"}
        for one in sorted(names)
        if one.startswith(begins)
    ]


@handles("compute.autoscalers.list")
def autoscalers(call: ApiCall) -> JSON:
    """Return none: GKE uses its own."""
    check_zone(call)
    return compute_list(call, "autoscalerList", [])


@handles("compute.autoscalers.aggregatedList")
def aggregated_autoscalers(call: ApiCall) -> JSON:
    """Return none, in any zone."""
    scopes = [f"zones/{zone}" for zone in zones()]
    return aggregated_response(call, "autoscalerAggregatedList", "autoscalers", [], scopes)
