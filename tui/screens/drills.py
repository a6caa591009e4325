"""The list of drills (simulated failures) of a rehearsal, with a switch for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.controllers.threads import in_thread
from grpo_wizard.tui.screens.dialogs import Dialog
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import truncate

if TYPE_CHECKING:
    from grpo_wizard.tui.app import Wizard

JSON = dict[str, Any]
_NAME_CELLS, _LABEL_CELLS = 21, 10


class DrillsDialog(Dialog[None]):
    """Space or Enter turns the selected drill on or off; `e` turns all off."""

    CSS_PATH: ClassVar[list[str]] = ["dialogs.tcss", "drills.tcss"]  # type: ignore[assignment]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "switch", _("On/off"), id="drills.switch"),
        Binding("e", "end_all", _("All off"), id="drills.end"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.title_text = _("Drills")
        self.drills: list[JSON] = []

    @property
    def wizard(self) -> Wizard:
        """The app, typed."""
        return cast("Wizard", self.app)

    def body(self) -> ComposeResult:
        """Yield an introduction, the list, and the description of the selected drill."""
        yield Static(
            _(
                "Drills simulate failures. A drill takes effect immediately and stays on until you turn it off."
            ),
            id="drills-head",
            markup=False,
        )
        yield OptionList(id="drills")
        yield Static(_("Loading…"), id="drill-about", markup=False)

    def on_mount(self) -> None:
        """Show the keys in the border, since a dialog has no footer; then load the drills."""
        keys = (("space", _("On/off")), ("e", _("All off")), ("esc", _("Back")))
        edge = "  ".join(f"{key} {label}" for key, label in keys)
        self.query_one("VerticalScroll").border_subtitle = Content(f" {edge} ")
        self.update_drills()

    @work(exclusive=True, group="drills", exit_on_error=False)
    async def update_drills(self, begin: tuple[str, ...] = (), end: tuple[str, ...] | None = None) -> None:
        """Turn drills on (`begin`) or off (`end`; empty: all), then load and draw them."""

        def request() -> list[JSON]:
            from grpo_wizard.tui.controllers.drills import update_drills

            return update_drills(Path(self.wizard.home.root), self.wizard.speed, begin, end)

        try:
            self.drills = await in_thread(request)
        except WizardError as error:
            self.dismiss(None)
            self.wizard.show_error(error)
            return
        self.wizard.drills = tuple(drill["name"] for drill in self.drills if drill["running"])
        self.draw()

    def draw(self) -> None:
        """Redraw the list; the cursor keeps its row."""
        rows = self.query_one(OptionList)
        cursor = rows.highlighted or 0
        with self.app.batch_update():
            rows.clear_options()
            rows.add_options([Option(self._row(drill), id=drill["name"]) for drill in self.drills])
            rows.highlighted = cursor
        self._show_description()

    def _row(self, drill: JSON) -> Text:
        running, colours = drill["running"], self.app.theme_variables
        text = Text("[x] " if running else "[ ] ", no_wrap=True, end="")
        text.append(truncate(drill["name"], _NAME_CELLS), "bold")
        text.append(drill["title"])
        if running:
            text.append(f"  {_('active')}", f"bold {colours['warning']}")
        return text

    @on(OptionList.OptionHighlighted)
    def _show_description(self) -> None:
        drill = self._selected_drill
        if drill is None:
            return
        colours, text = self.app.theme_variables, Text()
        for label, key in ((_("effect"), "happens"), (_("visible"), "felt"), (_("recovery"), "mends")):
            text.append(truncate(label, _LABEL_CELLS), colours["primary"]).append(f"{drill[key]}\n")
        text.append(truncate(_("based on"), _LABEL_CELLS), colours["primary"]).append(
            drill["source"], colours["muted"]
        )
        self.query_one("#drill-about", Static).update(text)

    @property
    def _selected_drill(self) -> JSON | None:
        row = self.query_one(OptionList).highlighted
        return self.drills[row] if row is not None and row < len(self.drills) else None

    @on(OptionList.OptionSelected)
    def action_switch(self) -> None:
        """Turn the selected drill on or off."""
        drill = self._selected_drill
        if drill is not None:
            name = (drill["name"],)
            self.update_drills(end=name) if drill["running"] else self.update_drills(begin=name)

    def action_end_all(self) -> None:
        """Turn all drills off."""
        self.update_drills(end=())
