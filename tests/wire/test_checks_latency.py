"""`check` on a good world: quick over a slow network, because its questions are asked side by side; and all troubles in one answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from check_harness import CheckHarness, blocking_texts, check_harness, get_fault

DELAY = 0.1  # seconds a request
SLOW = [{"match": {"service": "*"}, "do": {"delay_s": DELAY}}]


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckHarness]:
    with check_harness(tmp_path_factory.mktemp("slow") / "home", SLOW) as made:
        made.check()  # the SDKs are imported, the clients built
        yield made


def test_a_good_world_is_checked_within_three_seconds_of_network_time(slow: CheckHarness) -> None:
    before, begun = len(slow.server.recorded_requests()), time.monotonic()
    assert blocking_texts(slow.check()) == {}
    took, asked = time.monotonic() - begun, len(slow.server.recorded_requests()) - before
    assert asked * DELAY > 2.0, "so few questions that one after the other would do"
    assert took < 3.0, f"{asked} requests took {took:.2f} s"


def test_nothing_is_asked_twice(slow: CheckHarness) -> None:
    before = len(slow.server.recorded_requests())
    slow.check()
    asked = [
        (r["service"], r["method"], r["path"], str(r["query"]), str(r["body"]))
        for r in slow.server.recorded_requests()[before:]
    ]
    assert len(asked) == len(set(asked))


def test_a_sign_in_that_has_expired_blocks_and_is_said_once(tmp_path: Path) -> None:
    body = {
        "error": {"code": 401, "status": "UNAUTHENTICATED", "message": "invalid authentication credentials"}
    }
    with check_harness(tmp_path / "home", [get_fault("compute", "*", body, status=401)]) as expired:
        found = blocking_texts(expired.check())
    assert len(found) == 1
    assert "Your sign-in has expired or is missing" in next(iter(found.values()))
    assert "gcloud auth application-default login" in next(iter(found.values()))


def test_all_problems_of_a_bad_world_stand_in_one_answer(tmp_path: Path) -> None:
    denied = {"spec": {"rules": [{"denyAll": True}]}}
    faults = [get_fault("orgpolicy", "*compute.vmExternalIpAccess:getEffectivePolicy", denied)]
    with check_harness(tmp_path / "home", faults) as bad:
        found = blocking_texts(
            bad.check(
                project__zone="us-central1-c",
                quotas__machine_type="a3-ultragpu-8g",
                networks__gvnic_prefix="nemo-rdma",
                cluster__version="1.31",
                lustre__capacity_gib=20000,
                token="",
            )
        )
    assert set(found) >= {
        "project.policy_vmExternalIpAccess",
        "project.hugging_face",
        "quotas.machine",
        "quotas.accelerator",
        "quotas.reservation",
        "networks.names",
        "networks.profile",
        "cluster.version",
        "lustre.size",
    }
    assert "It is in us-central1-b" in found["quotas.reservation"]
