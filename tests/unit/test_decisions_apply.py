"""What stops an apply before it changes anything: conflicts, resources of others, prices, and the spending limit."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from decision_samples import OURS, THEIRS, a_deployment, a_record, a_resource, a_session, observed
from http_responder import error, http_responder
from sample_answers import answers

from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.engine.apply import _reclaim_interrupted, apply, plan_errors
from grpo_wizard.steps.engine.options import ApplyOptions
from grpo_wizard.steps.engine.plan import Decision, decide
from grpo_wizard.steps.engine.reconcile import owned_by_request_id
from grpo_wizard.steps.engine.spending import spending_errors
from grpo_wizard.steps.pricing.budget import BudgetGuard, SpendingLimits


def _decision(
    action: Any, note: str = "", usd: float | None = 0.0, name: str = "nemo", label: str = ""
) -> Decision:
    return Decision(
        a_resource("cluster", name, usd_per_hour=usd), action, observed(label=label), "none", note
    )


def _stopped_by(decisions: list[Decision], **options: Any) -> list[str]:
    return [entry["id"] for entry in plan_errors(decisions, ApplyOptions(**options))]


@pytest.mark.parametrize(
    "action,adopt,stops",
    [
        ("create", False, False),
        ("keep", False, False),
        ("change", False, False),
        ("replace", False, False),
        ("delete", False, False),
        ("adopt", False, True),
        ("adopt", True, False),
        ("conflict", False, True),
        ("conflict", True, True),
    ],
)  # fmt: skip
def test_what_stops_an_apply(action: str, adopt: bool, stops: bool) -> None:
    assert _stopped_by([_decision(action)], adopt=adopt) == (["networks.cluster.nemo"] if stops else [])


def test_every_resource_that_stops_it_is_listed() -> None:
    decisions = [
        _decision("adopt", name="one"),
        _decision("create", name="two"),
        _decision("conflict", name="three"),
    ]
    assert _stopped_by(decisions) == ["networks.cluster.one", "networks.cluster.three"]


def test_a_conflict_that_replace_solves_names_the_option_and_others_do_not() -> None:
    ours = decide(a_resource("cluster"), observed(label=OURS, drift=("somewhere",)), None, OURS)
    theirs = decide(a_resource("cluster"), observed(drift=("somewhere",)), None, OURS)
    [with_replace], [without] = plan_errors([ours], ApplyOptions()), plan_errors([theirs], ApplyOptions())
    assert "--replace networks.cluster.nemo" in with_replace["fix"] and "--replace" not in without["fix"]
    assert "somewhere" in with_replace["detail"] and "somewhere" in without["detail"]
    assert with_replace["title"] and without["title"]


def test_what_would_be_adopted_names_adopt_and_how_a_lost_state_is_recovered() -> None:
    [plain] = plan_errors([_decision("adopt", "about it")], ApplyOptions())
    assert "--adopt" in plain["fix"] and "--take-over" not in plain["fix"] and plain["detail"] == "about it"
    [lost] = plan_errors([_decision("adopt", label=THEIRS)], ApplyOptions())
    assert "--take-over" in lost["fix"] and THEIRS in lost["fix"]


def _price_errors(decisions: list[Decision], limit: float | None) -> list[dict[str, str]]:
    budget = BudgetGuard(a_deployment(), [], None)
    return spending_errors(decisions, budget, SpendingLimits(usd_per_hour=limit), allow_unpriced=True)


@pytest.mark.parametrize(
    "prices,limit,stops",
    [
        ((5.0, 5.0), None, False),
        ((5.0, 5.0), 10.0, False),
        ((5.0, 5.01), 10.0, True),
        ((5.0, None), 10.0, False),
        ((5.0, 6.0, None), 10.0, True),
        ((0.01,), 0.0, True),
        ((0.0,), 0.0, False),
    ],
)  # fmt: skip
def test_the_hourly_limit_counts_every_known_price(
    prices: tuple[float | None, ...], limit: float | None, stops: bool
) -> None:
    decisions = [_decision("create", usd=usd, name=f"n{number}") for number, usd in enumerate(prices)]
    assert [error["id"] for error in _price_errors(decisions, limit)] == (["price"] if stops else [])


def test_the_hourly_limit_counts_what_is_kept_and_not_what_is_deleted() -> None:
    keep, delete = _decision("keep", usd=8.0, name="a"), _decision("delete", usd=8.0, name="b")
    assert _price_errors([keep, delete], 10) == []
    assert len(_price_errors([keep, _decision("create", usd=8.0, name="c")], 10)) == 1
    [stop] = _price_errors([keep], 7)
    assert "8.00" in stop["title"] and "7.00" in stop["title"] and "--max-usd-per-hour" in stop["fix"]


# The project is to be created and is missing, so every resource is; what apply may not do then shows as requests that write.
NEW_PROJECT = {"project__create_project": True, "project__billing_account": "012345-678901-ABCDEF"}
MISSING_PROJECT = {
    "GET /v3/projects/my-project": error(403, "The caller does not have permission", "forbidden")
}


def _apply(
    home: Path, given: dict[str, Any], options: ApplyOptions, spent: float
) -> tuple[list[Event], Collection[str]]:
    """All events of an apply against a cloud without the project, and the requests that would have changed something."""

    async def everything() -> list[Event]:
        return [event async for event in apply(session, options)]

    with http_responder(MISSING_PROJECT) as cloud:
        session = a_session(home, answers(**NEW_PROJECT, **given), cloud.url)
        session.deployment.spent_usd = spent
        return asyncio.run(everything()), cloud.writes


@pytest.mark.parametrize(
    "answered,option,spent,stops",
    [
        (None, 10.0, 10.0, True),
        (None, 10.0, 9.99, False),
        (10, None, 12.0, True),
        (10, 20.0, 12.0, False),
        (20, 10.0, 12.0, True),
        (None, None, 1e6, False),
    ],
)  # fmt: skip
def test_nothing_is_started_once_the_spending_limit_is_reached(
    tmp_path: Path, answered: int | None, option: float | None, spent: float, stops: bool
) -> None:
    given = {} if answered is None else {"project__max_usd": answered}
    # An hourly limit of 0 ends the runs that the spending limit does not: they go no further than the plan either way.
    stop_anyway = ApplyOptions(max_usd=option, max_usd_per_hour=0.0)
    events, writes = _apply(tmp_path, given, stop_anyway, spent)
    failed = events[-1].data["failed"]
    assert [entry["id"] for entry in failed] == (["price", "price"] if stops else ["price"])
    assert not events[-1].data["ok"] and not writes


def test_the_spending_limit_alone_stops_an_apply_before_the_first_request_that_writes(tmp_path: Path) -> None:
    events, writes = _apply(tmp_path, {}, ApplyOptions(max_usd=5.0), spent=5.0)
    assert [event.event for event in events] == ["plan", "summary"]
    [stop] = events[-1].data["failed"]
    assert stop["id"] == "price" and "5.00 of 5.00" in stop["title"] and not writes


@pytest.mark.parametrize(
    "record,status,reason,ours",
    [
        (None, 200, "", False),
        (a_record("created", request_id="r-1"), 200, "", False),
        (a_record("adopted", request_id="r-1"), 200, "", False),
        (a_record("intended"), 200, "", False),
        (a_record("intended", request_id="r-1"), 200, "", True),
        (a_record("intended", request_id="r-1"), 409, "alreadyExists", False),
    ],
    ids=[
        "no record",
        "created",
        "adopted",
        "never sent",
        "answered with our operation",
        "answered: already exists",
    ],
)
def test_a_create_that_was_cut_short_is_proved_by_its_request_id(
    tmp_path: Path, record: Any, status: int, reason: str, ours: bool
) -> None:
    """The same request id sent again is answered with the first operation; another's resource answers 409."""
    subnet = a_resource(
        parent={"project": "my-project", "region": "us-central1"},
        spec={"name": "nemo", "ipCidrRange": "10.0.0.0/24"},
    )
    body = (
        {"name": "operation-1", "status": "DONE"}
        if status == 200
        else error(status, "already exists", reason)[1]
    )
    with http_responder({"POST /subnetworks": (status, body)}) as cloud:
        session = a_session(tmp_path, answers(), cloud.url, *([record] if record else []))
        assert asyncio.run(owned_by_request_id(session, subnet)) == ours
    asked = record is not None and record.origin == "intended" and bool(record.request_id)
    assert len(cloud.writes) == asked, "a resource that no create of ours began is not asked about"


