"""Takes the README's screenshots of the app during a rehearsal with a training run.

    python tests/snapshots/readme_pictures.py [FOLDER]

Minutes of work: it walks the whole road once. FOLDER is assets/pictures unless another is named.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "journeys"))
sys.path.insert(0, str(Path(__file__).parent))

from app_pilot import AppPilot, is_screen, wait_for_run_end, wait_for_step, wait_until
from emulator_server import start_emulator
from svg_to_png import to_png

from grpo_wizard.state.home import Home
from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.registry import STEP_NAMES
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.screens.monitor import MonitorScreen
from grpo_wizard.tui.screens.review import ReviewScreen
from grpo_wizard.tui.screens.run import RunScreen

HERE = Path(__file__).parent
SIZE = (110, 34)


async def walk_through(home: Path, folder: Path) -> None:
    """Go through the screens and take a screenshot of each."""
    app = Wizard(Home(home), preload=False, speed="600", rehearse=True, start="rehearsal", create=True)
    async with app.run_test(size=SIZE) as pilot:
        for name in STEP_NAMES:
            await wait_for_step(pilot, name)
            if name == "quotas":
                save_screenshot(pilot, folder / f"step-{name}.png")
            await pilot.press("enter")
        await wait_until(pilot, lambda: is_screen(pilot, ReviewScreen), "Review")
        await wait_until(pilot, lambda: not app.screen.launch_blocker(), "Launch to be enabled")  # type: ignore[attr-defined]
        save_screenshot(pilot, folder / "review.png")
        await pilot.press("l")
        await wait_until(pilot, lambda: is_screen(pilot, RunScreen), "Run")
        await asyncio.sleep(6)
        save_screenshot(pilot, folder / "run.png")
        await wait_for_run_end(pilot, 300)
        await pilot.press("m")
        await wait_until(pilot, lambda: is_screen(pilot, MonitorScreen), "Monitor", 60)
        monitor = app.screen
        assert isinstance(monitor, MonitorScreen)
        await wait_until(pilot, lambda: len(monitor.snapshot.rows) >= 8, "eight steps", 240)
        await asyncio.sleep(1)
        save_screenshot(pilot, folder / "monitor.png")


def save_screenshot(pilot: AppPilot, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    to_png(pilot.app.export_screenshot(simplify=True), str(file), 1.0)
    print(file)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[1] / "assets" / "pictures"
    with tempfile.TemporaryDirectory() as scratch:
        home = start_emulator(Path(scratch) / "home", "600", ray="real").home
        try:
            asyncio.run(walk_through(home, folder))
        finally:
            process.stop(home)


if __name__ == "__main__":
    main()
