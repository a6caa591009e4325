"""The panes of Monitor. Each draws the newest picture of the job; two ask the cluster themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

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
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import status_icon
from grpo_wizard.tui.widgets.braille import Series
from grpo_wizard.tui.widgets.chart import Chart
from grpo_wizard.tui.widgets.log_pane import LogPane
from grpo_wizard.tui.widgets.tiles import MetricTile

if TYPE_CHECKING:
    from textual.worker import Worker

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
    ("avg_reward", _("avg reward")),
    ("loss", _("loss")),
    ("generation_kl_error", _("generation KL error")),
    ("mean_generation_length", _("mean generation length, tokens")),
)
_POLL_SECONDS = 15.0


class Pane(Container):
    """One pane; `show_picture` is called whenever there is news."""

    def show_snapshot(self, snapshot: JobSnapshot) -> None:
        """Draws it."""

    def poll(self) -> None:
        """Asks the cluster anew, where the pane asks at all."""

    def take_focus(self) -> None:
        """The pane is shown: its main widget takes the keys."""
        found = self.query("LogView, VerticalScroll")
        if found:
            found.first().focus()

    @property
    def monitor(self) -> MonitorScreen:
        """The screen around it."""
        return cast("MonitorScreen", self.screen)


class OverviewPane(Pane):
    """Tiles, the reward curve, health, and the end of the log."""

    def compose(self) -> ComposeResult:
        """At 80 columns health is one line; from 100 on it is a box."""
        yield Static(id="health-line", markup=False)
        with Horizontal(id="upper"):
            with Vertical(id="tiles"):
                for name, key in _TILES:
                    yield MetricTile(name, id=f"tile-{key}")
                yield MetricTile("tok/s", id="tile-tokens")
            yield Chart(_("avg reward"), _("step"))
            with VerticalScroll(id="health", can_focus=False) as box:
                box.border_title = Content(f" {_('Health')} ")
                yield Static(id="health-text", markup=False)
        yield LogPane()

    def on_mount(self) -> None:
        """The log's file may not be there yet."""
        self._opened: Any = None

    def show_snapshot(self, snapshot: JobSnapshot) -> None:
        """Everything of it."""
        for _name, key in _TILES:
            self.query_one(f"#tile-{key}", MetricTile).show(snapshot.values(key))
        self.query_one("#tile-tokens", MetricTile).show(snapshot.throughput())
        self.query_one(Chart).show([Series(_("reward"), snapshot.points("avg_reward"))])
        self.query_one("#health-line", Static).update(self._health(snapshot, one_line=True))
        self.query_one("#health-text", Static).update(self._health(snapshot, one_line=False))
        open_log(self.query_one(LogPane), snapshot, self._opened)
        self._opened = snapshot.log_path

    def _health(self, snapshot: JobSnapshot, one_line: bool) -> Text:
        colours, mark = self.app.theme_variables, status_icon(_HEALTH_ICON_KEYS[snapshot.verdict])
        words = {
            "healthy": _("healthy"),
            "warning": _("warning"),
            "critical": _("critical"),
            "unknown": _("nothing known yet"),
        }
        text = Text(end="")
        if snapshot.status == "GONE":
            gone = status_icon("gone")
            return text.append(f"{gone.glyph} " + _("torn down: this is how it was"), colours[gone.colour])
        text.append(f"{mark.glyph} {words[snapshot.verdict]}", f"bold {colours[mark.colour]}")
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
        return text


class ChartsPane(Pane):
    """Four curves side by side."""

    def compose(self) -> ComposeResult:
        """Two by two."""
        with Grid(id="charts"):
            for key, title in _CHARTS:
                yield Chart(title, _("step"), id=f"chart-{key}")

    def show_snapshot(self, snapshot: JobSnapshot) -> None:
        """Each its own column."""
        for key, _title in _CHARTS:
            self.query_one(f"#chart-{key}", Chart).show([Series(key, snapshot.points(key))])


class FullLogPane(Pane):
    """The whole log."""

    def compose(self) -> ComposeResult:
        """The log with its search line."""
        yield LogPane()

    def on_mount(self) -> None:
        """Not open yet."""
        self._opened: Any = None

    def show_snapshot(self, snapshot: JobSnapshot) -> None:
        """Opens the file when it changes."""
        open_log(self.query_one(LogPane), snapshot, self._opened)
        self._opened = snapshot.log_path


def open_log(pane: LogPane, snapshot: JobSnapshot, opened: object) -> None:
    """Another job has another file."""
    if snapshot.log_path is not None and snapshot.log_path != opened:
        pane.open(snapshot.log_path)


