"""GKE's defaults: the bodies of a cluster and of a node pool as they are read back.

As far as clients use them, and as `gcloud container clusters describe` printed them in published output of
clusters 1.29 (2024-12) and 1.32 (2025-04).
"""

from __future__ import annotations

import copy
import secrets
import uuid
from datetime import UTC, datetime
from typing import Any

from grpo_wizard.steps.emulator.context import JSON, Record, ResourceStore
from grpo_wizard.steps.emulator.google.container.operations import container_link
from grpo_wizard.steps.emulator.google.shared.fixtures import is_ai_zone, regions, zones_of
from grpo_wizard.steps.emulator.google.shared.self_links import COMPUTE, basename, self_link

_SCOPES = [
    "https://www.googleapis.com/auth/" + name
    for name in (
        "devstorage.read_only",
        "logging.write",
        "monitoring",
        "service.management.readonly",
        "servicecontrol",
        "trace.append",
    )
]


def node_locations(location: str) -> list[str]:
    """Return GKE's default zones: three of a region, never an AI zone.

    A zonal cluster uses its own zone.
    """
    return (
        [zone for zone in zones_of(location) if not is_ai_zone(zone)][:3]
        if location in regions()
        else [location]
    )


def new_etag() -> str:
    """Return an etag: a UUID."""
    return str(uuid.uuid4())


def deep_merge(low: JSON, high: JSON) -> JSON:
    """Merge `high` over `low`; objects are merged recursively."""
    out = copy.deepcopy(low)
    for key, value in high.items():
        out[key] = (
            deep_merge(out[key], value)
            if isinstance(value, dict) and isinstance(out.get(key), dict)
            else copy.deepcopy(value)
        )
    return out


def cluster_body(
    store: ResourceStore,
    asked: JSON,
    key: str,
    version: str,
    network: Record,
    subnet: Record,
    pods: str,
    services: str,
) -> JSON:
    """Return a cluster in PROVISIONING with all fields that clients read back."""
    location = key.split("/")[3]
    channel = asked.get("releaseChannel", {}).get("channel", "REGULAR")
    body = deep_merge(
        _cluster_defaults(network.name, subnet.name, pods, services),
        {k: v for k, v in asked.items() if k not in _INPUT_ONLY_FIELDS},
    )
    pool_scopes = (
        asked.get("nodePools", [{}])[0].get("config", {})
        if asked.get("nodePools")
        else asked.get("nodeConfig", {})
    )
    identity = secrets.token_hex(32)
    pod_range = f"gke-{basename(key)}-pods-{identity[:8]}"
    body["ipAllocationPolicy"].setdefault("clusterSecondaryRangeName", pod_range)
    body.update(
        id=identity,
        etag=new_etag(),
        selfLink=container_link(store, key),
        createTime=datetime.fromtimestamp(store.clock.now(), UTC).isoformat(timespec="seconds"),
        location=location,
        zone=location,
        locations=asked.get("locations") or node_locations(location),
        status="PROVISIONING",
        network=network.name,
        subnetwork=subnet.name,
        initialClusterVersion=version,
        currentMasterVersion=version,
        currentNodeVersion=version,
        releaseChannel={"channel": channel},
        nodeConfig=node_config(pool_scopes, bool(asked.get("workloadIdentityConfig"))),
    )
    body["networkConfig"].update(network=network.key, subnetwork=subnet.key)
    body["locations"] = list(body["locations"])
    return body


_INPUT_ONLY_FIELDS = (
    "nodePools",
    "initialNodeCount",
    "nodeConfig",
    "releaseChannel",
    "initialClusterVersion",
    "network",
    "subnetwork",
    "locations",
)


