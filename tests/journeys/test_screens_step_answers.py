"""The step screens by keyboard: every field takes and rejects values, answers are kept, and the wizard reopens where it was left."""

from __future__ import annotations

from pathlib import Path

import pytest
from app_pilot import (
    AppPilot,
    is_screen,
    run_async,
    run_wizard,
    screen_text,
    shared_home,
    wait_for_step,
    wait_until,
)
from emulator_server import EmulatorServer
from textual.widgets import Collapsible, Static

from grpo_wizard.state.home import Home
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.core.answers import Field, InvalidValue
from grpo_wizard.steps.core.model import Step
from grpo_wizard.steps.registry import STEP_NAMES, STEPS, step
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.screens.dialogs import ChoiceDialog
from grpo_wizard.tui.screens.home import HomeScreen
from grpo_wizard.tui.screens.review import ReviewScreen
from grpo_wizard.tui.screens.step import StepScreen
from grpo_wizard.tui.style.icons import status_icon
from grpo_wizard.tui.viewmodels.navigation import stepper_items
from grpo_wizard.tui.widgets.checks import Checks
from grpo_wizard.tui.widgets.field_row import FieldRow
from grpo_wizard.tui.widgets.inputs import ChoiceField, PickerField, SwitchField, TextField
from grpo_wizard.tui.widgets.picker import CloudPicker

__all__ = ["shared_home"]
_REFUSED = ("-", "Ä", "0", "-1", "9" * 16, "x" * 200, "two words here")
_TAKEN = {
    "project_id": "other-project", "region": "europe-west4", "zone": "europe-west4-b", "billing_account": "012345-6789AB-CDEF01",
    "member": "user:me@example.com", "reservation": "projects/p-1/reservations/r1", "version": "1.34", "gpu_boot_disk": "pd-ssd",
    "filesystem": "fs2", "image": "example.com/image:v2", "recipe": "", "model": "google/gemma-3-4b-it", "dataset": "openai/gsm8k",
    "checkpoint_dir": "/data/other", "capacity_gib": "36000", "overrides": "grpo.val_period=5", "gpu_memory_utilization": "0.5",
    "hf_token": "hf_abcdefghijklmnop", "wandb_api_key": "0123456789abcdef0123456789abcdef01234567", "mtu": "1500",
    "node_service_account": "nodes@my-project.iam.gserviceaccount.com",
}  # fmt: skip
# Shown only for certain values of another field.
_OPENED_BY = {"billing_account": "create_project", "member": "grant_roles", "subnetwork": "use_existing"}


def _begin(home: Path, name: str, place: str) -> None:
    store = StateStore(Home(home))
    deployment = store.create(name, "rehearsal", {each: {} for each in STEP_NAMES[: STEP_NAMES.index(place)]})
    deployment.place = place
    store.save(deployment)


async def _opened(pilot: AppPilot, name: str) -> StepScreen:
    await wait_until(pilot, lambda: is_screen(pilot, StepScreen, name), f"step {name}")
    screen = pilot.app.screen
    assert isinstance(screen, StepScreen)
    return screen


async def _unfolded(pilot: AppPilot, screen: StepScreen) -> None:
    """Expand the advanced fields."""
    if screen.query(Collapsible):
        await _to(pilot, screen, "CollapsibleTitle")
        await pilot.press("enter")
        wanted = len(screen.step.fields)
        await wait_until(pilot, lambda: len(screen.query(FieldRow)) == wanted, "the advanced fields")


async def _to(pilot: AppPilot, screen: StepScreen, what: str) -> None:
    """Focus a widget in the focus chain; another test presses Tab through the whole chain."""
    target = next(w for w in screen.focus_chain if w.id == what or type(w).__name__ == what)
    target.focus()
    await pilot.pause()


def _refusal(field: Field) -> tuple[str, str] | None:
    """A value that this field rejects, and part of the reason."""
    for text in _REFUSED:
        try:
            field.parse(text)
        except InvalidValue as refusal:
            if not (field.kind in ("integer", "number") and not set(text) <= set("0123456789-")):
                return text, str(refusal)
    return None


