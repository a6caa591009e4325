"""The Run screen: resources being created or deleted as lanes on one time axis, failures with their fix, and the log."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from grpo_wizard.state.errors import WizardError
from grpo_wizard.state.lock import lock_owner
from grpo_wizard.steps.core.durations import format_duration, format_duration_range
from grpo_wizard.tui.controllers.engine_runner import EngineRunner, JournalRunner
from grpo_wizard.tui.screens.base import WizardScreen
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import status_icon
from grpo_wizard.tui.viewmodels.deployments import has_job
from grpo_wizard.tui.viewmodels.failures import group_by_cause, join_names
from grpo_wizard.tui.viewmodels.run_progress import RunProgress
from grpo_wizard.tui.widgets.lane import Lane
from grpo_wizard.tui.widgets.title_bar import TitleState

_TICK_SECONDS = 0.5


class RunScreen(WizardScreen):
    """Shows the run of this process, or follows the journal of another process that works on the deployment."""

    SCREEN_NAME = "run"
    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "run.tcss"]  # type: ignore[assignment]
    HELP = _(
        "Resources are created in parallel as soon as their dependencies are ready. Each lane shows the progress "
        "reported by Google Cloud, or the elapsed and usual times. You can quit at any time: the run will continue "
        "in the background or pause, and an interrupted run can resume with the resources that already exist."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "r",
            "retry",
            _("Try again"),
            id="run.again",
            tooltip=_("Resume: keep existing resources and create the rest"),
        ),
        Binding("m", "monitor", _("Monitor"), id="run.monitor", tooltip=_("Monitor training")),
        Binding(
            "c",
            "copy",
            _("Copy command"),
            id="run.copy",
            tooltip=_("Copy the command that fixes the first failure"),
        ),
        Binding(
            "t",
            "tear_down",
            _("Destroy"),
            id="run.destroy",
            tooltip=_("Delete the resources that this deployment created"),
        ),
        Binding(
            "q",
            "app.quit",
            _("Quit"),
            id="run.leave",
            tooltip=_("Quit; the run will continue in the background or pause"),
        ),
        Binding("escape", "back", _("Back"), id="run.back", tooltip=_("Return to Review")),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._source: EngineRunner | JournalRunner | None = None
        self._finished = False
        self._shown_log: tuple[tuple[str, str, str], ...] = ()

    def body(self) -> ComposeResult:
        """Yield heading, lanes, failures and log."""
        yield Static("", id="progress", classes="heading", markup=False)
        yield VerticalScroll(id="lanes", can_focus=False)
        with VerticalScroll(id="failures", can_focus=True) as failures:
            failures.border_title = Content(f" {_('Failed')} ")
            yield Static("", id="failure-text", markup=False)
        with VerticalScroll(id="run-log") as log:
            log.border_title = Content(f" {_('Log')} ")
            yield Static("", id="run-log-text", markup=False)

    @property
    def progress(self) -> RunProgress:
        """The progress of the run that is shown."""
        return self._source.progress if self._source else RunProgress()

    @property
    def finished(self) -> bool:
        """Whether the run has ended and its end has been announced."""
        return self._finished

    def on_mount(self) -> None:
        """Show this process's run, or else the journal's."""
        self._source = self.wizard.engine or JournalRunner(self.controller)
        self.query_one("#run-log", VerticalScroll).anchor()
        self.set_interval(_TICK_SECONDS, self.tick)
        self.call_after_refresh(self.tick)

    def title_state(self) -> TitleState:
        """The title bar with the status of the run."""
        progress = self._source.progress if self._source else None
        running = self._source is not None and self._source.is_running
        key = (
            "work"
            if running
            else ""
            if progress is None or progress.started_at is None
            else "failed"
            if progress.failures
            else "done"
            if progress.ok
            else "paused"
        )
        return self.wizard.title_state(key)

    def tick(self) -> None:
        """Read new events and draw."""
        source = self._source
        if source is None:
            return
        if isinstance(source, JournalRunner):
            self._follow_journal(source)
        self.draw()
        if not source.is_running and self.progress.summary is not None and not self._finished:
            self._finished = True
            self._announce_end()

    def _follow_journal(self, source: JournalRunner) -> None:
        source.read()
        if self.controller.writable:
            return
        owner = lock_owner(self.controller.home, self.controller.name)
        if owner is None:
            self.controller.acquire_lock()  # the other process has ended: this wizard may take over
        else:
            self.controller.lock_owner = owner

    def _announce_end(self) -> None:
        self.update_title()
        self.refresh_bindings()
        if self.progress.ok and isinstance(self._source, EngineRunner):
            self.app.bell()
            self.notify(self._end_message(), title=_("Done"))

    def _end_message(self) -> str:
        if not self.progress.is_destroy:
            return _("All resources are ready and the job is running. Press m to monitor it.")
        if self.progress.is_empty:
            return _("All of this deployment's resources have been deleted.")
        return _("Destroy is complete. The resources you chose to keep still exist.")

    # --- drawing

    def draw(self) -> None:
        """Redraw everything; Textual repaints only what differs."""
        progress = self.progress
        running = self._source is not None and self._source.is_running
        now = self.wizard.clock() if running else progress.last_event_at
        started_at = progress.started_at if progress.started_at is not None else now
        lanes = progress.lanes(now)
        low, high = progress.expected_duration()
        horizon = max(now - started_at, high, 1.0)
        self._fit_lanes(len(lanes))
        for lane, state in zip(self.query(Lane), lanes, strict=False):
            shown = replace(state, status="paused") if state.status == "work" and not running else state
            lane.show(shown, now - started_at, horizon)
        self.query_one("#progress", Static).update(
            self._headline(progress, now - started_at, (low, high), running)
        )
        self._draw_failures(progress)
        self._draw_log(progress)
        self.update_title()
        self.refresh_bindings()

    def _fit_lanes(self, wanted: int) -> None:
        box = self.query_one("#lanes")
        mounted = len(box.children)
        if wanted > mounted:
            box.mount_all([Lane() for _ in range(wanted - mounted)])
        for lane in list(box.children)[wanted:]:
            lane.remove()

    def _headline(
        self, progress: RunProgress, elapsed: float, expected: tuple[float, float], running: bool
    ) -> str:
        name = self.controller.name
        if progress.started_at is None:
            return (
                _("Nothing has been created yet. See Review for the plan.") + self._lock_owner_hint()
                if not running
                else _("Reading existing resources…")
            )
        title = _("Destroying {name}") if progress.is_destroy else _("Deploying {name}")
        if not running:
            state = (
                status_icon("failed")
                if progress.failures
                else status_icon("done")
                if progress.ok
                else status_icon("paused")
            )
            hint = self._lock_owner_hint() or "   r " + _("Try again")
            if progress.ok:
                hint = ("   " + _("no resources left") if progress.is_empty else "") + self._lock_owner_hint()
            return f"{title.format(name=name)}   {state} · {format_duration(elapsed)}{hint}"
        text = f"{title.format(name=name)}   {format_duration(elapsed)}"
        if expected[1] >= 1.0 and not progress.is_destroy:
            usual = format_duration_range(expected)
            overdue = _(", longer than the usual {range}").format(range=usual)
            text += overdue if elapsed > expected[1] else " " + _("of about {range}").format(range=usual)
        if isinstance(self._source, JournalRunner) and self.controller.lock_owner is not None:
            text += "   " + _("run by process {pid}").format(pid=self.controller.lock_owner.pid)
        return text

    def _lock_owner_hint(self) -> str:
        """Which other process has the deployment open without working on it."""
        owner = self.controller.lock_owner
        if owner is None:
            return ""
        return "   " + _("open in {command} (process {pid})").format(command=owner.command, pid=owner.pid)

    def _draw_failures(self, progress: RunProgress) -> None:
        box = self.query_one("#failures")
        box.display = bool(progress.failures)
        colours = self.app.theme_variables
        text = Text(end="")
        for group in group_by_cause(progress.failures, lambda one: (one.title, one.detail, one.fix)):
            failure, ids = group[0], [one.id.partition(".")[2] or one.id for one in group]
            text.append(f"✗ {join_names(ids)}: {failure.title}\n", f"bold {colours['error']}")
            if failure.detail:
                text.append(f"  {_('why')}: {failure.detail}\n")
            if failure.fix:
                text.append(f"  → {failure.fix}\n", colours["primary"])
            if failure.command:
                text.append(f"  {failure.command}\n", colours["secondary"])
        self.query_one("#failure-text", Static).update(text)

    def _draw_log(self, progress: RunProgress) -> None:
        """Draw the log; it follows its end until the user scrolls up."""
        lines = tuple(progress.log)
        if lines == self._shown_log:
            return
        self._shown_log = lines
        colours, text = self.app.theme_variables, Text(end="")
        for number, (time, key, line) in enumerate(lines):
            icon = status_icon(key)
            text.append(("\n" if number else "") + time + "  ", colours["muted"])
            text.append(f"{icon.glyph} ", colours[icon.colour])
            text.append(line)
        self.query_one("#run-log-text", Static).update(text)

    # --- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide keys that have no effect."""
        running = self._source is not None and self._source.is_running
        if action == "retry":
            return not running and self.controller.writable and not self.progress.ok
        if action == "monitor" and self.progress.is_destroy:
            return False
        if action == "monitor":
            return has_job(self.controller.draft.deployment) or self.progress.job is not None
        if action == "copy":
            return any(failure.command or failure.fix for failure in self.progress.failures)
        if action == "tear_down":
            return not running and self.controller.writable
        return True

    @work(exit_on_error=False, exclusive=True, group="again")
    async def action_retry(self) -> None:
        """Start the same run again."""
        from grpo_wizard.steps.engine.options import ApplyOptions
        from grpo_wizard.tui.controllers.launch import launch

        previous = self.wizard.engine
        try:
            await launch(self.wizard, previous.options if previous else ApplyOptions())
        except WizardError as error:
            self.wizard.show_error(error)
            return
        self._source, self._finished = self.wizard.engine, False
        self.draw()

    def action_monitor(self) -> None:
        """Open Monitor."""
        self.wizard.show("monitor")

    def action_copy(self) -> None:
        """Copy the first fix."""
        failure = next(f for f in self.progress.failures if f.command or f.fix)
        self.app.copy_to_clipboard(failure.command or failure.fix)
        self.notify(_("Copied"))

    def action_tear_down(self) -> None:
        """Open Destroy."""
        self.wizard.show("teardown")

    def action_back(self) -> None:
        """Return to Review; while this process's run is in progress, ask what to do with it first."""
        if isinstance(self._source, EngineRunner) and self._source.is_running:
            self.run_worker(self.wizard.action_quit(), exit_on_error=False)
        elif self.controller.writable:
            self.wizard.show("review")
        else:
            self.wizard.close_deployment()
