"""What can be changed of a cluster and a pool: labels, add-ons, locations, maintenance, scaling; versions: container_upgrades.py."""

from __future__ import annotations

from grpo_wizard.steps.emulator.google.container import kubernetes_backend
from grpo_wizard.steps.emulator.google.container.clusters import bad, check_locations, found
from grpo_wizard.steps.emulator.google.container.defaults import etag, group, merged
from grpo_wizard.steps.emulator.google.container.node_pool_validation import (
    check_pool,
    check_scaling,
    check_taints,
)
from grpo_wizard.steps.emulator.google.container.node_pools import found_pool, pools_of
from grpo_wizard.steps.emulator.google.container.operations import cluster_of, effect, refuse_busy, start
from grpo_wizard.steps.emulator.google.container.upgrades import (
    of_cluster,
    the_pool,
    upgrade_master,
    upgrade_nodes,
)
from grpo_wizard.steps.emulator.google.container.versions import check_channel
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER
from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call, Record, World, serves

_PLAIN = {  # ClusterUpdate's field -> the cluster's
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


def _change(call: Call, record: Record, kind: str, change: JSON, span: str = "cluster.update") -> JSON:
    cluster = found(call, cluster_of(record.key))
    refuse_busy(call.world, cluster, record.key if record.kind == "node_pool" else "")
    record.body["status"] = "RECONCILING"
    call.world.put(record)
    return start(call, kind, span, record, "changed", change=change)


@effect("changed")
def _changed(world: World, target: Record, operation: str, change: JSON) -> bool:
    if "locations" in change:
        _move(world, target, change["locations"])
    target.body = merged(target.body, change)
    for whole in ("resourceLabels", "autoscaling", "maintenancePolicy"):  # replaced, not merged
        if whole in change:
            target.body[whole] = change[whole]
    target.body.update(status="RUNNING", etag=etag())
    world.put(target)
    kubernetes_backend.pools_changed(target.key)
    return True


def _move(world: World, target: Record, places: list[str]) -> None:
    """Nodes follow the zones: a new zone gets as many as each had, one that is left loses its own.

    Of a cluster: those of the pools that stand where the cluster stood.
    """
    if target.kind == "cluster":
        for pool in pools_of(world, target.key):
            if sorted(pool.body["locations"]) == sorted(target.body["locations"]):
                _move(world, pool, places)
        return
    cluster = world.get(CONTAINER, cluster_of(target.key))
    sizes, urls = target.extra["sizes"], target.body["instanceGroupUrls"]
    groups = {url.split("/zones/")[1].split("/")[0]: url for url in urls}
    count = max(sizes.values(), default=0)
    target.extra["sizes"] = {zone: sizes.get(zone, count) for zone in places}
    target.body["locations"] = list(places)
    if cluster is not None:
        target.body["instanceGroupUrls"] = [
            groups.get(zone) or group(cluster, target.name, zone) for zone in places
        ]
    world.put(target)


def _same(asked: JSON, record: Record) -> None:
    """Refuses a change of what has changed since; the document says ABORTED, the words are inferred."""
    if asked.get("etag") and asked["etag"] != record.body["etag"]:
        raise ApiError(
            409, f"The etag of {record.key} does not match: it was changed meanwhile.", "ABORTED", "aborted"
        )


@serves("container.projects.locations.clusters.update")
def update(call: Call) -> JSON:
    """clusters.update: one desired thing at a time, as GKE wants it."""
    record, asked = found(call, str(call.params["name"])), dict(call.body.get("update", {}))
    desired = [name for name in asked if name.startswith("desired") and name != "desiredNodePoolId"]
    if not desired:
        raise bad("Must specify a field to update.")
    _same(asked, record)
    pools = pools_of(call.world, record.key)
    of_versions = of_cluster(call, record, pools, asked)
    if of_versions is not None:
        return of_versions
    if "desiredNodePoolAutoscaling" in asked:
        return _scale(call, the_pool(record, pools, asked), asked["desiredNodePoolAutoscaling"])
    unknown = [name for name in desired if name not in _PLAIN]
    if unknown:
        raise ApiError(
            501, f"The rehearsal cannot change {unknown[0]} of a cluster.", "UNIMPLEMENTED", "notImplemented"
        )
    if "desiredLocations" in asked:
        _check_places(call.world, record, pools, asked["desiredLocations"])
    channel = asked.get("desiredReleaseChannel", {}).get("channel", "")
    check_channel(channel, str(record.body["currentMasterVersion"]))
    return _change(call, record, "UPDATE_CLUSTER", {_PLAIN[name]: asked[name] for name in desired})


def _check_places(world: World, cluster: Record, pools: list[Record], places: list[str]) -> None:
    check_locations(places, cluster.location)
    for pool in pools:
        if sorted(pool.body["locations"]) == sorted(cluster.body["locations"]):
            check_pool(world, cluster, {**pool.body, "locations": places, "initialNodeCount": 0})


@serves("container.projects.locations.clusters.setLocations")
def set_locations(call: Call) -> JSON:
    """The older way to change a cluster's zones."""
    record, places = found(call, str(call.params["name"])), list(call.body.get("locations", []))
    _check_places(call.world, record, pools_of(call.world, record.key), places)
    return _change(call, record, "UPDATE_CLUSTER", {"locations": places})


@serves("container.projects.locations.clusters.updateMaster")
def update_master(call: Call) -> JSON:
    """Upgrades the control plane."""
    return upgrade_master(call, found(call, str(call.params["name"])), call.body.get("masterVersion"))


@serves("container.projects.locations.clusters.setResourceLabels")
def set_labels(call: Call) -> JSON:
    """Replaces a cluster's labels; an outdated fingerprint is refused."""
    record = found(call, str(call.params["name"]))
    given = call.body.get("labelFingerprint")
    if given and given != record.body["labelFingerprint"]:
        raise ApiError(
            412,
            "Labels could not be set due to fingerprint mismatch.",
            "FAILED_PRECONDITION",
            "conditionNotMet",
        )
    labels = dict(call.body.get("resourceLabels", {}))
    return _change(call, record, "SET_LABELS", {"resourceLabels": labels, "labelFingerprint": etag()[:8]})


@serves("container.projects.locations.clusters.setMaintenancePolicy")
def set_maintenance(call: Call) -> JSON:
    """Replaces the maintenance policy (exclusions for a run)."""
    record, asked = found(call, str(call.params["name"])), dict(call.body.get("maintenancePolicy", {}))
    given = asked.get("resourceVersion")
    if given and given != record.body["maintenancePolicy"]["resourceVersion"]:  # wording inferred
        raise bad("Maintenance policy could not be set due to a resource version mismatch.")
    policy = {**asked, "resourceVersion": etag()[:8]}
    return _change(call, record, "SET_MAINTENANCE_POLICY", {"maintenancePolicy": policy})


@serves("container.projects.locations.clusters.setAddons")
def set_addons(call: Call) -> JSON:
    """Turns add-ons on or off."""
    return _change(
        call,
        found(call, str(call.params["name"])),
        "UPDATE_CLUSTER",
        {"addonsConfig": call.body.get("addonsConfig", {})},
    )


@serves("container.projects.locations.clusters.nodePools.setAutoscaling")
def set_autoscaling(call: Call) -> JSON:
    """Replaces a pool's autoscaling."""
    return _scale(call, found_pool(call), call.body.get("autoscaling", {}))


def _scale(call: Call, pool: Record, scaling: JSON) -> JSON:
    check_scaling(scaling)
    flexible = pool.body["config"].get("spot") or pool.body["config"].get("flexStart")
    policy = {"locationPolicy": "ANY" if flexible else "BALANCED"}
    change = {"autoscaling": {**policy, **scaling} if scaling.get("enabled") else {}}
    return _change(call, pool, "UPDATE_CLUSTER", change, "pool.update")


@serves("container.projects.locations.clusters.nodePools.setManagement")
def set_management(call: Call) -> JSON:
    """Auto-repair and auto-upgrade of a pool."""
    return _change(
        call,
        found_pool(call),
        "SET_NODE_POOL_MANAGEMENT",
        {"management": call.body.get("management", {})},
        "pool.update",
    )


@serves("container.projects.locations.clusters.nodePools.update")
def update_pool(call: Call) -> JSON:
    """Changes a pool's version, labels, taints, zones or upgrade settings."""
    record, asked = found_pool(call), call.body
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
    cluster = found(call, cluster_of(record.key))
    _same(asked, record)
    if asked.get("nodeVersion"):
        return upgrade_nodes(call, cluster, record, asked["nodeVersion"])
    if "locations" in change:
        check_pool(
            call.world, cluster, {**record.body, "locations": change["locations"], "initialNodeCount": 0}
        )
    return _change(call, record, "UPDATE_CLUSTER", change, "pool.update")
