"""What passes: told in one line, tried again after a look, and nothing is made twice."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from cli_harness import (
    APPLY,
    DESTROY,
    JSON,
    DeploymentRecord,
    cli_harness,
    create_counts,
    fault,
    normalized_resources,
    remaining_resources,
)
from test_permanent_errors import BODIES, CLUSTERS, GKE, POOLS, body

COMPUTE, LUSTRE, PEERING = (
    "compute.googleapis.com",
    "lustre.googleapis.com",
    "servicenetworking.googleapis.com",
)
GLOBAL = "/compute/v1/projects/my-project/global"
SUBNETS = "/compute/v1/projects/my-project/regions/us-central1/subnetworks"
CONNECTIONS = "/v1/services/servicenetworking.googleapis.com/connections"
HTML = (BODIES / "bad_gateway.html").read_text()
ALREADY = {
    "error": {
        "code": 409,
        "status": "ALREADY_EXISTS",
        "message": "Already exists: projects/x/clusters/nemo-cluster.",
    }
}


@dataclass(frozen=True)
class Run:
    events: list[JSON]
    recorded: list[JSON]
    writes: list[JSON]
    world: list[JSON]
    state: JSON

    def about(self, id: str, event: str) -> list[str]:
        return [line["detail"] for line in self.events if line.get("id") == id and line["event"] == event]


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One apply in which every service has a bad day."""
    faults = [
        *(fault(GKE, "POST", CLUSTERS, n, status=403, body=body("service_disabled")) for n in (1, 2, 3)),
        fault(GKE, "POST", CLUSTERS, 4, status=502, body=HTML),
        fault(GKE, "POST", CLUSTERS, 5, status=409, body=ALREADY),
        fault(GKE, "GET", "*/operations/*", 1, status=502, body=HTML),
        fault(GKE, "POST", POOLS, 1, drop="after"),
        fault(
            COMPUTE,
            "GET",
            f"{GLOBAL}/networks/*",
            2,
            status=503,
            body={"error": {"code": 503, "message": "backend"}},
        ),
        *(
            fault(COMPUTE, "POST", f"{GLOBAL}/{kind}", 1, drop="after")
            for kind in ("networks", "firewalls", "addresses")
        ),
        fault(COMPUTE, "POST", SUBNETS, 1, drop="before"),
        fault(
            COMPUTE,
            "POST",
            SUBNETS,
            3,
            operation_error={
                "errors": [
                    {"code": "RESOURCE_NOT_READY", "message": "The resource 'nemo-rdma-net' is not ready"}
                ]
            },
        ),
        fault(PEERING, "POST", CONNECTIONS, 1, drop="after"),
        fault(LUSTRE, "POST", "*/instances", 1, drop="after"),
        fault("kubernetes", "POST", "*/secrets", 1, drop="after"),
        fault("kubernetes", "POST", "*/rayclusters", 1, drop="after"),
        fault(
            "kubernetes",
            "POST",
            "*/configmaps",
            1,
            status=429,
            body={"kind": "Status", "code": 429, "message": "slow down"},
        ),
    ]
    with cli_harness(tmp_path_factory.mktemp("troubles") / "home", faults) as walk:
        walk.init()
        events = walk.events(*APPLY)
        return Run(
            events,
            walk.server.recorded_requests(),
            walk.mutating_requests(),
            walk.server.cloud_resources(),
            walk.state(),
        )


def test_apply_gets_through_with_the_same_world_as_on_a_good_day(
    applied: Run, deployed: DeploymentRecord
) -> None:
    assert applied.events[-1]["ok"]
    assert normalized_resources(applied.world) == normalized_resources(deployed.cloud_resources)


def test_a_create_whose_answer_was_lost_is_found_and_not_repeated(applied: Run) -> None:
    """But for the subnet whose operation ended badly, and the connection: that is the same request with the same ranges."""
    again = {thing: count for thing, count in create_counts(applied.writes).items() if count > 1}
    subnets = [thing for thing in again if "/subnetworks " in thing]
    assert len(subnets) == 1 and set(again.values()) == {2}
    assert {thing.partition(" ")[0] for thing in again if thing not in subnets} <= {f"{PEERING}{CONNECTIONS}"}
    assert len([row for row in applied.world if row["kind"] == "peering"]) == 1
    assert {
        row["origin"] for row in applied.state["resources"].values() if row["kind"] not in ("project", "api")
    } == {"created"}


def test_an_api_that_is_not_felt_yet_is_waited_for_with_a_word(applied: Run) -> None:
    told = applied.about("cluster.cluster.nemo-cluster", "retry")
    assert sum("container.googleapis.com is not enabled yet" in text for text in told) == 1
    assert not any("111122223333" in text for text in told), "a number that the user never typed"


def test_a_html_page_becomes_one_short_line(applied: Run) -> None:
    told = applied.about("cluster.cluster.nemo-cluster", "retry")
    assert told.count("HTTP 502 from container.googleapis.com") >= 1
    assert not any("<" in text or "\n" in text for text in told)


