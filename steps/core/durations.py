"""Durations in words: the one format used everywhere."""

from __future__ import annotations


def format_duration(seconds: float, tenths: bool = False) -> str:
    """Format as `42 s`, `9 m 07 s`, `31 m` or `9 h 12 m`. `tenths` shows tenths below ten seconds, for values that do not tick."""
    whole = max(0, round(seconds))
    if tenths and seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} m {whole % 60:02} s"
    if whole < 3600:
        return f"{whole // 60} m"
    return f"{whole // 3600} h {whole % 3600 // 60:02} m"


def format_duration_range(seconds: tuple[float, float]) -> str:
    """Format both ends in one unit: seconds below two minutes, minutes below two hours, else hours and minutes."""
    low, high = seconds
    if high < 120:
        return f"{low:.0f}–{high:.0f} s"
    if high < 7200:
        return f"{low / 60:.0f}–{high / 60:.0f} m"
    return f"{_hours(low)}–{_hours(high)}"


def _hours(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} m" if hours and minutes else f"{hours} h" if hours else f"{minutes} m"
