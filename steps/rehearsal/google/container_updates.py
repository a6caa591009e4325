"""What can be changed of a cluster and a pool: labels, add-ons, locations, maintenance, versions, scaling."""

from __future__ import annotations

from typing import Any

from ..contract import JSON, ApiError, Call, Record, World, serves
from . import kubeground
from .container_clusters import bad, found
from .container_defaults import etag, merged
from .container_operations import cluster_of, effect, refuse_busy, start
from .container_pools import found_pool
from .container_versions import choose

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
    refuse_busy(call.world, found(call, cluster_of(record.key)))
    record.body["status"] = "RECONCILING"
    call.world.put(record)
    return start(call, kind, span, record, "changed", change=change)


@effect("changed")
def _changed(world: World, target: Record, operation: str, change: JSON) -> bool:
    target.body = merged(target.body, change)
    for whole in ("resourceLabels", "autoscaling", "maintenancePolicy"):  # replaced, not merged
        if whole in change:
            target.body[whole] = change[whole]
    target.body.update(status="RUNNING", etag=etag())
    world.put(target)
    kubeground.pools_changed(target.key)
    return True


@serves("container.projects.locations.clusters.update")
def update(call: Call) -> JSON:
    """clusters.update: one desired thing at a time, as GKE wants it."""
    record, asked = found(call, str(call.params["name"])), dict(call.body.get("update", {}))
    desired = [name for name in asked if name.startswith("desired")]
    if not desired:
        raise bad("Must specify a field to update.")
    if "desiredMasterVersion" in asked:
        return _upgrade(call, record, asked["desiredMasterVersion"])
    unknown = [name for name in desired if name not in _PLAIN]
    if unknown:
        raise ApiError(
            501, f"The rehearsal cannot change {unknown[0]} of a cluster.", "UNIMPLEMENTED", "notImplemented"
        )
    return _change(call, record, "UPDATE_CLUSTER", {_PLAIN[name]: asked[name] for name in desired})


@serves("container.projects.locations.clusters.updateMaster")
def update_master(call: Call) -> JSON:
    """Upgrades the control plane."""
    return _upgrade(call, found(call, str(call.params["name"])), call.body.get("masterVersion"))


def _upgrade(call: Call, record: Record, version: Any) -> JSON:
    chosen = choose(version, str(record.body["releaseChannel"]["channel"]))
    return _change(call, record, "UPGRADE_MASTER", {"currentMasterVersion": chosen}, "cluster.upgrade")


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
    record = found(call, str(call.params["name"]))
    policy = {"resourceVersion": etag()[:8], **call.body.get("maintenancePolicy", {})}
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
    return _change(
        call,
        found_pool(call),
        "UPDATE_CLUSTER",
        {"autoscaling": call.body.get("autoscaling", {})},
        "pool.update",
    )


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
    if config:
        change["config"] = config
    if asked.get("nodeVersion"):
        change["version"] = choose(asked["nodeVersion"], "")
        return _change(call, record, "UPGRADE_NODES", change, "cluster.upgrade")
    return _change(call, record, "UPDATE_CLUSTER", change, "pool.update")
