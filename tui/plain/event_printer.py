"""A run's events as lines with the time that has passed; and what is still waited for, so that no silence is long."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from grpo_wizard.steps.core.durations import duration, span
from grpo_wizard.tui.commands._output import money, plan_counts
from grpo_wizard.tui.commands._output import thing as thing_name
from grpo_wizard.tui.plain.console import sentence
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels import failures
from grpo_wizard.tui.viewmodels.deployments import moment
from grpo_wizard.tui.viewmodels.run_progress import Story, Thing

_NAMED_AT_MOST = 3
_SAME_AGAIN_SECONDS = 30.0
_WORTH_SAYING_SECONDS = 10.0
_NUMBERS = re.compile(r"\d+")


class Teller(Story):
    """A Story that says each event as a line. A thing that waits for the same as before is not said again and again."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say_line = say
        self._waits: dict[str, tuple[str, float]] = {}
        self.told = 0
        """How many lines were said."""
        self.is_quiet = False
        """Takes events in without a word: a story of before is told by `so_far`."""

    def take(self, document: Mapping[str, Any]) -> None:
        """Takes it in, then says it."""
        super().take(document)
        now = moment(str(document["time"]))
        line = self._line(document, now)
        if line and not self.is_quiet:
            self.told += 1
            self._say_line(f"{duration(max(0.0, now - (self.begun or now)))}: {line}")

    def _line(self, document: Mapping[str, Any], now: float) -> str:
        """Nothing where it is no news."""
        name = thing_name(str(document.get("id") or ""))
        detail = str(document.get("detail") or "")
        match document["event"]:
            case "plan":
                return _("plan: {counts}").format(counts=plan_counts(document["resources"]))
            case "resource_started":
                return f"{document.get('action', '')}: {name}{self._usual_words(document)}"
            case "resource_waiting":
                text = _("waiting: {name}: {detail}").format(name=name, detail=detail)
                return text if self._is_news(f"waiting {name}", detail, now) else ""
            case "resource_done":
                took = duration(float(document.get("seconds", 0.0)))
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
        said, at = self._waits.get(key, ("", 0.0))
        if said == text and now - at < _SAME_AGAIN_SECONDS:
            return False
        self._waits[key] = (text, now)
        return True

    def _usual_words(self, document: Mapping[str, Any]) -> str:
        usual = self.usual.get(str(document.get("id")))
        if usual is None or usual[1] < _WORTH_SAYING_SECONDS or document.get("action") == "delete":
            return ""
        return ", " + _("usual {range}").format(range=_range(usual))

    def still_waiting(self, now: float) -> str:
        """`still waiting for lustre nemo-lustre, 4 m 00 s, usual 40-80 m`: what takes longest first."""
        open_things = sorted(
            (t for t in self.things.values() if t.sign == "work"), key=lambda t: t.started or now
        )
        if not open_things:
            return _("still going on, {time}").format(time=duration(now - (self.begun or now)))
        named_things = "; ".join(self._still(thing, now) for thing in open_things[:_NAMED_AT_MOST])
        more = len(open_things) - _NAMED_AT_MOST
        return _("still waiting for {things}").format(things=named_things) + (
            _("; and {n} more").format(n=more) if more > 0 else ""
        )

    def _still(self, thing: Thing, now: float) -> str:
        usual = None if self.is_undo else self.usual.get(thing.id)
        words = ", " + _("usual {range}").format(range=_range(usual)) if usual else ""
        detail = f" ({thing.detail})" if thing.detail else ""
        return f"{thing_name(thing.id)}{detail}, {duration(now - (thing.started or now))}{words}"

    def so_far(self) -> list[str]:
        """What the run had come to, in a sentence."""
        if not self.things:
            return []
        ended = sum(thing.sign in ("done", "kept", "gone") for thing in self.things.values())
        lines = [_("So far: {n} of {all} things are done.").format(n=ended, all=len(self.things))]
        if self.summary is None and ended < len(self.things):
            lines.append(_("The run has not ended: it goes on, or was cut short."))
        return lines

    def ending(self) -> list[str]:
        """How it ended: failures with why and fix, else what stands and its price."""
        lines = []
        for group in failures.alike(self.failures, lambda one: (one.title, one.detail, one.fix)):
            failure = group[0]
            lines.append(
                _("Failed: {name}: {title}").format(
                    name=failures.named([thing_name(one.id) or one.id for one in group]),
                    title=sentence(failure.title),
                )
            )
            labelled = ((_("Why"), failure.detail), (_("Fix"), failure.fix), (_("Command"), failure.command))
            lines += [f"{label}: {text}" for label, text in labelled if text]
        summary = self.summary or {}
        if summary.get("next") == "nothing left" and self.ok:
            return [*lines, _("Nothing left.")]
        if self.ok and "usd_per_hour" in summary:
            lines.append(
                _("Price now: {price} of known price.").format(price=money(float(summary["usd_per_hour"])))
            )
        return lines


def _range(usual: tuple[float, float]) -> str:
    return span(usual).replace("–", " " + _("to") + " ")