async def _answer(pilot: AppPilot, screen: StepScreen, field: Field) -> None:
    draft, name = screen.controller.draft, screen.step.name
    row = screen.query_one(f"#row-{field.name}", FieldRow)
    control = row.control
    if isinstance(control, SwitchField):
        before = control.value
        await pilot.press("space")
        assert draft.validate()[0].of(name).get(field.name) is (not before)
        await pilot.press("space")
    elif isinstance(control, ChoiceField):
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
        assert str(draft.validate()[0].of(name).get(field.name)) == control.value != before
        while control.value != before:
            await pilot.press(
                "left" if control.options.index(control.value) > control.options.index(before) else "right"
            )
    else:
        assert isinstance(control, TextField)
        await _type_over(
            pilot,
            control,
            _TAKEN.get(field.name) or ("7" if field.kind in ("integer", "number") else "other-name"),
        )
        assert not row.has_class("-invalid"), (field.name, control.value)
        if field.kind == "secret":
            assert draft.secrets[field.name].reveal() == control.value
        else:
            assert draft.validate()[0].of(name).get(field.name) == field.parse(control.value)


async def _type_over(pilot: AppPilot, control: TextField, text: str) -> None:
    await pilot.press("end", "ctrl+u")
    assert control.value == ""
    await pilot.press(*text)
    assert control.value == text


async def _refuse(pilot: AppPilot, screen: StepScreen, field: Field) -> None:
    row = screen.query_one(f"#row-{field.name}", FieldRow)
    found = ("two words", "") if field.kind == "secret" else _refusal(field)
    if found is None or not isinstance(row.control, TextField):
        assert isinstance(row.control, ChoiceField | SwitchField), f"{field.name} refuses nothing"
        return
    await _type_over(pilot, row.control, found[0])
    assert row.has_class("-invalid")
    assert found[1] in str(row.query_one(".below", Static).content)


@pytest.mark.parametrize("each", STEPS, ids=lambda each: each.name)
def test_every_field_accepts_and_rejects_values_by_keyboard(each: Step, joined: Path) -> None:
    _begin(joined, "alpha", each.name)

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
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

    run_async(journey)


def test_tab_visits_every_widget_and_down_every_field(joined: Path) -> None:
    _begin(joined, "alpha", "lustre")

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
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

    run_async(journey)


def test_field_help_follows_the_focus(joined: Path) -> None:
    _begin(joined, "alpha", "lustre")

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, "lustre")
            for name in ("lustre_name", "capacity_gib", "per_unit_storage_throughput"):
                assert screen.focused is screen.query_one(f"#field-{name}")
                helped = [row.field.name for row in screen.query(FieldRow) if row.query_one(".below").display]
                assert helped == [name]
                await pilot.press("tab")
                await pilot.pause()

    run_async(journey)


def test_f4_lists_existing_resources(joined: Path, shared_rehearsal: EmulatorServer) -> None:
    _begin(joined, "alpha", "quotas")
    shared_rehearsal.enable("compute.googleapis.com")

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, "quotas")
            line = screen.query_one("#field-reservation", PickerField)
            await _to(pilot, screen, "field-reservation")
            await _type_over(pilot, line, "other-name")
            await pilot.press("f4")
            await wait_until(
                pilot,
                lambda: is_screen(pilot, CloudPicker) and "4 of 4" in screen_text(pilot),
                "the reservations there",
            )
            assert "nemo-res" in screen_text(pilot)
            await pilot.press("enter")
            await wait_until(pilot, lambda: is_screen(pilot, StepScreen, "quotas"), "the step again")
            assert line.value == "nemo-res" and screen.focused is line
            assert screen.controller.draft.validate()[0].quotas.reservation == "nemo-res"
            await pilot.press("f4")
            await wait_until(pilot, lambda: is_screen(pilot, CloudPicker), "the list")
            await pilot.press("escape")
            await wait_until(pilot, lambda: is_screen(pilot, StepScreen, "quotas"), "the step again")
            assert line.value == "nemo-res"

    run_async(journey)


def _check_texts(screen: StepScreen) -> str:
    """All findings that are shown, including those that are scrolled out of view."""
    return "\n".join(f"{row.title} {row.detail}" for row in screen.query_one(Checks).findings)


