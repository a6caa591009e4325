"""Through the real commands: old project ids, AI zones, blocks, capacity other than a reservation, and things that are there already."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from check_harness import CheckHarness
from cli_harness import NAME, CliHarness, cli_harness

from grpo_wizard.steps.project.permissions import APIS

JSON = dict[str, Any]
OLD = "example.com:my-proj"
POOLS = "/nodePools"
ENUMS = {"consumeReservationType": {1: "NO_RESERVATION"}, "scope": {2: "NO_MINOR_OR_NODE_UPGRADES"}}
CLUSTER = {
    "name": NAME,
    "network": "nemo-net",
    "initialClusterVersion": "1.35",
    "locations": ["us-central1-b"],
    "ipAllocationPolicy": {"useIpAliases": True},
    "networkConfig": {"datapathProvider": "ADVANCED_DATAPATH", "enableMultiNetworking": True},
    "addonsConfig": {"rayOperatorConfig": {"enabled": True}, "lustreCsiDriverConfig": {"enabled": True}},
    "workloadIdentityConfig": {"workloadPool": "my-project.svc.id.goog"},
    "nodePools": [
        {"name": "default-pool", "initialNodeCount": 1, "config": {"machineType": "n2-highmem-80"}}
    ],
}


def sets(**values: Any) -> list[str]:
    return [w for k, v in values.items() for w in ("--set", f"{k.replace('__', '.')}={v}")]


def sent(walk: CliHarness, ending: str) -> JSON:
    """The body of the one create request whose path ends so."""
    found = [
        r for r in walk.server.recorded_requests() if r["method"] == "POST" and r["path"].endswith(ending)
    ]
    assert len(found) == 1 and found[0]["status"] == 200, found
    body: JSON = named_enums(found[0]["body"])
    return body


def named_enums(value: Any) -> Any:
    """The SDKs send enums by number."""
    if isinstance(value, dict):
        return {
            key: ENUMS[key].get(item, item) if key in ENUMS else named_enums(item)
            for key, item in value.items()
        }
    return [named_enums(item) for item in value] if isinstance(value, list) else value


def test_an_old_project_id_with_a_domain_works_all_the_way(tmp_path: Path) -> None:
    """e01: in URLs, in the state, in the workload pool; and again, and back."""
    with cli_harness(tmp_path / "home") as walk:
        CheckHarness(walk.server).create_project(OLD)
        CheckHarness(walk.server).create_reservation("nemo-res", project=OLD)
        walk.init(*sets(project__project_id=OLD))
        events = walk.events("apply", "--yes", "--until", "cluster", "--json")
        assert events[-1]["ok"] and events[-1]["created"] > 10
        body = sent(walk, "/clusters")
        assert body["cluster"]["workloadIdentityConfig"] == {
            "workloadPool": "my-proj.example.com.svc.id.goog"
        }
        paths = {r["path"] for r in walk.server.recorded_requests()}
        assert (
            not [path for path in paths if "%3A" in path]
            and f"/compute/v1/projects/{OLD}/global/networks" in paths
        )
        again = walk.events("apply", "--yes", "--until", "cluster", "--json")
        assert again[-1]["ok"] and again[-1]["created"] == 0
        assert walk.state()["answers"]["project"]["project_id"] == OLD
        gone = walk.events("destroy", "--confirm", NAME, "--json")
        assert gone[-1]["ok"]


@pytest.mark.parametrize(
    ("capacity", "config", "label"),
    [
        ("spot", {"spot": True}, "cloud.google.com/gke-spot"),
        (
            "flex_start",
            {"flexStart": True, "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}},
            "cloud.google.com/gke-flex-start",
        ),
    ],
)
def test_capacity_without_a_reservation_asks_for_none_and_the_workers_come_up(
    tmp_path: Path, capacity: str, config: JSON, label: str
) -> None:
    with cli_harness(tmp_path / "home") as walk:
        walk.init(*sets(quotas__capacity=capacity, quotas__reservation=""))
        events = walk.events("apply", "--yes", "--until", "raycluster", "--json", "--skip-checks")
        assert events[-1]["ok"], events[-1]
        pool = sent(walk, POOLS)["nodePool"]
        asked = {k: v for k, v in pool["config"].items() if k in ("spot", "flexStart", "reservationAffinity")}
        assert asked == config
        assert pool["management"].get("autoRepair", False) == (capacity == "spot")
        ray = next(r for r in walk.server.cloud_resources() if r["kind"] == "raycluster")["spec"]
        worker = ray["spec"]["workerGroupSpecs"][0]["template"]["spec"]
        assert worker["nodeSelector"][label] == "true"
        assert {"key": label, "operator": "Exists"} in worker["tolerations"]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliHarness]:
    """A VPC and a cluster that somebody else made, named as existing ones."""
    with cli_harness(tmp_path_factory.mktemp("named") / "home") as walk:
        walk.server.enable(*APIS)
        base = "/compute/v1/projects/my-project/global/networks"
        CheckHarness(walk.server).create(base, {"name": "nemo-net", "autoCreateSubnetworks": True})
        path = "/container/v1/projects/my-project/locations/us-central1/clusters"
        CheckHarness(walk.server).create(path, {"cluster": CLUSTER})
        while walk.server.call("GET", f"{path}/{NAME}")[1]["status"] != "RUNNING":
            time.sleep(0.05)
        done = walk.run(
            "init",
            "--deployment",
            "second",
            "--answers",
            str(Path(__file__).parents[2] / "assets" / "answers-tutorial.toml"),
            *sets(
                cluster__use_existing="true",
                networks__use_existing="true",
                cluster__gpu_pool="second-pool",
                networks__gvnic_prefix="second-gvnic",
                networks__rdma_prefix="second-rdma",
                cluster__maintenance_exclusion_days=7,
            ),
        )
        assert done.returncode == 0, done.stderr
        yield walk


def test_an_existing_vpc_and_cluster_are_used_never_changed_and_never_deleted(named: CliHarness) -> None:
    second = ("--deployment", "second")
    plan = {r["id"]: r for r in named.json("plan", *second)["resources"]}
    for id in ("networks.network.nemo-net", f"cluster.cluster.{NAME}"):
        assert plan[id]["action"] == "keep" and "configured as existing" in plan[id]["note"]
    before = len(named.server.recorded_requests())
    made = named.events("apply", "--yes", "--until", "cluster", "--json", "--adopt", *second)
    assert made[-1]["ok"], made[-1]
    writes = named.mutating_requests(before)
    assert not [
        r for r in writes if r["path"].endswith("/clusters") or (r["body"] or {}).get("name") == "nemo-net"
    ]
    gone = named.events("destroy", "--confirm", "second", "--json", *second)
    assert gone[-1]["ok"], gone[-1]
    left = {(r["kind"], r["name"]) for r in named.server.cloud_resources()}
    assert {("network", "nemo-net"), ("cluster", NAME)} <= left
    assert ("node_pool", "second-pool") not in left and ("network", "second-gvnic-net") not in left


def test_an_existing_thing_that_is_not_there_is_a_conflict_and_a_block(named: CliHarness) -> None:
    second = ("--deployment", "second")
    done = named.run("init", *second, *sets(cluster__cluster_name="elsewhere"))
    assert done.returncode == 0
    checks = named.json("check", *second, code=1)["checks"]
    assert [c["detail"] for c in checks if c["id"] == "cluster.there" and c["level"] == "block"] == [
        "Cluster elsewhere does not exist in us-central1, but cluster.use_existing is set."
    ]
    plan = {r["id"]: r for r in named.json("plan", *second, code=1)["resources"]}
    assert plan["cluster.cluster.elsewhere"]["action"] == "conflict"


def test_a_block_a_nodes_account_and_an_exclusion_reach_the_requests(tmp_path: Path) -> None:
    """e03: the pool gets the whole path, the look-up the reservation's name."""
    account = "nodes@my-project.iam.gserviceaccount.com"
    with cli_harness(tmp_path / "home") as walk:
        walk.init(
            *sets(
                quotas__reservation="nemo-res/reservationBlocks/nemo-res-block-0001",
                cluster__node_service_account=account,
                cluster__maintenance_exclusion_days=7,
            )
        )
        events = walk.events("apply", "--yes", "--until", "cluster", "--json")
        assert events[-1]["ok"], events[-1]
        pool, cluster = sent(walk, POOLS)["nodePool"], sent(walk, "/clusters")["cluster"]
        assert pool["config"]["reservationAffinity"]["values"] == [
            "projects/my-project/reservations/nemo-res/reservationBlocks/nemo-res-block-0001"
        ]
        assert pool["config"]["serviceAccount"] == account
        assert cluster["nodePools"][0]["config"]["serviceAccount"] == account
        held = cluster["maintenancePolicy"]["window"]["maintenanceExclusions"]["grpo-run"]
        assert held["maintenanceExclusionOptions"] == {"scope": "NO_MINOR_OR_NODE_UPGRADES"}
        looked = [r["path"] for r in walk.server.recorded_requests() if "/reservations/nemo-res" in r["path"]]
        assert looked and all("/zones/us-central1-b/reservations/nemo-res" in path for path in looked)
        again = walk.json("plan")["resources"]
        assert {r["action"] for r in again if r["step"] == "cluster"} == {"keep"}
