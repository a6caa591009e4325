"""Chart arithmetic: axes with round ticks, and lines drawn in braille dots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# Dot of (column 0..1, row 0..3) in a braille cell, Unicode 2800.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


@dataclass(frozen=True, slots=True)
class Series:
    """One line: `points` are (x, y) in ascending x; a y that is NaN or infinite leaves a marked gap."""

    label: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """A range with ticks inside it, `low` < `high`."""

    low: float
    high: float
    ticks: tuple[float, ...]
    decimals: int

    def label(self, tick: float) -> str:
        """The tick as text, with enough decimals to distinguish it from its neighbours."""
        return f"{tick:.0e}" if self.decimals > 5 else f"{tick:,.{self.decimals}f}"

    def dot_position(self, value: float, dots: int) -> int:
        """Dot 0..dots-1 of `value`."""
        return min(dots - 1, max(0, round((value - self.low) / (self.high - self.low) * (dots - 1))))


def step_axis(values: Iterable[float], count: int) -> Axis:
    """An axis from the first to the last of the training steps, with about `count` whole ticks."""
    low, high = _range(values)
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = max(1.0, _nice_step((high - low) / max(1, count - 1)))
    ticks = range(math.ceil(low / step), math.floor(high / step) + 1)
    return Axis(low, high, tuple(number * step for number in ticks), 0)


def value_axis(values: Iterable[float], rows: int) -> Axis:
    """An axis over the finite `values` for `rows` >= 2 cells: ticks at 1, 2 or 5 times a power of ten.

    Ticks lie a whole number of rows apart, so that they look regular; of all such axes it is the closest fit.
    """
    low, high = _range(values)
    if high - low < 1e-12 * max(1.0, abs(high)):
        margin = abs(high) / 2 or 0.5
        low, high = low - margin, high + margin
    apart = range(max(1 if rows < 4 else 2, rows // 7), max(1, rows // 2) + 1)
    axes = [_axis_with(low, high, rows * 4 - 1, 4 * every) for every in apart]
    return min(axes, key=lambda axis: axis.high - axis.low)


def _range(values: Iterable[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)]
    return (min(finite), max(finite)) if finite else (0.0, 1.0)


def _axis_with(low: float, high: float, dots: int, every: int) -> Axis:
    """The tightest axis with a tick each `every` of its `dots`, the first at the very bottom."""
    step = _nice_step((high - low) * every / dots)
    while math.floor(low / step + 1e-9) * step + step * dots / every < high * (1 - 1e-12):
        step = _nice_step(step * 1.01)
    first = math.floor(low / step + 1e-9)
    ticks = tuple((first + number) * step for number in range(dots // every + 1))
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return Axis(ticks[0], ticks[0] + step * dots / every, ticks, decimals)


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


@dataclass(slots=True)
class Canvas:
    """Cells of `width` × `height`; a cell holds braille dots, or one letter that lies over them."""

    width: int
    height: int
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    owner: dict[tuple[int, int], int] = field(default_factory=dict)
    letters: dict[tuple[int, int], str] = field(default_factory=dict)

    def dot(self, x: int, y: int, series: int) -> None:
        """Sets a dot; x counts from the left (2 a cell), y from the bottom (4 a cell)."""
        row = self.height * 4 - 1 - y
        cell = (x >> 1, row >> 2)
        self.dots[cell] = self.dots.get(cell, 0) | _DOTS[x & 1][row & 3]
        self.owner[cell] = series

    def line(self, start: tuple[int, int], end: tuple[int, int], series: int) -> None:
        """All dots from `start` to `end`."""
        (x0, y0), (x1, y1) = start, end
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for n in range(steps + 1):
            self.dot(x0 + round((x1 - x0) * n / steps), y0 + round((y1 - y0) * n / steps), series)

    def row(self, y: int, *, ascii_only: bool = False) -> list[tuple[str, int]]:
        """The cells of row `y` from the top as (character, series), series -1 for empty."""
        cells = []
        for x in range(self.width):
            letter = self.letters.get((x, y))
            bits = self.dots.get((x, y), 0)
            char = letter or (("*" if ascii_only else chr(0x2800 + bits)) if bits else " ")
            cells.append((char, self.owner.get((x, y), -1)))
        return cells


def draw(series: Sequence[Series], x: Axis, y: Axis, width: int, height: int) -> Canvas:
    """Draw every series, the first on top. A lone point is a `•`; a value that is not finite a `×` at the bottom."""
    canvas = Canvas(width, height)
    for number in reversed(range(len(series))):
        previous: tuple[int, int] | None = None
        run: list[tuple[int, int]] = []
        for px, py in series[number].points:
            column = x.dot_position(px, width * 2)
            if not math.isfinite(py):
                _mark(canvas, (column // 2, height - 1), "×", number)
                _lone(canvas, run, number)
                previous, run = None, []
                continue
            spot = (column, y.dot_position(py, height * 4))
            if spot != previous:
                canvas.line(previous or spot, spot, number)
            previous = spot
            run.append(spot)
        _lone(canvas, run, number)
    return canvas


def _lone(canvas: Canvas, run: list[tuple[int, int]], series: int) -> None:
    """Enlarge a single point without neighbours, which would be easy to miss as one dot."""
    if len(run) == 1:
        column, dot = run[0]
        _mark(canvas, (column // 2, (canvas.height * 4 - 1 - dot) // 4), "•", series)


def _mark(canvas: Canvas, cell: tuple[int, int], letter: str, series: int) -> None:
    canvas.letters[cell] = letter
    canvas.owner[cell] = series


# Not up to the full block: rows of tiles would grow together.
_BARS = "▁▂▃▄▅▆▇"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as a row of bars, scaled to their own range; `×` for a value that is not finite."""
    shown = values[-width:] if width > 0 else []
    finite = [value for value in shown if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    span = high - low

    def bar(value: float) -> str:
        if not math.isfinite(value):
            return "×"
        return _BARS[round((value - low) / span * (len(_BARS) - 1))] if span else _BARS[0]

    return "".join(bar(value) for value in shown)


def trend(values: Sequence[float], window: int = 5) -> str:
    """Trend as a status icon key: `up`, `down`, `flat`, or `broken` if the last value is not finite.

    Compares the mean of the last `window` values with that of the `window` before; a change of less than a twentieth
    of the range is flat.
    """
    if values and not math.isfinite(values[-1]):
        return "broken"
    finite = [value for value in values if math.isfinite(value)]
    half = min(window, len(finite) // 2)
    span = max(finite) - min(finite) if half else 0.0
    if not span:
        return "flat"
    change = sum(finite[-half:]) / half - sum(finite[-2 * half : -half]) / half
    return "flat" if abs(change) < span / 20 else "up" if change > 0 else "down"
