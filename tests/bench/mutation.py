"""Mutation run over the decisions that protect people: `python tests/bench/mutation.py [PATTERN…]`.

mutmut changes one operator, value or argument at a time in the functions of SCOPE and runs the tests of the decisions that call
them. Prints every survivor with its difference, then the share that was killed; exits 1 below 90 %. Patterns limit the run to
functions whose name contains one. Needs `pip install -e '.[mutation]'`; takes about five minutes of processor time.

mutmut wants files where imports look for them, so the product is copied to build/mutation/grpo_wizard first. Mutants that change
only the wording of a message are not run: other tests read those.
"""

from __future__ import annotations

import ast
import difflib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
STAGE = ROOT / "build" / "mutation"
ENOUGH = 0.9
# Module -> functions; empty: all of them.
SCOPE: dict[str, tuple[str, ...]] = {
    "steps/engine/plan.py": (),
    "steps/engine/graph.py": (),
    "steps/engine/spending.py": (),
    "steps/engine/apply.py": ("plan_errors", "_decision_error", "_budget", "_reclaim_interrupted"),
    "steps/engine/delete.py": (
        "planned_deletion",
        "_create_pending",
        "_retain_reason",
        "_blocked_by_foreign",
        "delete_resource",
    ),
    "steps/engine/reconcile.py": ("owned_by_request_id",),
    "steps/engine/preflight.py": (
        "Pending.detail",
        "CheckResult.to_json",
        "_ProjectProbe._note",
        "_ProjectProbe.project_missing",
        "run_check",
        "_titled",
        "_inconclusive_finding",
        "_deduplicate",
        "fold_pending",
        "_format_pending",
        "_pending_failure",
        "blocking",
        "inconclusive",
    ),
    "steps/engine/recovery.py": (),
    "steps/pricing/budget.py": (),
    "steps/clients/serialization.py": (),
    "steps/clients/google/gke.py": ("ClusterDriver.delete", "ClusterDriver._foreign_node_pools"),
}
# Function -> changed line -> why no test can tell the difference.
_SAME_LENGTH = "the branch above has found both lists to be of one length"
_FALSY = "None and False are the same to protobuf, and False is its default"
_UNNAMED = "only compared with names of kinds, and none of these is one"
_UTC = "Python 3.11 reads Z as an offset by itself"
_MESSAGE = "found: JSON = MessageToDict(type(message).pb(message), "
EQUIVALENT: dict[str, dict[str, str]] = {
    "_diff_lists": {
        f"for index, (left, right) in enumerate(zip(desired, actual{strict})):": _SAME_LENGTH
        for strict in ("", ", strict=None", ", strict=False")
    },
    "to_json": {
        f"{_MESSAGE}{arguments})": _FALSY
        for arguments in (
            "preserving_proto_field_name=None, use_integers_for_enums=False",
            "preserving_proto_field_name=False, use_integers_for_enums=None",
            "preserving_proto_field_name=False",
            "use_integers_for_enums=False",
        )
    },
    "_inconclusive_finding": {
        f"kind = getattr(error, 'kind', {other})": _UNNAMED for other in ("None", "'XXXX'")
    },
    "run_check": {
        f"if getattr(error, 'kind', {other}) == 'api_disabled':": _UNNAMED for other in ("None", "'XXXX'")
    },
    "parse_time": {
        f"return datetime.fromisoformat(text.replace('{other}', '+00:00')).timestamp()": _UTC
        for other in ("XXZXX", "z")
    },
}
_TESTS = (
    "test_decisions_*.py",
    "test_prices.py",
    "test_spending_*.py",
    "decision_samples.py",
    "http_responder.py",
)
_PYPROJECT = """
[tool.pytest.ini_options]
addopts = "-q -x -p no:cacheprovider"
filterwarnings = ["ignore"]
pythonpath = [".", "tests"]

[tool.mutmut]
source_paths = ["grpo_wizard"]
only_mutate = {only_mutate}
also_copy = ["assets", "README.md"]
pytest_add_cli_args_test_selection = ["tests/unit"]
use_setproctitle = false
use_git_change_detection = false
"""


