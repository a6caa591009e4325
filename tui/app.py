"""The Textual app: opens deployments, switches screens, and quits.

Screens are imported when first shown, and the SDKs in a thread after the first paint, so that the app starts fast;
tests/bench/first_paint.py measures the time from exec to the first frame.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.screen import Screen

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.home import Home
from grpo_wizard.tui.controllers.threads import in_thread
from grpo_wizard.tui.screens.base import WizardScreen
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.theme import ThemedApp
from grpo_wizard.tui.widgets.title_bar import TitleState

if TYPE_CHECKING:
    from textual.command import Provider

    from grpo_wizard.tui.controllers.deployment import DeploymentController
    from grpo_wizard.tui.controllers.engine_runner import EngineRunner

# Interpreter switch interval. Python's default of 5 ms makes keys feel slow while a thread imports an SDK.
_SWITCH_SECONDS = 0.0005
_DRILL_POLL_SECONDS = 2.0  # another terminal may turn drills on, too
# Screen name -> (module, class). A step's screen name is the step's name.
_SCREENS = {
    "review": ("review", "ReviewScreen"),
    "run": ("run", "RunScreen"),
    "monitor": ("monitor", "MonitorScreen"),
    "teardown": ("teardown", "TeardownScreen"),
}


def _command_provider() -> type[Provider]:
    """Import the palette when it is opened: textual.command imports half of Textual's widgets."""
    from grpo_wizard.tui.screens.command_palette import ActionProvider

    return ActionProvider


