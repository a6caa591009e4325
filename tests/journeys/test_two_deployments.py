"""Two deployments and strangers' things in one world: each sees and takes down its own, and nothing else moves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest
from cli_harness import (
    ANSWERS,
    APPLY,
    JSON,
    CliHarness,
    clean_environment,
    cli_harness,
    create_counts,
    fault,
    remaining_resources,
)
from forked_command import ForkedCommand

from grpo_wizard.steps.emulator import process as emulator_process

# What makes the second deployment another one; its VPC too, unless it shares the first's.
PLACES = (
    "networks.gvnic_prefix=two-gvnic",
    "networks.rdma_prefix=two-rdma",
    "cluster.cluster_name=two-cluster",
    "lustre.lustre_name=two-lustre",
)
OWN_VPC = "networks.network=two-net"
STRANGERS = "/compute/v1/projects/my-project/global"
ALIEN_RULE = {
    "name": "k8s-alien-node-http-hc",
    "network": "projects/my-project/global/networks/nemo-net-2",
    "allowed": [{"IPProtocol": "tcp"}],
}


@dataclass(frozen=True)
class Side:
    """One deployment: the home it is kept in, and the server it is joined to."""

    walk: CliHarness
    home: Path
    name: str

    def start(self, *words: str) -> ForkedCommand:
        joined = {} if self.home == self.walk.home else {emulator_process.URL_ENV: self.walk.server.base_url}
        token = {emulator_process.TOKEN_ENV: self.walk.server.token} if joined else {}
        command = [words[0], "--home", str(self.home), "--rehearse", "--deployment", self.name, *words[1:]]
        return ForkedCommand(command, clean_environment(**joined, **token), self.home.parent)

    def run(self, *words: str) -> tuple[int, list[JSON]]:
        process = self.start(*words)
        lines = [json.loads(line) for line in process.stdout]
        return process.wait(240), lines

    def init(self, *changes: str) -> None:
        words = [word for change in changes for word in ("--set", change)]
        process = self.start("init", "--answers", str(ANSWERS), *words)
        process.stdout.read()
        assert process.wait(60) == 0, process.stderr()

    def json(self, *words: str) -> JSON:
        code, lines = self.run(*words, "--json")
        assert code == 0, lines
        return lines[-1]

    def ids(self) -> dict[str, JSON]:
        """What its status lists, but for the job and what every project has."""
        rows = self.json("status")["resources"]
        return {
            row["id"]: row for row in rows if row["kind"] not in ("api", "project") and row["step"] != "grpo"
        }

    def lineage(self) -> str:
        state = json.loads((self.home / "deployments" / self.name / "state.json").read_text())
        return str(state["lineage"])

    def destroy(self) -> JSON:
        _, lines = self.run("destroy", "--confirm", self.name, "--json")
        return lines[-1]


def together(sides: list[Side], *words: str) -> list[JSON]:
    """The same command on all sides at once; their summaries."""
    ended: dict[str, JSON] = {}

    def one(side: Side) -> None:
        ended[side.name] = side.run(*words)[1][-1]

    threads = [Thread(target=one, args=(side,)) for side in sides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [ended[side.name] for side in sides]


def exact(walk: CliHarness) -> set[str]:
    """Every row of the world, to the byte."""
    return {json.dumps(row, sort_keys=True) for row in walk.server.cloud_resources()}


def used(walk: CliHarness) -> int:
    path = "/compute/v1/projects/my-project/zones/us-central1-b/reservations/nemo-res"
    return int(walk.server.call("GET", path)[1]["specificReservation"]["inUseCount"])


def strange(walk: CliHarness) -> None:
    """A network whose name begins like ours, with a rule that looks like GKE's; a range that nobody uses."""
    walk.server.enable("compute.googleapis.com")
    bodies = (
        ("networks", {"name": "nemo-net-2", "autoCreateSubnetworks": False}),
        ("firewalls", ALIEN_RULE),
        (
            "addresses",
            {
                "name": "their-range",
                "purpose": "VPC_PEERING",
                "addressType": "INTERNAL",
                "prefixLength": 24,
                "network": "projects/my-project/global/networks/nemo-net-2",
            },
        ),
    )
    for collection, body in bodies:
        status, answer = walk.server.call("POST", f"{STRANGERS}/{collection}", body)
        assert status == 200, answer


@dataclass(frozen=True)
class Story:
    sides: list[Side]
    applied: list[JSON]
    listed: list[dict[str, JSON]]
    plans: list[JSON]
    twice: dict[str, int]
    used: list[int]  # before, with both, after the first has gone
    destroyed: JSON
    before: set[str]
    after: set[str]
    third: tuple[dict[str, str], str]
    rest: list[JSON]


@pytest.fixture(scope="module", params=["two homes", pytest.param("one home", marks=pytest.mark.heavy)])
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("two")
    with cli_harness(folder / "home") as walk:
        other = walk.home if request.param == "one home" else folder / "other"
        sides = [Side(walk, walk.home, "one"), Side(walk, other, "two")]
        strange(walk)
        sides[0].init()
        sides[1].init(*PLACES, OWN_VPC)
        counts, applied = [used(walk)], together(sides, *APPLY)
        counts.append(used(walk))
        third = _third(walk)
        listed, plans = [side.ids() for side in sides], [side.json("plan") for side in sides]
        writes = [
            row
            for row in walk.mutating_requests()
            if row["service"] != "kubernetes" and ":enable" not in row["path"]
        ]
        twice = {thing: count for thing, count in create_counts(writes).items() if count > 1}
        before, destroyed, after = exact(walk), sides[0].destroy(), exact(walk)
        counts.append(used(walk))
        assert sides[1].destroy()["ok"]
        yield Story(
            sides,
            applied,
            listed,
            plans,
            twice,
            counts,
            destroyed,
            before,
            after,
            third,
            walk.server.cloud_resources(),
        )