def _cluster_defaults(network: str, subnet: str, pods: str, services: str) -> JSON:
    return {
        "loggingService": "logging.googleapis.com/kubernetes",
        "monitoringService": "monitoring.googleapis.com/kubernetes",
        "addonsConfig": {
            "gcePersistentDiskCsiDriverConfig": {"enabled": True},
            "networkPolicyConfig": {"disabled": True},
            "kubernetesDashboard": {"disabled": True},
            "dnsCacheConfig": {"enabled": True},
        },
        "labelFingerprint": "a9dc16a7",
        "legacyAbac": {},
        "defaultMaxPodsConstraint": {"maxPodsPerNode": "110"},
        "ipAllocationPolicy": {
            "useIpAliases": True,
            "clusterIpv4Cidr": pods,
            "clusterIpv4CidrBlock": pods,
            "servicesIpv4Cidr": services,
            "servicesIpv4CidrBlock": services,
            "podCidrOverprovisionConfig": {},
            "stackType": "IPV4",
        },
        "clusterIpv4Cidr": pods,
        "servicesIpv4Cidr": services,
        "masterAuth": {"clientCertificateConfig": {}},
        "networkConfig": {
            "network": network,
            "subnetwork": subnet,
            "defaultSnatStatus": {},
            "serviceExternalIpsConfig": {},
        },
        "databaseEncryption": {"state": "DECRYPTED", "currentState": "CURRENT_STATE_DECRYPTED"},
        "autopilot": {},
        "shieldedNodes": {"enabled": True},
        "autoscaling": {"autoscalingProfile": "BALANCED"},
        "loggingConfig": {"componentConfig": {"enableComponents": ["SYSTEM_COMPONENTS", "WORKLOADS"]}},
        "monitoringConfig": {"componentConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}},
        "notificationConfig": {"pubsub": {}},
        "nodePoolDefaults": {"nodeConfigDefaults": {}},
        "privateClusterConfig": {},
        "securityPostureConfig": {"mode": "BASIC", "vulnerabilityMode": "VULNERABILITY_MODE_UNSPECIFIED"},
        "maintenancePolicy": {"resourceVersion": "e3b0c442"},
    }


def node_config(asked: JSON, workload_identity: bool) -> JSON:
    """Return a pool's `config` with defaults."""
    low: JSON = {
        "machineType": "e2-medium",
        "diskSizeGb": 100,
        "diskType": "pd-balanced",
        "imageType": "COS_CONTAINERD",
        "oauthScopes": _SCOPES,
        "serviceAccount": "default",
        "metadata": {"disable-legacy-endpoints": "true"},
        "shieldedInstanceConfig": {"enableIntegrityMonitoring": True},
        "windowsNodeConfig": {},
        "effectiveCgroupMode": "EFFECTIVE_CGROUP_MODE_V2",
    }
    if not asked.get("reservationAffinity") and not asked.get("flexStart"):  # unknown for those
        spot = asked.get("spot") or asked.get("preemptible")
        low["resourceLabels"] = {"goog-gke-node-pool-provisioning-model": "spot" if spot else "on-demand"}
    if workload_identity:
        low["workloadMetadataConfig"] = {"mode": "GKE_METADATA"}
    return deep_merge(low, asked)


def pool_body(store: ResourceStore, cluster: Record, asked: JSON, key: str, version: str) -> JSON:
    """Return a node pool in PROVISIONING with all fields that clients read back."""
    body = deep_merge(
        {
            "management": {"autoRepair": True, "autoUpgrade": True},
            "upgradeSettings": {"maxSurge": 1, "strategy": "SURGE"},
            "maxPodsConstraint": dict(cluster.body["defaultMaxPodsConstraint"]),
            "initialNodeCount": 0,
        },
        asked,
    )
    most = int(body["maxPodsConstraint"]["maxPodsPerNode"])
    # Twice as many addresses as pods, rounded up to a range (GKE's documentation of flexible Pod CIDR).
    body["podIpv4CidrSize"] = 32 - (2 * most - 1).bit_length()
    body["config"] = node_config(asked.get("config", {}), bool(cluster.body.get("workloadIdentityConfig")))
    body["locations"] = list(asked.get("locations") or cluster.body["locations"])
    body["networkConfig"] = deep_merge(
        {
            "podIpv4CidrBlock": cluster.body["clusterIpv4Cidr"],
            "podRange": cluster.body["ipAllocationPolicy"]["clusterSecondaryRangeName"],
        },
        asked.get("networkConfig", {}),
    )
    if body.get("autoscaling", {}).get("enabled"):
        flexible = body["config"].get("spot") or body["config"].get("flexStart")
        body["autoscaling"].setdefault("locationPolicy", "ANY" if flexible else "BALANCED")
    else:
        body["autoscaling"] = {}
    body.update(
        selfLink=container_link(store, key),
        version=version,
        status="PROVISIONING",
        etag=new_etag(),
        instanceGroupUrls=[instance_group_link(cluster, basename(key), zone) for zone in body["locations"]],
    )
    return body


def instance_group_link(cluster: Record, pool: str, zone: str) -> str:
    """Return the link of a pool's instance group in a zone."""
    tag = secrets.token_hex(4)
    return self_link(
        f"projects/{cluster.project}/zones/{zone}/instanceGroupManagers/"
        f"gke-{cluster.name[:18]}-{pool[:20]}-{tag}-grp"
    )


def gke_firewall_rules(cluster: Record, network: Record, store: ResourceStore) -> list[Record]:
    """Return the firewall rules that GKE creates on a cluster's network.

    The gke-* rules are deleted with it; the k8s-* rule stays (a leftover known from public reports).
    """
    tag = str(cluster.body["id"])[:8]
    rules: dict[str, JSON] = {
        f"gke-{cluster.name}-{tag}-all": {
            "sourceRanges": [cluster.body["clusterIpv4Cidr"]],
            "allowed": _allow("tcp", "udp", "icmp", "esp", "ah", "sctp"),
        },
        f"gke-{cluster.name}-{tag}-vms": {
            "sourceRanges": ["10.128.0.0/9"],
            "allowed": [{"IPProtocol": "icmp"}, *_ports("1-65535")],
        },
        f"gke-{cluster.name}-{tag}-exkubelet": {
            "sourceRanges": ["0.0.0.0/0"],
            "denied": [{"IPProtocol": "tcp", "ports": ["10255"]}],
        },
        f"k8s-{str(cluster.body['id'])[:16]}-node-http-hc": {
            "sourceRanges": ["130.211.0.0/22", "35.191.0.0/16"],
            "allowed": [{"IPProtocol": "tcp", "ports": ["10256"]}],
        },
    }
    return [_rule(store, cluster, network, name[:63], body) for name, body in rules.items()]


def _allow(*protocols: str) -> list[JSON]:
    return [{"IPProtocol": name} for name in protocols]


def _ports(ports: str) -> list[JSON]:
    return [{"IPProtocol": name, "ports": [ports]} for name in ("tcp", "udp")]


def _rule(store: ResourceStore, cluster: Record, network: Record, name: str, body: JSON) -> Record:
    from grpo_wizard.steps.emulator.google.shared.ids import generate_resource_id, pacific_timestamp

    key = f"projects/{cluster.project}/global/firewalls/{name}"
    full: dict[str, Any] = {
        "kind": "compute#firewall",
        "id": generate_resource_id(),
        "creationTimestamp": pacific_timestamp(store),
        "name": name,
        "network": self_link(network.key),
        "direction": "INGRESS",
        "priority": 1000,
        "disabled": False,
        "logConfig": {"enable": False},
        "selfLink": self_link(key),
        "targetTags": [f"gke-{cluster.name}-{str(cluster.body['id'])[:8]}-node"],
        **body,
    }
    return Record(
        COMPUTE,
        "firewall",
        name,
        cluster.project,
        "global",
        key,
        full,
        derived=True,
        extra={"cluster": cluster.key},
    )
