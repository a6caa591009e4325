"""Prints a run's events as lines with the elapsed time, and names what is still in progress when nothing happens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from grpo_wizard.steps.core.durations import format_duration, format_duration_range
from grpo_wizard.steps.core.text import end_with_period
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels import failures
from grpo_wizard.tui.viewmodels.deployments import parse_time
from grpo_wizard.tui.viewmodels.labels import format_hourly_price, format_plan_counts, resource_label
from grpo_wizard.tui.viewmodels.run_progress import ResourceProgress, RunProgress

_MAX_NAMED = 3
_REPEAT_AFTER_SECONDS = 30.0
_MIN_ESTIMATE_SECONDS = 10.0
_NUMBERS = re.compile(r"\d+")


class EventPrinter(RunProgress):
    """A RunProgress that prints a line per event. A resource that keeps waiting for the same cause is not repeated."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        super().__init__()
        self._print_line = print_line
        self._last_printed: dict[str, tuple[str, float]] = {}
        self.lines_printed = 0
        self.is_quiet = False
        """Whether to take events without printing: `progress_summary` describes earlier ones."""

    def apply_event(self, document: Mapping[str, object]) -> None:
        """Apply an event, then print it."""
        super().apply_event(document)
        now = parse_time(str(document["time"]))
        line = self._format_event(document, now)
        if line and not self.is_quiet:
            self.lines_printed += 1
            self._print_line(f"{format_duration(max(0.0, now - (self.started_at or now)))}: {line}")

    def _format_event(self, document: Mapping[str, Any], now: float) -> str:
        """Return the event's line, or an empty string if it repeats an earlier one."""
        name = resource_label(str(document.get("id") or ""))
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
                return _("done: {name} in {time}").format(name=name, time=took)
            case "resource_failed":
                return _("failed: {name}: {title}").format(name=name, title=document.get("title", ""))
            case "retry":
                text = _("retrying: {name}: {detail}").format(name=name, detail=detail)
                return text if self._is_news(f"retry {name}", detail, now) else ""
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
                return _("all done") if document.get("ok") else _("not finished")
        return ""

    def _is_news(self, key: str, detail: str, now: float) -> bool:
        """Return whether the text, apart from its numbers, differs from the last one of this key or that one is old."""
        text = _NUMBERS.sub("0", detail)
        last_text, at = self._last_printed.get(key, ("", 0.0))
        if last_text == text and now - at < _REPEAT_AFTER_SECONDS:
            return False
        self._last_printed[key] = (text, now)
        return True

    def _estimate_text(self, document: Mapping[str, object]) -> str:
        usual = self.estimates.get(str(document.get("id")))
        if usual is None or usual[1] < _MIN_ESTIMATE_SECONDS or document.get("action") == "delete":
            return ""
        return ", " + _("usually {range}").format(range=_format_range(usual))

    def still_waiting(self, now: float) -> str:
        """Return `still waiting for lustre nemo-lustre, 4 m 00 s, usually 40 to 80 m`, the longest wait first."""
        unfinished = sorted(
            (r for r in self.resources.values() if r.status == "work"), key=lambda r: r.started or now
        )
        if not unfinished:
            return _("still running after {time}").format(
                time=format_duration(now - (self.started_at or now))
            )
        names = "; ".join(self._format_pending(resource, now) for resource in unfinished[:_MAX_NAMED])
        more = len(unfinished) - _MAX_NAMED
        return _("still waiting for {names}").format(names=names) + (
            _("; and {n} more").format(n=more) if more > 0 else ""
        )

    def _format_pending(self, resource: ResourceProgress, now: float) -> str:
        usual = None if self.is_destroy else self.estimates.get(resource.id)
        estimate = ", " + _("usually {range}").format(range=_format_range(usual)) if usual else ""
        detail = f" ({resource.detail})" if resource.detail else ""
        elapsed = format_duration(now - (resource.started or now))
        return f"{resource_label(resource.id)}{detail}, {elapsed}{estimate}"

    def progress_summary(self) -> list[str]:
        """Return how far the run is."""
        if not self.resources:
            return []
        done = sum(resource.status in ("done", "kept", "gone") for resource in self.resources.values())
        lines = [_("So far, {n} of {all} resources are done.").format(n=done, all=len(self.resources))]
        if self.summary is None and done < len(self.resources):
            lines.append(_("The run has not finished: either it is still running, or it was interrupted."))
        return lines

    def outcome_lines(self) -> list[str]:
        """Return how the run ended: failures with cause and fix, or the price of what exists."""
        lines = []
        for group in failures.group_by_cause(self.failures, lambda one: (one.title, one.detail, one.fix)):
            failure = group[0]
            lines.append(
                _("Failed: {name}: {title}").format(
                    name=failures.join_names([resource_label(one.id) or one.id for one in group]),
                    title=end_with_period(failure.title),
                )
            )
            labelled = ((_("Why"), failure.detail), (_("Fix"), failure.fix), (_("Command"), failure.command))
            lines += [f"{label}: {text}" for label, text in labelled if text]
        summary = self.summary or {}
        if summary.get("next") == "nothing left" and self.ok:
            return [*lines, _("No resources of this deployment remain.")]
        if self.ok and "usd_per_hour" in summary:
            lines.append(
                _("Current price: {price}.").format(price=format_hourly_price(float(summary["usd_per_hour"])))
            )
        return lines


def _format_range(usual: tuple[float, float]) -> str:
    return format_duration_range(usual).replace("–", " " + _("to") + " ")
