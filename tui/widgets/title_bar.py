"""The bar at the top of every screen: the REHEARSAL badge, the deployment, and its cost.

Textual's Header uses a glyph that many fonts lack, and has no room for prices.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import status_icon, truncate


@dataclass(frozen=True, slots=True)
class TitleState:
    """What the bar shows.

    `locations`: project and zone, left out if there is no room; `status`: a status icon key; `usd_per_hour`: the
    known price; `at_least`: some prices are unknown; `drills`: names of the active drills.
    """

    deployment: str = ""
    rehearsal: bool = False
    locations: tuple[str, ...] = ()
    status: str = ""
    usd_per_hour: float | None = None
    at_least: bool = False
    spent_usd: float | None = None
    drills: tuple[str, ...] = ()

    @property
    def drill(self) -> str:
        """The active drills in short; empty if there are none."""
        if len(self.drills) > 1:
            return _("{n} drills").format(n=len(self.drills))
        return _("drill: {name}").format(name=self.drills[0]) if self.drills else ""


class TitleBar(Widget):
    """One row. The badge and the price are never truncated; the deployment's name may be."""

    DEFAULT_CSS = """
    TitleBar { dock: top; height: 1; width: 100%; background: $panel; }
    """
    state: reactive[TitleState] = reactive(TitleState())

    def __init__(self, state: TitleState | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.set_reactive(TitleBar.state, state or TitleState())

    def render(self) -> Text:
        """Render badge, deployment and location at the left, prices at the right."""
        state, colours, width = self.state, self.app.theme_variables, self.size.width
        text = Text(no_wrap=True, end="")
        if state.rehearsal:
            banner = f" {_('REHEARSAL')} " + (f"· {state.drill} " if state.drill else "")
            text.append(banner, f"bold {colours['on-rehearsal']} on {colours['rehearsal']}")
        right = self._price()
        status = f"  {status_icon(state.status)}" if state.status else ""
        available = width - text.cell_len - cell_len(right) - cell_len(status) - 3
        left = state.deployment or "grpo-wizard"
        for location in state.locations:
            if cell_len(left) + cell_len(location) + 3 <= available:
                left += f" · {location}"
        text.append(" " + truncate(left, min(available, cell_len(left))), "bold")
        if status:
            text.append(status, colours[status_icon(state.status).colour])
        text.append(" " * (width - text.cell_len - cell_len(right) - 1) + right + " ")
        return text

    def _price(self) -> str:
        state, parts = self.state, list[str]()
        if state.usd_per_hour is not None:
            parts.append(("≥ " if state.at_least else "") + f"{state.usd_per_hour:,.2f} USD/h")
        if state.spent_usd is not None:
            parts.append(_("spent {usd}").format(usd=f"{state.spent_usd:,.2f}"))
        return "   ".join(parts)

    def terminal_title(self) -> str:
        """The text for the terminal's title."""
        name = self.state.deployment or "grpo-wizard"
        drill = f" ({self.state.drill})" if self.state.drill else ""
        return f"{_('REHEARSAL')}{drill} {name}" if self.state.rehearsal else name
