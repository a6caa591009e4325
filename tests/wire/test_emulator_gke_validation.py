"""What the emulator's GKE rejects and computes: versions, zones, ranges, networks, pods, labels."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from emulator_server import EmulatorServer
from google.api_core import exceptions
from google.cloud import compute_v1, container_v1
from google_clients import (
    APIS,
    CLUSTER,
    PARENT,
    PROJECT,
    REGION,
    ZONE,
    GoogleClients,
    cluster,
    gpu_pool,
    network,
    subnet,
)

OLD, NEW = "1.33.5-gke.2392000", "1.35.1-gke.1396000"
JSON = dict[str, Any]


@pytest.fixture(scope="module")
def clients(shared_rehearsal: EmulatorServer) -> GoogleClients:
    shared_rehearsal.enable(*APIS)
    made = GoogleClients(shared_rehearsal)
    for _ in range(200):
        with contextlib.suppress(exceptions.Forbidden):
            network(made, "nemo-net")
            break
        time.sleep(0.05)
    made.wait_for_gke(
        made.container.create_cluster(
            parent=PARENT, cluster=cluster(initial_cluster_version="1.34.3-gke.1245000")
        )
    )
    return made


def pool(name: str, **fields: Any) -> container_v1.NodePool:
    config = {"machine_type": "n2-highmem-8"}
    return container_v1.NodePool(**{"name": name, "initial_node_count": 1, "config": config, **fields})


def add(clients: GoogleClients, name: str, **fields: Any) -> container_v1.NodePool:
    clients.wait_for_gke(clients.container.create_node_pool(parent=CLUSTER, node_pool=pool(name, **fields)))
    return clients.container.get_node_pool(name=f"{CLUSTER}/nodePools/{name}")


def counts(server: EmulatorServer, name: str) -> tuple[int, int]:
    """(zones, instance groups) of a pool, over the plain wire."""
    _, got = server.call("GET", f"/container/v1/{CLUSTER}/nodePools/{name}")
    return len(got["locations"]), len(got["instanceGroupUrls"])


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (
            {"initial_cluster_version": NEW, "release_channel": {"channel": "STABLE"}},
            r'Master version must be one of "STABLE" channel supported versions \[1\.33\.2-gke\.4655000, .*\]\.',
        ),
        ({"initial_cluster_version": "1.31"}, r'No valid versions with the prefix "1\.31" found\.'),
        ({"node_pools": []}, r"Cluster\.initial_node_count must be greater than zero\."),
        ({"node_pools": [pool("same"), pool("same")]}, 'Node pool name "same" is not unique'),
        ({"node_pools": [pool("less", initial_node_count=-1)]}, "Node count -1 is invalid"),
        (
            {"node_pools": [pool("new", version=NEW)], "initial_cluster_version": OLD},
            "greater minor version",
        ),
        (
            {
                "node_pools": [
                    pool(
                        "both", autoscaling={"enabled": True, "max_node_count": 2, "total_max_node_count": 4}
                    )
                ]
            },
            "mutually exclusive",
        ),
        (
            {"node_pools": [pool("bare", config={"taints": [{"value": "x"}]})]},
            "must have a key and an effect",
        ),
        ({"default_max_pods_constraint": {"max_pods_per_node": 300}}, "between 8 and 256, not 300"),
        (
            {"ip_allocation_policy": {"use_ip_aliases": True, "cluster_ipv4_cidr_block": "/33"}},
            "clusterIpv4Cidr",
        ),
        (
            {"ip_allocation_policy": {"use_ip_aliases": True, "cluster_ipv4_cidr_block": "10.128.0.0/16"}},
            "conflicts with an existing range",
        ),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_and_nothing_of_it_stays(
    clients: GoogleClients, fields: JSON, error: str
) -> None:
    with pytest.raises(exceptions.BadRequest, match=error):
        clients.container.create_cluster(parent=PARENT, cluster=cluster("other", **fields))
    assert [one.name for one in clients.container.list_clusters(parent=PARENT).clusters] == ["nemo-cluster"]


def test_without_a_channel_a_version_is_held_against_all_of_them(shared_rehearsal: EmulatorServer) -> None:
    """As gcloud's --release-channel=None sends it."""
    asked = {
        "name": "other",
        "network": "nemo-net",
        "initialNodeCount": 1,
        "releaseChannel": {"channel": "UNSPECIFIED"},
        "initialClusterVersion": "1.34.9-gke.1",
    }
    status, answer = shared_rehearsal.call("POST", f"/container/v1/{PARENT}/clusters", {"cluster": asked})
    assert (status, answer["error"]["message"]) == (400, 'Master version "1.34.9-gke.1" is unsupported.')


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (NEW, f'Node version "{NEW}" must not have a greater minor version than master version'),
        ("1.34.4-gke.1047000", "cannot be greater than current master version"),
        ("1.34.3-gke.1", r'Node version "1\.34\.3-gke\.1" is unsupported\.'),
        ("1.20", "No valid versions with the prefix"),
    ],
)
def test_nodes_are_never_newer_than_their_control_plane(
    clients: GoogleClients, version: str, error: str
) -> None:
    with pytest.raises(exceptions.BadRequest, match=error):
        clients.container.create_node_pool(parent=CLUSTER, node_pool=pool("newer", version=version))


