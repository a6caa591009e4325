"""The screen of a step: built from the step's fields, checks and resources."""

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
from grpo_wizard.tui.screens.enable_apis_dialog import confirmation_dialog, is_confirmed
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.navigation import adjacent_screen, stepper_items
from grpo_wizard.tui.widgets.checks import Checks
from grpo_wizard.tui.widgets.field_row import FieldRow
from grpo_wizard.tui.widgets.picker import CloudPicker
from grpo_wizard.tui.widgets.resource_preview import ResourcePreview
from grpo_wizard.tui.widgets.stepper import Stepper

DEBOUNCE_SECONDS = 0.3


class StepScreen(WizardScreen):
    """The screen of one step. Answers are saved whenever the screen is left."""

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
        Binding("escape", "back", _("Back"), id="step.back", tooltip=_("Save and go to the previous step")),
        Binding("f5", "check_again", _("Check again"), id="step.check", tooltip=_("Rerun all checks")),
        Binding(
            "ctrl+y",
            "copy_command",
            _("Copy command"),
            id="step.copy",
            tooltip=_("Copy the equivalent command (`grpo-wizard export` writes the files it uses)"),
            show=False,
        ),
        Binding(
            "f6",
            "enable_apis",
            _("Enable APIs"),
            id="step.apis",
            tooltip=_("Enable the project's APIs now so that all checks can run; this is free"),
        ),
        Binding(
            "f2",
            "focus_stepper",
            _("Steps"),
            id="step.rail",
            tooltip=_("Focus the list of steps; use the arrow keys to select a step and Enter to open it"),
            show=False,
        ),
        Binding(
            "down",
            "app.focus_next",
            _("Next field"),
            id="step.down",
            tooltip=_("Go to the field below"),
            show=False,
        ),
        Binding(
            "up",
            "app.focus_previous",
            _("Previous field"),
            id="step.up",
            tooltip=_("Go to the field above"),
            show=False,
        ),
    ]

    def __init__(self, name: str) -> None:
        self.step: Step = step(name)
        super().__init__()
        self.help_text = f"{self.step.title}. {self.step.purpose} " + _(
            "Values are validated as you type. Checks only read from Google Cloud and change nothing. "
            "Press Enter to open the next step or Esc to open the previous one; your answers are saved either way."
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
        """Yield the stepper and the page: form, checks, and the resources with their commands."""
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
        owner = self.controller.lock_owner
        return _("Read-only: locked by {command} (process {pid}) since {since}.").format(
            command=owner.command, pid=owner.pid, since=owner.since
        )

    def _row(self, name: str) -> FieldRow:
        field, draft = self.step.field(name), self.controller.draft
        note = ""
        if field.kind == "secret":
            note = (
                _("set")
                if name in draft.secrets
                else _("read from ${name} unless entered here").format(name=field.env[0])
            )
        row = FieldRow(field, draft.value(self.step.name, field), note)
        row.disabled = not self.controller.writable
        row.set_class(not draft.is_shown(field), "-hidden")
        return row

    def on_mount(self) -> None:
        """Show stepper, earlier errors and commands, then run the checks."""
        self.query_one(Stepper).show(stepper_items(self.controller), self.step.name)
        for row in self.query(FieldRow):
            self._show_field_error(row)
        self._show_resources()
        self.call_after_refresh(self.checks.run_all)

    def _show_field_error(self, row: FieldRow) -> None:
        key = f"{self.step.name}.{row.field.name}"
        error = self.controller.draft.errors_in(self.step.name).get(row.field.name, "")
        row.set_error(
            error
            if key in self.controller.draft.invalid_values
            or self.controller.draft.was_visited(self.step.name)
            or row.raw not in ("", None)
            else ""
        )

    @on(Collapsible.Expanded)
    @work(exit_on_error=False, group="advanced")
    async def _expand_advanced(self, event: Collapsible.Expanded) -> None:
        """Mount the advanced fields when they are first shown."""
        await self.mount_advanced()

    async def mount_advanced(self) -> None:
        """Mount the advanced fields, once."""
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
        load = partial(self.controller.suggestions_for, row.field)
        self.app.push_screen(CloudPicker(row.field.label, load, str(row.raw)), row.select_value)

    def _schedule_update(self) -> None:
        """Update checks and commands once typing pauses."""
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
                (), _("The command will appear once all answers are set.")
            )
            return
        self.query_one(ResourcePreview).show_resources(resources, _("Later steps use these answers."))

    # --- checks

    def show_findings(self) -> None:
        """Show the current findings, and this step's status in the stepper."""
        findings = self.checks.findings()
        self.query_one(Checks).show(findings)
        self.controller.record_checks(self.step.name, any(finding.level == "block" for finding in findings))
        self._draw_invalid()
        if (
            self.checks.needs_apis != self._apis_offered
        ):  # refreshing the footer is slow; this runs on every key
            self._apis_offered = self.checks.needs_apis
            self.refresh_bindings()

    def _draw_invalid(self) -> None:
        prefix = f"{self.step.name}."
        self.query_one(Checks).invalid_count = sum(
            key.startswith(prefix) for key in self.controller.draft.invalid_values
        )
        self.query_one(Stepper).items = tuple(stepper_items(self.controller))

    async def action_check_again(self) -> None:
        """Run all checks again, without cached results."""
        await self.checks.clear_cache()
        self.checks.run_all()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to enable APIs only while a check needs one."""
        return action != "enable_apis" or (self.controller.writable and self.checks.needs_apis)

    @work(exit_on_error=False, group="apis", exclusive=True)
    async def action_enable_apis(self) -> None:
        """Ask, enable the APIs, and rerun the checks until the APIs take effect."""
        project = self.controller.draft.validate()[0].project.project_id
        if not is_confirmed(await self.app.push_screen_wait(confirmation_dialog(project))):
            return
        self.checks.set_activity(_("Enabling the APIs in {project}").format(project=project))
        try:
            await enable_apis.enable(self.controller)
            self.checks.set_activity(_("APIs enabled; they may take a few minutes to become available"))
            await self.checks.wait_until_enabled((await self.controller.cloud()).time_scale)
        except WizardError as error:
            self.wizard.show_error(error)
        self.checks.set_activity("")

    def action_copy_command(self) -> None:
        """Copy the command that is shown."""
        self.query_one(ResourcePreview).action_copy()

    # --- leaving

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_next()

    @work(exit_on_error=False, group="leave", exclusive=True)
    async def action_next(self) -> None:
        """Open the next screen, or focus the first answer that is invalid or missing."""
        errors = self.controller.draft.errors_in(self.step.name)
        if errors and self.controller.writable:
            await self._focus_error(errors)
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
        """Save and open the previous screen."""
        self._navigate_to(adjacent_screen(self.step.name, -1))

    @on(Stepper.StepSelected)
    def _jump(self, event: Stepper.StepSelected) -> None:
        self._navigate_to(event.key)

    def action_focus_stepper(self) -> None:
        """Focus the stepper."""
        self.query_one(Stepper).focus()

    def _navigate_to(self, screen_name: str) -> None:
        if self.controller.writable and not self.save(screen_name):
            return
        if screen_name:
            self.wizard.show(screen_name)
        else:
            self.wizard.close_deployment()

    def save_before_leave(self) -> bool:
        """Save this step; the deployment reopens here."""
        return not self.controller.writable or self.save(self.step.name)

    def save(self, screen_name: str) -> bool:
        """Save this step and the screen to reopen. Returns False, with the error shown, if that failed."""
        try:
            self.controller.draft.save_step(self.step.name, screen_name or self.step.name)
        except WizardError as error:
            self.wizard.show_error(error)
            return False
        return True
