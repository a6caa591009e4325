"""The panes of the Monitor screen. Each draws the newest JobSnapshot; two also poll the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.containers import Container, Grid, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.controllers.engine_runner import JournalRunner
from grpo_wizard.tui.controllers.job_monitor import JobSnapshot
from grpo_wizard.tui.controllers.threads import LoopThread, in_thread
from grpo_wizard.tui.style.i18n import _, ngettext
from grpo_wizard.tui.style.icons import status_icon
from grpo_wizard.tui.widgets.braille import Series
from grpo_wizard.tui.widgets.chart import Chart
from grpo_wizard.tui.widgets.log_pane import LogPane
from grpo_wizard.tui.widgets.tiles import MetricTile

if TYPE_CHECKING:
    from textual.worker import Worker

    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.tui.screens.monitor import MonitorScreen

_HEALTH_ICON_KEYS = {"healthy": "pass", "warning": "warn", "critical": "block", "unknown": "look"}
_LEVEL_ICON_KEYS = {"critical": "block", "warning": "warn", "info": "info"}
_TILES = (
    ("reward", "avg_reward"),
    ("loss", "loss"),
    ("KL err", "generation_kl_error"),
    ("length", "mean_generation_length"),
    ("s/step", "total_step_seconds"),
)
_CHARTS = (
    ("avg_reward", _("average reward")),
    ("loss", _("loss")),
    ("generation_kl_error", _("generation KL error")),
    ("mean_generation_length", _("mean generation length (tokens)")),
)
_POLL_SECONDS = 15.0


class Pane(Container):
    """A pane; `show_snapshot` is called with every new snapshot."""

    def show_snapshot(self, snapshot: JobSnapshot) -> None:
        """Draw the snapshot."""

    def poll(self) -> None:
        """Read the cluster again, if this pane does so."""

    def take_focus(self) -> None:
        """Focus the pane's main widget."""
        widgets = self.query("LogView, VerticalScroll")
        if widgets:
            widgets.first().focus()

    @property
    def monitor(self) -> MonitorScreen:
        """The Monitor screen."""
        return cast("MonitorScreen", self.screen)


class OverviewPane(Pane):
    """Metric tiles, the reward chart, health, and the end of the log."""

    def compose(self) -> ComposeResult:
        """Yield both forms of health: one line on a narrow screen, a box from 100 columns."""
        yield Static(id="health-line", markup=False)
        with Horizontal(id="upper"):
            with Vertical(id="tiles"):
                for name, key in _TILES:
                    yield MetricTile(name, id=f"tile-{key}")
                yield MetricTile("tok/s", id="tile-tokens")
            yield Chart(_("average reward"), _("step"))
            with VerticalScroll(id="health", can_focus=False) as box:
                box.border_title = Content(f" {_('Health')} ")
                yield Static(id="health-text", markup=False)
        yield LogPane()

    def on_mount(self) -> None:
        """Start without a log file."""
        self._opened: Any = None

    def show_snapshot(self, snapshot: JobSnapshot) -> None:
        """Draw metrics, health and log."""
        for _name, key in _TILES:
            self.query_one(f"#tile-{key}", MetricTile).show(snapshot.values(key))
        self.query_one("#tile-tokens", MetricTile).show(snapshot.throughput())
        self.query_one(Chart).show([Series(_("reward"), snapshot.points("avg_reward"))])
        self.query_one("#health-line", Static).update(self._health(snapshot, one_line=True))
        self.query_one("#health-text", Static).update(self._health(snapshot, one_line=False))
        open_log(self.query_one(LogPane), snapshot, self._opened)
        self._opened = snapshot.log_path

    def _health(self, snapshot: JobSnapshot, one_line: bool) -> Text:
        colours, icon = self.app.theme_variables, status_icon(_HEALTH_ICON_KEYS[snapshot.verdict])
        labels = {
            "healthy": _("healthy"),
            "warning": _("warning"),
            "critical": _("critical"),
            "unknown": _("no data yet"),
        }
        text = Text(end="")
        if snapshot.status == "GONE":
            gone = status_icon("gone")
            message = _("Destroyed; showing the last known data")
            return text.append(f"{gone.glyph} {message}", colours[gone.colour])
        text.append(f"{icon.glyph} {labels[snapshot.verdict]}", f"bold {colours[icon.colour]}")
        for finding in snapshot.findings[: 1 if one_line else 6]:
            level = status_icon(_LEVEL_ICON_KEYS[finding.level])
            text.append("  " if one_line else "\n")
            text.append(f"{level.glyph} ", colours[level.colour]).append(finding.title)
            text.append(("  → " if one_line else "\n  → ") + finding.advice, colours["muted"])
        if snapshot.checkpoint_steps:
            steps = ", ".join(f"step_{n}" for n in snapshot.checkpoint_steps[-3:])
            text.append(
                ("   " if one_line else "\n") + _("checkpoints: {steps}").format(steps=steps),
                colours["muted"],
            )
        if one_line and self.size.width:
            text.truncate(
                2 * self.size.width - 16, overflow="ellipsis"
            )  # room for two lines, wrapped at words
        return text


