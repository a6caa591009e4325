"""The house rules that can be counted: packages, sizes, docstrings, and what an import brings along."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("tui", "steps", "state", "assets")
HEAVY = ("textual", "google", "googleapiclient", "kubernetes", "ray", "aiohttp", "numpy")
LONGEST_FILE, LONGEST_FUNCTION = 400, 60
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
IMPORTED_AFTER = """
import sys
sys.argv = ["grpo-wizard", *sys.argv[1:]]
from grpo_wizard.tui import cli
if len(sys.argv) > 1:
    try:
        cli.main()
    except SystemExit:
        pass
print("\\n".join(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_every_folder_with_modules_is_a_package_that_gets_installed() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    listed = set(tool["packages"]) - {"grpo_wizard"}
    entry = ROOT / tool["package-dir"]["grpo_wizard"]
    data = {path for path in (ROOT / "assets").rglob("*") if path.is_dir()}  # scripts that run elsewhere
    folders = {path.parent for path in SOURCES} - {entry} - data
    assert {"grpo_wizard." + _name(folder).replace("/", ".") for folder in folders} == listed
    assert [_name(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_folder_of_code_stands_beside_the_rooms() -> None:
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git clone")
    assert {line.partition("/")[0] for line in tracked.stdout.split()} <= {*ROOMS, "tests"}


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_module_says_what_it_is_for_and_stays_small(path: Path) -> None:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no docstring"
    assert len(text.splitlines()) <= LONGEST_FILE
    assert [node.name for node in _functions(tree) if _lines(node) > LONGEST_FUNCTION] == []


@pytest.mark.skipif(not (ROOT / "tui" / "cli.py").exists(), reason="there is no command yet")
@pytest.mark.parametrize("arguments", [[], ["--help"], ["apply", "--help"]], ids=" ".join)
def test_the_command_line_is_there_without_anything_heavy(arguments: list[str]) -> None:
    command = [sys.executable, "-c", IMPORTED_AFTER, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout) == bool(arguments), "--help prints, an import does not"
    assert set(done.stderr.split()) & set(HEAVY) == set()
