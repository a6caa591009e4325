"""Things of our names that somebody else made: seen, never taken without a word, never deleted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import foreign_resources
import pytest
from cli_harness import (
    ANSWERS,
    APPLY,
    DESTROY,
    JSON,
    NAME,
    CliHarness,
    DeploymentRecord,
    cli_harness,
    fault,
    normalized_resources,
    remaining_resources,
)

ADOPT = (*APPLY, "--adopt")
KINDS = {
    "network",
    "subnet",
    "firewall",
    "address",
    "peering",
    "cluster",
    "node_pool",
    "daemonset",
    "network_params",
    "device_network",
    "lustre",
    "pv",
    "pvc",
    "secret",
    "configmap",
    "service_account",
    "role",
    "role_binding",
    "network_policy",
    "raycluster",
}
ALIEN_RULE = {
    "name": "k8s-alien-node-http-hc",
    "network": "projects/my-project/global/networks/nemo-net-2",
    "allowed": [{"IPProtocol": "tcp"}],
}


def actions(plan: JSON) -> dict[str, str]:
    return {
        row["id"]: row["action"]
        for row in plan["resources"]
        if row["kind"] not in ("api", "project") and row["step"] != "grpo"
    }


@dataclass(frozen=True)
class Story:
    plan: JSON
    refused: list[JSON]
    written: list[JSON]
    adopted: list[JSON]
    adopting: list[JSON]
    status: JSON
    destroyed: list[JSON]
    before: list[JSON]
    after: list[JSON]


@pytest.fixture(scope="module")
def story(deployed: DeploymentRecord, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """All that the tutorial makes was made by somebody else; a network whose name begins like ours stands beside it."""
    with cli_harness(tmp_path_factory.mktemp("strangers") / "home") as walk:
        foreign_resources.create_foreign_resources(walk, deployed.mutating_requests)
        walk.server.call(
            "POST",
            "/compute/v1/projects/my-project/global/networks",
            {"name": "nemo-net-2", "autoCreateSubnetworks": False},
        )
        walk.server.call("POST", "/compute/v1/projects/my-project/global/firewalls", ALIEN_RULE)
        walk.init()
        count = len(walk.mutating_requests())
        plan, refused = walk.json("plan"), walk.events(*APPLY, code=1)
        written, adopted = walk.mutating_requests()[count:], walk.events(*ADOPT)
        adopting, status = walk.mutating_requests()[count:], walk.json("status")
        before, destroyed = walk.server.cloud_resources(), walk.events(*DESTROY)
        yield Story(
            plan,
            refused,
            written,
            adopted,
            adopting,
            status,
            destroyed,
            before,
            walk.server.cloud_resources(),
        )


def test_every_kind_of_thing_that_fits_is_to_be_adopted(story: Story) -> None:
    assert {row["kind"] for row in story.plan["resources"] if row["action"] == "adopt"} == KINDS
    assert set(actions(story.plan).values()) == {"adopt"}


def test_apply_without_adopt_writes_nothing_names_them_all_and_the_flag(story: Story) -> None:
    failed = story.refused[-1]["failed"]
    assert story.written == []
    assert {entry["id"] for entry in failed} == set(actions(story.plan))
    assert all("--adopt" in entry["fix"] for entry in failed)
    assert not story.refused[-1]["ok"]


def test_apply_with_adopt_takes_them_over_and_makes_nothing(story: Story) -> None:
    assert story.adopted[-1]["ok"] and story.adopted[-1]["adopted"] == len(actions(story.plan))
    assert story.adopted[-1]["created"] == 0 and story.adopting == []
    origins = {row["origin"] for row in story.status["resources"] if row["id"] in actions(story.plan)}
    assert origins == {"adopted"}


def test_destroy_leaves_them_all_where_they_are(story: Story) -> None:
    assert story.destroyed[-1]["ok"] and story.destroyed[-1]["deleted"] == 0
    told = [event["detail"] for event in story.destroyed if "still billed" in event.get("detail", "")]
    assert len(told) == 1 and "cluster.cluster.nemo-cluster" in told[0] and "USD/h" in told[0]
    assert normalized_resources(story.after) == normalized_resources(story.before)
    assert {"nemo-net-2", ALIEN_RULE["name"]} <= {row["name"] for row in remaining_resources(story.after)}


MISFITS: dict[str, JSON] = {
    "networks.network.nemo-net": {"autoCreateSubnetworks": False},
    "networks.subnet.nemo-rdma-sub-3": {"ipCidrRange": "192.168.77.0/24"},
    "networks.firewall.nemo-gvnic-internal": {"allowed": [{"IPProtocol": "icmp"}]},
    "lustre.address.nemo-lustre-range": {"prefixLength": 24},
}


def _named(row: JSON) -> str:
    inner = (row["body"] or {}).get("nodePool") or row["body"] or {}
    return str(row["query"].get("instanceId") or inner.get("name"))


def test_what_does_not_fit_is_a_conflict_even_with_adopt_and_nothing_is_written(
    deployed: DeploymentRecord, tmp_path: Path
) -> None:
    def change(row: JSON) -> JSON | None:
        wanted = next((body for id, body in MISFITS.items() if id.endswith(f".{_named(row)}")), None)
        return (
            {**row, "body": {**row["body"], **wanted}}
            if wanted and row["service"].startswith("compute")
            else None
        )

    with cli_harness(tmp_path / "home") as walk:
        others = [
            row
            for row in deployed.mutating_requests
            if row["service"].startswith(("compute", "serviceusage"))
        ]
        foreign_resources.create_foreign_resources(
            walk,
            others,
            lambda row: change(row) or (row if "networks" in row["path"].rpartition("/")[2] else None),
        )
        walk.init()
        count = len(walk.mutating_requests())
        plan = actions(walk.json("plan", code=1))
        assert {id for id, action in plan.items() if action == "conflict"} == set(MISFITS)
        failed = {entry["id"]: entry for entry in walk.events(*ADOPT, code=1)[-1]["failed"]}
        assert set(MISFITS) <= set(failed)
        assert all("does not match" in failed[id]["detail"] for id in MISFITS)
        assert walk.mutating_requests()[count:] == []
        walk.events(*DESTROY)
        assert walk.mutating_requests()[count:] == []


def test_a_strangers_broken_cluster_is_a_conflict_and_beside_it_only_ours_goes(
    deployed: DeploymentRecord, tmp_path: Path
) -> None:
    """Its network is taken over, its cluster in ERROR is not; destroy takes what was made and leaves both."""
    paths = {"global/networks": "nemo-net", "us-central1/clusters": "nemo-cluster"}
    others = [
        row
        for row in deployed.mutating_requests
        for end, name in paths.items()
        if row["path"].endswith(end)
        and name in (row["body"].get("name"), row["body"].get("cluster", {}).get("name"))
    ]
    broken = fault(
        "container.googleapis.com",
        "POST",
        "*/clusters",
        operation_error={"code": 13, "message": "Internal error."},
    )
    with cli_harness(tmp_path / "home", [broken]) as walk:
        foreign_resources.create_foreign_resources(
            walk, [row for row in deployed.mutating_requests if ":enable" in row["path"]] + others
        )
        walk.init()
        rows = {row["id"]: row for row in walk.json("plan", code=1)["resources"]}
        assert rows["cluster.cluster.nemo-cluster"]["action"] == "conflict"
        assert (
            "was not created by this deployment, and is in an error state"
            in rows["cluster.cluster.nemo-cluster"]["note"]
        )
        blocked = walk.events(*ADOPT, code=1)[-1]["failed"]
        assert [entry["id"] for entry in blocked] and walk.run("check").returncode == 1
        ended = walk.events("apply", "--yes", "--until", "networks", "--json", "--adopt", "--skip-checks")[-1]
        assert ended["ok"] and ended["adopted"] == 1
        assert walk.events(*DESTROY)[-1]["ok"]
        assert {row["name"] for row in remaining_resources(walk.server.cloud_resources())} == {
            "nemo-net",
            "nemo-cluster",
            "default-pool",
        }


def test_a_lost_state_is_offered_and_taken_up_again_under_its_mark(
    deployed: DeploymentRecord, tmp_path: Path
) -> None:
    home = deployed.copy(tmp_path / "home")
    mark = json.loads((home / "deployments" / NAME / "state.json").read_text())["lineage"]
    shutil.rmtree(home / "deployments")
    with cli_harness(home) as walk:
        walk.init()
        said = walk.run("plan")
        assert (
            said.returncode == 0 and f"labelled {mark}" in said.stdout and "init --take-over" in said.stdout
        )
        walk.init("--take-over")
        assert walk.state()["lineage"] == mark
        rows = [
            row
            for row in walk.json("status")["resources"]
            if row["kind"] not in ("api", "project") and row["step"] != "grpo"
        ]
        assert {(row["state"], row["origin"]) for row in rows} == {("ready", "created")}
        assert walk.events(*DESTROY)[-1]["deleted"] == len(rows)
        assert remaining_resources(walk.server.cloud_resources()) == []
        nothing = walk.run("init", "--answers", str(ANSWERS), "--deployment", "anew", "--take-over")
        assert nothing.returncode == 1 and "with these names exist" in nothing.stderr


COMPUTE = "/compute/v1/projects/my-project/global"
CONNECTIONS = "/servicenetworking/v1/services/servicenetworking.googleapis.com/connections"
VPC = "projects/123456789012/global/networks/nemo-net"


def joined_beside_a_strangers_range(walk: CliHarness) -> str:
    """On nemo-net: their connection with their range, then ours in it, then theirs taken out. The connection's name."""
    ask = walk.server.call
    theirs = {"name": "their-range", "purpose": "VPC_PEERING", "addressType": "INTERNAL", "prefixLength": 24}
    ask("POST", f"{COMPUTE}/addresses", {**theirs, "network": f"{COMPUTE[12:]}/networks/nemo-net"})
    ask("POST", CONNECTIONS, {"network": VPC, "reservedPeeringRanges": ["their-range"]})
    assert walk.events("apply", "--yes", "--adopt", "--until", "lustre", "--json")[-1]["ok"]
    joined = next(row for row in walk.server.cloud_resources() if row["kind"] == "peering")
    assert sorted(joined["spec"]["reservedPeeringRanges"]) == ["nemo-lustre-range", "their-range"]
    patch = {"network": VPC, "reservedPeeringRanges": ["nemo-lustre-range"]}
    assert ask("PATCH", f"{CONNECTIONS}/-?updateMask=reservedPeeringRanges&force=true", patch)[0] == 200
    return str(joined["name"])