def test_a_pools_older_version_stays_and_is_the_clusters_lowest(clients: GoogleClients) -> None:
    assert add(clients, "older", version=OLD).version == OLD
    got = clients.container.get_cluster(name=CLUSTER)
    assert (got.current_master_version, got.current_node_version) == ("1.34.3-gke.1245000", OLD)
    clients.wait_for_gke(clients.container.delete_node_pool(name=f"{CLUSTER}/nodePools/older"))
    assert clients.container.get_cluster(name=CLUSTER).current_node_version == "1.34.3-gke.1245000"


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("1.33", "cannot downgrade"),
        ("1.36.1-gke.1", 'must be one of "REGULAR" channel supported'),
    ],
)
def test_a_control_plane_goes_to_what_its_channel_has_and_never_back(
    clients: GoogleClients, version: str, error: str
) -> None:
    with pytest.raises(exceptions.BadRequest, match=error):
        clients.container.update_master(request={"name": CLUSTER, "master_version": version})


def test_a_channel_that_lacks_the_clusters_version_is_refused(
    clients: GoogleClients, shared_rehearsal: EmulatorServer
) -> None:
    newest = cluster("newest", initial_cluster_version="1.35", release_channel={"channel": "RAPID"})
    clients.wait_for_gke(clients.container.create_cluster(parent=PARENT, cluster=newest))
    path = f"/container/v1/{PARENT}/clusters/newest"
    update = {"update": {"desiredReleaseChannel": {"channel": "STABLE"}}}
    status, answer = shared_rehearsal.call("PUT", path, update)
    assert status == 400 and 'one of "STABLE" channel supported versions' in answer["error"]["message"]
    clients.wait_for_gke(clients.container.delete_cluster(name=f"{PARENT}/clusters/newest"))


def test_nodes_are_counted_by_zone_and_follow_the_zones(
    clients: GoogleClients, shared_rehearsal: EmulatorServer
) -> None:
    add(clients, "moving", initial_node_count=2, locations=["us-central1-a"])
    before = clients.container.get_cluster(name=CLUSTER).current_node_count
    name = f"{CLUSTER}/nodePools/moving"
    places = ["us-central1-a", "us-central1-c", "us-central1-f"]
    wide = {"name": name, "node_version": "", "image_type": "", "locations": places}
    clients.wait_for_gke(clients.container.update_node_pool(request=wide))
    assert clients.container.get_cluster(name=CLUSTER).current_node_count == before + 4
    assert counts(shared_rehearsal, "moving") == (3, 3)
    clients.wait_for_gke(clients.container.update_node_pool(request={**wide, "locations": ["us-central1-f"]}))
    assert clients.container.get_cluster(name=CLUSTER).current_node_count == before
    with pytest.raises(exceptions.BadRequest, match="does not belong to region"):
        clients.container.update_node_pool(request={**wide, "locations": ["us-east4-b"]})
    clients.wait_for_gke(clients.container.delete_node_pool(name=name))


def test_a_clusters_zones_take_along_the_pools_that_stand_in_them(
    clients: GoogleClients, shared_rehearsal: EmulatorServer
) -> None:
    add(clients, "elsewhere", locations=["us-central1-f"])
    two = {"name": CLUSTER, "update": {"desired_locations": ["us-central1-a", "us-central1-b"]}}
    clients.wait_for_gke(clients.container.update_cluster(request=two))
    assert counts(shared_rehearsal, "default-pool") == (2, 2)
    assert counts(shared_rehearsal, "elsewhere") == (1, 1)
    assert clients.container.get_cluster(name=CLUSTER).current_node_count == 3
    path = f"/container/v1/{CLUSTER}:setLocations"
    places = [f"us-central1-{letter}" for letter in "abc"]
    status, operation = shared_rehearsal.call("POST", path, {"locations": places})
    assert status == 200
    clients.wait_for_gke(container_v1.Operation(name=operation["name"]))
    assert counts(shared_rehearsal, "default-pool") == (3, 3)
    clients.wait_for_gke(clients.container.delete_node_pool(name=f"{CLUSTER}/nodePools/elsewhere"))