@dataclass(frozen=True)
class Mutant:
    """One change. `name` is mutmut's, `function` as in SCOPE, `diff` its lines before and after."""

    name: str
    function: str
    diff: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Why it cannot be told from the original; empty where it can."""
        known = EQUIVALENT.get(self.function, {})
        return next((known[line.strip()] for line in self.added if line.strip() in known), "")

    @property
    def added(self) -> list[str]:
        """The lines that the change brings in."""
        return [line[1:] for line in self.diff if line.startswith("+")]


def stage() -> None:
    """Copies the product and the tests of the decisions to STAGE."""
    shutil.rmtree(STAGE, ignore_errors=True)
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tui" / "entry", STAGE / "grpo_wizard", ignore=skip)
    for name in ("tui", "steps", "state", "assets"):
        shutil.copytree(ROOT / name, STAGE / "grpo_wizard" / name, ignore=skip)
    shutil.copytree(ROOT / "assets", STAGE / "assets", ignore=skip)
    unit = STAGE / "tests" / "unit"
    shutil.copytree(ROOT / "tests" / "unit" / "fixtures", unit / "fixtures")
    for pattern in (*_TESTS, "sample_answers.py"):
        for path in (ROOT / "tests" / "unit").glob(pattern):
            shutil.copy(path, unit)
    for path in (ROOT / "tests").glob("*.py"):
        shutil.copy(path, STAGE / "tests")
    shutil.copy(ROOT / "README.md", STAGE)
    files = json.dumps([f"grpo_wizard/{name}" for name in SCOPE])
    (STAGE / "pyproject.toml").write_text(_PYPROJECT.format(only_mutate=files), "utf-8")


def mutmut(*arguments: str) -> str:
    """Runs mutmut in STAGE and returns what it printed."""
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", "2", *arguments]
    done = subprocess.run(command, cwd=STAGE, capture_output=True, text=True)
    return done.stdout + done.stderr


def _results(module: str) -> dict[str, int | None]:
    """mutmut's name of each mutant of a module, and its exit code: 0 survived, None was not run."""
    meta = STAGE / "mutants" / "grpo_wizard" / f"{module}.meta"
    if not meta.exists():
        return {}
    found: dict[str, int | None] = json.loads(meta.read_text("utf-8"))["exit_code_by_key"]
    return found


def _functions(module: str) -> dict[str, ast.AST]:
    """The originals and mutants of a module, by mutmut's names."""
    source = (STAGE / "mutants" / "grpo_wizard" / module).read_text("utf-8")
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name: node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)}


def mutants(module: str) -> Iterator[Mutant]:
    """Those of a module in SCOPE that change more than wording."""
    functions = _functions(module)
    for name in _results(module):
        short = name.rpartition(".")[2]
        base = short.rpartition("__mutmut_")[0]
        function = base.removeprefix("xǁ").replace("ǁ", ".") if "ǁ" in base else base.removeprefix("x_")
        before, after = functions[f"{base}__mutmut_orig"], functions[short]
        if (not SCOPE[module] or function in SCOPE[module]) and _spoken(before) != _spoken(after):
            yield Mutant(name, function, tuple(_diff(before, after)))


def _anonymous(function: ast.AST) -> ast.AST:
    copy = ast.parse(ast.unparse(function)).body[0]
    copy.name = "function"  # type: ignore[attr-defined]
    return copy


def _spoken(function: ast.AST) -> str:
    """A function without its name and without the wording of messages: texts of two words or more."""
    copy = _anonymous(function)
    for node in ast.walk(copy):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip("X"):
            node.value = ""
    return ast.unparse(copy)


def _diff(before: ast.AST, after: ast.AST) -> Iterator[str]:
    texts = [ast.unparse(_anonymous(node)).splitlines() for node in (before, after)]
    return (line for line in list(difflib.unified_diff(*texts, n=0, lineterm=""))[2:] if line[0] in "+-")


def main() -> None:
    """Runs the mutants and reports those that survive."""
    patterns = sys.argv[1:] or [""]
    stage()
    first = mutmut("grpo_wizard.steps.engine.graph.x_topological_order__mutmut_1")  # makes all, runs one
    chosen = {
        m.name: m for module in SCOPE for m in mutants(module) if any(p in m.function for p in patterns)
    }
    if not chosen:
        sys.exit(first[-3000:])
    mutmut(*(name for name, mutant in chosen.items() if not mutant.reason))
    results = {name: code for module in SCOPE for name, code in _results(module).items()}
    run = [mutant for mutant in chosen.values() if not mutant.reason]
    # 0: the tests pass; 33: no test calls the function; None and 2: it was not judged.
    survivors = [mutant for mutant in run if results[mutant.name] in (0, 33, None, 2)]
    for mutant in survivors:
        print(f"{mutant.name} (exit code {results[mutant.name]})", *mutant.diff, sep="\n    ")
    killed = len(run) - len(survivors)
    print(f"{killed} of {len(run)} killed ({killed / len(run):.1%}); {len(chosen) - len(run)} equivalent")
    sys.exit(killed < ENOUGH * len(run))


if __name__ == "__main__":
    main()
