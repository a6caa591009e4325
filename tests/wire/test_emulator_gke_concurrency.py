"""The emulator's GKE during operations: which may run concurrently, upgrades node by node, kills in the
middle.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator, stop_emulator
from google.api_core import exceptions
from google.cloud import container_v1
from google_clients import APIS, CLUSTER, PARENT, GoogleClients, cluster, gpu_pool, network
from kube_test_server import kubectl_binary, wait_until

SPEED = "400"
MASTER, OLD, NEXT = "1.34.3-gke.1245000", "1.34.1-gke.3971000", "1.35.1-gke.1396000"
INCOMPATIBLE = "Cluster is running incompatible operation"
JSON = dict[str, Any]


class Kubectl:
    """The real kubectl with a kubeconfig built from what GKE says."""

    def __init__(self, clients: GoogleClients, server: EmulatorServer, folder: Path) -> None:
        got = clients.container.get_cluster(name=CLUSTER)
        ca, self.path = got.master_auth.cluster_ca_certificate, folder / "kubeconfig"
        self.endpoint = str(got.endpoint)
        self.path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [
                        {
                            "name": "c",
                            "cluster": {
                                "server": f"https://{got.endpoint}",
                                "certificate-authority-data": ca,
                            },
                        }
                    ],
                    "users": [{"name": "u", "user": {"token": server.token}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                }
            )
        )

    def __call__(self, *words: str) -> str:
        environment = {"PATH": os.environ.get("PATH", ""), "KUBECONFIG": str(self.path)}
        return subprocess.run(
            [kubectl_binary(), *words],
            env=environment | {"HOME": str(self.path.parent)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout

    def nodes(self, pool: str) -> dict[str, str]:
        """Name -> kubelet's version."""
        listed = json.loads(self("get", "nodes", "-l", f"cloud.google.com/gke-nodepool={pool}", "-o", "json"))
        return {
            one["metadata"]["name"]: one["status"]["nodeInfo"]["kubeletVersion"] for one in listed["items"]
        }


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(exceptions.BadRequest) as refusal:
        call()
    return str(refusal.value)


def pool(name: str, **fields: Any) -> container_v1.NodePool:
    config = {"machine_type": "n2-highmem-8"}
    return container_v1.NodePool(**{"name": name, "initial_node_count": 1, "config": config, **fields})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    started = start_emulator(tmp_path_factory.mktemp("busy") / "home", speed=SPEED, ray="none")
    yield started
    stop_emulator(started)


@pytest.fixture(scope="module")
def clients(server: EmulatorServer) -> GoogleClients:
    server.enable(*APIS)
    made = GoogleClients(server)

    def felt() -> bool:
        with contextlib.suppress(exceptions.Forbidden):
            network(made, "nemo-net")
            return True
        return False

    wait_until(felt)
    return made


def test_while_a_cluster_is_made_nothing_else_is_done_to_it(clients: GoogleClients) -> None:
    first = pool("default-pool", version=OLD, max_pods_constraint={"max_pods_per_node": 32})
    asked = cluster(initial_cluster_version=MASTER, node_pools=[first])
    operation = clients.container.create_cluster(parent=PARENT, cluster=asked)
    gke, name = clients.container, {"name": CLUSTER}
    label = {**name, "resource_labels": {"a": "b"}, "label_fingerprint": "a9dc16a7"}
    scale = {"name": f"{CLUSTER}/nodePools/default-pool", "autoscaling": {"enabled": False}}
    for refusal in (
        refused(lambda: gke.create_node_pool(parent=CLUSTER, node_pool=pool("early"))),
        refused(lambda: gke.set_labels(request=label)),
        refused(lambda: gke.update_cluster(request={**name, "update": {"desired_logging_service": "none"}})),
        refused(lambda: gke.set_node_pool_autoscaling(request=scale)),
        refused(lambda: gke.delete_cluster(name=CLUSTER)),
    ):
        assert (
            f"Operation {operation.name} is currently creating cluster nemo-cluster. Please wait" in refusal
        )
    with pytest.raises(exceptions.Conflict):
        gke.create_cluster(parent=PARENT, cluster=cluster())
    with pytest.raises(exceptions.BadRequest, match="Operation type CREATE_CLUSTER cannot be cancelled"):
        gke.cancel_operation(request={"name": f"{PARENT}/operations/{operation.name}"})
    assert not clients.wait_for_gke(operation).error.message