class _PollingPane(Pane):
    """A pane that asks the cluster when it is shown, and then now and again."""

    def compose(self) -> ComposeResult:
        """One text."""
        with VerticalScroll():
            yield Static(_("looking…"), classes="pane-text", markup=False)

    def on_mount(self) -> None:
        """Asks at once."""
        self._fetching: Worker[None] | None = None
        self.poll()
        self.set_interval(_POLL_SECONDS, lambda: self.poll() if self.display else None)

    def poll(self) -> None:
        """Asks anew, unless an answer is still to come: a slow one must not be begun over and over."""
        if self._fetching is None or self._fetching.is_finished:
            self._fetching = self.fetch()

    @work(exit_on_error=False)
    async def fetch(self) -> None:
        """Draws the answer, or why there is none."""
        try:
            session = self.monitor.session or await self.monitor.controller.session()
            self.show_content(await self.load_content(session))
        except WizardError as error:
            self.show_content(Text(f"{error.title}\n{error.detail}\n{error.fix}".strip()))

    def show_content(self, content: Any) -> None:
        """Shows it."""
        self.query_one(".pane-text", Static).update(content)

    async def load_content(self, session: Any) -> Any:
        """What is shown."""
        raise NotImplementedError


class NodesPane(_PollingPane):
    """The RayCluster's pods and where they run."""

    async def load_content(self, session: Any) -> Table | Text:
        """A row a pod, and why one waits."""
        rows, trouble = await in_thread(_pods, session)
        if rows is None:
            return Text(_("the cluster is not up"))
        colours, table = self.app.theme_variables, Table.grid(padding=(0, 2))
        for kind, name, ready, node, restarts in rows:
            mark = status_icon("pass" if ready else "work")
            table.add_row(
                Text(f"{mark.glyph} " + (_("ready") if ready else _("waits")), colours[mark.colour]),
                kind,
                name,
                node,
                restarts,
            )
        if trouble:
            table.add_row(Text("! " + _("warn"), colours["warning"]), Text(trouble))
        return table


def _pods(session: Any) -> tuple[list[tuple[str, str, bool, str, str]] | None, str]:
    from grpo_wizard.steps.clients.kubernetes.api import connect_cluster
    from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.pods import explain, is_ready, list_pods
    from grpo_wizard.steps.jobs.watch import job_resource

    where = job_resource(session).parent
    kube = connect_cluster(session.cloud, where["project"], where["location"], where["cluster"])
    if kube is None:
        return None, ""
    rows = []
    for pod in list_pods(kube, where["namespace"], where["raycluster"]):
        restarts = sum(
            int(c.get("restartCount", 0)) for c in pod.get("status", {}).get("containerStatuses", [])
        )
        rows.append(
            (
                str(pod["metadata"].get("labels", {}).get("ray.io/node-type", "pod")),
                str(pod["metadata"]["name"]),
                is_ready(pod),
                str(pod.get("spec", {}).get("nodeName", "–")),
                _("{n} restarts").format(n=restarts),
            )
        )
    return sorted(rows), explain(kube, where["namespace"], where["raycluster"])


class CheckpointsPane(_PollingPane):
    """step_N on Lustre, complete or not."""

    async def load_content(self, session: Any) -> Table | Text:
        """A row a folder."""
        from grpo_wizard.steps.jobs.checkpoints import list_checkpoints
        from grpo_wizard.steps.training.checkpoints import CheckpointListing

        found: list[CheckpointListing] = []

        async def main() -> None:
            found.append(await list_checkpoints(session))

        error = await LoopThread("checkpoints", main).ended
        if error is not None:
            raise error
        listing = found[0]
        if not listing.rows:
            return Text(_("no checkpoint yet"))
        colours, table = self.app.theme_variables, Table.grid(padding=(0, 2))
        for row in listing.rows:
            mark = status_icon("pass" if row.complete else "warn")
            table.add_row(
                Text(mark.glyph, colours[mark.colour]),
                row.name,
                row.state,
                f"{row.size_bytes / 1e9:.3f} GB",
                row.note or row.path,
            )
        if listing.resume_step is not None:
            table.add_row(
                "", Text(_("a restart goes on from step_{n}").format(n=listing.resume_step), colours["muted"])
            )
        return table


class EventsPane(Pane):
    """What the wizard did and saw, from the journal."""

    def compose(self) -> ComposeResult:
        """One text."""
        with VerticalScroll():
            yield Static("", classes="pane-text", markup=False)

    def on_mount(self) -> None:
        """From the journal's beginning."""
        self._journal = JournalRunner(self.monitor.controller)
        self.set_interval(1.0, self._read)
        self._read()

    def _read(self) -> None:
        if not self._journal.read():
            return
        colours, text = self.app.theme_variables, Text(end="", no_wrap=True, overflow="ellipsis")
        for time, key, line in reversed(self._journal.progress.log):
            mark = status_icon(key)
            text.append(f"{time}  ", colours["muted"]).append(f"{mark.glyph} ", colours[mark.colour]).append(
                line + "\n"
            )
        self.query_one(".pane-text", Static).update(text)


PANES: tuple[tuple[str, str, Callable[..., Pane]], ...] = (
    ("overview", _("Overview"), OverviewPane),
    ("charts", _("Charts"), ChartsPane),
    ("log", _("Log"), FullLogPane),
    ("nodes", _("Nodes"), NodesPane),
    ("checkpoints", _("Checkpoints"), CheckpointsPane),
    ("events", _("Events"), EventsPane),
)
