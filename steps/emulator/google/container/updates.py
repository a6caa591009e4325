"""Updates of clusters and pools: labels, add-ons, locations, maintenance, scaling. Versions: upgrades.py."""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, Record, ResourceStore, handles
from grpo_wizard.steps.emulator.google.container import kubernetes_backend
from grpo_wizard.steps.emulator.google.container.clusters import (
    check_locations,
    get_cluster,
    invalid_argument,
)
from grpo_wizard.steps.emulator.google.container.defaults import deep_merge, instance_group_link, new_etag
from grpo_wizard.steps.emulator.google.container.node_pool_validation import (
    check_pool,
    check_scaling,
    check_taints,
)
from grpo_wizard.steps.emulator.google.container.node_pools import get_pool, list_pools
from grpo_wizard.steps.emulator.google.container.operations import (
    cluster_of,
    on_complete,
    require_idle,
    start_operation,
)
from grpo_wizard.steps.emulator.google.container.upgrades import (
    apply_version_update,
    updated_pool,
    upgrade_master,
    upgrade_nodes,
)
from grpo_wizard.steps.emulator.google.container.versions import check_channel
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER

_FIELD_BY_DESIRED = {  # ClusterUpdate's field -> the cluster's
    "desiredAddonsConfig": "addonsConfig",
    "desiredReleaseChannel": "releaseChannel",
    "desiredWorkloadIdentityConfig": "workloadIdentityConfig",
    "desiredLoggingConfig": "loggingConfig",
    "desiredMonitoringConfig": "monitoringConfig",
    "desiredShieldedNodes": "shieldedNodes",
    "desiredVerticalPodAutoscaling": "verticalPodAutoscaling",
    "desiredClusterAutoscaling": "autoscaling",
    "desiredLoggingService": "loggingService",
    "desiredMonitoringService": "monitoringService",
    "desiredLocations": "locations",
    "desiredSecretManagerConfig": "secretManagerConfig",
    "desiredControlPlaneEndpointsConfig": "controlPlaneEndpointsConfig",
    "desiredNotificationConfig": "notificationConfig",
    "desiredCostManagementConfig": "costManagementConfig",
}


def _change(call: ApiCall, record: Record, kind: str, change: JSON, span: str = "cluster.update") -> JSON:
    cluster = get_cluster(call, cluster_of(record.key))
    require_idle(call.store, cluster, record.key if record.kind == "node_pool" else "")
    record.body["status"] = "RECONCILING"
    call.store.put(record)
    return start_operation(call, kind, span, record, "changed", change=change)


@on_complete("changed")
def _on_changed(store: ResourceStore, target: Record, operation: str, change: JSON) -> bool:
    if "locations" in change:
        _set_zones(store, target, change["locations"])
    target.body = deep_merge(target.body, change)
    for whole in ("resourceLabels", "autoscaling", "maintenancePolicy"):  # replaced, not merged
        if whole in change:
            target.body[whole] = change[whole]
    target.body.update(status="RUNNING", etag=new_etag())
    store.put(target)
    kubernetes_backend.notify_pools_changed(target.key)
    return True


def _set_zones(store: ResourceStore, target: Record, places: list[str]) -> None:
    """Set the zones: a new zone gets as many nodes as each had, a removed zone loses its own.

    For a cluster, this applies to the pools in the cluster's zones.
    """
    if target.kind == "cluster":
        for pool in list_pools(store, target.key):
            if sorted(pool.body["locations"]) == sorted(target.body["locations"]):
                _set_zones(store, pool, places)
        return
    cluster = store.get(CONTAINER, cluster_of(target.key))
    sizes, urls = target.extra["sizes"], target.body["instanceGroupUrls"]
    groups = {url.split("/zones/")[1].split("/")[0]: url for url in urls}
    count = max(sizes.values(), default=0)
    target.extra["sizes"] = {zone: sizes.get(zone, count) for zone in places}
    target.body["locations"] = list(places)
    if cluster is not None:
        target.body["instanceGroupUrls"] = [
            groups.get(zone) or instance_group_link(cluster, target.name, zone) for zone in places
        ]
    store.put(target)


def _check_etag(asked: JSON, record: Record) -> None:
    """Reject an update of a resource that was changed meanwhile; ABORTED is documented, the text is inferred."""
    if asked.get("etag") and asked["etag"] != record.body["etag"]:
        raise ApiError(
            409, f"The etag of {record.key} does not match: it was changed meanwhile.", "ABORTED", "aborted"
        )


@handles("container.projects.locations.clusters.update")
def update(call: ApiCall) -> JSON:
    """clusters.update: one desired field at a time, as GKE requires."""
    record, asked = get_cluster(call, str(call.params["name"])), dict(call.body.get("update", {}))
    desired = [name for name in asked if name.startswith("desired") and name != "desiredNodePoolId"]
    if not desired:
        raise invalid_argument("Must specify a field to update.")
    _check_etag(asked, record)
    pools = list_pools(call.store, record.key)
    of_versions = apply_version_update(call, record, pools, asked)
    if of_versions is not None:
        return of_versions
    if "desiredNodePoolAutoscaling" in asked:
        return _set_scaling(call, updated_pool(record, pools, asked), asked["desiredNodePoolAutoscaling"])
    unknown = [name for name in desired if name not in _FIELD_BY_DESIRED]
    if unknown:
        raise ApiError(
            501, f"The emulator cannot change {unknown[0]} of a cluster.", "UNIMPLEMENTED", "notImplemented"
        )
    if "desiredLocations" in asked:
        _check_new_locations(call.store, record, pools, asked["desiredLocations"])
    channel = asked.get("desiredReleaseChannel", {}).get("channel", "")
    check_channel(channel, str(record.body["currentMasterVersion"]))
    return _change(call, record, "UPDATE_CLUSTER", {_FIELD_BY_DESIRED[name]: asked[name] for name in desired})