def test_pools_are_worked_on_beside_each_other_and_the_whole_cluster_waits_for_them(
    clients: GoogleClients,
) -> None:
    gke = clients.container
    first = gke.create_node_pool(parent=CLUSTER, node_pool=pool("first"))
    second = gke.create_node_pool(parent=CLUSTER, node_pool=pool("second"))
    name = f"{CLUSTER}/nodePools/first"
    assert f"{INCOMPATIBLE} {first.name}." in refused(lambda: gke.delete_node_pool(name=name))
    grow = {"name": name, "node_count": 2}
    assert f"{INCOMPATIBLE} {first.name}." in refused(lambda: gke.set_node_pool_size(request=grow))
    update = {"name": CLUSTER, "update": {"desired_logging_service": "none"}}
    for refusal in (
        refused(lambda: gke.delete_cluster(name=CLUSTER)),
        refused(lambda: gke.update_cluster(request=update)),
    ):
        assert f"{INCOMPATIBLE} {first.name}." in refusal
    assert gke.get_cluster(name=CLUSTER).status.name == "RUNNING"
    for operation in (first, second):
        assert not clients.wait_for_gke(operation).error.message
    gone = gke.delete_node_pool(name=name)
    doing = "is currently deleting a node pool for cluster nemo-cluster"
    assert f"Operation {gone.name} {doing}" in refused(lambda: gke.set_node_pool_size(request=grow))
    clients.wait_for_gke(gone)


def test_more_than_five_at_once_are_too_many(clients: GoogleClients) -> None:
    gke = clients.container
    started = [gke.create_node_pool(parent=CLUSTER, node_pool=pool(f"many-{i}")) for i in range(5)]
    with pytest.raises(exceptions.TooManyRequests, match="hits the concurrent operations quota 5"):
        gke.create_node_pool(parent=CLUSTER, node_pool=pool("many-6"))
    for operation in started:
        clients.wait_for_gke(operation)
    for operation in [gke.delete_node_pool(name=f"{CLUSTER}/nodePools/many-{i}") for i in range(5)]:
        clients.wait_for_gke(operation)


def test_a_pools_nodes_are_replaced_one_by_one_up_to_the_control_planes_version(
    clients: GoogleClients, server: EmulatorServer, tmp_path: Path
) -> None:
    kubectl = Kubectl(clients, server, tmp_path)
    before = wait_until(lambda: len(found := kubectl.nodes("default-pool")) == 3 and found)
    assert set(before.values()) == {f"v{OLD}"}
    rooms = kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.allocatable.pods}")
    assert set(rooms.split()) >= {"32"}
    update = {"name": f"{CLUSTER}/nodePools/default-pool", "node_version": "-", "image_type": ""}
    operation = clients.container.update_node_pool(request=update)
    where = {"name": f"{PARENT}/operations/{operation.name}"}
    seen, mixed = [], set()
    while (found := clients.container.get_operation(request=where)).status.name != "DONE":
        counts = {one.name: one.int_value for one in found.progress.metrics}
        seen.append((counts["NODES_DONE"], found.detail))
        nodes = kubectl.nodes("default-pool")
        mixed.add(len([one for one in nodes.values() if one == f"v{MASTER}"]))
        assert len(nodes) == 3
    assert [done for done, _ in seen] == sorted(done for done, _ in seen) and {1, 2} <= {n for n, _ in seen}
    assert any(
        "done with 1 out of 3 nodes (33.3%): 1 being processed, 1 succeeded" in text for _, text in seen
    )
    assert {1, 2} & mixed, "between two nodes there is a moment with both versions"
    after = wait_until(
        lambda: set((found := kubectl.nodes("default-pool")).values()) == {f"v{MASTER}"} and found
    )
    assert not set(before) & set(after) and len(after) == 3
    got = clients.container.get_cluster(name=CLUSTER)
    assert got.current_node_version == MASTER


