"""The wizard as a Textual app: which screen is shown, which deployment is open, and what happens when one leaves.

Screens are imported when they are shown, and SDKs in a thread behind the first picture: exec to first frame is
measured in tests/bench/first_paint.py.
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

# How long a thread that imports an SDK may keep the screen waiting at a time; Python's own 5 ms add up over a key's way.
_SWITCH_SECONDS = 0.0005
_DRILL_POLL_SECONDS = 2.0  # between two looks at which drills run: another terminal may begin them too
# Where each place is built: module, class. A step's place is its name.
_SCREENS = {
    "review": ("review", "ReviewScreen"),
    "run": ("run", "RunScreen"),
    "monitor": ("monitor", "MonitorScreen"),
    "teardown": ("teardown", "TeardownScreen"),
}


def _command_provider() -> type[Provider]:
    """The palette is loaded when it is opened: textual.command brings half of the widgets along."""
    from grpo_wizard.tui.screens.command_palette import ActionProvider

    return ActionProvider


class Wizard(ThemedApp[int]):
    """`start` is the deployment to open at once; `create` begins it when it is not there. `rehearse`: new ones are rehearsals."""

    TITLE = "grpo-wizard"
    # Its magnifying glass is an emoji, which many fonts lack.
    CSS = "CommandPalette SearchIcon { display: none; }"
    COMMANDS: ClassVar[set[Any]] = {_command_provider}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+q",
            "quit",
            _("Quit"),
            id="app.quit",
            tooltip=_("Leave; what runs in the cloud goes on"),
            show=False,
            priority=True,
        ),
        Binding(
            "f12",
            "toggle_theme",
            _("Light or dark"),
            id="app.light",
            tooltip=_("Change the colours"),
            show=False,
        ),
        Binding(
            "f8",
            "drills",
            _("Drills"),
            id="app.drills",
            tooltip=_("What goes wrong in this rehearsal: begin it, end it"),
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
        """The opening, or the deployment that was named."""
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
        """Behind the first picture; whoever needs a client earlier waits for Python's own import lock."""

        def load() -> None:
            from grpo_wizard.steps.clients.preload import preload_sdks

            preload_sdks()

        await in_thread(load)

    # --- drills, in a rehearsal only

    @property
    def is_rehearsal(self) -> bool:
        """Whether what is open, or would be begun here, is a rehearsal."""
        return self.controller.is_rehearsal if self.controller is not None else self.rehearse

    @property
    def drills(self) -> tuple[str, ...]:
        """Names of those that run, as it was last seen; none outside of a rehearsal."""
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
        """Asks the rehearsal where one runs; never starts it."""

        def ask() -> tuple[str, ...]:
            from grpo_wizard.steps.emulator.drills.client import active_drills

            return active_drills(Path(self.home.root))

        if self.is_rehearsal:
            self.drills = await in_thread(ask)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the real Google Cloud the key for drills is not there."""
        return self.is_rehearsal if action == "drills" else True

    def action_drills(self) -> None:
        """What may go wrong, with switches."""
        from grpo_wizard.tui.screens.drills import DrillsDialog

        self.push_screen(DrillsDialog())

    # --- deployments

    def create_deployment(self, *, rehearsal: bool, prefill: dict[str, dict[str, Any]] | None = None) -> None:
        """Asks for a name, makes the deployment, opens step 1."""
        from grpo_wizard.steps.core.validators import deployment_name
        from grpo_wizard.tui.screens.dialogs import NamePrompt

        known = self.home.deployments()

        def free(raw: Any) -> str:
            name = deployment_name(raw)
            if name in known:
                raise ValueError(_("{name} is there already").format(name=name))
            return name

        def named(name: str | None) -> None:
            if name:
                self.open_deployment(name, create=True, rehearsal=rehearsal, prefill=prefill)

        title = _("New rehearsal") if rehearsal else _("New deployment")
        text = _("Its name here. It is no resource's name; those you answer in the steps.")
        stem = "rehearsal" if rehearsal else "grpo"
        proposed = next(name for n in range(1, 1000) if (name := f"{stem}-{n}") not in known)
        self.push_screen(
            NamePrompt(title, text, proposed, free),
            named,
        )

    def create_from_environment(self) -> None:
        """Begins a deployment with the tutorial's variables as its answers; Review then offers to adopt what is there."""
        from grpo_wizard.tui.controllers.prefill import environment_answers, tutorial_variables

        given = environment_answers()
        if not given:
            self.show_error(
                WizardError(
                    _("No variable of the tutorial is set"),
                    _("Looked for: {names}").format(names=", ".join(tutorial_variables())),
                    _(
                        "Set them in this shell as in the tutorial, then start grpo-wizard again; or press n and type the names."
                    ),
                    "source variables.sh && grpo-wizard",
                )
            )
            return
        self.create_deployment(rehearsal=self.rehearse, prefill=given)

    @work(exclusive=True, group="open", exit_on_error=False)
    async def open_deployment(
        self,
        name: str,
        screen_name: str = "",
        *,
        create: bool = False,
        rehearsal: bool | None = None,
        prefill: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        """Puts a deployment on the desk and goes to where it was left."""
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
        """Back to the opening; the lock is given back."""
        if self.controller is not None:
            self.controller.release_lock()
        self.controller = self.engine = None
        while len(self.screen_stack) > 2:
            self.pop_screen()

    # --- screens

    def show(self, screen_name: str) -> None:
        """Shows the screen for a place, in the stead of the one that is shown."""
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
        """A box with title, detail, fix and command."""
        from grpo_wizard.tui.screens.dialogs import ErrorDialog

        self.push_screen(ErrorDialog(error))

    def title_state(self, status: str = "") -> TitleState:
        """What the title line says of the deployment on the desk."""
        if self.controller is None:
            return TitleState(rehearsal=self.rehearse, drills=self.drills)
        from grpo_wizard.tui.viewmodels.title import deployment_title

        return deployment_title(self.controller, status, self.clock(), self.drills)

    def action_toggle_theme(self) -> None:
        """Light becomes dark and dark light."""
        self.theme = "wizard-light" if self.theme == "wizard-dark" else "wizard-dark"

    async def action_quit(self) -> None:
        """Leaves at once, or asks first what becomes of the work that is going on."""
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
        """Ctrl+C, where nothing is marked to be copied: the same as leaving, instead of Textual's hint at its own key."""
        self.call_later(self.action_quit)

    def release_and_exit(self, code: int) -> None:
        """Gives the lock back and ends."""
        if self.controller is not None:
            self.controller.release_lock()
        self.exit(code)


def _open_controller(
    home: Home,
    name: str,
    speed: str | None,
    create: bool,
    rehearsal: bool,
    prefill: dict[str, dict[str, Any]] | None,
) -> DeploymentController:
    from grpo_wizard.state.store import StateStore
    from grpo_wizard.tui.controllers.deployment import DeploymentController
    from grpo_wizard.tui.controllers.prefill import prefill_for_mode

    if create and not home.has_state(name):
        StateStore(home).create(name, "rehearsal" if rehearsal else "real", {})
    mode = StateStore(home).load(name).mode
    return DeploymentController(home, name, prefill_for_mode(mode) if prefill is None else prefill, speed)