def _check_new_locations(
    store: ResourceStore, cluster: Record, pools: list[Record], places: list[str]
) -> None:
    check_locations(places, cluster.location)
    for pool in pools:
        if sorted(pool.body["locations"]) == sorted(cluster.body["locations"]):
            check_pool(store, cluster, {**pool.body, "locations": places, "initialNodeCount": 0})


@handles("container.projects.locations.clusters.setLocations")
def set_locations(call: ApiCall) -> JSON:
    """Set a cluster's zones by the older method."""
    record, places = get_cluster(call, str(call.params["name"])), list(call.body.get("locations", []))
    _check_new_locations(call.store, record, list_pools(call.store, record.key), places)
    return _change(call, record, "UPDATE_CLUSTER", {"locations": places})


@handles("container.projects.locations.clusters.updateMaster")
def update_master(call: ApiCall) -> JSON:
    """Upgrade the control plane."""
    return upgrade_master(call, get_cluster(call, str(call.params["name"])), call.body.get("masterVersion"))


@handles("container.projects.locations.clusters.setResourceLabels")
def set_labels(call: ApiCall) -> JSON:
    """Replace a cluster's labels; rejects an outdated fingerprint."""
    record = get_cluster(call, str(call.params["name"]))
    given = call.body.get("labelFingerprint")
    if given and given != record.body["labelFingerprint"]:
        raise ApiError(
            412,
            "Labels could not be set due to fingerprint mismatch.",
            "FAILED_PRECONDITION",
            "conditionNotMet",
        )
    labels = dict(call.body.get("resourceLabels", {}))
    return _change(call, record, "SET_LABELS", {"resourceLabels": labels, "labelFingerprint": new_etag()[:8]})


@handles("container.projects.locations.clusters.setMaintenancePolicy")
def set_maintenance(call: ApiCall) -> JSON:
    """Replace the maintenance policy (exclusions for a run)."""
    record, asked = get_cluster(call, str(call.params["name"])), dict(call.body.get("maintenancePolicy", {}))
    given = asked.get("resourceVersion")
    if given and given != record.body["maintenancePolicy"]["resourceVersion"]:  # wording inferred
        raise invalid_argument("Maintenance policy could not be set due to a resource version mismatch.")
    policy = {**asked, "resourceVersion": new_etag()[:8]}
    return _change(call, record, "SET_MAINTENANCE_POLICY", {"maintenancePolicy": policy})


@handles("container.projects.locations.clusters.setAddons")
def set_addons(call: ApiCall) -> JSON:
    """Enable or disable add-ons."""
    return _change(
        call,
        get_cluster(call, str(call.params["name"])),
        "UPDATE_CLUSTER",
        {"addonsConfig": call.body.get("addonsConfig", {})},
    )


@handles("container.projects.locations.clusters.nodePools.setAutoscaling")
def set_autoscaling(call: ApiCall) -> JSON:
    """Replace a pool's autoscaling."""
    return _set_scaling(call, get_pool(call), call.body.get("autoscaling", {}))


def _set_scaling(call: ApiCall, pool: Record, scaling: JSON) -> JSON:
    check_scaling(scaling)
    flexible = pool.body["config"].get("spot") or pool.body["config"].get("flexStart")
    policy = {"locationPolicy": "ANY" if flexible else "BALANCED"}
    change = {"autoscaling": {**policy, **scaling} if scaling.get("enabled") else {}}
    return _change(call, pool, "UPDATE_CLUSTER", change, "pool.update")


@handles("container.projects.locations.clusters.nodePools.setManagement")
def set_management(call: ApiCall) -> JSON:
    """Set a pool's auto-repair and auto-upgrade."""
    return _change(
        call,
        get_pool(call),
        "SET_NODE_POOL_MANAGEMENT",
        {"management": call.body.get("management", {})},
        "pool.update",
    )


@handles("container.projects.locations.clusters.nodePools.update")
def update_pool(call: ApiCall) -> JSON:
    """Update a pool's version, labels, taints, zones or upgrade settings."""
    record, asked = get_pool(call), call.body
    change: JSON = {
        name: asked[name] for name in ("locations", "upgradeSettings", "queuedProvisioning") if name in asked
    }
    config: JSON = {
        name: asked[name]
        for name in ("imageType", "machineType", "diskType", "tags", "accelerators", "gvnic")
        if name in asked
    }
    wrapped = {"labels": "labels", "taints": "taints", "tags": "tags", "resourceLabels": "labels"}
    config.update(
        {
            name: asked[name].get(inner, {})
            for name, inner in wrapped.items()
            if isinstance(asked.get(name), dict)
        }
    )
    check_taints(config.get("taints") or [])
    if config:
        change["config"] = config
    cluster = get_cluster(call, cluster_of(record.key))
    _check_etag(asked, record)
    if asked.get("nodeVersion"):
        return upgrade_nodes(call, cluster, record, asked["nodeVersion"])
    if "locations" in change:
        check_pool(
            call.store, cluster, {**record.body, "locations": change["locations"], "initialNodeCount": 0}
        )
    return _change(call, record, "UPDATE_CLUSTER", change, "pool.update")
