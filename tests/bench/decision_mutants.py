"""Changes one decision at a time and runs the unit tests: `python tests/bench/decision_mutants.py [NUMBER…]`.

Each entry of MUTANTS is a mistake that would cost a user data or money. All of them must fail the suite; exits 1 when one passes.
The product and the tests are copied first, so the working tree stays as it is. A mutant that is killed takes about 5 s.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PACKAGES = ("tui", "steps", "state", "assets")


@dataclass(frozen=True)
class Mutant:
    """`old` occurs exactly once in `file`."""

    mistake: str
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant(
        "any deployment's owner label counts as ours",
        "steps/engine/plan.py",
        "if observed.owner_label == deployment_id:",
        "if observed.owner_label:",
    ),
    Mutant(
        "a resource created later under the same name counts as ours",
        "steps/engine/plan.py",
        "not record.identity or not observed.identity or record.identity == observed.identity",
        "True",
    ),
    Mutant(
        "clusters and Lustre instances are replaced without --replace",
        "steps/engine/plan.py",
        "if resource.kind in PROTECTED_KINDS and resource.id not in replace:",
        "if False:",
    ),
    Mutant(
        "another owner's resource that does not fit is adopted",
        "steps/engine/plan.py",
        "if drift := foreign_drift(resource, observed):",
        "if drift := ():",
    ),
    Mutant(
        "--keep lustre keeps the instance but not its network",
        "steps/engine/graph.py",
        "waiting += by_id[id].depends_on",
        "waiting += ()",
    ),
    Mutant(
        "destroy deletes an existing resource that the user named",
        "steps/engine/delete.py",
        '    if resource.retain_on_destroy or resource.data_source:\n        return "keep"',
        '    if resource.retain_on_destroy:\n        return "keep"',
    ),
    Mutant(
        "destroy deletes everybody's resources",
        "steps/engine/delete.py",
        'return "delete" if ours else "keep"',
        'return "delete"',
    ),
    Mutant(
        "apply adopts without --adopt",
        "steps/engine/apply.py",
        'if decision.action == "adopt" and not options.adopt:',
        "if False:",
    ),
    Mutant(
        "--max-usd-per-hour is ignored",
        "steps/engine/spending.py",
        "if limits.usd_per_hour is not None and known > limits.usd_per_hour:",
        "if False:",
    ),
    Mutant(
        "--max-usd is ignored at the start of apply",
        "steps/engine/spending.py",
        "if error := budget.limit_error():",
        "if error := None:",
    ),
    Mutant(
        "links are compared by their last part only",
        "steps/clients/serialization.py",
        'if ("/" in left) != ("/" in right):',
        'if "/" in left or "/" in right:',
    ),
    Mutant(
        "a cluster that holds others' node pools is deleted",
        "steps/clients/google/gke.py",
        "if foreign := self._foreign_node_pools(cloud, context):",
        "if foreign := self._foreign_node_pools(cloud, context)[:0]:",
    ),
    Mutant(
        "a GPU pool is billed while it has no nodes",
        "steps/pricing/budget.py",
        'if resource.kind != "node_pool":',
        "if True:",
    ),
    Mutant(
        "a missing sign-in only warns",
        "steps/engine/preflight.py",
        'return CheckFinding("block", _BLOCKING_CAUSES[kind]',
        'return CheckFinding("warn", _BLOCKING_CAUSES[kind]',
    ),
)


def problems() -> list[str]:
    """Mutants whose text is not found exactly once: the code has moved on, and the entry must follow."""
    return [
        f"{mutant.mistake}: {mutant.file} has {count} of {mutant.old!r}"
        for mutant in MUTANTS
        if (count := (ROOT / mutant.file).read_text("utf-8").count(mutant.old)) != 1
    ]


def _copy(folder: Path) -> None:
    """The product as an importable package, and the tests beside it."""
    package = folder / "grpo_wizard"
    shutil.copytree(ROOT / "tui" / "entry", package)
    for name in _PACKAGES:
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / name).symlink_to(package / name)
    shutil.copytree(
        ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__", "snapshots")
    )
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)


def _failed(folder: Path, paths: Iterable[Path | str]) -> str:
    """What pytest printed where tests in a copy fail; empty where they pass."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-n",
        "0",
        "--no-header",
        "--durations=0",
        *map(str, paths),
    ]
    command += ["--deselect", "tests/unit/test_code_conventions.py"]
    variables = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    return done.stdout[-3000:] or done.stderr[-3000:] if done.returncode else ""


def _decisions(folder: Path) -> list[Path]:
    return sorted((folder / "tests" / "unit").glob("test_decisions_*.py"))


def _killed(folder: Path) -> bool:
    """Whether a unit test fails: those of the decisions are asked first."""
    return bool(_failed(folder, _decisions(folder)) or _failed(folder, ["tests/unit"]))


def main() -> None:
    """Runs the mutants that are named by number, or all."""
    if found := problems():
        sys.exit("\n".join(found))
    chosen = [int(number) for number in sys.argv[1:]] or range(1, len(MUTANTS) + 1)
    with tempfile.TemporaryDirectory(prefix="decision-mutants-") as name:
        folder = Path(name)
        _copy(folder)
        if output := _failed(folder, _decisions(folder)):
            sys.exit(f"the tests fail without a mutant:\n{output}")
        survived = 0
        for number in chosen:
            mutant, began = MUTANTS[number - 1], time.monotonic()
            file = folder / "grpo_wizard" / mutant.file
            before = file.read_text("utf-8")
            file.write_text(before.replace(mutant.old, mutant.new), "utf-8")
            killed = _killed(folder)
            file.write_text(before, "utf-8")
            survived += not killed
            result = "killed" if killed else "SURVIVED"
            print(f"{number:2} {result:9} {time.monotonic() - began:5.1f} s  {mutant.mistake}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} killed")
    sys.exit(bool(survived))


if __name__ == "__main__":
    main()