def _third(walk: CliHarness, name: str = "three") -> tuple[dict[str, str], str]:
    """A third deployment where the reservation of four has none left: what blocks it, and what its pods wait for."""
    side = Side(walk, walk.home, name)
    side.init(*(change.replace("two-", f"{name}-") for change in (*PLACES, OWN_VPC)))
    _, checked = side.run("check", "--json")
    process, told = side.start(*APPLY, "--skip-checks"), ""
    for line in process.stdout:
        if '"retry"' in line or "waiting" in line:
            detail = str(json.loads(line).get("detail", ""))
            if "nemo-res" in detail:
                told = detail
                process.kill()
                break
    process.wait(60)
    assert side.destroy()["ok"]
    return {one["id"]: one["detail"] for one in checked[0]["checks"] if one["level"] == "block"}, told


def test_both_are_made_at_the_same_time_and_nothing_twice(story: Story) -> None:
    assert [(end["ok"], end["failed"]) for end in story.applied] == [(True, [])] * 2
    assert story.twice == {}
    assert story.used == [0, 4, 2], "two machines of each deployment, of four"


def test_a_third_is_told_that_the_reservation_has_none_left(story: Story) -> None:
    blocks, told = story.third
    assert list(blocks) == ["quotas.reservation"]
    assert "Reservation nemo-res has 0 free machines, but 2 are needed." in blocks["quotas.reservation"]
    assert "nemo-res" in told and "no machine of type a4-highgpu-8g left" in told


def test_each_sees_its_own_and_would_change_nothing(story: Story) -> None:
    for listed, plan in zip(story.listed, story.plans, strict=True):
        assert {(row["state"], row["origin"]) for row in listed.values()} == {("ready", "created")}
        assert {row["action"] for row in plan["resources"] if row["id"] in listed} == {"keep"}
    names = [
        {row["name"] for row in listed.values() if row["kind"] in ("cluster", "lustre", "network")}
        for listed in story.listed
    ]
    assert not names[0] & names[1]


def test_destroying_one_leaves_the_other_and_the_strangers_to_the_byte(story: Story) -> None:
    assert story.destroyed["ok"]
    assert story.after < story.before, "nothing that is left has changed"
    left = [json.loads(row) for row in story.after]
    assert {"nemo-net-2", ALIEN_RULE["name"], "their-range"} <= {row["name"] for row in left}
    mark = story.sides[0].lineage()
    assert not [row["name"] for row in left if mark in json.dumps(row)]
    other = story.sides[1].lineage()
    marked = {row for row in story.before if other in row}
    assert len(marked) > 40 and marked <= story.after


def test_at_last_only_the_strangers_things_are_there(story: Story) -> None:
    left = {(row["kind"], row["name"]) for row in remaining_resources(story.rest)}
    assert left == {("network", "nemo-net-2"), ("firewall", ALIEN_RULE["name"]), ("address", "their-range")}


@pytest.mark.heavy
def test_a_connection_that_another_made_meanwhile_is_joined(tmp_path: Path) -> None:
    """Our look found none, our create comes second: Google refuses it, and the next look finds what to add to."""
    refusal = {
        "code": 9,
        "message": "Cannot modify allocated ranges in CreateConnection. Please use UpdateConnection.",
    }
    late = fault("servicenetworking.googleapis.com", "POST", "*/connections", 1, operation_error=refusal)
    with cli_harness(tmp_path / "home", [late]) as walk:
        walk.init()
        ended = walk.events("apply", "--yes", "--until", "lustre", "--json")[-1]
        assert ended["ok"] and _ranges(walk) == {"nemo-lustre-range"}


@pytest.mark.heavy
def test_of_one_vpc_each_takes_out_its_own_range_and_the_last_one_ends_the_connection(tmp_path: Path) -> None:
    """The network is the first's, taken over by the second. Going first, the first waits for it; then it goes too."""
    with cli_harness(tmp_path / "home") as walk:
        sides = [Side(walk, walk.home, "one"), Side(walk, walk.home, "two")]
        sides[0].init()
        sides[1].init(*PLACES)
        assert sides[0].run("apply", "--yes", "--until", "networks", "--json")[1][-1]["ok"]
        assert [end["failed"] for end in together(sides, *APPLY, "--adopt")] == [[], []]
        assert _ranges(walk) == {"nemo-lustre-range", "two-lustre-range"}
        before = exact(walk)
        first, gone = sides[0].start("destroy", "--confirm", "one", "--json"), None
        for line in first.stdout:
            if gone is None and '"retry"' in line and "networks.network.nemo-net" in line:
                assert _ranges(walk) == {"two-lustre-range"}
                changed = [json.loads(row)["kind"] for row in exact(walk) - before]
                assert set(changed) <= {"peering"}, "all else of the second's is as it was"
                gone = sides[1].destroy()
        assert first.wait(60) == 0 and gone is not None and gone["ok"] and gone["failed"] == []
        assert remaining_resources(walk.server.cloud_resources()) == []


def _ranges(walk: CliHarness) -> set[str]:
    return {
        name
        for row in walk.server.cloud_resources()
        if row["kind"] == "peering"
        for name in row["spec"]["reservedPeeringRanges"]
    }
