"""The list of deployments, to open, create, import or destroy one."""

from __future__ import annotations

import time

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.core.answers import InvalidValue
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.steps.core.validators import deployment_name
from grpo_wizard.tui.controllers.deployment import DeploymentController
from grpo_wizard.tui.controllers.draft import AnswersByStep
from grpo_wizard.tui.controllers.emulator_shell import real_in_emulator_shell_warning
from grpo_wizard.tui.controllers.prefill import environment_answers, prefill_for_mode, tutorial_variables
from grpo_wizard.tui.plain import drills
from grpo_wizard.tui.plain.console import HELP
from grpo_wizard.tui.plain.context import PlainSession, Quit
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import DeploymentSummary, deployment_summaries


class HomeView:
    """Opens a deployment; `run` returns the name of its next view."""

    def __init__(self, ui: PlainSession) -> None:
        self.ui, self.console = ui, ui.console
        self._has_drills = ui.is_rehearsal

    def run(self) -> str:
        self.ui.print_heading(
            _("Deployments"),
            _("Try a rehearsal first: it asks the same questions, needs no account and costs nothing."),
        )
        while True:
            listed = deployment_summaries(self.ui.home, time.time())
            for n, row in enumerate(listed, 1):
                self.console.print(f"{n}. {_format_summary(row)}")
            if not listed:
                self.console.print(_("No deployments yet."))
            try:
                self._has_drills = self.ui.is_rehearsal or any(row.rehearsal for row in listed)
                view_name = self._choose([row.name for row in listed])
            except WizardError as error:
                self.ui.print_error(error)
                continue
            if view_name:
                return view_name

    def _choose(self, names: list[str]) -> str:
        prompt = _(
            "Type {number}n for a new deployment, r for a rehearsal, o to import a partly completed tutorial, {destroy}{drills}or l to leave (l):"
        ).format(
            number=_("a number to open a deployment, ") if names else "",
            destroy=_("d to destroy one, ") if names else "",
            drills=_("x for drills, ") if self._has_drills else "",
        )
        while True:
            typed = self.console.ask(prompt).lower()
            if typed in ("", "l"):
                raise Quit
            if typed in ("n", "r"):
                return self._create(rehearsal=typed == "r" or self.ui.rehearse)
            if typed == "o":
                return self._recover_from_environment()
            if typed == drills.MENU_KEY and self._has_drills:
                drills.DrillView(self.ui).run()
                return ""
            if typed == "d" and names:
                chosen = self._ask_number(names)
                return open_deployment(self.ui, chosen) and "teardown" if chosen else ""
            if typed in names or (typed.isdigit() and typed.isascii() and 1 <= int(typed) <= len(names)):
                return open_deployment(self.ui, typed if typed in names else names[int(typed) - 1])
            if typed == HELP:
                self.console.print(
                    _("Help: nothing will be created until you have seen the price in Review and typed yes.")
                )
            else:
                self.console.print(
                    _("Invalid: type one of the letters{numbers}.").format(
                        numbers=_(", or a number from the list") if names else ""
                    )
                )

    def _ask_number(self, names: list[str]) -> str:
        while True:
            typed = self.console.ask(_("Which one, 1 to {n} (none):").format(n=len(names)))
            if not typed or typed in names:
                return typed
            if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(names):
                return names[int(typed) - 1]
            self.console.print(_("Invalid: type a number from 1 to {n}.").format(n=len(names)))

    def _create(self, rehearsal: bool, prefill: AnswersByStep | None = None) -> str:
        """Ask for an unused name and create the deployment."""
        known = self.ui.home.deployments()
        stem = "rehearsal" if rehearsal else "grpo"
        proposed = next(name for n in range(1, 1000) if (name := f"{stem}-{n}") not in known)
        while True:
            typed = self.console.ask(_("Name of the deployment ({name}):").format(name=proposed)) or proposed
            try:
                name = deployment_name(typed)
            except InvalidValue as error:
                self.console.print(_("Invalid: {rule}").format(rule=end_with_period(str(error))))
                continue
            if name not in known:
                return open_deployment(self.ui, name, create=True, rehearsal=rehearsal, prefill=prefill)
            self.console.print(_("Invalid: {name} already exists.").format(name=name))

    def _recover_from_environment(self) -> str:
        given = environment_answers()
        if given:
            return self._create(self.ui.rehearse, given)
        self.console.print(
            _("No tutorial variables found. Checked: {names}.").format(names=", ".join(tutorial_variables()))
        )
        return ""


def open_deployment(
    ui: PlainSession,
    name: str,
    *,
    create: bool = False,
    rehearsal: bool = False,
    prefill: AnswersByStep | None = None,
) -> str:
    """Open a deployment and return the view to show: where it was left. Raise WizardError."""
    store = StateStore(ui.home)
    if create and not ui.home.has_state(name):
        store.create(name, "rehearsal" if rehearsal else "real", {})
    mode = store.load(name).mode
    if text := real_in_emulator_shell_warning(mode):
        ui.console.print(_("Note: {text}").format(text=end_with_period(text)))
    ui.controller = DeploymentController(
        ui.home, name, prefill_for_mode(mode) if prefill is None else prefill, ui.speed
    )
    ui.engine = None
    return ui.controller.initial_screen()


def close_deployment(ui: PlainSession) -> None:
    """Close the open deployment and release its lock."""
    if ui.controller is not None:
        ui.controller.release_lock()
    ui.controller = ui.engine = None


def _format_summary(row: DeploymentSummary) -> str:
    parts = (
        row.name,
        row.label,
        row.detail.replace("  ", ", "),
        row.price,
        row.age and _("{age} old").format(age=row.age),
        row.location,
    )
    return end_with_period(", ".join(text for text in parts if text))
