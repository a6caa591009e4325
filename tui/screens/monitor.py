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
from grpo_wizard.steps.core.durations import duration
from grpo_wizard.tui.controllers.job_monitor import (
    JobRun,
    Picture,
    has_epochs,
    last_picture,
    local_time,
    seconds_left,
)
from grpo_wizard.tui.screens.base import WizardScreen
from grpo_wizard.tui.screens.monitor_panes import PANES, Overview, Pane
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import sign
from grpo_wizard.tui.viewmodels.deployments import job_stands, works
from grpo_wizard.tui.widgets.tab_bar import TabLine
from grpo_wizard.tui.widgets.title_bar import TitleState

if TYPE_CHECKING:
    from grpo_wizard.steps.deployment.session import Session

_News = TypeVar("_News")
STATUS_SIGNS = {
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

    PLACE = "monitor"
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
            "look",
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
        self.picture = Picture(spool=None)
        self.error: WizardError | None = None
        self.session: Session | None = None
        self._job: JobRun | None = None
        self._shown_of: tuple[str, bool, bool] | None = None

    def body(self) -> ComposeResult:
        """Status line, tabs, panes; only the first is built at once."""
        yield Static(id="status-line", markup=False)
        yield TabLine([(key, label) for key, label, _make in PANES])
        with ContentSwitcher(initial="overview", id="panes"):
            yield Overview(id="overview")

    def on_mount(self) -> None:
        """Opens the log that is there, then the head."""
        self.query_one(TabLine).current = "overview"
        if job_stands(self.desk.draft.deployment):
            self.show_picture(Picture(spool=self.desk.home.spool_file(self.desk.name)))
        self.call_after_refresh(self._begin)
        self.set_interval(1.0, self._clock)

    def on_unmount(self) -> None:
        """Nobody watches for a screen that is gone."""
        if self._job is not None:
            self._job.cancel()

    @work(exclusive=True, group="begin", exit_on_error=False)
    async def _begin(self) -> None:
        if self._job is not None:
            self._job.cancel()
        self._job, self.error, self._shown_of = None, None, self._which()
        _id, stands, comes = self._shown_of
        if comes and not stands:
            self.show_picture(Picture(phase=_("no job yet: it is submitted when everything stands")))
            return
        try:
            self.session = await self.desk.session()
        except WizardError as error:
            self._failed(error)
            return
        if stands or self.desk.draft.deployment.job is None:
            self._job = JobRun(self.session, self._mine(self.show_picture), self._mine(self._failed))
        else:
            self.show_picture(last_picture(self.session))

    def _which(self) -> tuple[str, bool, bool]:
        """The job's id as the state has it, whether it stands, whether a run is going on that may bring another."""
        deployment = self.desk.draft.deployment
        running = (
            self.wizard.engine is not None and self.wizard.engine.is_running
            if self.desk.writable
            else works(self.desk.home, self.desk.name)
        )
        known = deployment.job.submission_id if deployment.job else ""
        return known, job_stands(deployment), running

    def _mine(self, taken: Callable[[_News], None]) -> Callable[[_News], None]:
        """Takes news only as long as it is of the job that this screen follows now."""
        mine = self._shown_of

        def take(news: _News) -> None:
            if self._shown_of is mine:
                taken(news)

        return take

    def _failed(self, error: WizardError) -> None:
        self.error = error
        self._draw_status()

    def show_picture(self, picture: Picture) -> None:
        """Draws it in the panes that are there."""
        if not (self.is_mounted and self.is_running):  # the job's loop may outlive the screen by a moment
            return
        before, self.picture = self.picture, picture
        self._draw_status()
        for pane in self.query(Pane):
            pane.show_picture(picture)
        if picture.status != before.status:
            self.say_title()
            self.refresh_bindings()
        if picture.ended and not before.ended and picture.status != "GONE":
            self.app.bell()

    def _clock(self) -> None:
        self.desk.watch_state()
        if self._shown_of is not None and self._changed(self._which()):
            self._begin()
        self._draw_status()

    def _changed(self, now: tuple[str, bool, bool]) -> bool:
        """Another job, or the same one gone; what a run does meanwhile matters only while there is none."""
        before = self._shown_of
        return before is not None and (now[:2] != before[:2] or (not now[1] and now[2] != before[2]))

    def _draw_status(self) -> None:
        colours, shown = self.app.theme_variables, self.picture
        mark = sign(STATUS_SIGNS.get(shown.status, "look"))
        text = Text(no_wrap=True, end="", overflow="ellipsis").append(f"{mark} ", colours[mark.colour])
        if shown.status == "GONE":
            text.append(_("torn down, the job is over") + (" · " if shown.rows else ""), "bold")
        if shown.rows:
            text.append(_("step {n}/{m}").format(n=shown.rows[-1]["step"], m=shown.total_steps), "bold")
            if has_epochs(shown.rows):
                text.append(" · " + _("epoch {n}").format(n=shown.rows[-1]["epoch"]))
            took = shown.values("total_step_seconds")
            text.append(" · " + _("{time} a step").format(time=duration(took[-1])) if took else "")
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
        return self.wizard.title_state(STATUS_SIGNS.get(self.picture.status, ""))

    # --- panes

    async def action_pane(self, key: str) -> None:
        """Shows a pane; it is built when it is first looked at."""
        panes = self.query_one(ContentSwitcher)
        if not panes.query(f"#{key}"):
            make = next(make for name, _label, make in PANES if name == key)
            pane = make(id=key)
            await panes.add_content(pane)
            pane.show_picture(self.picture)
        panes.current = key
        self.query_one(TabLine).current = key
        panes.query_one(f"#{key}", Pane).take_focus()

    async def action_next_pane(self) -> None:
        """The one to the right, round and round."""
        keys = [key for key, _label, _make in PANES]
        await self.action_pane(keys[(keys.index(self.query_one(TabLine).current) + 1) % len(keys)])

    def action_look(self) -> None:
        """The pane that is shown asks at once; it asks by itself every few seconds, also when the job has ended."""
        self.query_one(f"#{self.query_one(TabLine).current}", Pane).look_again()

    @on(TabLine.Chosen)
    async def _clicked(self, event: TabLine.Chosen) -> None:
        await self.action_pane(event.key)

    # --- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only a job that runs can be stopped, and only one that is gone is launched anew."""
        if action == "review":
            return self.picture.status == "GONE" and self.desk.writable
        if action == "stop":
            return self.picture.status in ("RUNNING", "PENDING")
        return True

    def action_stop(self) -> None:
        """Asks, then stops."""
        from grpo_wizard.tui.screens.dialogs import Choose

        ways = (
            (
                "stop",
                _("Stop job"),
                _("the machines stay and cost on; it goes on later from the last complete checkpoint"),
            ),
            ("stay", _("Stay"), _("the training goes on")),
        )
        self.app.push_screen(Choose(_("Stop the job?"), "", ways), self._chosen)

    def _chosen(self, way: str | None) -> None:
        if way == "stop":
            self._stop()

    @work(exclusive=True, group="stop", exit_on_error=False)
    async def _stop(self) -> None:
        from grpo_wizard.tui.commands.stop import stop_job
        from grpo_wizard.tui.controllers.threads import Background

        if self._job is None:
            return
        watch = self._job.watch

        async def main() -> None:
            await stop_job(watch)

        error = await Background("stop", main).ended
        if isinstance(error, WizardError):
            self.wizard.show_error(error)
        elif error is not None:
            raise error

    def action_tear_down(self) -> None:
        """To Teardown."""
        self.wizard.go("teardown")

    def action_review(self) -> None:
        """To Review, which launches."""
        self.wizard.go("review")

    def action_run(self) -> None:
        """To Run."""
        self.wizard.go("run")

    def action_back(self) -> None:
        """To the deployments."""
        if self.wizard.engine is not None and self.wizard.engine.is_running:
            self.wizard.go("run")
        else:
            self.wizard.close_deployment()
