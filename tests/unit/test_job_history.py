"""A job that was seen to end stays ended, whatever a head that was made anew since knows of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from grpo_wizard.state.home import Home
from grpo_wizard.state.journal import Journal
from grpo_wizard.state.model import JobRecord, ResourceRecord
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.clients.ray.job_driver import parameters_hash
from grpo_wizard.steps.core.model import ABSENT, ObservedState
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.plan import decide
from grpo_wizard.steps.jobs.history import final_status, record_end, recorded_end, restore_job_state
from grpo_wizard.steps.jobs.watch import job_resource
from grpo_wizard.steps.registry import WORKFLOW, validate
from grpo_wizard.tui.controllers.prefill import tutorial_answers

ID = "grpo-1"
LOG = Path(__file__).parent / "fixtures" / "training" / "rl_loop.log"


def _session(home: Path, status: str = "RUNNING", **record: Any) -> Session:
    """With one job that was submitted; nothing here asks a cloud."""
    store = StateStore(Home(home))
    deployment = store.create("alpha", "rehearsal", validate(tutorial_answers()).to_values())
    session = Session(store, deployment, cast(Any, None), validate(tutorial_answers()), WORKFLOW)
    resource = job_resource(session)
    entrypoint = str(resource.spec["entrypoint"])
    deployment.job = JobRecord(submission_id=ID, parameters_hash=parameters_hash(entrypoint), status=status)
    known = {"kind": "job", "name": resource.name, "step": "grpo", "origin": "created", "identity": ID}
    deployment.resources[resource.id] = ResourceRecord(**(known | record))
    return session


def _action(session: Session) -> tuple[str, ObservedState]:
    resource = job_resource(session)
    sight = restore_job_state(session, resource, ABSENT)
    record = session.deployment.resources.get(resource.id)
    return decide(resource, sight, record, session.deployment.lineage).action, sight


def test_a_job_that_succeeded_is_kept_though_no_head_knows_it(tmp_path: Path) -> None:
    action, sight = _action(_session(tmp_path, "SUCCEEDED"))
    assert action == "keep" and sight.outputs["status"] == "SUCCEEDED"


@pytest.mark.parametrize("status", ["FAILED", "STOPPED"])
def test_a_job_that_ended_badly_is_submitted_again_and_its_end_is_told(tmp_path: Path, status: str) -> None:
    action, sight = _action(_session(tmp_path, status))
    assert action == "create" and sight.state == "failed" and sight.detail.startswith(status)


def test_a_job_that_was_last_seen_running_is_lost_and_made_anew(tmp_path: Path) -> None:
    session = _session(tmp_path)
    action, sight = _action(session)
    assert action == "create" and sight == ABSENT and final_status(session, ID) == ""


def test_who_only_looks_leaves_the_end_in_the_journal_once(tmp_path: Path) -> None:
    session = _session(tmp_path)
    record_end(session, ID, "RUNNING", None)
    assert recorded_end(session, ID) == ""
    for _ in range(2):
        record_end(session, ID, "SUCCEEDED", 10)
    events, _ = Journal(session.store.home.journal_file("alpha")).read(0)
    assert [(e["status"], e["step"]) for e in events] == [("SUCCEEDED", 10)]
    assert recorded_end(session, ID) == "SUCCEEDED" and recorded_end(session, "grpo-2") == ""
    assert _action(session)[0] == "keep"


def test_the_log_of_a_run_that_did_all_its_steps_tells_its_end(tmp_path: Path) -> None:
    session = _session(tmp_path)
    spool = session.store.home.job_log_file("alpha")
    spool.write_bytes(b"Step 3/10\n")
    assert final_status(session, ID) == ""
    spool.write_bytes(LOG.read_bytes() + b"\nMax number of steps has been reached, stopping training early\n")
    assert final_status(session, ID) == "SUCCEEDED" and recorded_end(session, ID) == ""


@pytest.mark.parametrize(
    "record", [{"origin": "intended"}, {"identity": "grpo-0"}], ids=["submitted anew", "another one"]
)
def test_the_end_of_one_submission_is_not_that_of_another(tmp_path: Path, record: dict[str, str]) -> None:
    assert _action(_session(tmp_path, "SUCCEEDED", **record))[0] == "create"


def test_other_parameters_are_another_run(tmp_path: Path) -> None:
    session = _session(tmp_path, "SUCCEEDED")
    assert session.deployment.job is not None
    session.deployment.job.parameters_hash = "0"
    assert _action(session)[0] == "create"


def test_on_a_new_file_system_the_run_begins_anew(tmp_path: Path) -> None:
    """The checkpoints went with the old one."""
    session = _session(tmp_path, "SUCCEEDED")
    session.deployment.resources["lustre.lustre.l"] = ResourceRecord(
        kind="lustre", name="l", step="lustre", origin="created", done_at="2999-01-01T00:00:00Z"
    )
    assert _action(session)[0] == "create"
