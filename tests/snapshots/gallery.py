"""All widgets on a few pages, to look at by hand and for the snapshots: `python tests/snapshots/gallery.py [--page run] [--ascii] [--light]`.

The figures are examples, not measurements.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Horizontal, Vertical
from textual.widgets import Footer, Label

from grpo_wizard.tui.style.theme import ThemedApp
from grpo_wizard.tui.widgets.braille import Series
from grpo_wizard.tui.widgets.chart import Chart
from grpo_wizard.tui.widgets.checks import CheckRow, Checks
from grpo_wizard.tui.widgets.command_line import CommandLine
from grpo_wizard.tui.widgets.confirm import ConfirmDialog
from grpo_wizard.tui.widgets.lane import Lane, LaneState
from grpo_wizard.tui.widgets.log_pane import LogPane
from grpo_wizard.tui.widgets.stepper import Stepper, StepperItem
from grpo_wizard.tui.widgets.tiles import MetricTile
from grpo_wizard.tui.widgets.title_bar import TitleBar, TitleState

STEPS = ("Project", "Quotas", "Networks", "Cluster", "Lustre", "RayCluster", "GRPO")
FINDINGS = (
    CheckRow("reservation", "pass", "Reservation", "READY, 4 of 4 machines free, a4-highgpu-8g"),
    CheckRow("deletion", "warn", "Reservation end", "deleted automatically on 12 Dec 2026, in 12 days"),
    CheckRow(
        "cpus", "block", "CPU quota", "80 N2 CPUs needed, 24 of 200 left in us-central1", "Request more."
    ),
    CheckRow("gpus", "look", "GPU quota by family"),
)
COMMAND = (
    "gcloud container node-pools create gpu-pool --cluster nemo-cluster --location us-central1 "
    "--node-locations us-central1-b --machine-type a4-highgpu-8g --num-nodes 0 --enable-autoscaling "
    "--reservation-affinity specific --reservation 'nemo-res'"
)
LANES = (
    LaneState("14 networks, subnets, firewall", "done", 0, 112),
    LaneState("address range, peering", "done", 112, 263),
    LaneState("Lustre nemo-lustre", "work", 263, estimate=(2400, 4800), on_critical_path=True),
    LaneState("cluster nemo-cluster", "done", 112, 659),
    LaneState("GPU pool gpu-pool", "work", 659, counter="nodes 0 of 0", estimate=(240, 2100)),
    LaneState("device networks", "failed", 659, 700, note="admission webhook denied it"),
    LaneState("PV, PVC", "wait", note="needs Lustre"),
    LaneState("RayCluster", "wait", note="needs PVC, GPU pool, Secret"),
)
REWARDS = (0.12, 0.18, 0.25, 0.31, 0.30, 0.42, 0.49, 0.55, 0.58, 0.61)


def sample_curve(n: int, phase: float) -> list[tuple[float, float]]:
    """`n` points of a rising, noisy curve."""
    return [(x + 1.0, 0.7 * (1 - math.exp(-3 * x / n)) + 0.05 * math.sin(x / 9 + phase)) for x in range(n)]


def _step() -> ComposeResult:
    statuses = ("done", "here", "todo", "todo", "todo", "todo", "todo")
    items = [StepperItem(name.lower(), name, statuses[n], n + 1) for n, name in enumerate(STEPS)]
    items += [StepperItem(name.lower(), name) for name in ("Review", "Run", "Monitor")]
    stepper, checks = Stepper(), Checks()
    stepper.show(items, "quotas")
    checks.show(FINDINGS)
    with Container(id="split"):
        yield stepper
        with Vertical():
            yield Label("2 Quotas and reservation", id="head")
            yield checks
            yield CommandLine(COMMAND, "Creates the GPU pool")


def _run() -> ComposeResult:
    yield Label("Deploying gsm8k-27b   22 m of about 55–95 m")
    for state in LANES:
        lane = Lane()
        lane.show(state, now=1320, horizon=4200)
        yield lane


def _monitor() -> ComposeResult:
    chart = Chart("avg reward", "step")
    chart.show([Series("reward", [(n + 1.0, y) for n, y in enumerate(REWARDS)])])
    with Horizontal():
        with Vertical(id="tiles"):
            for name, values in (
                ("reward", REWARDS),
                ("loss", (0.02, 0.018, 0.019, 0.012)),
                ("KL err", (4e-4, 5e-4, 3e-4)),
                ("length", (412.0, 390.0, 300.0, 212.0)),
                ("tok/s", (340.0, 344.0, math.nan)),
                ("idle", ()),
            ):
                tile = MetricTile(name)
                tile.show(values)
                yield tile
        yield chart


def _charts() -> ComposeResult:
    broken = [(x, math.nan if x in (4.0, 5.0, 30.0) else y) for x, y in sample_curve(60, 0)]
    for title, series in (
        ("two series of 500", [Series("B200", sample_curve(500, 0)), Series("H200", sample_curve(500, 2))]),
        ("loss", [Series("loss", broken)]),
        ("one point", [Series("reward", [(1.0, 0.3)])]),
        ("nothing", []),
    ):
        chart = Chart(title, "step")
        chart.show(series)
        yield chart


def _log() -> ComposeResult:
    yield LogPane()


PAGES: dict[str, Callable[[], ComposeResult]] = {
    "step": _step, "run": _run, "monitor": _monitor, "charts": _charts, "log": _log, "confirm": _run,
}  # fmt: skip


class Gallery(ThemedApp[None]):
    """An app that shows one page of widgets."""

    CSS = """
    #split { layout: horizontal; }
    .-narrow #split { layout: vertical; }
    #split > Vertical { padding: 0 1; }
    #head { text-style: bold; margin-bottom: 1; }
    #tiles { width: 40; padding: 1; }
    .-narrow #tiles { width: 40; }
    """
    BINDINGS = [Binding("f5", "bell", "Check again", id="gallery.check", tooltip="Rerun all checks")]  # noqa: RUF012

    def __init__(
        self, page: str, *, ascii_only: bool | None = False, light: bool = False, log: Path | None = None
    ) -> None:
        super().__init__(ascii_only=ascii_only, light=light)
        self._page, self._spool = page, log

    def compose(self) -> ComposeResult:
        """Yield title, page and footer."""
        places = ("my-project", "us-central1-b")
        yield TitleBar(TitleState("gsm8k-27b", True, places, "training", 184.1, self._page == "run", 742.0))
        yield from PAGES[self._page]()
        yield Footer(show_command_palette=True)

    def on_mount(self) -> None:
        """Open the dialog on its page, and the log."""
        for pane in self.query(LogPane):
            if self._spool is not None:
                pane.open(self._spool)
        if self._page == "confirm":
            lines = [
                ("", "Delete: 31 (created by this deployment) · Keep: nemo-net (adopted)"),
                ("warn", "2 checkpoints on Lustre are lost with it: step_5, step_10 (660 GB)"),
            ]
            self.push_screen(ConfirmDialog("Destroy gsm8k-27b?", lines, "gsm8k-27b", "Destroy"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", default="step", choices=PAGES)
    parser.add_argument("--ascii", action="store_true")
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    Gallery(options.page, ascii_only=options.ascii or None, light=options.light, log=options.log).run()
