"""Ten seeded kills of apply and ten of destroy, each followed by the same command again. About ten minutes on two cores.

    python tests/bench/road_kills.py [--count 10] [--seed 20260130] [--only apply|destroy]

Prints the seed, every moment, and what did not hold; ends with 1 when anything did not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kill_injection import (
    SEED,
    KillResult,
    kill_apply,
    kill_destroy,
    kill_points,
    undisturbed_apply,
    undisturbed_destroy,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", choices=("apply", "destroy"))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="road-kills-") as folder:
        found = run(Path(folder), chosen.count, chosen.seed, chosen.only)
    bad = [each for each in found if each.errors]
    print(f"{len(found)} kills, {sum(each.killed for each in found)} in time, {len(bad)} did not hold")
    return 1 if bad else 0


def run(folder: Path, count: int, seed: int, only: str | None) -> list[KillResult]:
    wanted, writes, events, seconds = undisturbed_apply(folder / "deployed")
    print(f"seed {seed}; undisturbed: {writes} writes, {events} events, {seconds:.1f} s", flush=True)
    found: list[KillResult] = []
    for number, moment in enumerate(kill_points(seed, count, writes, events, seconds)):
        if only != "destroy":
            found.append(kill_apply(folder / f"apply-{number}", moment, wanted))
            print(f"apply   {found[-1]}", flush=True)
    undone = undisturbed_destroy(folder / "deployed", folder / "undone")
    for number, moment in enumerate(kill_points(seed + 1, count, *undone)):
        if only != "apply":
            found.append(kill_destroy(folder / "deployed", folder / f"destroy-{number}", moment))
            print(f"destroy {found[-1]}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