def test_f6_enables_apis_after_confirmation_and_reruns_checks(joined: Path) -> None:
    _begin(joined, "alpha", "cluster")

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await wait_for_step(pilot, "cluster")
            assert "checks are waiting for APIs" in _check_texts(screen) and screen.checks.needs_apis
            await pilot.press("f6")
            await wait_until(
                pilot,
                lambda: is_screen(pilot, ChoiceDialog) and "9 APIs" in screen_text(pilot),
                "the question",
            )
            await pilot.press("escape")
            await wait_until(pilot, lambda: is_screen(pilot, StepScreen, "cluster"), "the step again")
            assert screen.checks.needs_apis and not screen.controller.draft.deployment.resources
            await pilot.press("f6")
            await wait_until(pilot, lambda: is_screen(pilot, ChoiceDialog), "the question")
            await pilot.press("enter")
            await wait_until(
                pilot, lambda: not screen.checks.needs_apis and screen.checks.is_settled, "the APIs"
            )
            await wait_until(pilot, lambda: "GKE 1.35" in _check_texts(screen), "the versions")
            assert "waiting for APIs" not in _check_texts(screen)
            assert not screen.check_action("enable_apis", ()), "nothing is hidden any more"
            kinds = {record.kind for record in screen.controller.draft.deployment.resources.values()}
            assert kinds == {"api"} and screen.controller.initial_screen() == "cluster"

    run_async(journey)


@pytest.mark.parametrize("name", STEP_NAMES)
def test_wizard_reopens_at_the_step_where_it_was_left(name: str, joined: Path) -> None:
    """With what was typed there; the previous steps keep their answers."""
    _begin(joined, "alpha", name)
    field = next(f for f in step(name).fields if not f.advanced and f.kind in ("text", "integer"))
    text = _TAKEN.get(field.name) or ("7" if field.kind == "integer" else "other-name")

    async def leave() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, name)
            await _to(pilot, screen, f"field-{field.name}")
            control = screen.query_one(f"#field-{field.name}", TextField)
            await _type_over(pilot, control, text)
            await pilot.press("ctrl+q")

    async def come_back() -> None:
        async with run_wizard(joined) as pilot:
            await wait_until(
                pilot, lambda: is_screen(pilot, HomeScreen) and "alpha" in screen_text(pilot), "the list"
            )
            await pilot.press("enter")
            screen = await _opened(pilot, name)
            assert screen.query_one(f"#field-{field.name}", TextField).value == text

    run_async(leave)
    run_async(come_back)


def test_navigation_keeps_answers_including_invalid_ones(joined: Path) -> None:
    _begin(joined, "alpha", "networks")

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, "networks")
            await _type_over(pilot, screen.query_one("#field-network", TextField), "Not-A-Name")
            await pilot.press("escape")
            await _opened(pilot, "quotas")
            await pilot.press("enter")
            screen = await _opened(pilot, "networks")
            assert screen.query_one("#field-network", TextField).value == "Not-A-Name"
            assert screen.query_one("#row-network").has_class("-invalid")
            await pilot.press("enter")
            assert is_screen(pilot, StepScreen, "networks"), "a refused value holds one here"
            assert screen.focused is screen.query_one("#field-network")

    run_async(journey)


def test_derived_default_follows_its_source_answer(joined: Path) -> None:
    _begin(joined, "alpha", "quotas")

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, "quotas")
            await pilot.press("right")
            assert screen.query_one("#field-machine_type", ChoiceField).value == "a3-ultragpu-8g"
            await pilot.press("left")
            assert screen.query_one("#field-machine_type", ChoiceField).value == "a4-highgpu-8g"

    run_async(journey)


def test_check_waits_for_its_answers(joined: Path) -> None:
    StateStore(Home(joined)).create("alpha", "rehearsal", {})

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await wait_for_step(pilot, "project")
            await _to(pilot, screen, "field-zone")
            await _type_over(pilot, screen.query_one("#field-zone", TextField), "us-east5-a")
            await wait_until(
                pilot,
                lambda: "belongs to region us-east5" in screen_text(pilot),
                "the check of zone and region",
            )
            await _type_over(pilot, screen.query_one("#field-zone", TextField), "us-central1-b")
            await wait_until(
                pilot,
                lambda: "us-central1-b is in us-central1" in screen_text(pilot),
                "the same check, passing",
            )

    run_async(journey)


