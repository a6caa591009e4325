"""The emulator's GKE, used through Google's Python client over HTTP."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from emulator_server import EmulatorServer, start_emulator, wait_until
from google.api_core import exceptions
from google.cloud import container_v1
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
)

from grpo_wizard.steps.emulator import process


def _ready(server: EmulatorServer) -> GoogleClients:
    server.enable(*APIS)
    clients = GoogleClients(server)
    for _ in range(200):  # an API is felt some time after it is enabled
        with contextlib.suppress(exceptions.Forbidden):
            network(clients, "nemo-net")
            return clients
        time.sleep(0.05)
    raise AssertionError("the APIs are not felt")


@pytest.fixture(scope="module")
def clients(shared_rehearsal: EmulatorServer) -> GoogleClients:
    made = _ready(shared_rehearsal)
    made.wait_for_gke(made.container.create_cluster(parent=PARENT, cluster=cluster()))
    return made


def test_a_regional_cluster_has_three_zones_and_one_node_in_each(clients: GoogleClients) -> None:
    got = clients.container.get_cluster(name=CLUSTER)
    assert got.status.name == "RUNNING"
    assert list(got.locations) == ["us-central1-a", "us-central1-b", "us-central1-c"]
    assert got.current_node_count == 3
    assert got.addons_config.ray_operator_config.enabled and got.network_config.enable_multi_networking


def test_its_kubernetes_answers_at_the_endpoint_with_the_ca_that_it_names(
    clients: GoogleClients, shared_rehearsal: EmulatorServer
) -> None:
    got = clients.container.get_cluster(name=CLUSTER)
    context = ssl.create_default_context(
        cadata=base64.b64decode(got.master_auth.cluster_ca_certificate).decode()
    )
    request = urllib.request.Request(
        f"https://{got.endpoint}/version", headers={"Authorization": f"Bearer {shared_rehearsal.token}"}
    )
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    with opener.open(request, timeout=30) as response:
        assert "gke" in json.loads(response.read())["gitVersion"]


def test_a_second_cluster_of_that_name_is_409(clients: GoogleClients) -> None:
    with pytest.raises(exceptions.Conflict, match=f"Already exists: {CLUSTER}"):
        clients.container.create_cluster(parent=PARENT, cluster=cluster())


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "Nemo_Cluster"}, "cluster.name"),
        ({"name": "a" * 41}, "cluster.name"),
        ({"network": "no-net"}, "does not have an auto-mode subnetwork"),
        ({"initial_cluster_version": "1.29"}, "No valid versions with the prefix"),
        ({"locations": ["us-east4-b"]}, "does not belong to region"),
        ({"network_config": {"enable_multi_networking": True}}, "requires Dataplane V2"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(
    clients: GoogleClients, fields: dict[str, object], error: str
) -> None:
    with pytest.raises(exceptions.GoogleAPICallError, match=error):
        clients.container.create_cluster(parent=PARENT, cluster=cluster(**{"name": "other", **fields}))


def test_more_cpus_than_the_quota_holds_are_refused_as_gke_words_it(clients: GoogleClients) -> None:
    pool = {"name": "default-pool", "initial_node_count": 10, "config": {"machine_type": "n2-highmem-80"}}
    with pytest.raises(
        exceptions.Forbidden, match=r"""resource "N2_CPUS": request requires '2400\.0' and is short"""
    ):
        clients.container.create_cluster(parent=PARENT, cluster=cluster("greedy", node_pools=[pool]))


def test_server_config_offers_every_channel(clients: GoogleClients) -> None:
    config = clients.container.get_server_config(name=PARENT)
    channels = {one.channel.name: list(one.valid_versions) for one in config.channels}
    assert set(channels) == {"RAPID", "REGULAR", "STABLE", "EXTENDED"}
    assert all(
        version.startswith(("1.33.", "1.34.", "1.35."))
        for versions in channels.values()
        for version in versions
    )
    assert config.default_cluster_version in config.valid_master_versions


def test_a_pool_from_zero_is_made_without_looking_at_the_reservation(clients: GoogleClients) -> None:
    clients.wait_for_gke(
        clients.container.create_node_pool(
            parent=CLUSTER, node_pool=gpu_pool("from-zero", reservation="not-there")
        )
    )
    got = clients.container.get_node_pool(name=f"{CLUSTER}/nodePools/from-zero")
    assert (got.status.name, got.initial_node_count, got.autoscaling.total_max_node_count) == (
        "RUNNING",
        0,
        2,
    )
    with pytest.raises(exceptions.Conflict):
        clients.container.create_node_pool(parent=CLUSTER, node_pool=gpu_pool("from-zero"))


def test_a_pool_with_nodes_takes_them_from_the_reservation_and_gives_them_back(
    clients: GoogleClients,
) -> None:
    def used() -> int:
        return int(
            clients.compute("Reservations")
            .get(project=PROJECT, zone=ZONE, reservation="nemo-res")
            .specific_reservation.in_use_count
        )

    before = used()
    clients.wait_for_gke(
        clients.container.create_node_pool(parent=CLUSTER, node_pool=gpu_pool("three", 3, autoscaling={}))
    )
    assert used() == before + 3
    with pytest.raises(
        exceptions.TooManyRequests,
        match='specific reservation "nemo-res" is insufficient for node pool "more" at zone '
        '"us-central1-b": required 2 and short of 1 VM count of machine type a4-highgpu-8g',
    ):
        clients.container.create_node_pool(parent=CLUSTER, node_pool=gpu_pool("more", 2, autoscaling={}))
    clients.wait_for_gke(
        clients.container.set_node_pool_size(request={"name": f"{CLUSTER}/nodePools/three", "node_count": 1})
    )
    assert used() == before + 1
    clients.wait_for_gke(clients.container.delete_node_pool(name=f"{CLUSTER}/nodePools/three"))
    assert used() == before


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (
            {"locations": ["us-central1-a"]},
            'Machine type with name "a4-highgpu-8g" does not exist in zone "us-central1-a"',
        ),
        ({"name": "GPU"}, "node_pool.name"),
        (
            {
                "network_config": {
                    "additional_node_network_configs": [{"network": "gone", "subnetwork": "gone"}]
                }
            },
            'Network "gone" does not exist',
        ),
        (
            {"autoscaling": {"enabled": True, "total_min_node_count": 3, "total_max_node_count": 2}},
            "must not exceed",
        ),
    ],
)
def test_a_pool_that_cannot_be_is_refused(
    clients: GoogleClients, fields: dict[str, object], error: str
) -> None:
    with pytest.raises(exceptions.BadRequest, match=error):
        clients.container.create_node_pool(parent=CLUSTER, node_pool=gpu_pool(**{"name": "bad", **fields}))


def test_labels_addons_and_autoscaling_change_and_are_read_back(clients: GoogleClients) -> None:
    fingerprint = clients.container.get_cluster(name=CLUSTER).label_fingerprint
    request = {"name": CLUSTER, "resource_labels": {"team": "rl"}, "label_fingerprint": fingerprint}
    clients.wait_for_gke(clients.container.set_labels(request=request))
    addons = {
        "desired_addons_config": {
            "lustre_csi_driver_config": {"enabled": True, "enable_legacy_lustre_port": True}
        }
    }
    clients.wait_for_gke(clients.container.update_cluster(request={"name": CLUSTER, "update": addons}))
    got = clients.container.get_cluster(name=CLUSTER)
    assert (
        got.resource_labels == {"team": "rl"}
        and got.addons_config.lustre_csi_driver_config.enable_legacy_lustre_port
    )
    assert got.addons_config.ray_operator_config.enabled
    with pytest.raises(exceptions.PreconditionFailed):
        clients.container.set_labels(request={**request, "label_fingerprint": "stale"})


def test_deleting_leaves_one_firewall_rule_behind_that_holds_the_network(tmp_path: Path) -> None:
    server = start_emulator(tmp_path / "home", ray="none")
    try:
        clients = _ready(server)
        clients.wait_for_gke(clients.container.create_cluster(parent=PARENT, cluster=cluster()))
        clients.wait_for_gke(clients.container.delete_cluster(name=CLUSTER))
        with pytest.raises(exceptions.NotFound):
            clients.container.get_cluster(name=CLUSTER)
        (left,) = clients.compute("Firewalls").list(project=PROJECT)
        assert left.name.startswith("k8s-")
        with pytest.raises(
            exceptions.BadRequest,
            match=f"already being used by 'projects/my-project/global/firewalls/{left.name}'",
        ):
            clients.compute("Networks").delete_unary(project=PROJECT, network="nemo-net")
        clients.wait_for_success(
            clients.compute("Firewalls").delete_unary(project=PROJECT, firewall=left.name)
        )
        clients.wait_for_success(
            clients.compute("Networks").delete_unary(project=PROJECT, network="nemo-net")
        )
        assert [row for row in server.cloud_resources() if not row["kept_by_design"]] == []
    finally:
        process.stop(server.home)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[EmulatorServer]:
    """A world in which a cluster takes some seconds, and whose first pool runs into a stock-out."""
    error = {
        "code": 8,
        "message": "Google Compute Engine: Not all instances running in IGM. Expected 2, running 0. "
        "Current errors: [GCE_STOCKOUT]: no capacity in us-central1-b.",
    }
    faults = tmp_path / "faults.json"
    faults.write_text(
        json.dumps(
            [
                {
                    "match": {
                        "service": "container.googleapis.com",
                        "method": "POST",
                        "path": "*/nodePools",
                        "nth": 1,
                    },
                    "do": {"operation_error": error},
                }
            ]
        )
    )
    server = start_emulator(tmp_path / "home", speed="600", faults=faults, ray="none")
    yield server
    process.stop(server.home)


def test_while_a_cluster_is_made_it_is_busy_and_counts_its_progress_and_a_stockout_leaves_a_pool_in_error(
    slow: EmulatorServer,
) -> None:
    clients = _ready(slow)
    operation = clients.container.create_cluster(parent=PARENT, cluster=cluster())
    assert clients.container.get_cluster(name=CLUSTER).status.name == "PROVISIONING"
    with pytest.raises(
        exceptions.BadRequest, match=f"Operation {operation.name} is currently creating cluster nemo-cluster"
    ):
        clients.container.delete_cluster(name=CLUSTER)
    name = f"{PARENT}/operations/{operation.name}"
    seen = set()
    while (found := clients.container.get_operation(name=name)).status.name != "DONE":
        seen.add(
            next(
                metric.int_value for metric in found.progress.metrics if metric.name == "CLUSTER_CONFIGURING"
            )
        )
        time.sleep(0.05)
    assert len(seen) > 3 and max(seen) <= 12
    done = clients.wait_for_gke(
        clients.container.create_node_pool(parent=CLUSTER, node_pool=gpu_pool(nodes=2, autoscaling={}))
    )
    pool = clients.container.get_node_pool(name=f"{CLUSTER}/nodePools/gpu-pool")
    assert "GCE_STOCKOUT" in done.status_message and done.error.code == 8
    assert (pool.status.name, pool.conditions[0].code.name) == ("ERROR", "GCE_STOCKOUT")
    reservation = clients.compute("Reservations").get(project=PROJECT, zone=ZONE, reservation="nemo-res")
    assert reservation.specific_reservation.in_use_count == 0
    with pytest.raises(exceptions.Conflict):
        clients.container.create_node_pool(parent=CLUSTER, node_pool=gpu_pool())


def _configured(clients: GoogleClients, operation: container_v1.Operation) -> int:
    """The progress of a cluster's creation, as its operation reports it."""
    found = clients.container.get_operation(name=f"{PARENT}/operations/{operation.name}")
    return max((m.int_value for m in found.progress.metrics if m.name == "CLUSTER_CONFIGURING"), default=0)


def test_a_server_killed_while_a_cluster_is_made_ends_it_after_its_restart(tmp_path: Path) -> None:
    import os
    import signal

    home = tmp_path / "home"
    server = start_emulator(home, speed="300", ray="none")
    clients = _ready(server)
    operation = clients.container.create_cluster(parent=PARENT, cluster=cluster())
    wait_until(lambda: _configured(clients, operation) > 0)
    assert not clients.container.get_operation(name=f"{PARENT}/operations/{operation.name}").end_time
    os.kill(server.address.pid, signal.SIGKILL)
    server = start_emulator(home, speed="300", ray="none")
    try:
        clients = GoogleClients(server)
        assert not clients.wait_for_gke(operation).error.message
        got = clients.container.get_cluster(name=CLUSTER)
        assert got.status == container_v1.Cluster.Status.RUNNING and got.endpoint and got.location == REGION
    finally:
        process.stop(home)