@pytest.mark.parametrize(
    "action,record,reclaimed",
    [
        ("adopt", a_record("intended", request_id="r-1"), True),
        ("adopt", a_record("adopted", request_id="r-1"), False),
        ("adopt", None, False),
        ("conflict", a_record("intended", request_id="r-1"), False),
    ],
    ids=["ours, cut short", "adopted", "another's", "does not fit"],
)
def test_what_an_interrupted_apply_created_is_kept_as_ours(
    tmp_path: Path, action: Any, record: Any, reclaimed: bool
) -> None:
    subnet = a_resource(parent={"project": "my-project", "region": "us-central1"}, spec={"name": "nemo"})
    before = Decision(subnet, action, observed(), "none", "the note")
    with http_responder({"POST /subnetworks": (200, {"name": "operation-1", "status": "DONE"})}) as cloud:
        session = a_session(tmp_path, answers(), cloud.url, *([record] if record else []))
        after = asyncio.run(_reclaim_interrupted(session, before))
    if reclaimed:
        assert (after.action, after.ownership) == ("keep", "created") and after.note not in ("", "the note")
        assert (after.resource, after.observed) == (before.resource, before.observed)
    else:
        assert after == before
    assert len(cloud.writes) == reclaimed


def test_errors_of_a_plan_have_a_title_and_end_where_there_is_no_hint() -> None:
    conflict, adopt = plan_errors([_decision("conflict"), _decision("adopt")], ApplyOptions())
    assert conflict["title"].lower() == "conflict" and "not created by" in adopt["title"].lower()
    assert adopt["fix"].endswith("choose a different name.")
