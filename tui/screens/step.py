"""One of the seven steps, drawn from its fields, checks and resources alone."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.timer import Timer
from textual.widgets import Collapsible, Input, Static

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.answers import NotAnswered
from grpo_wizard.steps.core.model import Step
from grpo_wizard.steps.registry import STEP_NAMES, step
from grpo_wizard.tui.controllers import enable_apis
from grpo_wizard.tui.controllers.live_checks import LiveChecks
from grpo_wizard.tui.screens.base import WizardScreen
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.navigation import adjacent_screen, stepper_items
from grpo_wizard.tui.widgets.checks import Checks
from grpo_wizard.tui.widgets.field_row import FieldRow
from grpo_wizard.tui.widgets.picker import CloudPicker
from grpo_wizard.tui.widgets.resource_preview import ResourcePreview
from grpo_wizard.tui.widgets.stepper import Stepper

DEBOUNCE_SECONDS = 0.3


class StepScreen(WizardScreen):
    """`PLACE` is the step's name. Answers are saved whenever the screen is left."""

    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "step.tcss"]  # type: ignore[assignment]
    AUTO_FOCUS = "FieldRow TextField, FieldRow ChoiceField, FieldRow SwitchField"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter",
            "next",
            _("Next"),
            key_display="enter",
            id="step.next",
            tooltip=_("Save and go to the next step"),
        ),
        Binding("escape", "back", _("Back"), id="step.back", tooltip=_("Save and go to the step before")),
        Binding("f5", "check_again", _("Check again"), id="step.check", tooltip=_("Ask the cloud anew")),
        Binding(
            "ctrl+y",
            "copy_command",
            _("Copy command"),
            id="step.copy",
            tooltip=_("Copy the command that does the same; what its files hold, grpo-wizard export writes"),
        ),
        Binding(
            "f6",
            "enable_apis",
            _("APIs on"),
            id="step.apis",
            tooltip=_("Switch the project's APIs on now, so that the checks can look; free"),
        ),
        Binding(
            "f2",
            "focus_stepper",
            _("Steps"),
            id="step.rail",
            tooltip=_("Go to the list of steps; arrows and Enter jump"),
            show=False,
        ),
        Binding(
            "down",
            "app.focus_next",
            _("Following field"),
            id="step.down",
            tooltip=_("The field below"),
            show=False,
        ),
        Binding(
            "up",
            "app.focus_previous",
            _("Previous field"),
            id="step.up",
            tooltip=_("The field above"),
            show=False,
        ),
    ]

    def __init__(self, name: str) -> None:
        self.step: Step = step(name)
        super().__init__()
        self.help_text = f"{self.step.title}. {self.step.purpose} " + _(
            "What you type is judged at once. Checks look at the cloud and change nothing. Enter goes on, Esc goes back; answers are kept either way."
        )
        self._debounce_timer: Timer | None = None
        self._changed: set[str] = set()
        self._apis_offered = False
        self.checks = LiveChecks(self, self.step)

    @property
    def screen_name(self) -> str:
        """The step's name."""
        return self.step.name

    def body(self) -> ComposeResult:
        """Rail; the form above checks and commands."""
        with Container(id="split"):
            yield Stepper()
            with Vertical(id="page"):
                number = STEP_NAMES.index(self.step.name) + 1
                yield Static(f"{number} {self.step.title}", classes="heading", markup=False)
                yield Static(self._purpose(), classes="say", markup=False)
                with VerticalScroll(id="form", can_focus=False):
                    for field in self.step.fields:
                        if not field.advanced:
                            yield self._row(field.name)
                    if any(field.advanced for field in self.step.fields):
                        yield Collapsible(title=_("Advanced"), id="advanced")
                with VerticalScroll(id="checks-box", can_focus=False):
                    yield Checks()
                yield ResourcePreview()

    def _purpose(self) -> str:
        if self.controller.writable or self.controller.lock_owner is None:
            return self.step.purpose
        who = self.controller.lock_owner
        return _("Read only: {command} (process {pid}) has held it since {since}.").format(
            command=who.command, pid=who.pid, since=who.since
        )

    def _row(self, name: str) -> FieldRow:
        field, draft = self.step.field(name), self.controller.draft
        note = ""
        if field.kind == "secret":
            note = (
                _("given")
                if name in draft.secrets
                else _("from {name} of the environment, or type it here").format(name=field.env[0])
            )
        row = FieldRow(field, draft.value(self.step.name, field), note)
        row.disabled = not self.controller.writable
        row.set_class(not draft.is_shown(field), "-hidden")
        return row

    def on_mount(self) -> None:
        """Rail, refusals of before, commands; the first look at the cloud."""
        self.query_one(Stepper).show(stepper_items(self.controller), self.step.name)
        for row in self.query(FieldRow):
            self._show_field_error(row)
        self._show_resources()
        self.call_after_refresh(self.checks.run_all)

    def _show_field_error(self, row: FieldRow) -> None:
        key = f"{self.step.name}.{row.field.name}"
        wrong = self.controller.draft.errors_in(self.step.name).get(row.field.name, "")
        row.set_error(
            wrong
            if key in self.controller.draft.invalid_values
            or self.controller.draft.was_visited(self.step.name)
            or row.raw not in ("", None)
            else ""
        )

    @on(Collapsible.Expanded)
    @work(exit_on_error=False, group="advanced")
    async def _expand_advanced(self, event: Collapsible.Expanded) -> None:
        """The rarely asked are mounted when they are first looked at."""
        await self.mount_advanced()

    async def mount_advanced(self) -> None:
        """Mounts the advanced rows, once."""
        contents = self.query_one("#advanced Contents")
        if not contents.children:
            await contents.mount_all([self._row(field.name) for field in self.step.fields if field.advanced])
            for row in self.query(FieldRow):
                self._show_field_error(row)

    # --- answers

    @on(FieldRow.AnswerChanged)
    def _field_changed(self, event: FieldRow.AnswerChanged) -> None:
        draft, field = self.controller.draft, event.row.field
        event.row.set_error(draft.set(self.step.name, field, event.raw))
        for row in self.query(FieldRow):
            if row is not event.row:
                row.set_class(not draft.is_shown(row.field), "-hidden")
                if callable(row.field.default):
                    row.set_value(draft.value(self.step.name, row.field))
        self._draw_invalid()
        self._changed.add(f"{self.step.name}.{field.name}")
        self._schedule_update()

    @on(FieldRow.BrowseRequested)
    def _open_picker(self, event: FieldRow.BrowseRequested) -> None:
        row = event.row
        look = partial(self.controller.suggestions_for, row.field)
        self.app.push_screen(CloudPicker(row.field.label, look, str(row.raw)), row.select_value)

    def _schedule_update(self) -> None:
        """Checks and commands follow when the typing pauses."""
        if self._debounce_timer is not None:
            self._debounce_timer.stop()
        self.checks.mark_stale(self._changed)
        self._debounce_timer = self.set_timer(DEBOUNCE_SECONDS, self._apply_changes)

    def _apply_changes(self) -> None:
        changed, self._changed = self._changed, set()
        self._show_resources()
        self.update_title()
        self.checks.run([check for check in self.step.checks if changed & set(check.needs_fields)])

    def _show_resources(self) -> None:
        answers, _missing = self.controller.draft.validate()
        try:
            resources = list(self.step.resources(answers))
        except (NotAnswered, ValueError):
            self.query_one(ResourcePreview).show_resources(
                (), _("The command follows when the answers are complete.")
            )
            return
        self.query_one(ResourcePreview).show_resources(resources, _("Later steps use these answers."))

    # --- checks

    def show_findings(self) -> None:
        """Draws what is known of the checks now; the rail's sign of this step goes with it."""
        found, shown = self.checks.findings(), self.query_one(Checks)
        shown.show(found)
        self.controller.record_checks(self.step.name, any(finding.level == "block" for finding in found))
        self._draw_invalid()
        if (
            self.checks.needs_apis != self._apis_offered
        ):  # the footer is drawn anew, and this is asked at each key
            self._apis_offered = self.checks.needs_apis
            self.refresh_bindings()

    def _draw_invalid(self) -> None:
        prefix = f"{self.step.name}."
        self.query_one(Checks).invalid_count = sum(
            key.startswith(prefix) for key in self.controller.draft.invalid_values
        )
        self.query_one(Stepper).items = tuple(stepper_items(self.controller))

    async def action_check_again(self) -> None:
        """Asks the cloud anew."""
        await self.checks.clear_cache()
        self.checks.run_all()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """APIs are offered where a check could not look for want of one."""
        return action != "enable_apis" or (self.controller.writable and self.checks.needs_apis)

    @work(exit_on_error=False, group="apis", exclusive=True)
    async def action_enable_apis(self) -> None:
        """Asks, switches them on, and looks again."""
        project = self.controller.draft.validate()[0].project.project_id
        if not enable_apis.is_confirmed(
            await self.app.push_screen_wait(enable_apis.confirmation_dialog(project))
        ):
            return
        self.checks.set_activity(_("enabling the APIs of {project}").format(project=project))
        try:
            await enable_apis.enable(self.controller)
            self.checks.set_activity(_("the APIs are on; a new one may take minutes to be felt"))
            await self.checks.wait_until_enabled((await self.controller.cloud()).time_scale)
        except WizardError as error:
            self.wizard.show_error(error)
        self.checks.set_activity("")

    def action_copy_command(self) -> None:
        """Copies the command that is shown."""
        self.query_one(ResourcePreview).action_copy()

    # --- leaving

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_next()

    @work(exit_on_error=False, group="leave", exclusive=True)
    async def action_next(self) -> None:
        """To the next place; not while something here is refused or missing."""
        wrong = self.controller.draft.errors_in(self.step.name)
        if wrong and self.controller.writable:
            await self._focus_error(wrong)
            return
        self._navigate_to(adjacent_screen(self.step.name, 1))

    async def _focus_error(self, errors: dict[str, str]) -> None:
        name = next(field.name for field in self.step.fields if field.name in errors)
        if self.step.field(name).advanced:
            self.query_one(Collapsible).collapsed = False
            await self.mount_advanced()
        row = self.query_one(f"#row-{name}", FieldRow)
        row.set_error(errors[name])
        row.control.focus()

    def action_back(self) -> None:
        """To the place before; answers are kept."""
        self._navigate_to(adjacent_screen(self.step.name, -1))

    @on(Stepper.StepSelected)
    def _jump(self, event: Stepper.StepSelected) -> None:
        self._navigate_to(event.key)

    def action_focus_stepper(self) -> None:
        """Into the rail."""
        self.query_one(Stepper).focus()

    def _navigate_to(self, screen_name: str) -> None:
        if self.controller.writable and not self.save(screen_name):
            return
        if screen_name:
            self.wizard.show(screen_name)
        else:
            self.wizard.close_deployment()

    def save_before_leave(self) -> bool:
        """Leaving the wizard keeps what was typed, and this is where it opens again."""
        return not self.controller.writable or self.save(self.step.name)

    def save(self, screen_name: str) -> bool:
        """Saves this step. False, with the error shown, when it could not be."""
        try:
            self.controller.draft.save_step(self.step.name, screen_name or self.step.name)
        except WizardError as error:
            self.wizard.show_error(error)
            return False
        return True
