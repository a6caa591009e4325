"""The Monitor screen: training progress, metrics, health, log, nodes, checkpoints and events of the job."""

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
from grpo_wizard.tui.controllers.threads import in_thread
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
    """Six panes that show one JobSnapshot, updated by a thread."""

    SCREEN_NAME = "monitor"
    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "monitor.tcss"]  # type: ignore[assignment]
    AUTO_FOCUS = "LogView"
    HELP = _(
        "Shows training progress from the job's log. The reward should rise over time. The KL error measures how far "
        "the generation and training policies have diverged. Leaving this screen does not affect the job."
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
            tooltip=_("Show the pane to the right"),
            show=False,
        ),
        Binding(
            "s",
            "stop",
            _("Stop"),
            id="monitor.stop",
            tooltip=_("Stop training; the nodes will keep running and will still be billed"),
        ),
        Binding(
            "t",
            "tear_down",
            _("Destroy"),
            id="monitor.destroy",
            tooltip=_("Delete the resources that this deployment created"),
        ),
        Binding(
            "r",
            "review",
            _("Launch"),
            id="monitor.review",
            tooltip=_("Open Review to launch the deployment again"),
        ),
        Binding(
            "f5",
            "refresh",
            _("Refresh"),
            id="monitor.look",
            tooltip=_("Refresh the nodes or checkpoints now"),
            show=False,
        ),
        Binding(
            "o",
            "run",
            _("Run"),
            id="monitor.run",
            tooltip=_("Show the progress of each resource"),
            show=False,
        ),
        Binding(
            "q",
            "app.quit",
            _("Quit"),
            id="monitor.quit",
            tooltip=_("Quit the wizard; the job will keep running"),
            show=False,
        ),
        Binding(
            "escape",
            "back",
            _("Back"),
            id="monitor.back",
            tooltip=_("Return to the list of deployments; the job will keep running"),
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
        """Yield status line, tabs and panes; the other panes are built when first shown."""
        yield Static(id="status-line", markup=False)
        yield TabBar([(key, label) for key, label, _make in PANES])
        with ContentSwitcher(initial="overview", id="panes"):
            yield OverviewPane(id="overview")

    def on_mount(self) -> None:
        """Open the local copy of the log, then connect to the Ray head."""
        self.query_one(TabBar).current = "overview"
        if has_job(self.controller.draft.deployment):
            self.show_snapshot(JobSnapshot(log_path=self.controller.home.job_log_file(self.controller.name)))
        self.call_after_refresh(self._start_monitoring)
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        """Stop following the job."""
        if self._job is not None:
            self._job.cancel()

    @work(exclusive=True, group="begin", exit_on_error=False)
    async def _start_monitoring(self) -> None:
        if self._job is not None:
            self._job.cancel()
        self._job, self.error, self._followed_job = None, None, self._current_job()
        _id, exists, run_in_progress = self._followed_job
        if run_in_progress and not exists:
            self.show_snapshot(
                JobSnapshot(phase=_("no job yet; it will be submitted once all resources are ready"))
            )
            return
        try:
            self.session = await self.controller.session()
        except WizardError as error:
            self._show_job_error(error)
            return
        if exists or self.controller.draft.deployment.job is None:
            self._job = JobMonitor(
                self.session, self._if_current(self.show_snapshot), self._if_current(self._show_job_error)
            )
        else:
            self.show_snapshot(await in_thread(last_job_snapshot, self.session))

    def _current_job(self) -> tuple[str, bool, bool]:
        """(submission id from the state, whether the job exists, whether a run in progress may submit another)."""
        deployment = self.controller.draft.deployment
        running = (
            self.wizard.engine is not None and self.wizard.engine.is_running
            if self.controller.writable
            else is_busy(self.controller.home, self.controller.name)
        )
        submission_id = deployment.job.submission_id if deployment.job else ""
        return submission_id, has_job(deployment), running

    def _if_current(self, handler: Callable[[_Update], None]) -> Callable[[_Update], None]:
        """Wrap `handler` so that it ignores updates of a job that this screen no longer follows."""
        job = self._followed_job

        def handle(update: _Update) -> None:
            if self._followed_job is job:
                handler(update)

        return handle

    def _show_job_error(self, error: WizardError) -> None:
        self.error = error
        self._draw_status()

    def show_snapshot(self, snapshot: JobSnapshot) -> None:
        """Show it in all panes."""
        if not (self.is_mounted and self.is_running):  # the monitor's thread may outlive the screen briefly
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
        """Whether another job, or none, is to be followed; a run in progress matters only while no job exists."""
        before = self._followed_job
        return before is not None and (now[:2] != before[:2] or (not now[1] and now[2] != before[2]))

    def _draw_status(self) -> None:
        colours, shown = self.app.theme_variables, self.snapshot
        icon = status_icon(STATUS_ICON_KEYS.get(shown.status, "look"))
        text = Text(no_wrap=True, end="", overflow="ellipsis").append(f"{icon} ", colours[icon.colour])
        if shown.status == "GONE":
            text.append(_("destroyed; the job has ended") + (" · " if shown.rows else ""), "bold")
        if shown.rows:
            text.append(_("step {n}/{m}").format(n=shown.rows[-1].step, m=shown.total_steps), "bold")
            if has_epochs(shown.rows):
                text.append(" · " + _("epoch {n}").format(n=shown.rows[-1].epoch))
            took = shown.values("total_step_seconds")
            text.append(" · " + _("{time} per step").format(time=format_duration(took[-1])) if took else "")
        left = seconds_left(shown)
        if left is not None:
            text.append(
                " · " + _("will end around {time}").format(time=local_time(self.wizard.clock() + left))
            )
        if shown.phase and not shown.ended:
            text.append(f" · {shown.phase}", colours["muted"])
        if self.error is not None and not shown.ended:
            text.append(f"  {self.error.title}. {self.error.fix}".rstrip(), colours["warning"])
        elif shown.detail and shown.status in ("FAILED", "LOST"):
            text.append(f"  {shown.detail}", colours["error"])
        self.query_one("#status-line", Static).update(text)

    def title_state(self) -> TitleState:
        """The title bar with the job's status."""
        return self.wizard.title_state(STATUS_ICON_KEYS.get(self.snapshot.status, ""))

    # --- panes

    async def action_pane(self, key: str) -> None:
        """Show a pane; build it when it is first shown."""
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
        """Show the pane to the right; the first follows the last."""
        keys = [key for key, _label, _make in PANES]
        await self.action_pane(keys[(keys.index(self.query_one(TabBar).current) + 1) % len(keys)])

    def action_refresh(self) -> None:
        """Refresh the current pane at once; it also polls every few seconds, even after the job has ended."""
        self.query_one(f"#{self.query_one(TabBar).current}", Pane).poll()

    @on(TabBar.TabSelected)
    async def _clicked(self, event: TabBar.TabSelected) -> None:
        await self.action_pane(event.key)

    # --- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer Stop for a running job only, and Launch for a destroyed one only."""
        if action == "review":
            return self.snapshot.status == "GONE" and self.controller.writable
        if action == "stop":
            return self.snapshot.status in ("RUNNING", "PENDING")
        return True

    def action_stop(self) -> None:
        """Ask, then stop the job."""
        from grpo_wizard.tui.screens.dialogs import ChoiceDialog

        choices = (
            (
                "stop",
                _("Stop job"),
                _(
                    "The nodes will keep running and will still be billed. "
                    "To resume from the last complete checkpoint, launch again from Review."
                ),
            ),
            ("stay", _("Cancel"), _("Keep training.")),
        )
        self.app.push_screen(ChoiceDialog(_("Stop the job?"), "", choices), self._on_stop_choice)

    def _on_stop_choice(self, choice: str | None) -> None:
        if choice == "stop":
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
        """Open Destroy."""
        self.wizard.show("teardown")

    def action_review(self) -> None:
        """Open Review to launch again."""
        self.wizard.show("review")

    def action_run(self) -> None:
        """Open Run."""
        self.wizard.show("run")

    def action_back(self) -> None:
        """Return to the deployments, or to Run while a run is in progress."""
        if self.wizard.engine is not None and self.wizard.engine.is_running:
            self.wizard.show("run")
        else:
            self.wizard.close_deployment()