@pytest.mark.parametrize(("most", "length"), [(8, 28), (16, 27), (32, 26), (64, 25), (110, 24), (256, 23)])
def test_pods_a_node_decide_the_nodes_range(clients: GoogleClients, most: int, length: int) -> None:
    got = add(clients, f"pods-{most}", initial_node_count=0, max_pods_constraint={"max_pods_per_node": most})
    assert got.pod_ipv4_cidr_size == length


def test_a_stale_etag_is_aborted_and_a_stale_policy_refused(
    clients: GoogleClients, shared_rehearsal: EmulatorServer
) -> None:
    update = {"update": {"desiredLoggingService": "none", "etag": "stale"}}
    status, answer = shared_rehearsal.call("PUT", f"/container/v1/{CLUSTER}", update)
    assert (status, answer["error"]["status"]) == (409, "ABORTED")
    policy = {"window": {"daily_maintenance_window": {"start_time": "03:00"}}}
    clients.wait_for_gke(
        clients.container.set_maintenance_policy(
            request={"name": CLUSTER, "maintenance_policy": {**policy, "resource_version": "e3b0c442"}}
        )
    )
    now = clients.container.get_cluster(name=CLUSTER).maintenance_policy.resource_version
    assert now != "e3b0c442"
    with pytest.raises(exceptions.BadRequest, match="resource version mismatch"):
        clients.container.set_maintenance_policy(
            request={"name": CLUSTER, "maintenance_policy": {**policy, "resource_version": "e3b0c442"}}
        )


def test_additional_networks_are_looked_at_one_by_one(clients: GoogleClients) -> None:
    profile = f"projects/{PROJECT}/global/networkProfiles/{ZONE}-vpc-roce"
    roce = compute_v1.Network(name="rdma", auto_create_subnetworks=False, network_profile=profile)
    clients.wait_for_success(clients.compute("Networks").insert_unary(project=PROJECT, network_resource=roce))
    network(clients, "gvnic", auto_create_subnetworks=False)
    clients.wait_for_success(subnet(clients, "rdma-0", "rdma", "192.168.1.0/24"))
    clients.wait_for_success(subnet(clients, "gvnic-0", "gvnic", "192.168.2.0/24"))
    clients.wait_for_success(subnet(clients, "gvnic-east", "gvnic", "192.168.3.0/24", "us-east4"))

    def refused(*pairs: tuple[str, str], **fields: Any) -> str:
        listed = [{"network": net, "subnetwork": sub} for net, sub in pairs]
        wired = gpu_pool("wired", network_config={"additional_node_network_configs": listed}, **fields)
        with pytest.raises(exceptions.BadRequest) as refusal:
            clients.container.create_node_pool(parent=CLUSTER, node_pool=wired)
        return str(refusal.value)

    assert 'does not belong to network "gvnic"' in refused(("gvnic", "rdma-0"))
    assert "already attached" in refused(("gvnic", "gvnic-0"), ("gvnic", "gvnic-0"))
    assert "already attached" in refused(("nemo-net", "nemo-net"))
    assert "does not exist in region" in refused(("gvnic", "gvnic-east"))
    cpu = {"config": {"machine_type": "n2-highmem-8"}, "locations": ["us-central1-a"]}
    assert f'network profile of zone "{ZONE}"' in refused(("rdma", "rdma-0"), **cpu)
    good = [{"network": "gvnic", "subnetwork": "gvnic-0"}, {"network": "rdma", "subnetwork": "rdma-0"}]
    clients.wait_for_gke(
        clients.container.create_node_pool(
            parent=CLUSTER,
            node_pool=gpu_pool("wired", network_config={"additional_node_network_configs": good}),
        )
    )
    with pytest.raises(exceptions.BadRequest, match=f"already being used by '{CLUSTER}/nodePools/wired'"):
        clients.compute("Subnetworks").delete_unary(project=PROJECT, region=REGION, subnetwork="rdma-0")
