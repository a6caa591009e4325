"""The training as lines: one per step, and each change of status, health and checkpoints."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.durations import format_duration
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.tui.controllers.job_monitor import (
    JobMonitor,
    JobSnapshot,
    has_epochs,
    local_time,
    seconds_left,
)
from grpo_wizard.tui.plain import drills
from grpo_wizard.tui.plain.context import PlainSession, Quit
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import status_icon
from grpo_wizard.tui.widgets.braille import trend
from grpo_wizard.tui.widgets.tiles import short_number

if TYPE_CHECKING:
    from grpo_wizard.tui.controllers.deployment import DeploymentController

_POLL_SECONDS = 0.3
_METRICS = (("avg_reward", _("reward")), ("loss", _("loss")), ("generation_kl_error", _("KL error")))


class JobPrinter:
    """Turns snapshots of a job into lines for what is new."""

    def __init__(self) -> None:
        self._printed_steps: dict[int, None] = {}
        self._status, self._verdict, self._checkpoint_count = "", "unknown", 0
        self._findings: set[str] = set()

    def new_lines(self, snapshot: JobSnapshot, now: float) -> list[str]:
        """Return the lines for what this snapshot adds. `now` is in seconds since the epoch, for the expected end."""
        lines = []
        if snapshot.status and snapshot.status != self._status:
            self._status = snapshot.status
            lines.append(
                _("job {id}: {status}").format(id=snapshot.job_id, status=snapshot.status)
                + (
                    f": {snapshot.detail}"
                    if snapshot.detail and snapshot.status in ("FAILED", "LOST")
                    else ""
                )
            )
        if not snapshot.earlier_loaded:  # steps are printed in order, earlier attempts first
            return lines
        for at, row in enumerate(snapshot.rows):
            if row.step not in self._printed_steps:
                self._printed_steps[row.step] = None
                lines.append(self._format_step(snapshot, at, now))
        return lines + self._checkpoint_lines(snapshot) + self._health_lines(snapshot)

    def _format_step(self, snapshot: JobSnapshot, at: int, now: float) -> str:
        row, total = snapshot.rows[at], snapshot.total_steps
        parts = []
        for key, label in _METRICS:
            values = [float(v) for r in snapshot.rows[: at + 1] if (v := getattr(r, key)) is not None]
            if values:
                word = (
                    f" {status_icon(trend(values)).label}" if key == "avg_reward" and len(values) > 1 else ""
                )
                parts.append(f"{label} {short_number(values[-1])}{word}")
        if row.total_step_seconds is not None:
            parts.append(format_duration(row.total_step_seconds))
        left = seconds_left(snapshot)
        if left is not None and math.isfinite(left) and at == len(snapshot.rows) - 1:
            parts.append(
                _("{time} left, ending around {clock}").format(
                    time=format_duration(left), clock=local_time(now + left)
                )
            )
        if has_epochs(snapshot.rows):
            parts.insert(0, _("epoch {n}").format(n=row.epoch))
        return _("step {n} of {all}: {what}").format(n=row.step, all=total, what=", ".join(parts))

    def _checkpoint_lines(self, snapshot: JobSnapshot) -> list[str]:
        new, self._checkpoint_count = (
            snapshot.checkpoint_steps[self._checkpoint_count :],
            max(self._checkpoint_count, len(snapshot.checkpoint_steps)),
        )
        return [_("checkpoint: step_{n}").format(n=step) for step in new]

    def _health_lines(self, snapshot: JobSnapshot) -> list[str]:
        lines = []
        if snapshot.verdict != self._verdict:
            self._verdict = snapshot.verdict
            lines.append(_("health: {verdict}").format(verdict=snapshot.verdict))
        for finding in snapshot.findings:
            if finding.id not in self._findings:
                self._findings.add(finding.id)
                lines.append(
                    _("health: {level}: {title} Advice: {advice}").format(
                        level=finding.level, title=end_with_period(finding.title), advice=finding.advice
                    )
                )
        return lines

    def heartbeat_line(self, snapshot: JobSnapshot, silent_seconds: float) -> str:
        """Return the line for a period without news."""
        step = snapshot.rows[-1].step if snapshot.rows else 0
        phase = f", {snapshot.phase}" if snapshot.phase else ""
        return _("still {status}, {n} of {all} steps done{phase}; nothing new for {time}").format(
            status=snapshot.status or _("connecting to the job"),
            n=step,
            all=snapshot.total_steps,
            phase=phase,
            time=format_duration(silent_seconds),
        )


class MonitorView:
    """Follows the job until it ends, then asks what to do. `run` returns the name of the next view."""

    def __init__(self, ui: PlainSession) -> None:
        self.ui, self.controller, self.console = ui, ui.active_controller, ui.console
        self.snapshot = JobSnapshot()
        self.error: WizardError | None = None

    def run(self) -> str:
        self.ui.print_heading(_("Monitor"), _("Press Ctrl+C to quit; the job will keep running."))
        try:
            self.ui.run(self._follow())
        except KeyboardInterrupt:
            self.ui.print_goodbye(interrupted_message(self.controller))
            raise
        except WizardError as error:
            self.error = error
        if self.error is not None:
            self.ui.print_error(self.error)
        return self._menu()

    async def _follow(self) -> None:
        job = JobMonitor(await self.controller.session(), self._on_snapshot, self._on_error)
        printer, last_news, last_line = JobPrinter(), time.monotonic(), time.monotonic()
        try:
            while True:
                running = job.thread.is_running
                news = printer.new_lines(self.snapshot, time.time())
                for line in news:
                    self.console.print(line)
                now = time.monotonic()
                if news:
                    last_news = last_line = now
                elif now - last_line >= self.ui.heartbeat_seconds:
                    self.console.print(printer.heartbeat_line(self.snapshot, now - last_news))
                    last_line = now
                if not running:
                    return
                await asyncio.sleep(_POLL_SECONDS)
        finally:
            job.cancel()

    def _on_snapshot(self, snapshot: JobSnapshot) -> None:
        self.snapshot = snapshot

    def _on_error(self, error: WizardError) -> None:
        self.error = error

    def _menu(self) -> str:
        ended = self.snapshot.ended
        options = {
            **({} if ended else {"w": _("watch again"), "s": _("stop the job")}),
            "r": _("review and relaunch"),
            "t": _("destroy"),
            **drills.menu_option(self.ui),
            "b": _("back to the deployments"),
            "l": _("leave"),
        }
        heading = _("Job status: {status}.").format(status=self.snapshot.status or "LOST")
        while (chosen := self.console.choose(heading, options)) == drills.MENU_KEY:
            drills.DrillView(self.ui).run()
        if chosen == "l":
            raise Quit
        if chosen == "s":
            confirm_and_stop_job(self.ui)
        return {"w": "monitor", "s": "monitor", "r": "review", "t": "teardown", "b": ""}[chosen]


def confirm_and_stop_job(ui: PlainSession) -> None:
    """Ask, then stop the job; its nodes keep running."""
    from grpo_wizard.steps.jobs.stop import stop_job
    from grpo_wizard.steps.jobs.watch import JobWatcher

    async def work() -> object:
        return await stop_job(JobWatcher(await ui.active_controller.session()))

    if not ui.console.confirm(_("Stop the job? The nodes will keep running and will still be billed.")):
        return
    try:
        ui.wait(_("stopping the job"), work())
    except WizardError as error:
        ui.print_error(error)


def interrupted_message(controller: DeploymentController) -> list[str]:
    """Return what keeps running after Ctrl+C, and how to return to it."""
    from grpo_wizard.tui.controllers.launch import cli_command

    return [
        _("Interrupted. The job is still running in the cluster, and its nodes are still being billed."),
        _("To monitor it again: {command}").format(command=cli_command(controller, "--plain")),
        _("To stop it: {command}").format(command=cli_command(controller, "stop")),
    ]
