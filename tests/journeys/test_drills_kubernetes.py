"""The drills of Kubernetes through the real apply: each is explained while it lasts, and once it has ended apply goes on by itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from cli_harness import APPLY, JSON, CliHarness, cli_harness

RAY = "raycluster.raycluster.ray-cluster-kuberay"
# In the order in which one apply meets them: (drill, words of the sentence and of its fix).
DRILLS = (
    ("lustre-mount", ("head: Lustre volume", "is unreachable", "same VPC", "legacy_port")),
    ("image-gone", ("head: image nvcr.io/nvidia/nemo-rl:v0.5.0", "raycluster.image")),
    (
        "pool-maximum",
        ("worker: the node pool is at its maximum", "not a lack of capacity", "quotas.gpu_nodes"),
    ),
    ("worker-preempted", ("worker", "was preempted", "quotas.capacity")),
    ("head-lost", ("head missing: node", "is lost", "repair")),
)


@dataclass(frozen=True)
class Run:
    """One apply that went through every drill, and what was seen beside it."""

    events: list[JSON]
    explained: dict[str, str]
    seconds: dict[str, float]
    lost: JSON  # of `status` while the head was lost
    after: JSON
    again: list[JSON]  # events of a second apply, begun while the head was lost once more

    def row(self, document: JSON) -> JSON:
        found: JSON = next(r for r in document["resources"] if r["id"] == RAY)
        return found


def _until(lines: Iterator[str], words: tuple[str, ...], events: list[JSON]) -> str:
    """Reads on to the event that says all of `words`."""
    for line in lines:
        events.append(json.loads(line))
        detail = str(events[-1].get("detail", ""))
        if events[-1].get("id") == RAY and all(word in detail for word in words):
            return detail
    raise AssertionError(
        f"apply ended without {words}: {[e.get('detail') for e in events if e.get('id') == RAY]}"
    )


def _drill(walk: CliHarness, method: str, name: str) -> None:
    assert walk.server.call(method, f"/_rehearsal/drills/{name}")[0] == 200


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with cli_harness(tmp_path_factory.mktemp("drills") / "home") as walk:
        walk.init()
        _drill(walk, "POST", DRILLS[0][0])
        command = walk.start_forked(*APPLY)
        events: list[JSON] = []
        explained: dict[str, str] = {}
        seconds: dict[str, float] = {}
        begun = time.monotonic()
        for number, (name, words) in enumerate(DRILLS):
            explained[name] = _until(iter(command.stdout), words, events)
            seconds[name], begun = time.monotonic() - begun, time.monotonic()
            if number + 1 < len(
                DRILLS
            ):  # the next one begins before this one ends: apply must not slip through
                _drill(walk, "POST", DRILLS[number + 1][0])
            else:
                lost = walk.json("status")
            _drill(walk, "DELETE", name)
        events += [json.loads(line) for line in command.stdout]
        assert command.wait(60) == 0, command.stderr()
        after = walk.json("status")
        return Run(events, explained, seconds, lost, after, _again(walk))


def _again(walk: CliHarness) -> list[JSON]:
    _drill(walk, "POST", "head-lost")
    command = walk.start_forked(*APPLY)
    events: list[JSON] = []
    _until(iter(command.stdout), ("head missing",), events)
    _drill(walk, "DELETE", "head-lost")
    events += [json.loads(line) for line in command.stdout]
    assert command.wait(60) == 0, command.stderr()
    return events


@pytest.mark.parametrize("name", [name for name, _ in DRILLS])
def test_a_drill_is_explained_on_one_line_within_a_minute(applied: Run, name: str) -> None:
    """The first of them includes everything that apply makes before the RayCluster."""
    assert "\n" not in applied.explained[name] and len(applied.explained[name]) < 700
    assert name == DRILLS[0][0] or applied.seconds[name] < 60


def test_apply_goes_on_when_the_drills_have_ended(applied: Run) -> None:
    assert applied.events[-1]["ok"] and not applied.events[-1]["failed"]
    assert applied.row(applied.after)["state"] == "ready"


def test_while_the_head_is_lost_status_says_so_in_spite_of_a_state_that_says_ready(applied: Run) -> None:
    row = applied.row(applied.lost)
    assert (row["state"], row["origin"]) == ("creating", "created") and "head missing" in row["detail"]


def test_a_resumed_apply_does_not_skip_a_raycluster_whose_head_is_lost(applied: Run) -> None:
    about = [event["event"] for event in applied.again if event.get("id") == RAY]
    assert about[0] == "resource_started" and about[-1] == "resource_done" and applied.again[-1]["ok"]