class ChartsPane(Pane):
    """Four charts, two by two."""

    def compose(self) -> ComposeResult:
        """Yield the grid."""
        with Grid(id="charts"):
            for key, title in _CHARTS:
                yield Chart(title, _("step"), id=f"chart-{key}")

    def show_snapshot(self, snapshot: JobSnapshot) -> None:
        """Draw one metric in each chart."""
        for key, _title in _CHARTS:
            self.query_one(f"#chart-{key}", Chart).show([Series(key, snapshot.points(key))])


class FullLogPane(Pane):
    """The whole log."""

    def compose(self) -> ComposeResult:
        """Yield the log with its search field."""
        yield LogPane()

    def on_mount(self) -> None:
        """Start without a log file."""
        self._opened: Any = None

    def show_snapshot(self, snapshot: JobSnapshot) -> None:
        """Open the job's log file."""
        open_log(self.query_one(LogPane), snapshot, self._opened)
        self._opened = snapshot.log_path


def open_log(pane: LogPane, snapshot: JobSnapshot, opened: object) -> None:
    """Open the snapshot's log file unless it is open already; each job has its own."""
    if snapshot.log_path is not None and snapshot.log_path != opened:
        pane.open(snapshot.log_path)


class _PollingPane(Pane):
    """A pane that reads the cluster when it is first shown, and then every 15 seconds while visible."""

    def compose(self) -> ComposeResult:
        """Yield one text."""
        with VerticalScroll():
            yield Static(_("Loading…"), classes="pane-text", markup=False)

    def on_mount(self) -> None:
        """Poll now, then periodically."""
        self._fetching: Worker[None] | None = None
        self.poll()
        self.set_interval(_POLL_SECONDS, lambda: self.poll() if self.display else None)

    def poll(self) -> None:
        """Read the cluster again, unless the previous read is still running."""
        if self._fetching is None or self._fetching.is_finished:
            self._fetching = self.fetch()

    @work(exit_on_error=False)
    async def fetch(self) -> None:
        """Read and show the content, or the error."""
        try:
            session = self.monitor.session or await self.monitor.controller.session()
            self.show_content(await self.load_content(session))
        except WizardError as error:
            self.show_content(Text(f"{error.title}\n{error.detail}\n{error.fix}".strip()))

    def show_content(self, content: RenderableType) -> None:
        """Show `content`."""
        self.query_one(".pane-text", Static).update(content)

    async def load_content(self, session: Session) -> RenderableType:
        """Read what the pane shows."""
        raise NotImplementedError


class NodesPane(_PollingPane):
    """The RayCluster's pods, the nodes they run on, and why one is pending."""

    async def load_content(self, session: Session) -> RenderableType:
        """Read the pods: one table row each."""
        rows, problem = await in_thread(_pods, session)
        if rows is None:
            return Text(_("The cluster is not running."))
        colours, table = self.app.theme_variables, Table.grid(padding=(0, 2))
        for kind, name, ready, node, restarts in rows:
            icon = status_icon("pass" if ready else "work")
            table.add_row(
                Text(f"{icon.glyph} " + (_("ready") if ready else _("not ready")), colours[icon.colour]),
                kind,
                name,
                node,
                restarts,
            )
        if problem:
            return Group(table, Text(f"\n! {problem}", colours["warning"]))
        return table


