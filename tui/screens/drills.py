"""What goes wrong in this rehearsal: each drill with a switch that acts at once, and what it does."""

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
_NAME_CELLS, _LABEL_CELLS = 21, 7


class DrillsDialog(Dialog[None]):
    """Space or Enter begins the drill under the cursor, or ends it; `e` ends all."""

    CSS_PATH: ClassVar[list[str]] = ["dialogs.tcss", "drills.tcss"]  # type: ignore[assignment]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "switch", _("Begin or end"), id="drills.switch"),
        Binding("e", "end_all", _("End all"), id="drills.end"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.title_text = _("Drills")
        self.drills: list[JSON] = []

    @property
    def wizard(self) -> Wizard:
        """The app, by its own type."""
        return cast("Wizard", self.app)

    def body(self) -> ComposeResult:
        """What they are, the list, what the chosen one does, the keys."""
        yield Static(
            _("What goes wrong in this rehearsal: at once, and until you end it."),
            id="drills-head",
            markup=False,
        )
        yield OptionList(id="drills")
        yield Static(_("looking…"), id="drill-about", markup=False)

    def on_mount(self) -> None:
        """Keys at the edge, for a box has no footer; then asks the rehearsal."""
        keys = (("space", _("Begin or end")), ("e", _("End all")), ("esc", _("Back")))
        edge = "  ".join(f"{key} {label}" for key, label in keys)
        self.query_one("VerticalScroll").border_subtitle = Content(f" {edge} ")
        self.update_drills()

    @work(exclusive=True, group="drills", exit_on_error=False)
    async def update_drills(self, begin: tuple[str, ...] = (), end: tuple[str, ...] | None = None) -> None:
        """Begins or ends drills, or only asks how they stand; then draws them."""

        def ask() -> list[JSON]:
            from grpo_wizard.tui.controllers.drills import update_drills

            return update_drills(Path(self.wizard.home.root), self.wizard.speed, begin, end)

        try:
            self.drills = await in_thread(ask)
        except WizardError as error:
            self.dismiss(None)
            self.wizard.show_error(error)
            return
        self.wizard.drills = tuple(drill["name"] for drill in self.drills if drill["running"])
        self.draw()

    def draw(self) -> None:
        """All rows anew; the cursor stays."""
        rows = self.query_one(OptionList)
        at = rows.highlighted or 0
        with self.app.batch_update():
            rows.clear_options()
            rows.add_options([Option(self._row(drill), id=drill["name"]) for drill in self.drills])
            rows.highlighted = at
        self._show_description()

    def _row(self, drill: JSON) -> Text:
        running, colours = drill["running"], self.app.theme_variables
        text = Text("[x] " if running else "[ ] ", no_wrap=True, end="")
        text.append(truncate(drill["name"], _NAME_CELLS), "bold")
        text.append(drill["title"])
        if running:
            text.append(f"  {_('runs')}", f"bold {colours['warning']}")
        return text

    @on(OptionList.OptionHighlighted)
    def _show_description(self) -> None:
        drill = self._selected_drill
        if drill is None:
            return
        colours, text = self.app.theme_variables, Text()
        for label, key in ((_("what"), "happens"), (_("felt"), "felt"), (_("after"), "mends")):
            text.append(truncate(label, _LABEL_CELLS), colours["primary"]).append(f"{drill[key]}\n")
        text.append(truncate(_("as in"), _LABEL_CELLS), colours["primary"]).append(
            drill["source"], colours["muted"]
        )
        self.query_one("#drill-about", Static).update(text)

    @property
    def _selected_drill(self) -> JSON | None:
        at = self.query_one(OptionList).highlighted
        return self.drills[at] if at is not None and at < len(self.drills) else None

    @on(OptionList.OptionSelected)
    def action_switch(self) -> None:
        """Begins the one under the cursor, or ends it."""
        drill = self._selected_drill
        if drill is not None:
            name = (drill["name"],)
            self.update_drills(end=name) if drill["running"] else self.update_drills(begin=name)

    def action_end_all(self) -> None:
        """Ends all that run."""
        self.update_drills(end=())