def test_review_names_missing_answers_and_enter_opens_the_step(joined: Path) -> None:
    _begin(joined, "alpha", "quotas")

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await _opened(pilot, "quotas")
            control = screen.query_one("#field-reservation", TextField)
            await _to(pilot, screen, "field-reservation")
            await _type_over(pilot, control, "-")
            app = pilot.app
            assert isinstance(app, Wizard)
            app.show("review")
            await wait_until(pilot, lambda: is_screen(pilot, ReviewScreen), "Review")
            assert "missing or invalid: Reservation" in screen_text(pilot)
            await pilot.press("down", "enter")
            await _opened(pilot, "quotas")

    run_async(journey)


async def _review_looked(pilot: AppPilot) -> ReviewScreen:
    await wait_until(pilot, lambda: is_screen(pilot, ReviewScreen), "Review")
    screen = pilot.app.screen
    assert isinstance(screen, ReviewScreen)
    await wait_until(pilot, lambda: screen.check_results is not None, "what the checks say", 120)
    return screen


def _sign(pilot: AppPilot, name: str) -> str:
    app = pilot.app
    assert isinstance(app, Wizard) and app.controller is not None
    return next(item.status for item in stepper_items(app.controller) if item.key == name)


def test_invalid_answer_blocks_its_step(joined: Path) -> None:
    """In the stepper and in the title of the checks, at once, whether visited before or not; also a token."""
    store = StateStore(Home(joined))
    deployment = store.create("alpha", "rehearsal", {each: {} for each in STEP_NAMES})
    deployment.place = "networks"
    store.save(deployment)

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            screen = await wait_for_step(pilot, "networks")
            assert _sign(pilot, "networks") == "done"
            line = screen.query_one("#field-network", TextField)
            good = line.value
            line.focus()
            await _type_over(pilot, line, "My-Net")
            assert _sign(pilot, "networks") == "block"
            await wait_until(
                pilot, lambda: "1 invalid answer" in screen_text(pilot), "the refusal in the edge"
            )
            await wait_until(
                pilot, lambda: "✗ 1 block" in screen_text(pilot), "the stepper to show the block"
            )
            assert "no blockers" not in screen_text(pilot)
            await _type_over(pilot, line, good)
            await wait_until(pilot, lambda: "invalid answer" not in screen_text(pilot), "the mended answer")
            assert _sign(pilot, "networks") == "done"
            app = pilot.app
            assert isinstance(app, Wizard)
            app.show("project")
            screen = await wait_for_step(pilot, "project")
            await _unfolded(pilot, screen)
            token = screen.query_one("#field-hf_token", TextField)
            token.focus()
            await _type_over(pilot, token, "has spaces in it")
            assert _sign(pilot, "project") == "block" and "has spaces" not in str(
                screen.controller.draft.invalid_values
            )
            await pilot.press("end", "ctrl+u")
            assert _sign(pilot, "project") == "done"

    run_async(journey)


def test_blocking_check_blocks_its_step_and_review_shows_the_level_once(joined: Path) -> None:
    store = StateStore(Home(joined))
    deployment = store.create(
        "alpha", "rehearsal", {each: {} for each in STEP_NAMES} | {"grpo": {"num_generations_per_prompt": 1}}
    )
    deployment.place = "grpo"
    store.save(deployment)

    async def journey() -> None:
        async with run_wizard(joined, start="alpha") as pilot:
            app = pilot.app
            assert isinstance(app, Wizard)
            await wait_for_step(pilot, "grpo")
            assert _sign(pilot, "grpo") == "block"
            await wait_until(
                pilot, lambda: "✗ 1 block" in screen_text(pilot), "the stepper to show the block"
            )
            app.show("review")
            screen = await _review_looked(pilot)
            findings = [
                row for row in screen._rows if row.key in STEP_NAMES and row.status in ("block", "warn")
            ]
            assert {row.status for row in findings} == {"block", "warn"}
            for row in screen._rows:
                if row.key in STEP_NAMES:
                    text = row.text(app.theme_variables, 76).plain
                    word = status_icon(row.status).label
                    assert text.split().count(word) == 1 and text.endswith(f"  {status_icon(row.status)}"), (
                        text
                    )
                    assert text[12:14] == "  " and text[14] != " " and len(text) == 76, text
            assert _sign(pilot, "grpo") == "block"

    run_async(journey)