def test_a_create_is_looked_up_before_it_is_sent_again(applied: Run) -> None:
    """Between two creates of the cluster there is always a look at it; a 409 alone proves nothing."""
    asked = [(row["method"], row["path"]) for row in applied.recorded if row["path"].startswith(CLUSTERS)]
    posts = [n for n, (method, path) in enumerate(asked) if (method, path) == ("POST", CLUSTERS)]
    assert len(posts) == 6
    for first, second in pairwise(posts):
        assert ("GET", f"{CLUSTERS}/nemo-cluster") in asked[first:second]


def test_without_marks_a_lost_answer_is_proved_by_the_request_id(tmp_path: Path) -> None:
    """At speed max what was asked for stands at once; the next look finds it, bare."""
    faults = [fault(COMPUTE, "POST", f"{GLOBAL}/networks", n, drop="after") for n in (1, 2, 3)]
    with cli_harness(tmp_path / "home", faults) as walk:
        walk.init("--set", "project.ownership_marks=false")
        ended = walk.events("apply", "--yes", "--until", "networks", "--json")[-1]
        assert ended["ok"] and ended["created"] == len(walk.state()["resources"])
        assert set(create_counts(walk.mutating_requests()).values()) == {1}


ALIEN = {
    "name": "k8s-alien-node-http-hc",
    "network": "projects/my-project/global/networks/nemo-net-2",
    "allowed": [{"IPProtocol": "tcp"}],
}


@pytest.fixture(scope="module")
def destroyed(deployed: DeploymentRecord, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One destroy that is refused again and again."""
    delete = f"{CONNECTIONS}/-"
    held = {
        "code": 9,
        "message": "Failed to delete connection; Producer services (e.g. CloudSQL, Cloud Memstore, etc.) are still "
        "using this connection.",
    }
    faults = [
        *(
            fault(GKE, "DELETE", f"{CLUSTERS}/nemo-cluster", n, status=400, body=body("busy_creating"))
            for n in (1, 2, 3)
        ),
        fault(COMPUTE, "DELETE", f"{GLOBAL}/networks/nemo-net", 1, operation_error=body("network_in_use")),
        fault(COMPUTE, "DELETE", f"{GLOBAL}/networks/nemo-gvnic-net", 1, drop="after"),
        fault(COMPUTE, "DELETE", f"{SUBNETS}/nemo-rdma-sub-1", 1, status=502, body=HTML),
        fault(LUSTRE, "DELETE", "*/instances/*", 1, drop="after"),
        fault("kubernetes", "DELETE", "*/secrets/*", 1, drop="after"),
        fault(PEERING, "POST", delete, operation_error=held),
        fault(PEERING, "PUT", delete, operation_error=held),
    ]
    with cli_harness(deployed.copy(tmp_path_factory.mktemp("refused") / "home"), faults) as walk:
        walk.server.call("POST", f"{GLOBAL}/networks", {"name": "nemo-net-2", "autoCreateSubnetworks": False})
        walk.server.call("POST", f"{GLOBAL}/firewalls", ALIEN)
        events = walk.events(*DESTROY)
        return Run(
            events,
            walk.server.recorded_requests(),
            walk.mutating_requests(),
            walk.server.cloud_resources(),
            walk.state(),
        )


def test_destroy_gets_through_and_touches_nothing_on_other_networks(destroyed: Run) -> None:
    assert destroyed.events[-1]["ok"] and destroyed.events[-1]["failed"] == []
    assert {row["name"] for row in remaining_resources(destroyed.world)} == {"nemo-net-2", ALIEN["name"]}


def test_a_cluster_that_is_busy_is_waited_for_with_a_word(destroyed: Run) -> None:
    told = destroyed.about("cluster.cluster.nemo-cluster", "retry")
    assert (
        len(told) == 1 and "is currently creating cluster" in told[0]
    )  # the same trouble is told once, not at each try
    tries = [
        row
        for row in destroyed.writes
        if row["method"] == "DELETE" and row["path"].endswith("/clusters/nemo-cluster")
    ]
    assert [row["status"] for row in tries] == [400, 400, 400, 200]


def test_rules_that_gke_left_on_our_network_go_and_are_named(destroyed: Run) -> None:
    told = destroyed.about("networks.network.nemo-net", "notice")
    assert len([text for text in told if "GKE left firewall rule k8s-" in text]) == 1
    assert any("Still in use" in text for text in destroyed.about("networks.network.nemo-net", "retry"))


def test_a_peering_that_producers_hold_is_removed_from_this_side_after_a_while(destroyed: Run) -> None:
    id = "lustre.peering.nemo-net"
    assert len(destroyed.about(id, "retry")) == 1
    tries = [row for row in destroyed.writes if row["service"] == PEERING]
    assert len(tries) > 3
    assert (
        len([text for text in destroyed.about(id, "notice") if "removing it from the consumer side" in text])
        == 1
    )
    cuts = [row for row in destroyed.writes if row["path"].endswith("/nemo-net/removePeering")]
    assert [row["status"] for row in cuts] == [200]
