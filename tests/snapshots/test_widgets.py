"""Snapshots of the gallery's pages. After an intended change: `pytest tests/snapshots --snapshot-update`, then review them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gallery import PAGES, Gallery
from textual.pilot import Pilot
from textual.widgets import Input

from grpo_wizard.tui.widgets.log_view import LogView

SIZES = {"80x24": (80, 24), "120x40": (120, 40)}
LOG = Path(__file__).parent / "log_sample.log"


async def _settled(pilot: Pilot[None]) -> None:
    """Stop the cursor from blinking, and wait until the log is read."""
    for line in pilot.app.screen.query(Input):
        line.cursor_blink = False
    for view in pilot.app.query(LogView):
        for _round in range(200):
            if view.rows == LOG.read_bytes().count(b"\n") and view.is_vertical_scroll_end:
                break
            await pilot.pause(0.02)
    await pilot.pause(0.1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, size: str, snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(Gallery(page, log=LOG), terminal_size=SIZES[size], run_before=_settled)


@pytest.mark.parametrize("page", ["step", "monitor", "run"])
def test_page_in_ascii(page: str, snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(Gallery(page, ascii_only=True), terminal_size=(80, 24), run_before=_settled)


@pytest.mark.parametrize("page", ["step", "monitor"])
def test_page_in_light_theme(page: str, snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(Gallery(page, light=True), terminal_size=(120, 40), run_before=_settled)
