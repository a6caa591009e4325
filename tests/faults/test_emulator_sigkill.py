"""`kill -9` of the emulator during a deployment: it restarts on its port with its state, and the running
command completes.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cli_harness import (
    APPLY,
    DESTROY,
    JSON,
    NAME,
    CliHarness,
    DeploymentRecord,
    cli_harness,
    create_counts,
    normalized_resources,
    remaining_resources,
)
from emulator_server import EmulatorServer, start_emulator, wait_until

SPEED = "600"
CLUSTER = "/container/v1/projects/my-project/locations/us-central1/clusters/nemo-cluster"
KINDS = ("nodes", "pods", "secrets", "configmaps", "persistentvolumes")
# The events at which the server dies: in a create that takes long, with objects half made, with pods that wait.
APPLYING = (
    ("resource_waiting", "cluster.cluster."),
    ("resource_waiting", "lustre.lustre."),
    ("resource_started", "lustre.pvc."),
    ("resource_waiting", "raycluster.raycluster."),
)
DESTROYING = (
    ("resource_started", "cluster.cluster."),
    ("resource_started", "networks.network.nemo-rdma"),
    ("resource_started", "lustre.peering."),
)
LEAN = (APPLYING[:1] + APPLYING[3:], DESTROYING[1:2])


@dataclass(frozen=True)
class Kubernetes:
    """A cluster's API server as it was told by GKE: address, authority, and what it holds by uid and version."""

    endpoint: str
    ca: str
    token: str
    objects: dict[str, tuple[str, int]] = field(default_factory=dict)
    version: int = 0

    def get(self, path: str) -> tuple[int, Any]:
        context = ssl.create_default_context(cadata=base64.b64decode(self.ca).decode())
        request = urllib.request.Request(
            f"https://{self.endpoint}{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(request, timeout=30) as answer:
                return answer.status, json.loads(answer.readline() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


def look(server: EmulatorServer) -> Kubernetes | None:
    """None while there is none."""
    status, cluster = server.call("GET", CLUSTER)
    if status != 200 or not cluster.get("endpoint"):
        return None
    ca = cluster["masterAuth"]["clusterCaCertificate"]
    there = Kubernetes(cluster["endpoint"], ca, server.token)
    objects, versions = {}, []
    for kind in KINDS:
        _, listed = there.get(f"/api/v1/{kind}")
        versions.append(int(listed["metadata"]["resourceVersion"]))
        for one in listed["items"]:
            meta = one["metadata"]
            name = f"{kind}/{meta.get('namespace', '')}/{meta['name']}"
            objects[name] = (meta["uid"], int(meta["resourceVersion"]))
    return Kubernetes(cluster["endpoint"], ca, server.token, objects, max(versions))


@dataclass
class Watched:
    """One command during which the server was killed at chosen events."""

    code: int
    events: list[JSON]
    kills: list[str]
    pairs: list[tuple[Kubernetes | None, Kubernetes | None]]  # before and after each kill
    rows: list[tuple[set[str], set[str]]]  # names in the world, likewise

    def retries(self) -> list[str]:
        return [str(line["detail"]) for line in self.events if line["event"] == "retry"]


def through(walk: CliHarness, words: tuple[str, ...], moments: tuple[tuple[str, str], ...]) -> Watched:
    """Runs a command; kills the server at the first event of each moment, and starts it again at once."""
    found, left = Watched(-1, [], [], [], []), list(moments)
    process = walk.start_forked(*words)
    for text in process.stdout:
        line = json.loads(text)
        found.events.append(line)
        moment = next((m for m in left if line["event"] == m[0] and line["id"].startswith(m[1])), None)
        if moment:
            left.remove(moment)
            found.kills.append(f"{line['event']} {line['id']}")
            before, names = look(walk.server), _names(walk)
            os.kill(walk.server.address.pid, signal.SIGKILL)
            again = start_emulator(walk.home, SPEED, ray="none", faults=walk.home / "faults.json")
            assert (again.base_url, again.token) == (walk.server.base_url, walk.server.token)
            object.__setattr__(walk, "server", again)
            found.pairs.append((before, look(again)))
            found.rows.append((names, _names(walk)))
    found.code = process.wait(120)
    return found


def _names(walk: CliHarness) -> set[str]:
    return {
        f"{row['kind']} {row['location']} {row['name']}"
        for row in walk.server.cloud_resources()
        if not row["derived"]
    }


@dataclass(frozen=True)
class Story:
    moments: tuple[tuple[tuple[str, str], ...], ...]
    applied: Watched
    destroyed: Watched
    world: dict[str, JSON]
    twice: dict[str, int]
    state: JSON
    left: list[JSON]
    expired: tuple[int, Any]


@pytest.fixture(
    scope="module",
    params=[LEAN, pytest.param((APPLYING, DESTROYING), marks=pytest.mark.heavy)],
    ids=["lean", "all"],
)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    applying, destroying = request.param
    with cli_harness(tmp_path_factory.mktemp("kills") / "home", speed=SPEED) as walk:
        walk.init()
        applied = through(walk, APPLY, applying)
        wait_until(
            lambda: (
                {row["state"] for row in walk.server.cloud_resources() if row["kind"] == "raycluster"}
                == {"ready"}
            )
        )
        world, state = normalized_resources(walk.server.cloud_resources()), walk.state()
        twice = {
            thing: count for thing, count in create_counts(walk.mutating_requests()).items() if count > 1
        }
        old, now = applied.pairs[-1]
        assert old and now
        watch = f"/api/v1/pods?watch=1&timeoutSeconds=5&resourceVersion={old.version}"
        expired = now.get(watch)
        destroyed = through(walk, DESTROY, destroying)
        yield Story(
            request.param, applied, destroyed, world, twice, state, walk.server.cloud_resources(), expired
        )


def test_apply_rides_out_every_kill_and_makes_the_same_world_with_nothing_twice(
    story: Story, deployed: DeploymentRecord
) -> None:
    assert len(story.applied.kills) == len(story.moments[0]), story.applied.kills
    assert story.applied.code == 0 and story.applied.events[-1]["ok"], story.applied.events[-1]
    assert story.twice == {}
    assert story.world == normalized_resources(deployed.cloud_resources)
    origins = {
        row["origin"] for row in story.state["resources"].values() if row["kind"] not in ("api", "project")
    }
    assert origins == {"created"}


def test_nothing_that_was_there_before_a_kill_is_gone_after_it(story: Story) -> None:
    for before, after in story.applied.rows:
        assert before <= after


def test_kubernetes_comes_back_at_its_address_with_its_authority_and_its_objects(story: Story) -> None:
    pairs = [(old, new) for old, new in story.applied.pairs if old is not None]
    assert pairs
    for old, new in pairs:
        assert new is not None and (new.endpoint, new.ca, new.token) == (old.endpoint, old.ca, old.token)
        assert {name: uid for name, (uid, _) in old.objects.items()} == {
            name: new.objects[name][0] for name in old.objects
        }
        assert all(new.objects[name][1] >= version for name, (_, version) in old.objects.items())
        assert new.version > old.version, "no version is given out twice"


def test_a_watch_from_before_the_kill_is_sent_back_to_list_anew(story: Story) -> None:
    status, answer = story.expired
    code = answer["code"] if status != 200 else answer["object"]["code"]
    assert code == 410, story.expired


def test_destroy_rides_it_out_too_and_leaves_nothing(story: Story) -> None:
    assert len(story.destroyed.kills) == len(story.moments[1]), story.destroyed.kills
    assert story.destroyed.code == 0 and story.destroyed.events[-1]["ok"], story.destroyed.events[-1]
    assert remaining_resources(story.left) == []


@pytest.mark.heavy
def test_a_server_that_stays_away_ends_the_command_with_one_clear_word_and_the_next_run_goes_on(
    tmp_path: Path,
) -> None:
    with cli_harness(tmp_path / "home", speed=SPEED) as walk:
        walk.init()
        process, killed = walk.start_forked(*APPLY), False
        lines = []
        for text in process.stdout:
            lines.append(json.loads(text))
            if not killed and lines[-1]["event"] == "resource_waiting":
                os.kill(walk.server.address.pid, signal.SIGKILL)
                killed = True
        assert process.wait(120) == 1
        failed = lines[-1]["failed"]
        assert failed and all(
            "could not be reached" in f"{one['title']} {one['detail']}" for one in failed
        ), failed
        again = walk.events(*APPLY)
        assert again[-1]["ok"] and again[-1]["failed"] == []
        assert {
            thing: count for thing, count in create_counts(walk.mutating_requests()).items() if count > 1
        } == {}
        assert NAME in json.dumps(walk.server.cloud_resources())