def test_the_control_plane_is_upgraded_while_nothing_else_is_done_and_kubectl_sees_it(
    clients: GoogleClients, server: EmulatorServer, tmp_path: Path
) -> None:
    gke = clients.container
    operation = gke.update_master(request={"name": CLUSTER, "master_version": NEXT})
    busy = refused(lambda: gke.create_node_pool(parent=CLUSTER, node_pool=pool("late")))
    assert f"Operation {operation.name} is currently upgrading cluster nemo-cluster" in busy
    clients.wait_for_gke(operation)
    kubectl = Kubectl(clients, server, tmp_path)
    assert json.loads(kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"] == f"v{NEXT}"
    assert set(kubectl.nodes("default-pool").values()) == {f"v{MASTER}"}
    back = {"name": CLUSTER, "master_version": MASTER}
    assert "cannot downgrade" in refused(lambda: gke.update_master(request=back))


def _saved_nodes(server: EmulatorServer, version: str) -> set[str]:
    """The names of the nodes of a kubelet version in the saved state."""
    saved = json.loads((server.home / "rehearsal" / "world.json").read_bytes())
    clusters = [record["extra"]["kube"] for record in saved["records"] if "kube" in record["extra"]]
    nodes = [node for kube in clusters for node in dict(kube["store"]["objects"]).get("nodes", [])]
    return {n["metadata"]["name"] for n in nodes if n["status"]["nodeInfo"]["kubeletVersion"] == version}


def test_a_server_killed_between_two_nodes_renews_the_rest(
    clients: GoogleClients, server: EmulatorServer
) -> None:
    kubectl = Kubectl(clients, server, server.home)
    before = kubectl.nodes("default-pool")
    update = {"name": f"{CLUSTER}/nodePools/default-pool", "node_version": NEXT, "image_type": ""}
    operation = clients.container.update_node_pool(request=update)
    wait_until(lambda: f"v{NEXT}" in kubectl.nodes("default-pool").values())
    renewed = {name for name, version in kubectl.nodes("default-pool").items() if version == f"v{NEXT}"}
    wait_until(lambda: renewed <= _saved_nodes(server, f"v{NEXT}"))
    os.kill(server.address.pid, signal.SIGKILL)
    again = start_emulator(server.home, speed=SPEED, ray="none")
    anew = GoogleClients(again)
    assert (again.token, again.base_url) == (server.token, server.base_url)
    assert not anew.wait_for_gke(operation).error.message
    found = wait_until(lambda: set((now := kubectl.nodes("default-pool")).values()) == {f"v{NEXT}"} and now)
    assert renewed <= set(found) and not set(before) & set(found), "no node was replaced twice"
    assert Kubectl(anew, again, server.home).endpoint == kubectl.endpoint


def test_a_cluster_is_deleted_once_its_pools_rest_and_its_name_is_free_when_it_is_gone(
    clients: GoogleClients,
) -> None:
    asked = gpu_pool("short", 1, autoscaling={})
    operation = clients.container.create_node_pool(parent=CLUSTER, node_pool=asked)
    assert INCOMPATIBLE in refused(lambda: clients.container.delete_cluster(name=CLUSTER))
    clients.wait_for_gke(operation)
    gone = clients.container.delete_cluster(name=CLUSTER)
    assert "is currently deleting cluster" in refused(lambda: clients.container.delete_cluster(name=CLUSTER))
    with pytest.raises(exceptions.Conflict):
        clients.container.create_cluster(parent=PARENT, cluster=cluster())
    clients.wait_for_gke(gone)
    with pytest.raises(exceptions.NotFound):
        clients.container.get_cluster(name=CLUSTER)


def test_a_resize_that_runs_out_of_stock_leaves_the_nodes_that_stand_and_says_so(tmp_path: Path) -> None:
    error = {
        "code": 8,
        "message": "Not all instances running in IGM: [GCE_STOCKOUT]: no capacity in us-central1-b.",
    }
    match = {"service": "container.googleapis.com", "method": "POST", "path": "*:setSize", "nth": 1}
    faults = tmp_path / "faults.json"
    faults.write_text(json.dumps([{"match": match, "do": {"operation_error": error}}]))
    server = start_emulator(tmp_path / "home", ray="none", faults=faults)
    try:
        server.enable(*APIS)
        made = GoogleClients(server)
        network(made, "nemo-net")
        made.wait_for_gke(made.container.create_cluster(parent=PARENT, cluster=cluster()))
        grow = {"name": f"{CLUSTER}/nodePools/default-pool", "node_count": 2}
        done = made.wait_for_gke(made.container.set_node_pool_size(request=grow))
        got = made.container.get_node_pool(name=grow["name"])
        assert "GCE_STOCKOUT" in done.status_message and done.error.code == 8
        assert (got.status.name, got.conditions[0].code.name) == ("RUNNING_WITH_ERROR", "GCE_STOCKOUT")
        assert made.container.get_cluster(name=CLUSTER).current_node_count == 3
        assert not made.wait_for_gke(made.container.set_node_pool_size(request=grow)).status_message
        got = made.container.get_node_pool(name=grow["name"])
        assert got.status.name == "RUNNING" and not got.conditions and not got.status_message
        assert made.container.get_cluster(name=CLUSTER).current_node_count == 6
    finally:
        stop_emulator(server)
