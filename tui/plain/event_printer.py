"""A run's events as lines with the time that has passed; and what is still waited for, so that no silence is long."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from grpo_wizard.steps.core.durations import format_duration, format_duration_range
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels import failures
from grpo_wizard.tui.viewmodels.deployments import parse_time
from grpo_wizard.tui.viewmodels.labels import format_hourly_price, format_plan_counts
from grpo_wizard.tui.viewmodels.labels import resource_label as thing_name
from grpo_wizard.tui.viewmodels.run_progress import ResourceProgress, RunProgress

_MAX_NAMED = 3
_REPEAT_AFTER_SECONDS = 30.0
_MIN_ESTIMATE_SECONDS = 10.0
_NUMBERS = re.compile(r"\d+")


class EventPrinter(RunProgress):
    """A Story that says each event as a line. A thing that waits for the same as before is not said again and again."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        super().__init__()
        self._print_line = print_line
        self._last_printed: dict[str, tuple[str, float]] = {}
        self.lines_printed = 0
        """How many lines were said."""
        self.is_quiet = False
        """Takes events in without a word: a story of before is told by `so_far`."""

    def apply_event(self, document: Mapping[str, object]) -> None:
        """Takes it in, then says it."""
        super().apply_event(document)
        now = parse_time(str(document["time"]))
        line = self._format_event(document, now)
        if line and not self.is_quiet:
            self.lines_printed += 1
            self._print_line(f"{format_duration(max(0.0, now - (self.started_at or now)))}: {line}")

    def _format_event(self, document: Mapping[str, Any], now: float) -> str:
        """Nothing where it is no news."""
        name = thing_name(str(document.get("id") or ""))
        detail = str(document.get("detail") or "")
        match document["event"]:
            case "plan":
                return _("plan: {counts}").format(counts=format_plan_counts(document["resources"]))
            case "resource_started":
                return f"{document.get('action', '')}: {name}{self._estimate_text(document)}"
            case "resource_waiting":
                text = _("waiting: {name}: {detail}").format(name=name, detail=detail)
                return text if self._is_news(f"waiting {name}", detail, now) else ""
            case "resource_done":
                took = format_duration(float(document.get("seconds", 0.0)))
                return _("done: {name}, in {time}").format(name=name, time=took)
            case "resource_failed":
                return _("failed: {name}: {title}").format(name=name, title=document.get("title", ""))
            case "retry":
                text = _("trying again: {name}: {detail}").format(name=name, detail=detail)
                return text if self._is_news(f"again {name}", detail, now) else ""
            case "notice":
                return _("note: {text}").format(
                    text=detail if detail.startswith(name) else f"{name}: {detail}"
                )
            case "job":
                return (
                    _("job: {status} {detail}")
                    .format(status=document.get("status", ""), detail=detail)
                    .strip()
                )
            case "summary":
                return _("all done") if document.get("ok") else _("not done")
        return ""

    def _is_news(self, key: str, detail: str, now: float) -> bool:
        """Not the same again, and not each count of a counter: those are in `still_waiting` too."""
        text = _NUMBERS.sub("0", detail)
        said, at = self._last_printed.get(key, ("", 0.0))
        if said == text and now - at < _REPEAT_AFTER_SECONDS:
            return False
        self._last_printed[key] = (text, now)
        return True

    def _estimate_text(self, document: Mapping[str, object]) -> str:
        usual = self.estimates.get(str(document.get("id")))
        if usual is None or usual[1] < _MIN_ESTIMATE_SECONDS or document.get("action") == "delete":
            return ""
        return ", " + _("usual {range}").format(range=_format_range(usual))

    def still_waiting(self, now: float) -> str:
        """`still waiting for lustre nemo-lustre, 4 m 00 s, usual 40-80 m`: what takes longest first."""
        open_things = sorted(
            (t for t in self.resources.values() if t.status == "work"), key=lambda t: t.started or now
        )
        if not open_things:
            return _("still going on, {time}").format(time=format_duration(now - (self.started_at or now)))
        named_things = "; ".join(self._format_pending(thing, now) for thing in open_things[:_MAX_NAMED])
        more = len(open_things) - _MAX_NAMED
        return _("still waiting for {things}").format(things=named_things) + (
            _("; and {n} more").format(n=more) if more > 0 else ""
        )

    def _format_pending(self, thing: ResourceProgress, now: float) -> str:
        usual = None if self.is_destroy else self.estimates.get(thing.id)
        words = ", " + _("usual {range}").format(range=_format_range(usual)) if usual else ""
        detail = f" ({thing.detail})" if thing.detail else ""
        return f"{thing_name(thing.id)}{detail}, {format_duration(now - (thing.started or now))}{words}"

    def progress_summary(self) -> list[str]:
        """What the run had come to, in a sentence."""
        if not self.resources:
            return []
        ended = sum(thing.status in ("done", "kept", "gone") for thing in self.resources.values())
        lines = [_("So far: {n} of {all} things are done.").format(n=ended, all=len(self.resources))]
        if self.summary is None and ended < len(self.resources):
            lines.append(_("The run has not ended: it goes on, or was cut short."))
        return lines

    def outcome_lines(self) -> list[str]:
        """How it ended: failures with why and fix, else what stands and its price."""
        lines = []
        for group in failures.group_by_cause(self.failures, lambda one: (one.title, one.detail, one.fix)):
            failure = group[0]
            lines.append(
                _("Failed: {name}: {title}").format(
                    name=failures.join_names([thing_name(one.id) or one.id for one in group]),
                    title=end_with_period(failure.title),
                )
            )
            labelled = ((_("Why"), failure.detail), (_("Fix"), failure.fix), (_("Command"), failure.command))
            lines += [f"{label}: {text}" for label, text in labelled if text]
        summary = self.summary or {}
        if summary.get("next") == "nothing left" and self.ok:
            return [*lines, _("Nothing left.")]
        if self.ok and "usd_per_hour" in summary:
            lines.append(
                _("Price now: {price} of known price.").format(
                    price=format_hourly_price(float(summary["usd_per_hour"]))
                )
            )
        return lines


def _format_range(usual: tuple[float, float]) -> str:
    return format_duration_range(usual).replace("–", " " + _("to") + " ")
