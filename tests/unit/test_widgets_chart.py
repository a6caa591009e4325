"""Axes, dots, sparklines and trends: the arithmetic of the chart and the metric tiles."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.tui.widgets.braille import Series, draw, sparkline, step_axis, trend, value_axis
from grpo_wizard.tui.widgets.tiles import short_number

NAN, INF = math.nan, math.inf
VALUES = st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=1, max_size=20)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(VALUES, st.integers(2, 40))
def test_value_axis_contains_all_values_and_has_even_round_ticks(values: list[float], rows: int) -> None:
    axis = value_axis(values, rows)
    span = axis.high - axis.low
    assert axis.low - 1e-9 * span <= min(values) and max(values) <= axis.high + 1e-9 * span
    rows_of_ticks = [axis.dot_position(tick, rows * 4) for tick in axis.ticks]
    assert len({after - before for before, after in pairwise(rows_of_ticks)}) <= 1
    assert all(row % 4 == 0 for row in rows_of_ticks)


def test_axis_ticks_are_round_numbers() -> None:
    axis = value_axis([0.12, 0.61], 10)
    assert [axis.label(tick) for tick in axis.ticks] == ["0.0", "0.2", "0.4", "0.6"]
    steps = step_axis(range(1, 11), 9)
    assert [steps.label(tick) for tick in steps.ticks] == ["2", "4", "6", "8", "10"]
    assert [value_axis([4e-4, 9e-4], 8).label(t) for t in (0.0004,)] == ["0.0004"]


@pytest.mark.parametrize("values", [[0.0], [0.3], [-5.0], [NAN], [NAN, INF], [], [1e-300], [1e18, 1e18]])
def test_axis_of_one_value_or_none(values: list[float]) -> None:
    axis = value_axis(values, 8)
    assert math.isfinite(axis.low) and axis.low < axis.high and len(axis.ticks) >= 1
    assert step_axis([3.0], 5).low < 3 < step_axis([3.0], 5).high


def _rows(points: list[tuple[float, float]], ascii_only: bool = False) -> list[str]:
    width, height = 20, 5
    x, y = step_axis([p[0] for p in points], 5), value_axis([p[1] for p in points], height)
    canvas = draw([Series("s", points)], x, y, width, height)
    return ["".join(char for char, _owner in canvas.row(row, ascii_only=ascii_only)) for row in range(height)]


def test_chart_line_is_continuous() -> None:
    rows = _rows([(1, 0.0), (10, 0.9)])
    assert rows[-1][0] != " " and any(len(row.rstrip()) == 20 for row in rows[:2])
    assert all(any(row[column] != " " for row in rows) for column in range(20))


def test_chart_marks_a_value_that_is_not_finite() -> None:
    rows = _rows([(1, 0.2), (2, 0.3), (3, NAN), (4, INF), (5, 0.4), (6, 0.5)])
    marks = [column for column, char in enumerate(rows[-1]) if char == "×"]
    assert len(marks) == 2
    between = range(marks[0], marks[1] + 1)
    assert all(row[column] == " " for row in rows[:-1] for column in between)


def test_chart_shows_single_points() -> None:
    assert "".join(_rows([(1, 0.5)])).strip() == "•"
    assert "".join(_rows([(1, 0.5), (2, NAN), (3, 0.7)])).count("•") == 2


def test_chart_in_ascii_uses_stars() -> None:
    text = "".join(_rows([(1, 0.0), (5, 1.0), (9, 0.5)], ascii_only=True))
    assert set(text) == {" ", "*"}


def test_sparkline_shows_the_last_values_and_marks_what_is_not_finite() -> None:
    assert sparkline([9, 1, 2, NAN, 3], 4) == "▁▄×▇"
    assert sparkline([2, 2], 8) == "▁▁" and sparkline([], 5) == "" and sparkline([1], 0) == ""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1, 0.2, 0.3, 0.5], "up"),
        ([5, 4, 3, 2], "down"),
        ([1, 1, 1], "flat"),
        ([0.5, 0.9, 0.1, 0.5, 0.9, 0.1, 0.5, 0.9, 0.1, 0.5], "flat"),
        ([0.4, NAN], "broken"),
        ([], "flat"),
        ([NAN, 0.1, 0.4], "up"),
    ],
)
def test_trend(values: list[float], expected: str) -> None:
    assert trend(values, window=3) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.612, "0.612"), (0.0004, "4.0e-04"), (0.0, "0.000"), (12.34, "12.3"), (347.2, "347"),
     (12_345, "12.3k"), (2_500_000, "2.5M"), (-0.5, "-0.500"), (NAN, "nan"), (INF, "inf")],
)  # fmt: skip
def test_short_number(value: float, text: str) -> None:
    assert short_number(value) == text
