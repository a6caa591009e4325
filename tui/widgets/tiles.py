"""A metric in one row: name, value, trend as a word, and a sparkline of the last values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from grpo_wizard.tui.style.icons import status_icon, truncate
from grpo_wizard.tui.widgets.braille import sparkline, trend


def short_number(value: float) -> str:
    """Format with about three significant digits: 0.612, 4.0e-04, 12.3k, nan, inf."""
    if not math.isfinite(value):
        return str(value)
    if value and abs(value) < 0.001:
        return f"{value:.1e}"
    if abs(value) >= 10_000:
        return f"{value / 1000:.3g}k" if abs(value) < 1_000_000 else f"{value / 1_000_000:.3g}M"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


class MetricTile(Widget):
    """One row: `reward  0.610 ↑ rising  ▁▂▃▃▅▆`. The sparkline fills the remaining width."""

    DEFAULT_CSS = """
    MetricTile { height: 1; width: 1fr; }
    """
    values: reactive[tuple[float, ...]] = reactive(())

    def __init__(
        self, metric: str, format_value: Callable[[float], str] = short_number, *, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._metric, self._format_value = metric, format_value

    def show(self, values: Sequence[float]) -> None:
        """Show all values of the run, the newest last."""
        self.values = tuple(values)

    def render(self) -> Text:
        """Render the row, fitted to the width."""
        colours, width = self.app.theme_variables, self.size.width
        text = Text(no_wrap=True, end="").append(truncate(self._metric, 7) + " ", colours["muted"])
        if not self.values:
            return text.append("–")
        icon = status_icon(trend(self.values))
        value_style = "bold" if icon.colour != "error" else f"bold {colours['error']}"
        text.append(truncate(self._format_value(self.values[-1]), 8, right=True), value_style)
        text.append(" " + truncate(str(icon), 9), colours[icon.colour])
        if (left := width - 27) > 2:
            text.append(" " + sparkline(self.values, left), colours["series-1"])
        return text
