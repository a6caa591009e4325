"""Helpers for sentences that are shown to users."""

from __future__ import annotations


def end_with_period(text: str) -> str:
    """Add a full stop unless the text has an ending of its own."""
    return text if not text or text[-1] in ".!?:" else text + "."
