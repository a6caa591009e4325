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
from grpo_wizard.tui.controllers.engine_runner import Attached
from grpo_wizard.tui.controllers.job_monitor import Picture
from grpo_wizard.tui.controllers.threads import Background, in_thread
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import sign
from grpo_wizard.tui.widgets.braille import Series
from grpo_wizard.tui.widgets.chart import Chart
from grpo_wizard.tui.widgets.log_pane import LogPane
from grpo_wizard.tui.widgets.tiles import MetricTile

if TYPE_CHECKING:
    from textual.worker import Worker

    from grpo_wizard.tui.screens.monitor import MonitorScreen

_HEALTH_SIGNS = {"healthy": "pass", "warning": "warn", "critical": "block", "unknown": "look"}
_LEVEL_SIGNS = {"critical": "block", "warning": "warn", "info": "info"}
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
_ASK_EVERY_SECONDS = 15.0


class Pane(Container):
    """One pane; `show_picture` is called whenever there is news."""

    def show_picture(self, picture: Picture) -> None:
        """Draws it."""

    def look_again(self) -> None:
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


class Overview(Pane):
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

    def show_picture(self, picture: Picture) -> None:
        """Everything of it."""
        for _name, key in _TILES:
            self.query_one(f"#tile-{key}", MetricTile).show(picture.values(key))
        self.query_one("#tile-tokens", MetricTile).show(picture.throughput())
        self.query_one(Chart).show([Series(_("reward"), picture.points("avg_reward"))])
        self.query_one("#health-line", Static).update(self._health(picture, one_line=True))
        self.query_one("#health-text", Static).update(self._health(picture, one_line=False))
        open_log(self.query_one(LogPane), picture, self._opened)
        self._opened = picture.spool

    def _health(self, picture: Picture, one_line: bool) -> Text:
        colours, mark = self.app.theme_variables, sign(_HEALTH_SIGNS[picture.verdict])
        words = {
            "healthy": _("healthy"),
            "warning": _("warning"),
            "critical": _("critical"),
            "unknown": _("nothing known yet"),
        }
        text = Text(end="")
        if picture.status == "GONE":
            gone = sign("gone")
            return text.append(f"{gone.glyph} " + _("torn down: this is how it was"), colours[gone.colour])
        text.append(f"{mark.glyph} {words[picture.verdict]}", f"bold {colours[mark.colour]}")
        for finding in picture.findings[: 1 if one_line else 6]:
            level = sign(_LEVEL_SIGNS[finding.level])
            text.append("  " if one_line else "\n")
            text.append(f"{level.glyph} ", colours[level.colour]).append(finding.title)
            text.append(("  → " if one_line else "\n  → ") + finding.advice, colours["muted"])
        if picture.saved:
            steps = ", ".join(f"step_{n}" for n in picture.saved[-3:])
            text.append(
                ("   " if one_line else "\n") + _("checkpoints: {steps}").format(steps=steps),
                colours["muted"],
            )
        return text


class Charts(Pane):
    """Four curves side by side."""

    def compose(self) -> ComposeResult:
        """Two by two."""
        with Grid(id="charts"):
            for key, title in _CHARTS:
                yield Chart(title, _("step"), id=f"chart-{key}")

    def show_picture(self, picture: Picture) -> None:
        """Each its own column."""
        for key, _title in _CHARTS:
            self.query_one(f"#chart-{key}", Chart).show([Series(key, picture.points(key))])


class Log(Pane):
    """The whole log."""

    def compose(self) -> ComposeResult:
        """The log with its search line."""
        yield LogPane()

    def on_mount(self) -> None:
        """Not open yet."""
        self._opened: Any = None

    def show_picture(self, picture: Picture) -> None:
        """Opens the file when it changes."""
        open_log(self.query_one(LogPane), picture, self._opened)
        self._opened = picture.spool


def open_log(pane: LogPane, picture: Picture, opened: object) -> None:
    """Another job has another file."""
    if picture.spool is not None and picture.spool != opened:
        pane.open(picture.spool)