class Wizard(ThemedApp[int]):
    """The app.

    `start`: a deployment to open right away; `create`: create it if it does not exist; `rehearse`: new deployments
    are rehearsals; `speed`: of the emulator; `clock`: seconds since the epoch; `preload`: import the SDKs after the
    first paint.
    """

    TITLE = "grpo-wizard"
    # The palette's magnifying glass is an emoji, which many fonts lack.
    CSS = "CommandPalette SearchIcon { display: none; }"
    COMMANDS: ClassVar[set[Any]] = {_command_provider}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+q",
            "quit",
            _("Quit"),
            id="app.quit",
            tooltip=_("Quit the wizard; jobs in the cloud will keep running"),
            show=False,
            priority=True,
        ),
        Binding(
            "f12",
            "toggle_theme",
            _("Light/dark theme"),
            id="app.light",
            tooltip=_("Switch between the dark and light themes"),
            show=False,
        ),
        Binding(
            "f8",
            "drills",
            _("Drills"),
            id="app.drills",
            tooltip=_("Turn simulated failures on or off"),
        ),
    ]

    def __init__(
        self,
        home: Home,
        *,
        rehearse: bool = False,
        create: bool = False,
        speed: str | None = None,
        start: str | None = None,
        clock: Callable[[], float] = time.time,
        preload: bool = True,
        ascii_only: bool | None = None,
        light: bool = False,
    ) -> None:
        super().__init__(ascii_only=ascii_only, light=light)
        self.home, self.rehearse, self.speed, self.clock = home, rehearse, speed, clock
        self.controller: DeploymentController | None = None
        self.engine: EngineRunner | None = None
        self._start, self._create, self._preload = start, create, preload
        self._drills: tuple[str, ...] = ()

    def on_mount(self) -> None:
        """Show the list of deployments, then open the one given at the start."""
        from grpo_wizard.tui.screens.home import HomeScreen

        sys.setswitchinterval(_SWITCH_SECONDS)
        self.push_screen(HomeScreen())
        if self._start is not None:
            self.open_deployment(self._start, create=self._create)
        if self._preload:
            self.call_after_refresh(self._load_clients)
        self.set_interval(_DRILL_POLL_SECONDS, self.poll_drills)
        self.call_after_refresh(self.poll_drills)

    @work(exit_on_error=False)
    async def _load_clients(self) -> None:
        """Import the SDKs in a thread; code that needs one earlier waits for Python's import lock."""

        def load() -> None:
            from grpo_wizard.steps.clients.preload import preload_sdks

            preload_sdks()

        await in_thread(load)

    # --- drills, in a rehearsal only

    @property
    def is_rehearsal(self) -> bool:
        """Whether the open deployment, or else the next one created, is a rehearsal."""
        return self.controller.is_rehearsal if self.controller is not None else self.rehearse

    @property
    def drills(self) -> tuple[str, ...]:
        """Names of the active drills as of the last poll; empty outside a rehearsal."""
        return self._drills if self.is_rehearsal else ()

    @drills.setter
    def drills(self, names: tuple[str, ...]) -> None:
        if names != self._drills:
            self._drills = names
            for screen in self.screen_stack:
                if isinstance(screen, WizardScreen) and screen.is_mounted:
                    screen.update_title()

    @work(exclusive=True, group="drills", exit_on_error=False)
    async def poll_drills(self) -> None:
        """Ask a running emulator for its active drills; never start one."""

        def ask() -> tuple[str, ...]:
            from grpo_wizard.steps.emulator.drills.client import active_drills

            return active_drills(Path(self.home.root))

        if self.is_rehearsal:
            self.drills = await in_thread(ask)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer drills in a rehearsal only."""
        return self.is_rehearsal if action == "drills" else True

    def action_drills(self) -> None:
        """Open the list of drills."""
        from grpo_wizard.tui.screens.drills import DrillsDialog

        self.push_screen(DrillsDialog())

    # --- deployments

    def create_deployment(
        self, *, rehearsal: bool, prefill: dict[str, dict[str, object]] | None = None
    ) -> None:
        """Ask for a name, create the deployment, and open step 1."""
        from grpo_wizard.steps.core.validators import deployment_name
        from grpo_wizard.tui.screens.dialogs import NamePrompt

        existing = self.home.deployments()

        def parse_unused_name(raw: object) -> str:
            name = deployment_name(raw)
            if name in existing:
                raise ValueError(_("{name} already exists").format(name=name))
            return name

        def on_name(name: str | None) -> None:
            if name:
                self.open_deployment(name, create=True, rehearsal=rehearsal, prefill=prefill)

        title = _("New rehearsal") if rehearsal else _("New deployment")
        text = _("A local name for this deployment. You will name its resources in the next steps.")
        stem = "rehearsal" if rehearsal else "grpo"
        proposed = next(name for n in range(1, 1000) if (name := f"{stem}-{n}") not in existing)
        self.push_screen(NamePrompt(title, text, proposed, parse_unused_name), on_name)

    def create_from_environment(self) -> None:
        """Create a deployment with answers from the tutorial's environment variables.

        Review then offers to adopt the resources that exist already.
        """
        from grpo_wizard.tui.controllers.prefill import environment_answers, tutorial_variables

        answers = environment_answers()
        if not answers:
            self.show_error(
                WizardError(
                    _("No tutorial variables found"),
                    _("Variables checked: {names}").format(names=", ".join(tutorial_variables())),
                    _(
                        "Set the variables in this shell as the tutorial describes and restart grpo-wizard, "
                        "or press n to enter the values."
                    ),
                    "source variables.sh && grpo-wizard",
                )
            )
            return
        self.create_deployment(rehearsal=self.rehearse, prefill=answers)

    @work(exclusive=True, group="open", exit_on_error=False)
    async def open_deployment(
        self,
        name: str,
        screen_name: str = "",
        *,
        create: bool = False,
        rehearsal: bool | None = None,
        prefill: dict[str, dict[str, object]] | None = None,
    ) -> None:
        """Open a deployment at `screen_name`, by default at the screen where it was left."""
        try:
            self.controller = await in_thread(
                _open_controller,
                self.home,
                name,
                self.speed,
                create,
                self.rehearse if rehearsal is None else rehearsal,
                prefill,
            )
        except WizardError as error:
            self.show_error(error)
            return
        self.engine = None
        self.show(screen_name or self.controller.initial_screen())

    def close_deployment(self) -> None:
        """Release the lock and return to the list of deployments."""
        if self.controller is not None:
            self.controller.release_lock()
        self.controller = self.engine = None
        while len(self.screen_stack) > 2:
            self.pop_screen()

    # --- screens

    def show(self, screen_name: str) -> None:
        """Show a screen by name in place of the current one."""
        screen = self._build_screen(screen_name)
        if len(self.screen_stack) > 2:
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    def _build_screen(self, screen_name: str) -> Screen[None]:
        if screen_name in _SCREENS:
            module, name = _SCREENS[screen_name]
            built: Screen[None] = getattr(import_module(f"grpo_wizard.tui.screens.{module}"), name)()
            return built
        from grpo_wizard.tui.screens.step import StepScreen

        return StepScreen(screen_name)

    def show_error(self, error: WizardError) -> None:
        """Show an error with its detail, fix and command."""
        from grpo_wizard.tui.screens.dialogs import ErrorDialog

        self.push_screen(ErrorDialog(error))

    def title_state(self, status: str = "") -> TitleState:
        """Describe the open deployment for the title bar."""
        if self.controller is None:
            return TitleState(rehearsal=self.rehearse, drills=self.drills)
        from grpo_wizard.tui.viewmodels.title import deployment_title

        return deployment_title(self.controller, status, self.clock(), self.drills)

    def action_toggle_theme(self) -> None:
        """Switch between the dark and the light theme."""
        self.theme = "wizard-light" if self.theme == "wizard-dark" else "wizard-dark"

    async def action_quit(self) -> None:
        """Quit; while a run is in progress, ask first what to do with it."""
        if self.engine is not None and self.engine.is_running:
            from grpo_wizard.tui.screens.quit_dialog import is_quit_dialog_open, show_quit_dialog

            if not is_quit_dialog_open(self):
                show_quit_dialog(self)
            return
        if all(
            screen.save_before_leave() for screen in self.screen_stack if isinstance(screen, WizardScreen)
        ):
            self.release_and_exit(0)

    def action_help_quit(self) -> None:
        """Quit on ctrl+C when no text is selected, instead of Textual's hint to press ctrl+Q."""
        self.call_later(self.action_quit)

    def release_and_exit(self, code: int) -> None:
        """Release the lock and exit with `code`."""
        if self.controller is not None:
            self.controller.release_lock()
        self.exit(code)


def _open_controller(
    home: Home,
    name: str,
    speed: str | None,
    create: bool,
    rehearsal: bool,
    prefill: dict[str, dict[str, object]] | None,
) -> DeploymentController:
    from grpo_wizard.state.store import StateStore
    from grpo_wizard.tui.controllers.deployment import DeploymentController
    from grpo_wizard.tui.controllers.prefill import prefill_for_mode

    if create and not home.has_state(name):
        StateStore(home).create(name, "rehearsal" if rehearsal else "real", {})
    mode = StateStore(home).load(name).mode
    return DeploymentController(home, name, prefill_for_mode(mode) if prefill is None else prefill, speed)
