"""The README's pictures, taken of the real app on a real rehearsal with a real training run.

    python tests/looks/readme_pictures.py [FOLDER]

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

from pictures import to_png
from rehearsing import start_rehearsal
from screens import Drive, on, run_ended, step_settled, until

from grpo_wizard.state.home import Home
from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.registry import NAMES
from grpo_wizard.tui.app import Wizard
from grpo_wizard.tui.screens.monitor import MonitorScreen
from grpo_wizard.tui.screens.review import ReviewScreen
from grpo_wizard.tui.screens.run import RunScreen

HERE = Path(__file__).parent
SIZE = (110, 34)


async def road(home: Path, folder: Path) -> None:
    """Opens, answers, launches, watches; a picture at each."""
    app = Wizard(Home(home), warm=False, speed="600", rehearse=True, start="rehearsal", create=True)
    async with app.run_test(size=SIZE) as pilot:
        for name in NAMES:
            await step_settled(pilot, name)
            if name == "quotas":
                take(pilot, folder / f"step-{name}.png")
            await pilot.press("enter")
        await until(pilot, lambda: on(pilot, ReviewScreen), "Review")
        await until(pilot, lambda: not app.screen.reason(), "Launch to be enabled")  # type: ignore[attr-defined]
        take(pilot, folder / "review.png")
        await pilot.press("l")
        await until(pilot, lambda: on(pilot, RunScreen), "Run")
        await asyncio.sleep(6)
        take(pilot, folder / "run.png")
        await run_ended(pilot, 300)
        await pilot.press("m")
        await until(pilot, lambda: on(pilot, MonitorScreen), "Monitor", 60)
        monitor = app.screen
        assert isinstance(monitor, MonitorScreen)
        await until(pilot, lambda: len(monitor.picture.rows) >= 8, "eight steps", 240)
        await asyncio.sleep(1)
        take(pilot, folder / "monitor.png")


def take(pilot: Drive, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    to_png(pilot.app.export_screenshot(simplify=True), str(file), 1.0)
    print(file)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[1] / "assets" / "pictures"
    with tempfile.TemporaryDirectory() as scratch:
        home = start_rehearsal(Path(scratch) / "home", "600", ray="real").home
        try:
            asyncio.run(road(home, folder))
        finally:
            process.stop(home)


if __name__ == "__main__":
    main()
