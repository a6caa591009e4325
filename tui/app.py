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
from grpo_wizard.tui.style.theme import WizardLook
from grpo_wizard.tui.widgets.title_bar import TitleState

if TYPE_CHECKING:
    from textual.command import Provider

    from grpo_wizard.tui.controllers.deployment import Desk
    from grpo_wizard.tui.controllers.engine_runner import EngineRun

# How long a thread that imports an SDK may keep the screen waiting at a time; Python's own 5 ms add up over a key's way.
_SWITCH_SECONDS = 0.0005
_DRILLS_SECONDS = 2.0  # between two looks at which drills run: another terminal may begin them too
# Where each place is built: module, class. A step's place is its name.
_SCREENS = {
    "review": ("review", "ReviewScreen"),
    "run": ("run", "RunScreen"),
    "monitor": ("monitor", "MonitorScreen"),
    "teardown": ("teardown", "TeardownScreen"),
}


def _actions() -> type[Provider]:
    """The palette is loaded when it is opened: textual.command brings half of the widgets along."""
    from grpo_wizard.tui.screens.command_palette import Actions

    return Actions


class Wizard(WizardLook[int]):
    """`start` is the deployment to open at once; `create` begins it when it is not there. `rehearse`: new ones are rehearsals."""

    TITLE = "grpo-wizard"
    # Its magnifying glass is an emoji, which many fonts lack.
    CSS = "CommandPalette SearchIcon { display: none; }"
    COMMANDS: ClassVar[set[Any]] = {_actions}
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
            "f12", "light", _("Light or dark"), id="app.light", tooltip=_("Change the colours"), show=False
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
        warm: bool = True,
        ascii_only: bool | None = None,
        light: bool = False,
    ) -> None:
        super().__init__(ascii_only=ascii_only, light=light)
        self.home, self.rehearse, self.speed, self.clock = home, rehearse, speed, clock
        self.desk: Desk | None = None
        self.engine: EngineRun | None = None
        self._start, self._create, self._warm = start, create, warm
        self._drills: tuple[str, ...] = ()

    def on_mount(self) -> None:
        """The opening, or the deployment that was named."""
        from grpo_wizard.tui.screens.home import OpeningScreen

        sys.setswitchinterval(_SWITCH_SECONDS)
        self.push_screen(OpeningScreen())
        if self._start is not None:
            self.open_deployment(self._start, create=self._create)
        if self._warm:
            self.call_after_refresh(self._load_clients)
        self.set_interval(_DRILLS_SECONDS, self.look_for_drills)
        self.call_after_refresh(self.look_for_drills)

    @work(exit_on_error=False)
    async def _load_clients(self) -> None:
        """Behind the first picture; whoever needs a client earlier waits for Python's own import lock."""

        def load() -> None:
            from grpo_wizard.steps.clients.preload import warm

            warm()

        await in_thread(load)

    # --- drills, in a rehearsal only

    @property
    def rehearses(self) -> bool:
        """Whether what is open, or would be begun here, is a rehearsal."""
        return self.desk.is_rehearsal if self.desk is not None else self.rehearse

    @property
    def drills(self) -> tuple[str, ...]:
        """Names of those that run, as it was last seen; none outside of a rehearsal."""
        return self._drills if self.rehearses else ()

    @drills.setter
    def drills(self, names: tuple[str, ...]) -> None:
        if names != self._drills:
            self._drills = names
            for screen in self.screen_stack:
                if isinstance(screen, WizardScreen) and screen.is_mounted:
                    screen.say_title()

    @work(exclusive=True, group="drills", exit_on_error=False)
    async def look_for_drills(self) -> None:
        """Asks the rehearsal where one runs; never starts it."""

        def ask() -> tuple[str, ...]:
            from grpo_wizard.steps.emulator.drills.client import running

            return running(Path(self.home.root))

        if self.rehearses:
            self.drills = await in_thread(ask)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the real Google Cloud the key for drills is not there."""
        return self.rehearses if action == "drills" else True

    def action_drills(self) -> None:
        """What may go wrong, with switches."""
        from grpo_wizard.tui.screens.drills import DrillsBox

        self.push_screen(DrillsBox())

    # --- deployments

    def begin(self, *, rehearsal: bool, prefill: dict[str, dict[str, Any]] | None = None) -> None:
        """Asks for a name, makes the deployment, opens step 1."""
        from grpo_wizard.steps.core.validators import deployment_name
        from grpo_wizard.tui.screens.dialogs import AskName

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
            AskName(title, text, proposed, free),
            named,
        )

    def take_over(self) -> None:
        """Begins a deployment with the tutorial's variables as its answers; Review then offers to adopt what is there."""
        from grpo_wizard.tui.controllers.prefill import environment, variables

        given = environment()
        if not given:
            self.show_error(
                WizardError(
                    _("No variable of the tutorial is set"),
                    _("Looked for: {names}").format(names=", ".join(variables())),
                    _(
                        "Set them in this shell as in the tutorial, then start grpo-wizard again; or press n and type the names."
                    ),
                    "source variables.sh && grpo-wizard",
                )
            )
            return
        self.begin(rehearsal=self.rehearse, prefill=given)

    @work(exclusive=True, group="open", exit_on_error=False)
    async def open_deployment(
        self,
        name: str,
        place: str = "",
        *,
        create: bool = False,
        rehearsal: bool | None = None,
        prefill: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        """Puts a deployment on the desk and goes to where it was left."""
        try:
            self.desk = await in_thread(
                _open_desk,
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
        self.go(place or self.desk.where_to_begin())

    def close_deployment(self) -> None:
        """Back to the opening; the lock is given back."""
        if self.desk is not None:
            self.desk.release()
        self.desk = self.engine = None
        while len(self.screen_stack) > 2:
            self.pop_screen()

    # --- screens

    def go(self, place: str) -> None:
        """Shows the screen for a place, in the stead of the one that is shown."""
        screen = self._build(place)
        if len(self.screen_stack) > 2:
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    def _build(self, place: str) -> Screen[None]:
        if place in _SCREENS:
            module, name = _SCREENS[place]
            built: Screen[None] = getattr(import_module(f"grpo_wizard.tui.screens.{module}"), name)()
            return built
        from grpo_wizard.tui.screens.step import StepScreen

        return StepScreen(place)

    def show_error(self, error: WizardError) -> None:
        """A box with title, detail, fix and command."""
        from grpo_wizard.tui.screens.dialogs import ErrorBox

        self.push_screen(ErrorBox(error))

    def title_state(self, sign: str = "") -> TitleState:
        """What the title line says of the deployment on the desk."""
        if self.desk is None:
            return TitleState(rehearsal=self.rehearse, drills=self.drills)
        from grpo_wizard.tui.viewmodels.title import heading

        return heading(self.desk, sign, self.clock(), self.drills)

    def action_light(self) -> None:
        """Light becomes dark and dark light."""
        self.theme = "wizard-light" if self.theme == "wizard-dark" else "wizard-dark"

    async def action_quit(self) -> None:
        """Leaves at once, or asks first what becomes of the work that is going on."""
        if self.engine is not None and self.engine.is_running:
            from grpo_wizard.tui.screens.quit_dialog import ask, is_asking

            if not is_asking(self):
                ask(self)
            return
        if all(screen.keep() for screen in self.screen_stack if isinstance(screen, WizardScreen)):
            self.leave(0)

    def action_help_quit(self) -> None:
        """Ctrl+C, where nothing is marked to be copied: the same as leaving, instead of Textual's hint at its own key."""
        self.call_later(self.action_quit)

    def leave(self, code: int) -> None:
        """Gives the lock back and ends."""
        if self.desk is not None:
            self.desk.release()
        self.exit(code)


def _open_desk(
    home: Home,
    name: str,
    speed: str | None,
    create: bool,
    rehearsal: bool,
    prefill: dict[str, dict[str, Any]] | None,
) -> Desk:
    from grpo_wizard.state.store import Store
    from grpo_wizard.tui.controllers.deployment import Desk
    from grpo_wizard.tui.controllers.prefill import for_mode

    if create and not home.known(name):
        Store(home).create(name, "rehearsal" if rehearsal else "real", {})
    mode = Store(home).load(name).mode
    return Desk(home, name, for_mode(mode) if prefill is None else prefill, speed)
