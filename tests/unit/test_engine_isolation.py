"""An exception that nobody foresaw: it fails one resource, the others finish, and the summary comes."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from decision_samples import OURS, a_session
from http_responder import error, http_responder
from sample_answers import answers

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.core.workflow import Workflow
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.apply import apply
from grpo_wizard.steps.engine.destroy import destroy
from grpo_wizard.steps.engine.executor import EmitEvent, GraphRun
from grpo_wizard.steps.engine.options import ApplyOptions
from grpo_wizard.steps.registry import WORKFLOW

PARENT = {"project": "my-project", "region": "us-central1"}

LABELLED = {"id": "7", "description": f"grpo-wizard {OURS}"}
BROKEN_SPEC = {"noSuchField": 1}  # its driver raises what no client translates
MISSING = error(404, "not found", "notFound")


class _Addresses(dict[str, Any]):
    """Compute Engine with global addresses: a GET finds one from its insertion to its deletion.

    The operation that deletes `odd` has a status that no client knows.
    """

    NAMES = ("fine", "other", "odd")

    def __init__(self) -> None:
        done = (200, {"name": "operation-1", "status": "DONE"})
        super().__init__({"POST /addresses": done, "GET /operations/operation-1": done})
        self |= {f"GET /addresses/{name}": MISSING for name in self.NAMES}
        self |= {f"DELETE /addresses/{name}": done for name in self.NAMES}
        self |= {
            "DELETE /addresses/odd": (200, {"name": "operation-2"}),
            "GET /operations/operation-2": (200, {"name": "operation-2", "status": 99}),
        }

    def __getitem__(self, key: str) -> Any:
        verb, _, path = key.partition(" ")
        if verb == "POST":
            self |= {f"GET /addresses/{name}": (200, LABELLED) for name in self.NAMES}
        if verb == "DELETE" and not path.endswith("odd"):
            self[f"GET {path}"] = MISSING
        return super().__getitem__(key)


def _address(name: str, spec: dict[str, Any] | None = None, **changed: Any) -> Resource:
    return Resource(step="networks", kind="address", name=name, spec=spec or {}, parent=PARENT, **changed)


def _with_resources(session: Session, *resources: Resource) -> Session:
    """A session whose networks step wants these resources, and whose other steps want none."""
    steps = tuple(
        replace(step, resources=lambda answers, step=step: resources if step.name == "networks" else ())
        for step in WORKFLOW.steps
    )
    session.workflow = Workflow(steps, WORKFLOW.validate)
    return session


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Session]:
    with http_responder(_Addresses()) as cloud:
        yield a_session(tmp_path, answers(), cloud.url)


def _run(stream: Any) -> list[Event]:
    async def collect() -> list[Event]:
        return [event async for event in stream]

    return asyncio.run(collect())


def _ids(events: list[Event], name: str) -> list[str | None]:
    return [event.id for event in events if event.event == name]


def _reports(home: Path) -> list[Path]:
    return sorted(home.glob("deployments/*/error-*.txt"))


def test_an_unexpected_exception_fails_one_resource_and_the_others_finish(
    opened: Session, tmp_path: Path
) -> None:
    broken, fine = _address("broken", BROKEN_SPEC), _address("fine")
    above = _address("above", depends_on=(broken.id,))
    _with_resources(opened, broken, fine, above)
    events = _run(apply(opened, ApplyOptions(skip_checks=True)))
    assert _ids(events, "resource_failed") == [broken.id]
    assert _ids(events, "resource_done") == [fine.id]
    summary = events[-1]
    assert summary.event == "summary" and not summary.data["ok"] and summary.data["created"] == 1
    [failed] = summary.data["failed"]
    assert failed["id"] == broken.id and failed["title"] == "Unexpected error"
    assert "noSuchField" in failed["detail"] and "creat" in failed["detail"]
    [report] = _reports(tmp_path)
    assert str(report) in failed["fix"] and "bug" in failed["fix"]
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    text = report.read_text("utf-8")
    assert "Traceback" in text and "noSuchField" in text and "compute.py" in text


def test_what_depends_on_the_failed_resource_is_named(opened: Session) -> None:
    broken = _address("broken", BROKEN_SPEC)
    middle = _address("middle", depends_on=(broken.id,))
    top = _address("top", depends_on=(middle.id,))
    _with_resources(opened, broken, middle, top)
    events = _run(apply(opened, ApplyOptions(skip_checks=True)))
    [notice] = [
        str(e.data["detail"]) for e in events if e.event == "notice" and middle.id in e.data["detail"]
    ]
    assert broken.id in notice and top.id in notice
    assert _ids(events, "resource_started") == [broken.id]


def test_an_unexpected_exception_while_reading_is_an_error_with_a_report(
    opened: Session, tmp_path: Path
) -> None:
    lost = Resource(
        step="networks", kind="subnet", name="lost", spec={}, parent={"project": "my-project"}
    )  # no region: KeyError in its driver
    _with_resources(opened, lost)
    with pytest.raises(WizardError) as raised:
        _run(apply(opened, ApplyOptions(skip_checks=True)))
    assert raised.value.title == "Unexpected error" and "'region'" in raised.value.detail
    assert "subnet lost" in raised.value.detail
    [report] = _reports(tmp_path)
    assert str(report) in raised.value.fix and "KeyError: 'region'" in report.read_text("utf-8")


def test_destroy_deletes_the_others_and_not_what_the_failed_one_depends_on(
    opened: Session, tmp_path: Path
) -> None:
    fine, other = _address("fine"), _address("other")
    odd = _address("odd", depends_on=(fine.id,))
    _with_resources(opened, fine, other, odd)
    assert _run(apply(opened, ApplyOptions(skip_checks=True)))[-1].data["created"] == 3
    events = _run(destroy(opened))
    assert _ids(events, "resource_failed") == [odd.id] and _ids(events, "resource_done") == [other.id]
    [notice] = [str(e.data["detail"]) for e in events if e.event == "notice" and fine.id in e.data["detail"]]
    assert odd.id in notice
    summary = events[-1].data
    assert (summary["ok"], summary["deleted"], summary["next"]) == (False, 1, "destroy")
    assert set(opened.deployment.resources) == {fine.id, odd.id} and len(_reports(tmp_path)) == 1


def test_graph_run_goes_on_after_a_failure_and_names_the_root_of_what_it_skips() -> None:
    waits_for = {"a": [], "b": ["a"], "c": ["b"], "d": [], "e": ["d", "c"]}
    ran = []

    async def work(id: str, emit: EmitEvent) -> bool:
        ran.append(id)
        await asyncio.sleep(0)
        emit(Event("notice", id))
        return id != "a"

    run = GraphRun(waits_for, work)
    events = _run(run.events())
    assert sorted(ran) == ["a", "d"] and sorted(str(e.id) for e in events) == ["a", "d"]
    assert run.skipped == {"b": "a", "c": "a", "e": "a"}


def test_graph_run_that_is_closed_cancels_its_work() -> None:
    ended = []

    async def work(id: str, emit: EmitEvent) -> bool:
        emit(Event("notice", id))
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(id)
        return True

    async def close_early() -> None:
        stream = GraphRun({"a": [], "b": []}, work).events()
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)

    asyncio.run(close_early())
    assert sorted(ended) == ["a", "b"]
