"""`kill -9` of apply and of destroy, and the same command again. The full ten and ten: python tests/bench/road_kills.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_harness import (
    APPLY,
    DESTROY,
    JSON,
    DeploymentRecord,
    cli_harness,
    normalized_resources,
    remaining_resources,
)
from kill_injection import SEED, KillPoint, kill_apply, kill_destroy, kill_points

LEAN = 3


@pytest.fixture(scope="module")
def spread(deployed: DeploymentRecord) -> list[KillPoint]:
    print(f"seed {SEED}")
    return kill_points(
        SEED,
        LEAN,
        len(deployed.mutating_requests) - 8,
        len(deployed.apply) - 30,
        float(deployed.apply[-1]["seconds"]),
    )


@pytest.mark.parametrize("number", range(LEAN))
def test_an_apply_that_was_killed_goes_on_to_the_same_world_and_makes_nothing_twice(
    number: int, spread: list[KillPoint], deployed: DeploymentRecord, tmp_path: Path
) -> None:
    found = kill_apply(tmp_path / "home", spread[number], normalized_resources(deployed.cloud_resources))
    print(found)
    assert found.errors == []


@pytest.mark.parametrize("number", range(LEAN))
def test_a_destroy_that_was_killed_goes_on_until_nothing_is_left(
    number: int, spread: list[KillPoint], deployed: DeploymentRecord, tmp_path: Path
) -> None:
    found = kill_destroy(deployed.home, tmp_path / "home", spread[number])
    print(found)
    assert found.errors == []


def test_a_destroy_right_after_a_killed_apply_waits_for_what_was_being_made(tmp_path: Path) -> None:
    """The cluster and Lustre are still being made when the destroy comes; neither is left, and neither is said to be gone before it is."""
    with cli_harness(tmp_path / "home", speed="240") as walk:
        walk.init()
        process = walk.start_forked(*APPLY)
        for line in process.stdout:
            if '"resource_waiting"' in line and "cluster.cluster" in line:
                process.kill()
                break
        process.wait(60)
        assert [row["state"] for row in walk.server.cloud_resources() if row["kind"] == "cluster"] == [
            "creating"
        ]
        events = walk.events(*DESTROY)
        assert events[-1]["ok"] and remaining_resources(walk.server.cloud_resources()) == []
        told: list[JSON] = [line for line in events if line.get("id", "").startswith("cluster.cluster")]
        assert "waiting for its creation to finish before deleting it" in [
            line.get("detail") for line in told
        ]