def _pods(session: Session) -> tuple[list[tuple[str, str, bool, str, str]] | None, str]:
    from grpo_wizard.steps.clients.kubernetes.api import connect_cluster
    from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.pods import explain, is_ready, list_pods
    from grpo_wizard.steps.jobs.watch import job_resource

    parent = job_resource(session).parent
    kube = connect_cluster(session.cloud, parent["project"], parent["location"], parent["cluster"])
    if kube is None:
        return None, ""
    rows = []
    for pod in list_pods(kube, parent["namespace"], parent["raycluster"]):
        restarts = sum(
            int(c.get("restartCount", 0)) for c in pod.get("status", {}).get("containerStatuses", [])
        )
        rows.append(
            (
                str(pod["metadata"].get("labels", {}).get("ray.io/node-type", "pod")),
                str(pod["metadata"]["name"]),
                is_ready(pod),
                str(pod.get("spec", {}).get("nodeName", "–")),
                ngettext("{n} restart", "{n} restarts", restarts).format(n=restarts),
            )
        )
    return sorted(rows), explain(kube, parent["namespace"], parent["raycluster"])


class CheckpointsPane(_PollingPane):
    """The step_N checkpoints on Lustre, complete or not."""

    async def load_content(self, session: Session) -> RenderableType:
        """List the checkpoints: one table row each."""
        from grpo_wizard.steps.jobs.checkpoints import list_checkpoints
        from grpo_wizard.steps.training.checkpoints import CheckpointListing

        listings: list[CheckpointListing] = []

        async def main() -> None:
            listings.append(await list_checkpoints(session))

        error = await LoopThread("checkpoints", main).ended
        if error is not None:
            raise error
        listing = listings[0]
        if not listing.rows:
            return Text(_("No checkpoints yet."))
        colours, table = self.app.theme_variables, Table.grid(padding=(0, 2))
        for row in listing.rows:
            icon = status_icon("pass" if row.complete else "warn")
            table.add_row(
                Text(icon.glyph, colours[icon.colour]),
                row.name,
                row.state,
                f"{row.size_bytes / 1e9:.3f} GB",
                row.note or row.path,
            )
        if listing.resume_step is not None:
            resume = _("A restarted job will resume from step_{n}.").format(n=listing.resume_step)
            return Group(table, Text(f"\n{resume}", colours["muted"]))
        return table


class EventsPane(Pane):
    """The events of the deployment's journal, the newest first."""

    def compose(self) -> ComposeResult:
        """Yield one text."""
        with VerticalScroll():
            yield Static("", classes="pane-text", markup=False)

    def on_mount(self) -> None:
        """Read the journal from its beginning, then follow it."""
        self._journal = JournalRunner(self.monitor.controller)
        self.set_interval(1.0, self._read)
        self._read()

    def _read(self) -> None:
        if not self._journal.read():
            return
        colours, text = self.app.theme_variables, Text(end="", no_wrap=True, overflow="ellipsis")
        for time, key, line in reversed(self._journal.progress.log):
            icon = status_icon(key)
            text.append(f"{time}  ", colours["muted"])
            text.append(f"{icon.glyph} ", colours[icon.colour]).append(line + "\n")
        self.query_one(".pane-text", Static).update(text)


PANES: tuple[tuple[str, str, Callable[..., Pane]], ...] = (
    ("overview", _("Overview"), OverviewPane),
    ("charts", _("Charts"), ChartsPane),
    ("log", _("Log"), FullLogPane),
    ("nodes", _("Nodes"), NodesPane),
    ("checkpoints", _("Checkpoints"), CheckpointsPane),
    ("events", _("Events"), EventsPane),
)
