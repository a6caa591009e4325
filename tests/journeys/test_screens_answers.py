"""The seven step screens: every field reachable, answerable, refusable by keys; answers are kept; resume goes where one stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from rehearsing import Rehearsal
from screens import Drive, joined, on, play, shown, step_settled, until, wizard
from textual.widgets import Collapsible, Static

from grpo_wizard.state.home import Home
from grpo_wizard.state.store import Store
from grpo_wizard.steps.core.model import Field, Refused, Step
from grpo_wizard.steps.registry import NAMES, STEPS, step
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.screens.dialogs import Choose
from grpo_wizard.tui.screens.home import OpeningScreen
from grpo_wizard.tui.screens.review import ReviewScreen
from grpo_wizard.tui.screens.step import StepScreen
from grpo_wizard.tui.style.icons import sign
from grpo_wizard.tui.viewmodels.navigation import rail_items
from grpo_wizard.tui.widgets.field_row import FieldRow
from grpo_wizard.tui.widgets.inputs import Choice, Line, Listed, YesNo
from grpo_wizard.tui.widgets.picker import Found

__all__ = ["joined"]
_REFUSED = ("-", "Ä", "0", "-1", "9" * 16, "x" * 200, "two words here")
_TAKEN = {
    "project_id": "other-project", "region": "europe-west4", "zone": "europe-west4-b", "billing_account": "012345-6789AB-CDEF01",
    "member": "user:me@example.com", "reservation": "projects/p-1/reservations/r1", "version": "1.34", "gpu_boot_disk": "pd-ssd",
    "filesystem": "fs2", "image": "example.com/image:v2", "recipe": "", "model": "google/gemma-3-4b-it", "dataset": "openai/gsm8k",
    "checkpoint_dir": "/data/other", "capacity_gib": "36000", "overrides": "grpo.val_period=5", "gpu_memory_utilization": "0.5",
    "hf_token": "hf_abcdefghijklmnop", "wandb_api_key": "0123456789abcdef0123456789abcdef01234567", "mtu": "1500",
    "node_service_account": "nodes@my-project.iam.gserviceaccount.com",
}  # fmt: skip
# Asked only when another answer makes it matter.
_OPENED_BY = {"billing_account": "create_project", "member": "grant_roles", "subnetwork": "use_existing"}


def _begin(home: Path, name: str, place: str) -> None:
    store = Store(Home(home))
    deployment = store.create(name, "rehearsal", {each: {} for each in NAMES[: NAMES.index(place)]})
    deployment.place = place
    store.save(deployment)


async def _opened(pilot: Drive, name: str) -> StepScreen:
    await until(pilot, lambda: on(pilot, StepScreen, name), f"step {name}")
    screen = pilot.app.screen
    assert isinstance(screen, StepScreen)
    return screen


async def _unfolded(pilot: Drive, screen: StepScreen) -> None:
    """The advanced questions are behind a line that Enter unfolds."""
    if screen.query(Collapsible):
        await _to(pilot, screen, "CollapsibleTitle")
        await pilot.press("enter")
        wanted = len(screen.step.fields)
        await until(pilot, lambda: len(screen.query(FieldRow)) == wanted, "the advanced fields")


async def _to(pilot: Drive, screen: StepScreen, what: str) -> None:
    """There by Tab: what is in the chain that Tab walks is reached by it; the walk itself is tested once."""
    target = next(w for w in screen.focus_chain if w.id == what or type(w).__name__ == what)
    target.focus()
    await pilot.pause()


def _refusal(field: Field) -> tuple[str, str] | None:
    """A text that this field refuses, and its sentence."""
    for text in _REFUSED:
        try:
            field.parse(text)
        except Refused as refusal:
            if not (field.kind in ("integer", "number") and not set(text) <= set("0123456789-")):
                return text, str(refusal)
    return None


async def _answer(pilot: Drive, screen: StepScreen, field: Field) -> None:
    draft, name = screen.desk.draft, screen.step.name
    row = screen.query_one(f"#row-{field.name}", FieldRow)
    control = row.control
    if isinstance(control, YesNo):
        before = control.value
        await pilot.press("space")
        assert draft.look()[0][name][field.name] is (not before)
        await pilot.press("space")
    elif isinstance(control, Choice):
        assert all(str(field.parse(option)) == option for option in control.options), (
            "only what parse takes is offered"
        )
        wanted = next(option for option in control.options if option != control.value)
        before = control.value
        await pilot.press(
            *(
                ["right"] * len(control.options)
                if control.options.index(wanted) > control.options.index(before)
                else ["left"]
            )
        )
        assert str(draft.look()[0][name][field.name]) == control.value != before
        while control.value != before:
            await pilot.press(
                "left" if control.options.index(control.value) > control.options.index(before) else "right"
            )
    else:
        assert isinstance(control, Line)
        await _type_over(
            pilot,
            control,
            _TAKEN.get(field.name) or ("7" if field.kind in ("integer", "number") else "other-name"),
        )
        assert not row.has_class("-refused"), (field.name, control.value)
        if field.kind == "secret":
            assert draft.secrets[field.name].reveal() == control.value
        else:
            assert draft.look()[0][name][field.name] == field.parse(control.value)


async def _type_over(pilot: Drive, control: Line, text: str) -> None:
    await pilot.press("end", "ctrl+u")
    assert control.value == ""
    await pilot.press(*text)
    assert control.value == text


async def _refuse(pilot: Drive, screen: StepScreen, field: Field) -> None:
    row = screen.query_one(f"#row-{field.name}", FieldRow)
    found = ("two words", "") if field.kind == "secret" else _refusal(field)
    if found is None or not isinstance(row.control, Line):
        assert isinstance(row.control, Choice | YesNo), f"{field.name} refuses nothing"
        return
    await _type_over(pilot, row.control, found[0])
    assert row.has_class("-refused")
    assert found[1] in str(row.query_one(".below", Static).content)


@pytest.mark.parametrize("each", STEPS, ids=lambda each: each.name)
def test_every_field_can_be_reached_answered_and_refused_by_keys(each: Step, joined: Path) -> None:
    _begin(joined, "alpha", each.name)

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, each.name)
            await _unfolded(pilot, screen)
            for field in each.fields:
                if field.name in _OPENED_BY:
                    await _to(pilot, screen, f"field-{_OPENED_BY[field.name]}")
                    await pilot.press("space")
                await _to(pilot, screen, f"field-{field.name}")
                await _answer(pilot, screen, field)
                await _refuse(pilot, screen, field)
            assert "hf_abcdefghijklmnop" not in (joined / "deployments" / "alpha" / "state.json").read_text()

    play(journey)


def test_tab_walks_through_the_whole_screen_and_down_through_the_form(joined: Path) -> None:
    _begin(joined, "alpha", "lustre")

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, "lustre")
            for key in ("down", "tab"):
                screen.query_one("#field-lustre_name").focus()
                await pilot.press(key)
                assert screen.focused is screen.query_one("#field-capacity_gib")
            walked = set()
            for _ in range(len(screen.focus_chain)):
                await pilot.press("tab")
                walked.add(screen.focused)
            assert walked == set(screen.focus_chain)

    play(journey)


def test_the_help_goes_along_with_the_focus(joined: Path) -> None:
    _begin(joined, "alpha", "lustre")

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, "lustre")
            for name in ("lustre_name", "capacity_gib", "per_unit_storage_throughput"):
                assert screen.focused is screen.query_one(f"#field-{name}")
                helped = [row.field.name for row in screen.query(FieldRow) if row.query_one(".below").display]
                assert helped == [name]
                await pilot.press("tab")
                await pilot.pause()

    play(journey)


def test_f4_lists_what_is_in_the_cloud_to_choose_from(joined: Path, shared_rehearsal: Rehearsal) -> None:
    _begin(joined, "alpha", "quotas")
    shared_rehearsal.enable("compute.googleapis.com")

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, "quotas")
            line = screen.query_one("#field-reservation", Listed)
            await _to(pilot, screen, "field-reservation")
            await _type_over(pilot, line, "other-name")
            await pilot.press("f4")
            await until(
                pilot, lambda: on(pilot, Found) and "4 of 4" in shown(pilot), "the reservations there"
            )
            assert "nemo-res" in shown(pilot)
            await pilot.press("enter")
            await until(pilot, lambda: on(pilot, StepScreen, "quotas"), "the step again")
            assert line.value == "nemo-res" and screen.focused is line
            assert screen.desk.draft.look()[0]["quotas"]["reservation"] == "nemo-res"
            await pilot.press("f4")
            await until(pilot, lambda: on(pilot, Found), "the list")
            await pilot.press("escape")
            await until(pilot, lambda: on(pilot, StepScreen, "quotas"), "the step again")
            assert line.value == "nemo-res"

    play(journey)


def test_f6_enables_the_apis_after_a_question_and_the_checks_look_again(joined: Path) -> None:
    _begin(joined, "alpha", "cluster")

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await step_settled(pilot, "cluster")
            assert "cannot be looked up yet" in shown(pilot) and screen.checks.wants_apis
            await pilot.press("f6")
            await until(pilot, lambda: on(pilot, Choose) and "9 APIs" in shown(pilot), "the question")
            await pilot.press("escape")
            await until(pilot, lambda: on(pilot, StepScreen, "cluster"), "the step again")
            assert screen.checks.wants_apis and not screen.desk.draft.deployment.resources
            await pilot.press("f6")
            await until(pilot, lambda: on(pilot, Choose), "the question")
            await pilot.press("enter")
            await until(pilot, lambda: not screen.checks.wants_apis and screen.checks.is_settled, "the APIs")
            await until(pilot, lambda: "GKE 1.35" in shown(pilot), "the versions")
            assert "cannot be looked up yet" not in shown(pilot)
            assert not screen.check_action("enable_apis", ()), "nothing is hidden any more"
            kinds = {record.kind for record in screen.desk.draft.deployment.resources.values()}
            assert kinds == {"api"} and screen.desk.where_to_begin() == "cluster"

    play(journey)


@pytest.mark.parametrize("name", NAMES)
def test_the_wizard_opens_again_at_the_step_where_it_was_left(name: str, joined: Path) -> None:
    """What was typed there is there too, and the steps before keep their answers."""
    _begin(joined, "alpha", name)
    field = next(f for f in step(name).fields if not f.advanced and f.kind in ("text", "integer"))
    text = _TAKEN.get(field.name) or ("7" if field.kind == "integer" else "other-name")

    async def leave() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, name)
            await _to(pilot, screen, f"field-{field.name}")
            control = screen.query_one(f"#field-{field.name}", Line)
            await _type_over(pilot, control, text)
            await pilot.press("ctrl+q")

    async def come_back() -> None:
        async with wizard(joined) as pilot:
            await until(pilot, lambda: on(pilot, OpeningScreen) and "alpha" in shown(pilot), "the list")
            await pilot.press("enter")
            screen = await _opened(pilot, name)
            assert screen.query_one(f"#field-{field.name}", Line).value == text

    play(leave)
    play(come_back)


def test_going_back_and_forth_loses_nothing_not_even_what_was_refused(joined: Path) -> None:
    _begin(joined, "alpha", "networks")

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, "networks")
            await _type_over(pilot, screen.query_one("#field-network", Line), "Not-A-Name")
            await pilot.press("escape")
            await _opened(pilot, "quotas")
            await pilot.press("enter")
            screen = await _opened(pilot, "networks")
            assert screen.query_one("#field-network", Line).value == "Not-A-Name"
            assert screen.query_one("#row-network").has_class("-refused")
            await pilot.press("enter")
            assert on(pilot, StepScreen, "networks"), "a refused value holds one here"
            assert screen.focused is screen.query_one("#field-network")

    play(journey)


def test_a_default_that_follows_from_another_answer_keeps_following_it(joined: Path) -> None:
    _begin(joined, "alpha", "quotas")

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, "quotas")
            await pilot.press("right")
            assert screen.query_one("#field-machine_type", Choice).value == "a3-ultragpu-8g"
            await pilot.press("left")
            assert screen.query_one("#field-machine_type", Choice).value == "a4-highgpu-8g"

    play(journey)


def test_a_check_says_what_it_waits_for_and_runs_when_that_is_answered(joined: Path) -> None:
    Store(Home(joined)).create("alpha", "rehearsal", {})

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await step_settled(pilot, "project")
            await _to(pilot, screen, "field-zone")
            await _type_over(pilot, screen.query_one("#field-zone", Line), "us-east5-a")
            await until(pilot, lambda: "is not in region" in shown(pilot), "the check of zone and region")
            await _type_over(pilot, screen.query_one("#field-zone", Line), "us-central1-b")
            await until(
                pilot, lambda: "us-central1-b is in us-central1" in shown(pilot), "the same check, passing"
            )

    play(journey)


def test_review_names_what_is_missing_and_enter_goes_there(joined: Path) -> None:
    _begin(joined, "alpha", "quotas")

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, "quotas")
            control = screen.query_one("#field-reservation", Line)
            await _to(pilot, screen, "field-reservation")
            await _type_over(pilot, control, "-")
            app = pilot.app
            assert isinstance(app, Wizard)
            app.go("review")
            await until(pilot, lambda: on(pilot, ReviewScreen), "Review")
            assert "missing or refused: Reservation" in shown(pilot)
            await pilot.press("down", "enter")
            await _opened(pilot, "quotas")

    play(journey)


async def _review_looked(pilot: Drive) -> ReviewScreen:
    await until(pilot, lambda: on(pilot, ReviewScreen), "Review")
    screen = pilot.app.screen
    assert isinstance(screen, ReviewScreen)
    await until(pilot, lambda: screen.found is not None, "what the checks say", 120)
    return screen


def _sign(pilot: Drive, name: str) -> str:
    app = pilot.app
    assert isinstance(app, Wizard) and app.desk is not None
    return next(item.sign for item in rail_items(app.desk) if item.key == name)


def test_a_refused_answer_is_neither_done_nor_nothing_that_blocks(joined: Path) -> None:
    """In the rail and in the edge of the checks, at once, passed before or not; also a token."""
    store = Store(Home(joined))
    deployment = store.create("alpha", "rehearsal", {each: {} for each in NAMES})
    deployment.place = "networks"
    store.save(deployment)

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            screen = await step_settled(pilot, "networks")
            assert _sign(pilot, "networks") == "done"
            line = screen.query_one("#field-network", Line)
            good = line.value
            line.focus()
            await _type_over(pilot, line, "My-Net")
            assert _sign(pilot, "networks") == "block"
            await until(pilot, lambda: "1 answer refused" in shown(pilot), "the refusal in the edge")
            assert "nothing blocks" not in shown(pilot) and "✗ 1 block" in shown(pilot)
            await _type_over(pilot, line, good)
            await until(pilot, lambda: "answer refused" not in shown(pilot), "the mended answer")
            assert _sign(pilot, "networks") == "done"
            pilot.app.go("project")  # type: ignore[attr-defined]
            screen = await step_settled(pilot, "project")
            await _unfolded(pilot, screen)
            token = screen.query_one("#field-hf_token", Line)
            token.focus()
            await _type_over(pilot, token, "has spaces in it")
            assert _sign(pilot, "project") == "block" and "has spaces" not in str(screen.desk.draft.refused)
            await pilot.press("end", "ctrl+u")
            assert _sign(pilot, "project") == "done"

    play(journey)


def test_a_step_in_which_a_check_blocks_is_not_done_and_review_says_the_level_once(joined: Path) -> None:
    store = Store(Home(joined))
    deployment = store.create(
        "alpha", "rehearsal", {each: {} for each in NAMES} | {"grpo": {"num_generations_per_prompt": 1}}
    )
    deployment.place = "grpo"
    store.save(deployment)

    async def journey() -> None:
        async with wizard(joined, start="alpha") as pilot:
            app = pilot.app
            assert isinstance(app, Wizard)
            await step_settled(pilot, "grpo")
            assert _sign(pilot, "grpo") == "block" and "✗ 1 block" in shown(pilot)
            app.go("review")
            screen = await _review_looked(pilot)
            findings = [row for row in screen._rows if row.key in NAMES and row.sign in ("block", "warn")]
            assert {row.sign for row in findings} == {"block", "warn"}
            for row in screen._rows:
                if row.key in NAMES:
                    text = row.text(app.theme_variables, 76).plain
                    word = sign(row.sign).word
                    assert text.split().count(word) == 1 and text.endswith(f"  {sign(row.sign)}"), text
                    assert text[12:14] == "  " and text[14] != " " and len(text) == 76, text
            assert _sign(pilot, "grpo") == "block"

    play(journey)
