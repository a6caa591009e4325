"""Things that others put into what is ours: destroy says what is in its way, and nothing of theirs goes with ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_harness import DESTROY, CliHarness, DeploymentRecord, cli_harness, remaining_resources

COMPUTE = "/compute/v1/projects/my-project"
CLUSTERS = "/container/v1/projects/my-project/locations/us-central1/clusters"
ON_NEMO_NET = {"network": "projects/my-project/global/networks/nemo-net"}


def made(walk: CliHarness, path: str, body: dict[str, object]) -> None:
    status, answer = walk.server.call("POST", path, body)
    assert status == 200, answer


def names(walk: CliHarness) -> set[tuple[str, str]]:
    return {(row["kind"], row["name"]) for row in remaining_resources(walk.server.cloud_resources())}


def test_a_strangers_pool_rule_and_subnet_stay_and_are_named(
    deployed: DeploymentRecord, tmp_path: Path
) -> None:
    pool = {"nodePool": {"name": "strangers-pool", "initialNodeCount": 0}}
    rule = {"name": "gke-nemo-cluster-deadbeef-all", **ON_NEMO_NET, "allowed": [{"IPProtocol": "icmp"}]}
    subnet = {"name": "strangers-sub", **ON_NEMO_NET, "ipCidrRange": "172.30.0.0/24"}
    with cli_harness(deployed.copy(tmp_path / "home")) as walk:
        made(walk, f"{CLUSTERS}/nemo-cluster/nodePools", pool)
        made(walk, f"{COMPUTE}/global/firewalls", rule)
        made(walk, f"{COMPUTE}/regions/us-central1/subnetworks", subnet)
        failed = {entry["id"]: entry for entry in walk.events(*DESTROY, code=1)[-1]["failed"]}
        held = failed["cluster.cluster.nemo-cluster"]
        assert "node pools that this deployment did not create" in held["title"]
        assert "strangers-pool" in held["detail"]
        assert {("cluster", "nemo-cluster"), ("node_pool", "strangers-pool")} <= names(walk)
        walk.server.call("DELETE", f"{CLUSTERS}/nemo-cluster/nodePools/strangers-pool")
        failed = {entry["id"]: entry for entry in walk.events(*DESTROY, code=1)[-1]["failed"]}
        assert set(failed) == {"networks.network.nemo-net"}
        assert rule["name"] in failed["networks.network.nemo-net"]["detail"]
        theirs = {("subnet", "strangers-sub"), ("firewall", "gke-nemo-cluster-deadbeef-all")}
        assert names(walk) == {("network", "nemo-net"), *theirs}
        walk.server.call("DELETE", f"{COMPUTE}/global/firewalls/{rule['name']}")
        failed = {entry["id"]: entry for entry in walk.events(*DESTROY, code=1)[-1]["failed"]}
        assert "strangers-sub" in failed["networks.network.nemo-net"]["detail"]
        walk.server.call("DELETE", f"{COMPUTE}/regions/us-central1/subnetworks/strangers-sub")
        assert walk.events(*DESTROY)[-1]["ok"] and names(walk) == set()


def replace_the_cluster(walk: CliHarness) -> None:
    """Somebody deletes ours and makes one of its name, without Ray's operator."""
    for pool in ("gpu-pool", ""):
        walk.server.call("DELETE", f"{CLUSTERS}/nemo-cluster" + (f"/nodePools/{pool}" if pool else ""))
    body = {"cluster": {"name": "nemo-cluster", "network": "nemo-net", "initialNodeCount": 1}}
    made(walk, CLUSTERS, body)


def test_a_strangers_cluster_of_our_name_without_rays_operator_is_looked_at(
    deployed: DeploymentRecord, tmp_path: Path
) -> None:
    with cli_harness(deployed.copy(tmp_path / "home")) as walk:
        replace_the_cluster(walk)
        rows = {row["id"]: row for row in walk.json("status")["resources"]}
        assert rows["cluster.cluster.nemo-cluster"]["origin"] == "none"
        assert rows["raycluster.raycluster.ray-cluster-kuberay"]["state"] == "absent"


@pytest.mark.heavy
def test_a_strangers_cluster_on_our_network_is_waited_for_and_all_else_of_ours_goes(
    deployed: DeploymentRecord, tmp_path: Path
) -> None:
    """Three minutes: for so long a rehearsal at any speed waits for what is in use."""
    with cli_harness(deployed.copy(tmp_path / "home")) as walk:
        replace_the_cluster(walk)
        walk.events(*DESTROY, code=1)
        assert names(walk) == {
            ("cluster", "nemo-cluster"),
            ("node_pool", "default-pool"),
            ("network", "nemo-net"),
        }
