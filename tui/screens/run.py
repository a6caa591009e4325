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
from grpo_wizard.state.lock import holder
from grpo_wizard.steps.core.durations import duration, span
from grpo_wizard.tui.controllers.engine_runner import Attached, EngineRun
from grpo_wizard.tui.screens.base import WizardScreen
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import sign
from grpo_wizard.tui.viewmodels.deployments import job_stands
from grpo_wizard.tui.viewmodels.failures import alike, named
from grpo_wizard.tui.viewmodels.run_progress import Story
from grpo_wizard.tui.widgets.lane import Lane
from grpo_wizard.tui.widgets.title_bar import TitleState

_TICK_SECONDS = 0.5


class RunScreen(WizardScreen):
    """Lanes over one time axis. Attaches to whoever works on the deployment, itself or another process."""

    PLACE = "run"
    CSS_PATH: ClassVar[list[str]] = ["base.tcss", "run.tcss"]  # type: ignore[assignment]
    HELP = _(
        "Everything whose needs are met is made at the same time. A lane shows what the cloud itself counts, or the time "
        "that has passed and the time that is usual. Leaving does not undo anything: go on in the background, or pause; "
        "a run that was cut short goes on by looking at what is there."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "r",
            "again",
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
        self._source: EngineRun | Attached | None = None
        self._finished = False
        self._told: tuple[tuple[str, str, str], ...] = ()

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
    def story(self) -> Story:
        """Of the run that is shown."""
        return self._source.story if self._source else Story()

    @property
    def finished(self) -> bool:
        """Whether the run is over and its end has been drawn."""
        return self._finished

    def on_mount(self) -> None:
        """Takes this process's run, or the journal's."""
        self._source = self.wizard.engine or Attached(self.desk)
        self.query_one("#story", VerticalScroll).anchor()
        self.set_interval(_TICK_SECONDS, self.tick)
        self.call_after_refresh(self.tick)

    def title_state(self) -> TitleState:
        """With what is going on as its sign."""
        story = self._source.story if self._source else None
        running = self._source is not None and self._source.is_running
        key = (
            "work"
            if running
            else ""
            if story is None or story.begun is None
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
        if isinstance(source, Attached):
            self._attend(source)
        self.draw()
        if not source.is_running and self.story.summary is not None and not self._finished:
            self._finished = True
            self._end()

    def _attend(self, source: Attached) -> None:
        source.read()
        if self.desk.writable:
            return
        who = holder(self.desk.home, self.desk.name)
        if who is None:
            self.desk.take_lock()  # the other one has ended: this wizard may go on
        else:
            self.desk.held_by = who

    def _end(self) -> None:
        self.say_title()
        self.refresh_bindings()
        if self.story.ok and isinstance(self._source, EngineRun):
            self.app.bell()
            stands = _("Everything stands. The job runs: m shows it.")
            gone = (
                _("nothing left") if self.story.leaves_nothing else _("What was to be kept is still there.")
            )
            self.notify(gone if self.story.is_undo else stands, title=_("Done"))

    # --- drawing

    def draw(self) -> None:
        """Everything anew; Textual paints only what differs."""
        story = self.story
        running = self._source is not None and self._source.is_running
        now = self.wizard.clock() if running else story.newest
        begun = story.begun if story.begun is not None else now
        lanes = story.lanes(now)
        low, high = story.expected()
        horizon = max(now - begun, high, 1.0)
        self._fit_lanes(len(lanes))
        for lane, state in zip(self.query(Lane), lanes, strict=False):
            still = replace(state, sign="paused") if state.sign == "work" and not running else state
            lane.show(still, now - begun, horizon)
        self.query_one("#progress", Static).update(self._progress(story, now - begun, (low, high), running))
        self._draw_failures(story)
        self._draw_log(story)
        self.say_title()
        self.refresh_bindings()

    def _fit_lanes(self, wanted: int) -> None:
        box = self.query_one("#lanes")
        have = len(box.children)
        if wanted > have:
            box.mount_all([Lane() for _ in range(wanted - have)])
        for lane in list(box.children)[wanted:]:
            lane.remove()

    def _progress(self, story: Story, elapsed: float, expected: tuple[float, float], running: bool) -> str:
        name = self.desk.name
        if story.begun is None:
            return (
                _("Nothing has been made yet. Review shows what would be.") + self._holder()
                if not running
                else _("Looking at what is there…")
            )
        doing = _("Taking down {name}") if story.is_undo else _("Deploying {name}")
        if not running:
            state = sign("failed") if story.failures else sign("done") if story.ok else sign("paused")
            hint = self._holder() or "   r " + _("Try again")
            if story.ok:
                hint = ("   " + _("nothing left") if story.leaves_nothing else "") + self._holder()
            return f"{doing.format(name=name)}   {state} · {duration(elapsed)}{hint}"
        text = f"{doing.format(name=name)}   {duration(elapsed)}"
        if expected[1] >= 1.0 and not story.is_undo:
            usual = span(expected)
            late = _(", longer than the usual {range}").format(range=usual)
            text += late if elapsed > expected[1] else " " + _("of about {range}").format(range=usual)
        if isinstance(self._source, Attached) and self.desk.held_by is not None:
            text += "   " + _("by process {pid}").format(pid=self.desk.held_by.pid)
        return text

    def _holder(self) -> str:
        """Who has the deployment open, where that is another process that makes nothing."""
        who = self.desk.held_by
        if who is None:
            return ""
        return "   " + _("open in {command} (process {pid})").format(command=who.command, pid=who.pid)

    def _draw_failures(self, story: Story) -> None:
        box = self.query_one("#failures")
        box.display = bool(story.failures)
        colours = self.app.theme_variables
        text = Text(end="")
        for group in alike(story.failures, lambda one: (one.title, one.detail, one.fix)):
            failure, ids = group[0], [one.id.partition(".")[2] or one.id for one in group]
            text.append(f"✗ {named(ids)}: {failure.title}\n", f"bold {colours['error']}")
            if failure.detail:
                text.append(f"  {_('why')}: {failure.detail}\n")
            if failure.fix:
                text.append(f"  → {failure.fix}\n", colours["primary"])
            if failure.command:
                text.append(f"  {failure.command}\n", colours["secondary"])
        self.query_one("#failure-text", Static).update(text)

    def _draw_log(self, story: Story) -> None:
        """The box keeps to its end, where the newest line is, until somebody scrolls up in it."""
        lines = tuple(story.log)
        if lines == self._told:
            return
        self._told = lines
        colours, text = self.app.theme_variables, Text(end="")
        for number, (time, key, line) in enumerate(lines):
            mark = sign(key)
            text.append(("\n" if number else "") + time + "  ", colours["muted"])
            text.append(f"{mark.glyph} ", colours[mark.colour])
            text.append(line)
        self.query_one("#story-text", Static).update(text)

    # --- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys exist only where they do something."""
        running = self._source is not None and self._source.is_running
        if action == "again":
            return not running and self.desk.writable and not self.story.ok
        if action == "monitor" and self.story.is_undo:
            return False
        if action == "monitor":
            return job_stands(self.desk.draft.deployment) or self.story.job is not None
        if action == "copy":
            return any(failure.command or failure.fix for failure in self.story.failures)
        if action == "tear_down":
            return not running and self.desk.writable
        return True

    @work(exit_on_error=False, exclusive=True, group="again")
    async def action_again(self) -> None:
        """The same run once more."""
        from grpo_wizard.tui.controllers.launch import launch

        previous = self.wizard.engine
        try:
            await launch(self.wizard, previous.words if previous else ["apply", "--yes"])
        except WizardError as error:
            self.wizard.show_error(error)
            return
        self._source, self._finished = self.wizard.engine, False
        self.draw()

    def action_monitor(self) -> None:
        """To the training."""
        self.wizard.go("monitor")

    def action_copy(self) -> None:
        """Copies the first fix."""
        failure = next(f for f in self.story.failures if f.command or f.fix)
        self.app.copy_to_clipboard(failure.command or failure.fix)
        self.notify(_("copied"))

    def action_tear_down(self) -> None:
        """To Teardown."""
        self.wizard.go("teardown")

    def action_back(self) -> None:
        """To Review; while something is going on, asks what becomes of it."""
        if isinstance(self._source, EngineRun) and self._source.is_running:
            self.run_worker(self.wizard.action_quit(), exit_on_error=False)
        elif self.desk.writable:
            self.wizard.go("review")
        else:
            self.wizard.close_deployment()
