"""What is being made, side by side, as the cloud tells it; failures with their fix; and the story so far."""

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
    """Lanes over one time axis. Attaches to whoever works on the deployment, itself or another process."""

    SCREEN_NAME = "run"
    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "run.tcss"]  # type: ignore[assignment]
    HELP = _(
        "Everything whose needs are met is made at the same time. A lane shows what the cloud itself counts, or the time "
        "that has passed and the time that is usual. Leaving does not undo anything: go on in the background, or pause; "
        "a run that was cut short goes on by looking at what is there."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "r",
            "retry",
            _("Try again"),
            id="run.again",
            tooltip=_("Go on: what is there is kept, the rest is made"),
        ),
        Binding("m", "monitor", _("Monitor"), id="run.monitor", tooltip=_("Watch the training")),
        Binding(
            "c", "copy", _("Copy command"), id="run.copy", tooltip=_("Copy the command of the first fix")
        ),
        Binding("t", "tear_down", _("Tear down"), id="run.destroy", tooltip=_("Take down what was made")),
        Binding("q", "app.quit", _("Leave"), id="run.leave", tooltip=_("Go on in the background, or pause")),
        Binding("escape", "back", _("Back"), id="run.back", tooltip=_("Back to Review")),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._source: EngineRunner | JournalRunner | None = None
        self._finished = False
        self._shown_log: tuple[tuple[str, str, str], ...] = ()

    def body(self) -> ComposeResult:
        """Heading, lanes, failures, story."""
        yield Static("", id="progress", classes="heading", markup=False)
        yield VerticalScroll(id="lanes", can_focus=False)
        with VerticalScroll(id="failures", can_focus=True) as failures:
            failures.border_title = Content(f" {_('Failed')} ")
            yield Static("", id="failure-text", markup=False)
        with VerticalScroll(id="story") as story:
            story.border_title = Content(f" {_('What happened')} ")
            yield Static("", id="story-text", markup=False)

    @property
    def progress(self) -> RunProgress:
        """Of the run that is shown."""
        return self._source.progress if self._source else RunProgress()

    @property
    def finished(self) -> bool:
        """Whether the run is over and its end has been drawn."""
        return self._finished

    def on_mount(self) -> None:
        """Takes this process's run, or the journal's."""
        self._source = self.wizard.engine or JournalRunner(self.controller)
        self.query_one("#story", VerticalScroll).anchor()
        self.set_interval(_TICK_SECONDS, self.tick)
        self.call_after_refresh(self.tick)

    def title_state(self) -> TitleState:
        """With what is going on as its sign."""
        story = self._source.progress if self._source else None
        running = self._source is not None and self._source.is_running
        key = (
            "work"
            if running
            else ""
            if story is None or story.started_at is None
            else "failed"
            if story.failures
            else "done"
            if story.ok
            else "paused"
        )
        return self.wizard.title_state(key)

    def tick(self) -> None:
        """Reads on and draws."""
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
        who = lock_owner(self.controller.home, self.controller.name)
        if who is None:
            self.controller.acquire_lock()  # the other one has ended: this wizard may go on
        else:
            self.controller.lock_owner = who

    def _announce_end(self) -> None:
        self.update_title()
        self.refresh_bindings()
        if self.progress.ok and isinstance(self._source, EngineRunner):
            self.app.bell()
            stands = _("Everything stands. The job runs: m shows it.")
            gone = _("nothing left") if self.progress.is_empty else _("What was to be kept is still there.")
            self.notify(gone if self.progress.is_destroy else stands, title=_("Done"))

    # --- drawing

    def draw(self) -> None:
        """Everything anew; Textual paints only what differs."""
        story = self.progress
        running = self._source is not None and self._source.is_running
        now = self.wizard.clock() if running else story.last_event_at
        begun = story.started_at if story.started_at is not None else now
        lanes = story.lanes(now)
        low, high = story.expected_duration()
        horizon = max(now - begun, high, 1.0)
        self._fit_lanes(len(lanes))
        for lane, state in zip(self.query(Lane), lanes, strict=False):
            still = replace(state, status="paused") if state.status == "work" and not running else state
            lane.show(still, now - begun, horizon)
        self.query_one("#progress", Static).update(self._headline(story, now - begun, (low, high), running))
        self._draw_failures(story)
        self._draw_log(story)
        self.update_title()
        self.refresh_bindings()

    def _fit_lanes(self, wanted: int) -> None:
        box = self.query_one("#lanes")
        have = len(box.children)
        if wanted > have:
            box.mount_all([Lane() for _ in range(wanted - have)])
        for lane in list(box.children)[wanted:]:
            lane.remove()

    def _headline(
        self, progress: RunProgress, elapsed: float, expected: tuple[float, float], running: bool
    ) -> str:
        name = self.controller.name
        if progress.started_at is None:
            return (
                _("Nothing has been made yet. Review shows what would be.") + self._lock_owner_hint()
                if not running
                else _("Looking at what is there…")
            )
        doing = _("Taking down {name}") if progress.is_destroy else _("Deploying {name}")
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
                hint = ("   " + _("nothing left") if progress.is_empty else "") + self._lock_owner_hint()
            return f"{doing.format(name=name)}   {state} · {format_duration(elapsed)}{hint}"
        text = f"{doing.format(name=name)}   {format_duration(elapsed)}"
        if expected[1] >= 1.0 and not progress.is_destroy:
            usual = format_duration_range(expected)
            late = _(", longer than the usual {range}").format(range=usual)
            text += late if elapsed > expected[1] else " " + _("of about {range}").format(range=usual)
        if isinstance(self._source, JournalRunner) and self.controller.lock_owner is not None:
            text += "   " + _("by process {pid}").format(pid=self.controller.lock_owner.pid)
        return text

    def _lock_owner_hint(self) -> str:
        """Who has the deployment open, where that is another process that makes nothing."""
        who = self.controller.lock_owner
        if who is None:
            return ""
        return "   " + _("open in {command} (process {pid})").format(command=who.command, pid=who.pid)

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
        """The box keeps to its end, where the newest line is, until somebody scrolls up in it."""
        lines = tuple(progress.log)
        if lines == self._shown_log:
            return
        self._shown_log = lines
        colours, text = self.app.theme_variables, Text(end="")
        for number, (time, key, line) in enumerate(lines):
            mark = status_icon(key)
            text.append(("\n" if number else "") + time + "  ", colours["muted"])
            text.append(f"{mark.glyph} ", colours[mark.colour])
            text.append(line)
        self.query_one("#story-text", Static).update(text)

    # --- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys exist only where they do something."""
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
        """The same run once more."""
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
        """To the training."""
        self.wizard.show("monitor")

    def action_copy(self) -> None:
        """Copies the first fix."""
        failure = next(f for f in self.progress.failures if f.command or f.fix)
        self.app.copy_to_clipboard(failure.command or failure.fix)
        self.notify(_("copied"))

    def action_tear_down(self) -> None:
        """To Teardown."""
        self.wizard.show("teardown")

    def action_back(self) -> None:
        """To Review; while something is going on, asks what becomes of it."""
        if isinstance(self._source, EngineRunner) and self._source.is_running:
            self.run_worker(self.wizard.action_quit(), exit_on_error=False)
        elif self.controller.writable:
            self.wizard.show("review")
        else:
            self.wizard.close_deployment()