def test_a_strangers_connection_stays_when_ours_was_its_last_range(tmp_path: Path) -> None:
    """Destroy ends nothing that it did not make."""
    with cli_harness(tmp_path / "home") as walk:
        walk.server.enable("compute.googleapis.com", "servicenetworking.googleapis.com")
        walk.server.call("POST", f"{COMPUTE}/networks", {"name": "nemo-net", "autoCreateSubnetworks": True})
        walk.init()
        name = joined_beside_a_strangers_range(walk)
        assert walk.events(*DESTROY)[-1]["ok"]
        left = {(row["kind"], row["name"]): row for row in remaining_resources(walk.server.cloud_resources())}
        assert set(left) == {("network", "nemo-net"), ("address", "their-range"), ("peering", name)}
        assert not left["peering", name]["spec"].get("reservedPeeringRanges")


def test_an_empty_connection_does_not_hold_a_network_of_ours_for_ever(tmp_path: Path) -> None:
    """On a network that we made nobody's range is left in it: it is cut from our side, and the network goes."""
    with cli_harness(tmp_path / "home") as walk:
        walk.init()
        assert walk.events("apply", "--yes", "--until", "networks", "--json")[-1]["ok"]
        joined_beside_a_strangers_range(walk)
        assert walk.server.call("DELETE", f"{COMPUTE}/addresses/their-range")[0] == 200
        ended = walk.events(*DESTROY)
        assert ended[-1]["ok"] and any("peering without ranges" in e.get("detail", "") for e in ended)
        assert remaining_resources(walk.server.cloud_resources()) == []
