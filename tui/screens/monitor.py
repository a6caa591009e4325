"""The training as it runs: step n of m, the curves, the log, the nodes, the checkpoints, and whether it is healthy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import ContentSwitcher, Static

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.durations import format_duration
from grpo_wizard.tui.controllers.job_monitor import (
    JobMonitor,
    JobSnapshot,
    has_epochs,
    last_job_snapshot,
    local_time,
    seconds_left,
)
from grpo_wizard.tui.screens.base import WizardScreen
from grpo_wizard.tui.screens.monitor_panes import PANES, OverviewPane, Pane
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import status_icon
from grpo_wizard.tui.viewmodels.deployments import has_job, is_busy
from grpo_wizard.tui.widgets.tab_bar import TabBar
from grpo_wizard.tui.widgets.title_bar import TitleState

if TYPE_CHECKING:
    from grpo_wizard.steps.deployment.session import Session

_Update = TypeVar("_Update")
STATUS_ICON_KEYS = {
    "PENDING": "work",
    "RUNNING": "training",
    "SUCCEEDED": "done",
    "FAILED": "failed",
    "STOPPED": "paused",
    "LOST": "broken",
    "GONE": "gone",
}


class MonitorScreen(WizardScreen):
    """Six panes over one picture of the job, which a thread renews."""

    SCREEN_NAME = "monitor"
    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "monitor.tcss"]  # type: ignore[assignment]
    AUTO_FOCUS = "LogView"
    HELP = _(
        "The training, read from its own log. Reward should rise; KL error tells how far generation and training "
        "disagree. Leaving changes nothing: the job goes on in the cluster."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(
                str(n),
                f"pane('{key}')",
                label,
                id=f"monitor.{key}",
                tooltip=_("Show {pane}").format(pane=label),
                show=False,
            )
            for n, (key, label, _make) in enumerate(PANES, 1)
        ),
        Binding(
            "tab",
            "next_pane",
            _("Next pane"),
            id="monitor.next",
            tooltip=_("The pane to the right"),
            show=False,
        ),
        Binding(
            "s", "stop", _("Stop job"), id="monitor.stop", tooltip=_("End the training; the machines stay")
        ),
        Binding("t", "tear_down", _("Tear down"), id="monitor.destroy", tooltip=_("Take down what was made")),
        Binding(
            "r", "review", _("Relaunch"), id="monitor.review", tooltip=_("To Review, to launch it once more")
        ),
        Binding(
            "f5",
            "refresh",
            _("Look again"),
            id="monitor.look",
            tooltip=_("Ask for nodes or checkpoints now"),
            show=False,
        ),
        Binding("o", "run", _("Run"), id="monitor.run", tooltip=_("What was made"), show=False),
        Binding(
            "q", "app.quit", _("Quit"), id="monitor.quit", tooltip=_("Leave; the job goes on"), show=False
        ),
        Binding(
            "escape", "back", _("Back"), id="monitor.back", tooltip=_("To the deployments; the job goes on")
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.snapshot = JobSnapshot(log_path=None)
        self.error: WizardError | None = None
        self.session: Session | None = None
        self._job: JobMonitor | None = None
        self._followed_job: tuple[str, bool, bool] | None = None

    def body(self) -> ComposeResult:
        """Status line, tabs, panes; only the first is built at once."""
        yield Static(id="status-line", markup=False)
        yield TabBar([(key, label) for key, label, _make in PANES])
        with ContentSwitcher(initial="overview", id="panes"):
            yield OverviewPane(id="overview")

    def on_mount(self) -> None:
        """Opens the log that is there, then the head."""
        self.query_one(TabBar).current = "overview"
        if has_job(self.controller.draft.deployment):
            self.show_snapshot(JobSnapshot(log_path=self.controller.home.job_log_file(self.controller.name)))
        self.call_after_refresh(self._start_monitoring)
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        """Nobody watches for a screen that is gone."""
        if self._job is not None:
            self._job.cancel()

    @work(exclusive=True, group="begin", exit_on_error=False)
    async def _start_monitoring(self) -> None:
        if self._job is not None:
            self._job.cancel()
        self._job, self.error, self._followed_job = None, None, self._current_job()
        _id, stands, comes = self._followed_job
        if comes and not stands:
            self.show_snapshot(JobSnapshot(phase=_("no job yet: it is submitted when everything stands")))
            return
        try:
            self.session = await self.controller.session()
        except WizardError as error:
            self._show_job_error(error)
            return
        if stands or self.controller.draft.deployment.job is None:
            self._job = JobMonitor(
                self.session, self._if_current(self.show_snapshot), self._if_current(self._show_job_error)
            )
        else:
            self.show_snapshot(last_job_snapshot(self.session))

    def _current_job(self) -> tuple[str, bool, bool]:
        """The job's id as the state has it, whether it stands, whether a run is going on that may bring another."""
        deployment = self.controller.draft.deployment
        running = (
            self.wizard.engine is not None and self.wizard.engine.is_running
            if self.controller.writable
            else is_busy(self.controller.home, self.controller.name)
        )
        known = deployment.job.submission_id if deployment.job else ""
        return known, has_job(deployment), running

    def _if_current(self, taken: Callable[[_Update], None]) -> Callable[[_Update], None]:
        """Takes news only as long as it is of the job that this screen follows now."""
        mine = self._followed_job

        def take(news: _Update) -> None:
            if self._followed_job is mine:
                taken(news)

        return take

    def _show_job_error(self, error: WizardError) -> None:
        self.error = error
        self._draw_status()

    def show_snapshot(self, snapshot: JobSnapshot) -> None:
        """Draws it in the panes that are there."""
        if not (self.is_mounted and self.is_running):  # the job's loop may outlive the screen by a moment
            return
        before, self.snapshot = self.snapshot, snapshot
        self._draw_status()
        for pane in self.query(Pane):
            pane.show_snapshot(snapshot)
        if snapshot.status != before.status:
            self.update_title()
            self.refresh_bindings()
        if snapshot.ended and not before.ended and snapshot.status != "GONE":
            self.app.bell()

    def _tick(self) -> None:
        self.controller.reload_if_changed()
        if self._followed_job is not None and self._job_changed(self._current_job()):
            self._start_monitoring()
        self._draw_status()

    def _job_changed(self, now: tuple[str, bool, bool]) -> bool:
        """Another job, or the same one gone; what a run does meanwhile matters only while there is none."""
        before = self._followed_job
        return before is not None and (now[:2] != before[:2] or (not now[1] and now[2] != before[2]))

    def _draw_status(self) -> None:
        colours, shown = self.app.theme_variables, self.snapshot
        mark = status_icon(STATUS_ICON_KEYS.get(shown.status, "look"))
        text = Text(no_wrap=True, end="", overflow="ellipsis").append(f"{mark} ", colours[mark.colour])
        if shown.status == "GONE":
            text.append(_("torn down, the job is over") + (" · " if shown.rows else ""), "bold")
        if shown.rows:
            text.append(_("step {n}/{m}").format(n=shown.rows[-1]["step"], m=shown.total_steps), "bold")
            if has_epochs(shown.rows):
                text.append(" · " + _("epoch {n}").format(n=shown.rows[-1]["epoch"]))
            took = shown.values("total_step_seconds")
            text.append(" · " + _("{time} a step").format(time=format_duration(took[-1])) if took else "")
        left = seconds_left(shown)
        if left is not None:
            text.append(" · " + _("ends about {time}").format(time=local_time(self.wizard.clock() + left)))
        if shown.phase and not shown.ended:
            text.append(f" · {shown.phase}", colours["muted"])
        if self.error is not None and not shown.ended:
            text.append(f"  {self.error.title} {self.error.fix}", colours["warning"])
        elif shown.detail and shown.status in ("FAILED", "LOST"):
            text.append(f"  {shown.detail}", colours["error"])
        self.query_one("#status-line", Static).update(text)

    def title_state(self) -> TitleState:
        """With the job's state as its sign."""
        return self.wizard.title_state(STATUS_ICON_KEYS.get(self.snapshot.status, ""))

    # --- panes

    async def action_pane(self, key: str) -> None:
        """Shows a pane; it is built when it is first looked at."""
        panes = self.query_one(ContentSwitcher)
        if not panes.query(f"#{key}"):
            make = next(make for name, _label, make in PANES if name == key)
            pane = make(id=key)
            await panes.add_content(pane)
            pane.show_snapshot(self.snapshot)
        panes.current = key
        self.query_one(TabBar).current = key
        panes.query_one(f"#{key}", Pane).take_focus()

    async def action_next_pane(self) -> None:
        """The one to the right, round and round."""
        keys = [key for key, _label, _make in PANES]
        await self.action_pane(keys[(keys.index(self.query_one(TabBar).current) + 1) % len(keys)])

    def action_refresh(self) -> None:
        """The pane that is shown asks at once; it asks by itself every few seconds, also when the job has ended."""
        self.query_one(f"#{self.query_one(TabBar).current}", Pane).poll()

    @on(TabBar.TabSelected)
    async def _clicked(self, event: TabBar.TabSelected) -> None:
        await self.action_pane(event.key)

    # --- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only a job that runs can be stopped, and only one that is gone is launched anew."""
        if action == "review":
            return self.snapshot.status == "GONE" and self.controller.writable
        if action == "stop":
            return self.snapshot.status in ("RUNNING", "PENDING")
        return True

    def action_stop(self) -> None:
        """Asks, then stops."""
        from grpo_wizard.tui.screens.dialogs import ChoiceDialog

        ways = (
            (
                "stop",
                _("Stop job"),
                _("the machines stay and cost on; it goes on later from the last complete checkpoint"),
            ),
            ("stay", _("Stay"), _("the training goes on")),
        )
        self.app.push_screen(ChoiceDialog(_("Stop the job?"), "", ways), self._stop_answered)

    def _stop_answered(self, way: str | None) -> None:
        if way == "stop":
            self._stop()

    @work(exclusive=True, group="stop", exit_on_error=False)
    async def _stop(self) -> None:
        from grpo_wizard.steps.jobs.stop import stop_job
        from grpo_wizard.tui.controllers.threads import LoopThread

        if self._job is None:
            return
        watch = self._job.watch

        async def main() -> None:
            await stop_job(watch)

        error = await LoopThread("stop", main).ended
        if isinstance(error, WizardError):
            self.wizard.show_error(error)
        elif error is not None:
            raise error

    def action_tear_down(self) -> None:
        """To Teardown."""
        self.wizard.show("teardown")

    def action_review(self) -> None:
        """To Review, which launches."""
        self.wizard.show("review")

    def action_run(self) -> None:
        """To Run."""
        self.wizard.show("run")

    def action_back(self) -> None:
        """To the deployments."""
        if self.wizard.engine is not None and self.wizard.engine.is_running:
            self.wizard.show("run")
        else:
            self.wizard.close_deployment()
