"""The training as lines: one a step, and each change of status, health and checkpoints."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.core.durations import duration
from grpo_wizard.tui.controllers.job_monitor import JobRun, Picture, has_epochs, local_time, seconds_left
from grpo_wizard.tui.plain import drills
from grpo_wizard.tui.plain.console import sentence
from grpo_wizard.tui.plain.context import Leave, Table
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import sign
from grpo_wizard.tui.widgets.braille import trend
from grpo_wizard.tui.widgets.tiles import short_number

if TYPE_CHECKING:
    from grpo_wizard.tui.controllers.deployment import Desk

_LOOK_SECONDS = 0.3
_SHOWN = (("avg_reward", _("reward")), ("loss", _("loss")), ("generation_kl_error", _("KL error")))


class JobLines:
    """Pictures of a job in, lines out: only what is new."""

    def __init__(self) -> None:
        self._told: dict[int, None] = {}
        self._status, self._verdict, self._saved = "", "unknown", 0
        self._findings: set[str] = set()

    def news(self, picture: Picture, now: float) -> list[str]:
        """`now` in seconds since the epoch, for the time at which it will end."""
        lines = []
        if picture.status and picture.status != self._status:
            self._status = picture.status
            lines.append(
                _("job {id}: {status}").format(id=picture.job_id, status=picture.status)
                + (f": {picture.detail}" if picture.detail and picture.status in ("FAILED", "LOST") else "")
            )
        for at, row in enumerate(picture.rows):
            if row["step"] not in self._told:
                self._told[row["step"]] = None
                lines.append(self._step(picture, at, now))
        return lines + self._checkpoints(picture) + self._health(picture)

    def _step(self, picture: Picture, at: int, now: float) -> str:
        row, total = picture.rows[at], picture.total_steps
        parts = []
        for key, label in _SHOWN:
            values = [float(r[key]) for r in picture.rows[: at + 1] if r.get(key) is not None]
            if values:
                word = f" {sign(trend(values)).word}" if key == "avg_reward" and len(values) > 1 else ""
                parts.append(f"{label} {short_number(values[-1])}{word}")
        if row.get("total_step_seconds") is not None:
            parts.append(duration(float(row["total_step_seconds"])))
        left = seconds_left(picture)
        if left is not None and math.isfinite(left) and at == len(picture.rows) - 1:
            parts.append(
                _("{time} left, ends about {clock}").format(time=duration(left), clock=local_time(now + left))
            )
        if has_epochs(picture.rows):
            parts.insert(0, _("epoch {n}").format(n=row["epoch"]))
        return _("step {n} of {all}: {what}").format(n=row["step"], all=total, what=", ".join(parts))

    def _checkpoints(self, picture: Picture) -> list[str]:
        new, self._saved = picture.saved[self._saved :], max(self._saved, len(picture.saved))
        return [_("checkpoint: step_{n}").format(n=step) for step in new]

    def _health(self, picture: Picture) -> list[str]:
        lines = []
        if picture.verdict != self._verdict:
            self._verdict = picture.verdict
            lines.append(_("health: {verdict}").format(verdict=picture.verdict))
        for finding in picture.findings:
            if finding.id not in self._findings:
                self._findings.add(finding.id)
                lines.append(
                    _("health: {level}: {title} Advice: {advice}").format(
                        level=finding.level, title=sentence(finding.title), advice=finding.advice
                    )
                )
        return lines

    def still(self, picture: Picture, silent: float) -> str:
        """For when there is nothing new."""
        step = picture.rows[-1]["step"] if picture.rows else 0
        phase = f", {picture.phase}" if picture.phase else ""
        return _("still {status}, step {n} of {all} is done{phase}; nothing new for {time}").format(
            status=picture.status or _("looking for the job"),
            n=step,
            all=picture.total_steps,
            phase=phase,
            time=duration(silent),
        )


class MonitorRoom:
    """Follows the job to its end, then asks what to do. `run` returns the place to go to."""

    def __init__(self, table: Table) -> None:
        self.table, self.desk, self.talk = table, table.open_desk, table.talk
        self.picture = Picture()
        self.error: WizardError | None = None

    def run(self) -> str:
        """The training, as it runs."""
        self.table.head(_("Monitor"), _("ctrl+c leaves; the job goes on."))
        try:
            self.table.run(self._follow())
        except KeyboardInterrupt:
            self.table.farewell(job_left(self.desk))
            raise
        except WizardError as error:
            self.error = error
        if self.error is not None:
            self.table.trouble(self.error)
        return self._menu()

    async def _follow(self) -> None:
        job = JobRun(await self.desk.session(), self._seen, self._failed)
        lines, heard, said = JobLines(), time.monotonic(), time.monotonic()
        try:
            while True:
                running = job.background.is_running
                news = lines.news(self.picture, time.time())
                for line in news:
                    self.talk.say(line)
                now = time.monotonic()
                if news:
                    heard = said = now
                elif now - said >= self.table.beat:
                    self.talk.say(lines.still(self.picture, now - heard))
                    said = now
                if not running:
                    return
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            job.cancel()

    def _seen(self, picture: Picture) -> None:
        self.picture = picture

    def _failed(self, error: WizardError) -> None:
        self.error = error

    def _menu(self) -> str:
        ended = self.picture.ended
        ways = {
            **({} if ended else {"w": _("watch again"), "s": _("stop the job")}),
            "r": _("run again what is missing"),
            "t": _("tear down"),
            **drills.ways(self.table),
            "b": _("back to the deployments"),
            "l": _("leave"),
        }
        head = _("The job is {status}.").format(status=self.picture.status or "LOST")
        while (chosen := self.talk.choose(head, ways)) == drills.KEY:
            drills.DrillRoom(self.table).run()
        if chosen == "l":
            raise Leave
        if chosen == "s":
            stop(self.table)
        return {"w": "monitor", "s": "monitor", "r": "review", "t": "teardown", "b": ""}[chosen]


def stop(table: Table) -> None:
    """Ends the training and keeps the machines."""
    from grpo_wizard.steps.jobs.watch import JobWatch
    from grpo_wizard.tui.commands.stop import stop_job

    async def work() -> Any:
        return await stop_job(JobWatch(await table.open_desk.session()))

    if not table.talk.yes(_("Stop the job? The machines stay and cost on.")):
        return
    try:
        table.wait(_("stopping the job"), work())
    except WizardError as error:
        table.trouble(error)


def job_left(desk: Desk) -> list[str]:
    """What goes on after ctrl+c, and how to come back."""
    from grpo_wizard.tui.controllers.launch import same_here

    return [
        _("Interrupted. The job goes on in the cluster, and the machines cost on."),
        _("To watch it again: {command}").format(command=same_here(desk, "--plain")),
        _("To stop it: {command}").format(command=same_here(desk, "stop")),
    ]
