"""One row of the Run screen: what is made, where on the common time axis, and how far.

What is shown at the right is what the cloud says (a counter), or the time that has passed and the usual
range with it. There is no percentage of ours: nobody knows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from grpo_wizard.steps.core.durations import format_duration, format_duration_range
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.style.icons import status_icon, truncate

_NARROW = 100
_STATUSES = ("wait", "work", "done", "kept", "failed", "paused", "gone")


@dataclass(frozen=True, slots=True)
class LaneState:
    """What one lane shows. `started`, `ended`: seconds since the run began; `usual`: seconds from, to."""

    title: str
    status: str = "wait"
    started: float | None = None
    ended: float | None = None
    counter: str = ""
    note: str = ""
    estimate: tuple[float, float] | None = None
    on_critical_path: bool = False


def timeline_bar(state: LaneState, now: float, horizon: float, width: int) -> str:
    """The lane's stretch of the axis 0..horizon seconds in `width` cells; an arrow where it still goes on."""
    if state.started is None or width < 2:
        return " " * max(0, width)
    scale = width / max(horizon, 1.0)
    begin = min(width - 1, int(state.started * scale))
    end = min(width, max(begin + 1, round((state.ended if state.ended is not None else now) * scale)))
    body = "━" * (end - begin)
    if state.ended is None:
        body = body[:-1] + "▶"
    return " " * begin + body + " " * (width - end)


class Lane(Widget):
    """One row. `show(state, now, horizon)` as often as the clock ticks."""

    DEFAULT_CSS = """
    Lane { height: 1; width: 1fr; }
    """
    state: reactive[LaneState] = reactive(LaneState(""))
    now: reactive[float] = reactive(0.0)
    horizon: reactive[float] = reactive(1.0)

    def show(self, state: LaneState, now: float, horizon: float) -> None:
        """`now` and `horizon` in seconds since the run began; all lanes of a screen share both."""
        self.state, self.now, self.horizon = state, now, horizon

    def render(self) -> Text:
        """Sign, title, bar, and what the cloud says."""
        state, colours, width = self.state, self.app.theme_variables, self.size.width
        mark = status_icon(state.status)
        title, right = (30, 22) if width < _NARROW else (32, 34)
        text = Text(no_wrap=True, end="")
        first = 1 + max(cell_len(str(status_icon(key))) for key in _STATUSES)
        text.append(truncate(str(mark), first), colours[mark.colour])
        text.append(truncate(state.title, title), "" if state.started is not None else colours["muted"])
        if state.started is None:
            return text.append(" " + truncate(state.note, width - first - 1 - title), colours["muted"])
        ink = colours["warning"] if state.on_critical_path and state.ended is None else colours[mark.colour]
        text.append(
            " " + timeline_bar(state, self.now, self.horizon, width - first - 2 - title - right) + " ", ink
        )
        return text.append_text(self._right(right))

    def _right(self, width: int) -> Text:
        state, colours = self.state, self.app.theme_variables
        end = self.now if state.ended is None else state.ended
        elapsed = format_duration(end - (state.started or 0.0))
        if state.ended is not None:
            ink = "error" if state.status == "failed" else "muted"
            return Text(truncate(state.note or elapsed, width), colours[ink])
        parts = [state.counter or elapsed]
        if state.estimate is not None and state.estimate[1] >= 1.0:  # less is no help to anybody who waits
            parts.append(_("usual {range}").format(range=format_duration_range(state.estimate)))
        if state.on_critical_path:
            parts.append("◆ " + _("long pole"))
        while len(parts) > 1 and cell_len("  ".join(parts)) > width:
            parts.pop()
        return Text(truncate("  ".join(parts), width))
