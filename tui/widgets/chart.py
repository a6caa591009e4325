"""A line chart in braille dots: reward, loss and other metrics over the training steps.

Why not textual-plot: compared with version 0.10.1 (tests/snapshots/chart_comparison.py), it needs numpy, which would
delay the first paint; its legend covers the data, its ticks are uneven, and its margins take a sixth of 80 columns;
it shows no gaps and has no ASCII mode. A redraw takes 12 ms of CPU time here, 20 ms there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import truncate
from grpo_wizard.tui.style.theme import is_ascii
from grpo_wizard.tui.widgets.braille import Axis, Canvas, Series, draw, step_axis, value_axis


class Chart(Widget):
    """Series over a common x axis. Title and legend are above the plot, never on the data."""

    DEFAULT_CSS = """
    Chart { height: 1fr; min-height: 6; width: 1fr; background: $background; }
    """
    series: reactive[tuple[Series, ...]] = reactive(())

    def __init__(self, title: str = "", x_label: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title, self._x_label = title, x_label
        self._rows: tuple[tuple[object, ...], list[Strip]] | None = None

    def show(self, series: Sequence[Series], title: str | None = None) -> None:
        """Draw `series`, at most four."""
        self._title = self._title if title is None else title
        self.series = tuple(series)

    def on_mount(self) -> None:
        """Repaint when the theme changes."""
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self.refresh())

    def render_line(self, y: int) -> Strip:
        """Render one row of: title, plot rows, x axis, its labels."""
        key = (self.series, self.size, self._title, self.app.theme)
        if self._rows is None or self._rows[0] != key:
            self._rows = (key, self._draw())
        rows = self._rows[1]
        strip = rows[y] if y < len(rows) else Strip.blank(self.size.width)
        return strip.apply_style(self.rich_style)

    def _style(self, variable: str) -> Style:
        return Style(color=self.app.theme_variables[variable])

    def _draw(self) -> list[Strip]:
        width, height = self.size
        xs = [x for series in self.series for x, y in series.points]
        if not xs or width < 12 or height < 5:
            empty = Segment(truncate("  " + _("no values yet"), width), self._style("muted"))
            return [self._head(width), Strip([empty])]
        plot_height = height - 3
        ys = [y for series in self.series for x, y in series.points]
        y_axis = value_axis(ys, plot_height)
        labels = [y_axis.label(tick) + " " for tick in y_axis.ticks] + [self._x_label]
        gutter = max(map(cell_len, labels)) + 1
        plot_width = max(1, width - gutter - 1)
        x_axis = step_axis(xs, max(2, plot_width // 8))
        canvas = draw(self.series, x_axis, y_axis, plot_width, plot_height)
        rows = [self._head(width)]
        rows += [self._plot_row(canvas, y_axis, gutter, row) for row in range(plot_height)]
        return rows + self._foot(x_axis, gutter, plot_width)

    def _head(self, width: int) -> Strip:
        segments = [Segment(f"{self._title}  ", self._style("foreground") + Style(bold=True))]
        if len(self.series) > 1:
            for number, series in enumerate(self.series, 1):
                segments.append(Segment(f"━ {series.label}  ", self._style(f"series-{number}")))
        if any(not math.isfinite(y) for series in self.series for x, y in series.points):
            segments.append(Segment(_("× non-finite"), self._style("error")))
        return Strip(segments).adjust_cell_length(width)

    def _plot_row(self, canvas: Canvas, axis: Axis, gutter: int, row: int) -> Strip:
        top, inks = canvas.height - 1, self._inks()
        labels = {
            top - axis.dot_position(tick, canvas.height * 4) // 4: axis.label(tick) for tick in axis.ticks
        }
        muted = self._style("muted")
        edge = truncate(labels.get(row, ""), gutter - 1, right=True) + ("┤" if row in labels else "│")
        row_cells = canvas.row(row, ascii_only=is_ascii(self.app))
        runs = groupby(row_cells, lambda cell: inks[cell[1], cell[0] == "×"])
        cells = [Segment("".join(char for char, owner in run), ink) for ink, run in runs]
        return Strip([Segment(edge, muted), *cells, Segment(" ", muted)])

    def _inks(self) -> dict[tuple[int, bool], Style]:
        """The style of a cell by its series (-1 for none) and by whether it marks a gap."""
        series, error = range(len(self.series)), self._style("error")
        inks = {(number, False): self._style(f"series-{number + 1}") for number in series}
        return inks | {(number, True): error for number in series} | {(-1, False): Style()}

    def _foot(self, axis: Axis, gutter: int, width: int) -> list[Strip]:
        """The x axis, with labels centered below; a label that would touch its neighbour is left out."""
        line, text = ["─"] * width, [" "] * (width + 1)
        free = 0
        for tick in axis.ticks:
            column, label = axis.dot_position(tick, width * 2) // 2, axis.label(tick)
            begin = min(max(0, column - len(label) // 2), width + 1 - len(label))
            if begin >= free:
                line[column] = "┬"
                text[begin : begin + len(label)] = label
                free = begin + len(label) + 1
        muted = self._style("muted")
        return [
            Strip([Segment(" " * (gutter - 1) + "└" + "".join(line) + " ", muted)]),
            Strip([Segment(truncate(self._x_label, gutter) + "".join(text), muted)]),
        ]
