"""Drills: troubles by name, at the start or in a running world."""

from __future__ import annotations

from pathlib import Path

import pytest
from rehearsing import Rehearsal, start_rehearsal

from grpo_wizard.steps.rehearsal import life
from grpo_wizard.steps.rehearsal.drills import DRILLS, faults_of

CLUSTERS = "/container/v1/projects/my-project/locations/us-central1/clusters"


def test_a_drill_begins_and_ends_in_a_running_world(rehearsal: Rehearsal) -> None:
    rehearsal.enable("container.googleapis.com")
    assert rehearsal.ask("GET", CLUSTERS)[0] == 200
    assert rehearsal.ask("POST", "/_rehearsal/drills/api-disabled")[0] == 200
    status, answer = rehearsal.ask("GET", CLUSTERS)
    assert (status, answer["error"]["details"][0]["reason"]) == (403, "SERVICE_DISABLED")
    assert rehearsal.ask("DELETE", "/_rehearsal/drills")[0] == 200
    assert rehearsal.ask("GET", CLUSTERS)[0] == 200
    status, answer = rehearsal.ask("POST", "/_rehearsal/drills/spoons")
    assert status == 404 and "stock-out" in answer["error"]["message"]


def test_credentials_expire_in_the_middle_when_asked_to(tmp_path: Path) -> None:
    server = start_rehearsal(tmp_path, ray="none", drills=("expired-credentials",))
    path = "/serviceusage/v1/projects/my-project/services/compute.googleapis.com"
    try:
        answers = [server.ask("GET", path)[0] for _ in range(25)]
        assert answers[:19] == [200] * 19 and 401 in answers[19:]
    finally:
        life.stop(tmp_path)


def test_one_of_two_drills_is_ended_by_its_name(rehearsal: Rehearsal) -> None:
    rehearsal.enable("container.googleapis.com")
    for name in ("api-disabled", "quota-short", "pool-maximum"):
        assert rehearsal.ask("POST", f"/_rehearsal/drills/{name}")[0] == 200
    assert rehearsal.ask("GET", CLUSTERS)[0] == 403
    assert rehearsal.ask("DELETE", "/_rehearsal/drills/api-disabled") == (200, {"faults": 1})
    assert rehearsal.ask("GET", CLUSTERS)[0] == 200
    assert rehearsal.ask("DELETE", "/_rehearsal/drills/pool-maximum") == (200, {"faults": 1})
    assert rehearsal.ask("DELETE", "/_rehearsal/drills/spoons")[0] == 404


@pytest.mark.parametrize("name", DRILLS)
def test_every_drill_is_a_list_of_faults(name: str) -> None:
    for fault in faults_of(name):
        assert fault.do and (fault.do.get("status", 400) >= 400)
