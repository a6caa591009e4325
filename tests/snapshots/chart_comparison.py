"""Compares Chart with textual-plot: `python tests/snapshots/chart_comparison.py OUT.png`.

It needs textual-plot. Prints the CPU time of a redraw of each (2 series of 500 points, 80 × 20, mean
of 20 rounds) and writes the picture.
"""

from __future__ import annotations

import asyncio
import sys
import time

from gallery import sample_curve  # type: ignore[import-not-found]
from svg_to_png import to_png  # type: ignore[import-not-found]
from textual.app import ComposeResult
from textual_plot import HiResMode, PlotWidget

from grpo_wizard.tui.style.theme import ThemedApp
from grpo_wizard.tui.widgets.braille import Series
from grpo_wizard.tui.widgets.chart import Chart


class _ChartComparison(ThemedApp[None]):
    CSS = "PlotWidget, Chart { height: 1fr; }"

    def compose(self) -> ComposeResult:
        yield Chart("avg reward", "step", id="ours")
        yield PlotWidget(id="theirs")

    def draw_ours(self, phase: float = 0) -> None:
        self.query_one(Chart).show(
            [Series("B200", sample_curve(500, phase)), Series("H200", sample_curve(500, 2))]
        )

    def draw_theirs(self, phase: float = 0) -> None:
        plot = self.query_one(PlotWidget)
        plot.clear()
        for label, shift, colour in (("B200", phase, "#56B4E9"), ("H200", 2, "#E69F00")):
            xs, ys = zip(*sample_curve(500, shift), strict=True)
            plot.plot(xs, ys, line_style=colour, hires_mode=HiResMode.BRAILLE, label=label)
        plot.show_legend()


async def main(out: str) -> None:
    """Draw both and print the times."""
    app = _ChartComparison()
    async with app.run_test(size=(80, 40)) as pilot:
        app.draw_ours()
        app.draw_theirs()
        await pilot.pause(0.5)
        to_png(app.export_screenshot(), out)
        for name, draw in (("ours", app.draw_ours), ("textual-plot", app.draw_theirs)):
            began = time.process_time()
            for n in range(20):
                draw(n / 10)
                await pilot.pause(0.05)
            print(f"{name}: {(time.process_time() - began) / 20 * 1000:.1f} ms CPU a redraw")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
