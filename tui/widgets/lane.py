"""A lane of the Run screen: resources, their bar on the common time axis, and their progress.

Progress is what the cloud reports (a counter), or the elapsed time with the usual range. There is no percentage,
because the cloud reports none.
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
    """What a lane shows. `started`, `ended`: seconds since the run started; `estimate`: usual (low, high) seconds."""

    title: str
    status: str = "wait"
    started: float | None = None
    ended: float | None = None
    counter: str = ""
    note: str = ""
    estimate: tuple[float, float] | None = None
    on_critical_path: bool = False


def timeline_bar(state: LaneState, now: float, horizon: float, width: int) -> str:
    """The lane's bar on the axis 0..horizon seconds, in `width` cells; it ends in an arrow while in progress."""
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
    """One row; call `show` on every tick of the clock."""

    DEFAULT_CSS = """
    Lane { height: 1; width: 1fr; }
    """
    state: reactive[LaneState] = reactive(LaneState(""))
    now: reactive[float] = reactive(0.0)
    horizon: reactive[float] = reactive(1.0)

    def show(self, state: LaneState, now: float, horizon: float) -> None:
        """Draw `state`; `now` and `horizon` are seconds since the run started, the same for all lanes."""
        self.state, self.now, self.horizon = state, now, horizon

    def render(self) -> Text:
        """Render status, title, bar and progress."""
        state, colours, width = self.state, self.app.theme_variables, self.size.width
        icon = status_icon(state.status)
        title, right = (30, 22) if width < _NARROW else (32, 34)
        text = Text(no_wrap=True, end="")
        first = 1 + max(cell_len(str(status_icon(key))) for key in _STATUSES)
        text.append(truncate(str(icon), first), colours[icon.colour])
        text.append(truncate(state.title, title), "" if state.started is not None else colours["muted"])
        if state.started is None:
            return text.append(" " + truncate(state.note, width - first - 1 - title), colours["muted"])
        ink = colours["warning"] if state.on_critical_path and state.ended is None else colours[icon.colour]
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
        if state.estimate is not None and state.estimate[1] >= 1.0:  # shorter estimates are not worth showing
            parts.append(_("est. {range}").format(range=format_duration_range(state.estimate)))
        if state.on_critical_path:
            parts.append("◆ " + _("slowest"))
        while len(parts) > 1 and cell_len("  ".join(parts)) > width:
            parts.pop()
        return Text(truncate("  ".join(parts), width))
