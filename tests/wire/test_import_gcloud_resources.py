"""The tutorial followed by hand with the real gcloud and kubectl: found, taken over when asked to, and nothing made beside it."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli_harness import JSON, CliHarness, cli_harness, normalized_resources
from emulator_server import EmulatorServer
from tutorial_kube_objects import MANIFESTS, as_yaml, claim, volume

HERE = Path(__file__).parent
COMMANDS: list[JSON] = json.loads((HERE / "fixtures/gcloud_replay.json").read_text("utf-8"))["commands"]
EXACT = ("--answers", str(HERE / "tutorial_exact.toml"))
UNTIL = ("--until", "lustre", "--json")
TOOLS = ("gcloud", "kubectl", "gke-gcloud-auth-plugin")
pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in TOOLS),
    reason=f"one of {', '.join(TOOLS)} is not installed here",
)
_MAKES = (
    "services-",
    "networks-create",
    "subnets-create",
    "firewall-rules-create",
    "clusters-",
    "node-pools-create",
)
_MAKES += ("addresses-create", "vpc-peerings-connect", "lustre-create")
_READS = ("describe", "list")


def _run(server: EmulatorServer, command: str, text: str = "") -> str:
    done = subprocess.run(
        shlex.split(command), env=server.env, input=text, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def follow_the_tutorial(server: EmulatorServer) -> None:
    """Its commands in its order up to the volume's claim; what is made side by side there is made side by side here."""
    written = {entry["name"]: entry["command"] for entry in COMMANDS if entry["name"].startswith(_MAKES)}
    made = {name: line for name, line in written.items() if not any(word in name for word in _READS)}
    made.pop("clusters-delete")
    subnets = [name for name in made if name.startswith("subnets-create-rdma")]
    for name, line in made.items():
        if name == subnets[0]:
            with ThreadPoolExecutor(2) as hands:
                list(hands.map(lambda one: _run(server, made[one]), subnets))
        elif name not in subnets:
            _run(server, line)
        if name == "services-enable-single":  # the tutorial leaves it out, and its peering fails
            _run(server, "gcloud services enable servicenetworking.googleapis.com")
    mount = _run(
        server,
        "gcloud lustre instances describe nemo-lustre --location=us-central1-b --format=value(mountPoint)",
    )
    ip, _, filesystem = mount.strip().partition("@tcp:/")
    for name in ("nccl-rdma-installer.yaml", "network-mapping.yaml"):
        _run(server, f"kubectl apply -f {MANIFESTS / name}")
    _run(server, "kubectl apply -f -", as_yaml([volume(ip, filesystem), claim()]))


@dataclass(frozen=True)
class Seen:
    """What the wizard says and does with one set of answers."""

    status: JSON
    plan: JSON
    refused: list[JSON]
    refusing: list[JSON]  # requests that write

    def states(self) -> dict[str, tuple[str, str]]:
        until = ("networks", "cluster", "lustre")
        return {
            row["id"]: (row["state"], row["origin"])
            for row in self.status["resources"]
            if row["step"] in until
        }


def _seen(walk: CliHarness, name: str, *answers: str) -> Seen:
    walk.init(*answers, "--deployment", name)
    of = ("--deployment", name)
    begun = len(walk.server.recorded_requests())
    refused = walk.events("apply", "--yes", *UNTIL, *of, code=1)
    return Seen(walk.json("status", *of), walk.json("plan", *of), refused, walk.mutating_requests(begun))


@dataclass(frozen=True)
class Story:
    exact: Seen
    better: Seen
    adopted: list[JSON]
    adopting: list[JSON]
    after: JSON
    before: list[JSON]
    world: list[JSON]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with cli_harness(tmp_path_factory.mktemp("hand") / "home") as walk:
        begun = time.monotonic()
        follow_the_tutorial(walk.server)
        print(f"made by hand in {time.monotonic() - begun:.0f} s")
        better, exact = _seen(walk, "better"), _seen(walk, "exact", *EXACT)
        before, count = walk.server.cloud_resources(), len(walk.server.recorded_requests())
        adopted = walk.events("apply", "--yes", "--adopt", *UNTIL, "--deployment", "exact")
        adopting, after = walk.mutating_requests(count), walk.json("status", "--deployment", "exact")
        yield Story(exact, better, adopted, adopting, after, before, walk.server.cloud_resources())


def test_status_finds_all_of_it_and_says_that_nobody_we_know_made_it(story: Story) -> None:
    states = story.exact.states()
    assert set(states.values()) == {("ready", "none")}
    assert len(states) == 39  # 13 of networks, 21 of the cluster, 5 of Lustre
    absent = {id for id, state in story.better.states().items() if state != ("ready", "none")}
    assert absent == {"lustre.firewall.nemo-lustre-lnet"}, "the wizard's own rule is no part of the tutorial"


def test_without_adopt_nothing_is_written_and_each_is_named(story: Story) -> None:
    for seen in (story.exact, story.better):
        assert seen.refusing == []
        refused = {entry["id"] for entry in seen.refused[-1]["failed"]}
        assert refused == {id for id, state in seen.states().items() if state == ("ready", "none")}


def test_with_adopt_all_is_taken_over_and_nothing_is_made(story: Story) -> None:
    ended = story.adopted[-1]
    assert (ended["ok"], ended["created"], ended["adopted"]) == (True, 0, len(story.exact.states()))
    assert story.adopting == []
    origins = {r["origin"] for r in story.after["resources"] if r["id"] in story.exact.states()}
    assert origins == {"adopted"}
    assert normalized_resources(story.world) == normalized_resources(story.before)


def test_an_api_that_nothing_needs_stays_off_and_is_planned_for_where_something_is_made(story: Story) -> None:
    off = {r["id"] for r in story.exact.status["resources"] if r["kind"] == "api" and r["state"] == "absent"}
    assert off, "the tutorial enables fewer APIs than the wizard"
    started = {event["id"] for event in story.adopted if event["event"] == "resource_started"}
    assert not off & started
    planned = {r["id"]: r["action"] for r in story.better.plan["resources"]}
    assert {planned[id] for id in off} == {"create"}, "with the rest of the road still to be made"