class _Asking(Pane):
    """A pane that asks the cluster when it is shown, and then now and again."""

    def compose(self) -> ComposeResult:
        """One text."""
        with VerticalScroll():
            yield Static(_("looking…"), classes="pane-text", markup=False)

    def on_mount(self) -> None:
        """Asks at once."""
        self._asking: Worker[None] | None = None
        self.look_again()
        self.set_interval(_ASK_EVERY_SECONDS, lambda: self.look_again() if self.display else None)

    def look_again(self) -> None:
        """Asks anew, unless an answer is still to come: a slow one must not be begun over and over."""
        if self._asking is None or self._asking.is_finished:
            self._asking = self.ask()

    @work(exit_on_error=False)
    async def ask(self) -> None:
        """Draws the answer, or why there is none."""
        try:
            session = self.monitor.session or await self.monitor.desk.session()
            self.say(await self.answer(session))
        except WizardError as error:
            self.say(Text(f"{error.title}\n{error.detail}\n{error.fix}".strip()))

    def say(self, what: Any) -> None:
        """Shows it."""
        self.query_one(".pane-text", Static).update(what)

    async def answer(self, session: Any) -> Any:
        """What is shown."""
        raise NotImplementedError


class Nodes(_Asking):
    """The RayCluster's pods and where they run."""

    async def answer(self, session: Any) -> Table | Text:
        """A row a pod, and why one waits."""
        rows, trouble = await in_thread(_pods, session)
        if rows is None:
            return Text(_("the cluster is not up"))
        colours, table = self.app.theme_variables, Table.grid(padding=(0, 2))
        for kind, name, ready, node, restarts in rows:
            mark = sign("pass" if ready else "work")
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
    from grpo_wizard.steps.clients.kubernetes.api import connect
    from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.pods import explain, is_ready, pods_of
    from grpo_wizard.steps.jobs.watch import job_resource

    where = job_resource(session).where
    kube = connect(session.cloud, where["project"], where["location"], where["cluster"])
    if kube is None:
        return None, ""
    rows = []
    for pod in pods_of(kube, where["namespace"], where["raycluster"]):
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


class Checkpoints(_Asking):
    """step_N on Lustre, complete or not."""

    async def answer(self, session: Any) -> Table | Text:
        """A row a folder."""
        from grpo_wizard.steps.jobs.checkpoints import list_checkpoints
        from grpo_wizard.steps.training.checkpoints import Listing

        found: list[Listing] = []

        async def main() -> None:
            found.append(await list_checkpoints(session))

        error = await Background("checkpoints", main).ended
        if error is not None:
            raise error
        listing = found[0]
        if not listing.rows:
            return Text(_("no checkpoint yet"))
        colours, table = self.app.theme_variables, Table.grid(padding=(0, 2))
        for row in listing.rows:
            mark = sign("pass" if row.complete else "warn")
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


class Events(Pane):
    """What the wizard did and saw, from the journal."""

    def compose(self) -> ComposeResult:
        """One text."""
        with VerticalScroll():
            yield Static("", classes="pane-text", markup=False)

    def on_mount(self) -> None:
        """From the journal's beginning."""
        self._attached = Attached(self.monitor.desk)
        self.set_interval(1.0, self._read)
        self._read()

    def _read(self) -> None:
        if not self._attached.read():
            return
        colours, text = self.app.theme_variables, Text(end="", no_wrap=True, overflow="ellipsis")
        for time, key, line in reversed(self._attached.story.log):
            mark = sign(key)
            text.append(f"{time}  ", colours["muted"]).append(f"{mark.glyph} ", colours[mark.colour]).append(
                line + "\n"
            )
        self.query_one(".pane-text", Static).update(text)


PANES: tuple[tuple[str, str, Callable[..., Pane]], ...] = (
    ("overview", _("Overview"), Overview),
    ("charts", _("Charts"), Charts),
    ("log", _("Log"), Log),
    ("nodes", _("Nodes"), Nodes),
    ("checkpoints", _("Checkpoints"), Checkpoints),
    ("events", _("Events"), Events),
)
