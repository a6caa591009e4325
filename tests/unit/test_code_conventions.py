"""The conventions that can be counted: packages, sizes, docstrings, names, texts, and what an import loads."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import denied_phrases
import pytest

from grpo_wizard.steps.registry import STEPS

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
    data = {path for path in (ROOT / "assets").rglob("*") if path.is_dir()}  # scripts that run in the cluster
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


def test_no_two_public_classes_have_the_same_name() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        if path.is_relative_to(ROOT / "assets" / "job"):
            continue  # runs alone in the cluster, beside no other module of the product
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(_name(path))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


CHECKS = [(step, check) for step in STEPS for check in step.checks]
_FINITE = {
    "is",
    "are",
    "has",
    "have",
    "fits",
    "fit",
    "holds",
    "hold",
    "go",
    "goes",
    "means",
    "reaches",
    "belong",
    "speak",
    "can",
    "must",
}


@pytest.mark.parametrize("step,check", CHECKS, ids=[f"{step.name}.{check.id}" for step, check in CHECKS])
def test_a_check_names_fields_that_exist_and_its_title_is_a_noun_phrase(step: Any, check: Any) -> None:
    fields = {f"{each.name}.{field.name}" for each in STEPS for field in each.fields}
    assert [name for name in check.needs_fields if name not in fields] == []
    words = check.title.split()
    assert 1 <= len(words) <= 4 and not check.title.endswith((".", ":", "?")), check.title
    assert words[0][0].isupper() and not _FINITE & {word.lower() for word in words}, check.title


def test_ids_of_checks_are_unique_within_a_step() -> None:
    ids = [f"{step.name}.{check.id}" for step, check in CHECKS]
    assert sorted(ids) == sorted(set(ids))


def test_texts_avoid_phrases_that_nobody_would_say() -> None:
    assert [str(hit) for hit in denied_phrases.hits(ROOT)] == []


@pytest.mark.parametrize(
    "text,denied",
    [
        ("the job goes on in the cluster", True),
        ("The network is there already", True),
        ("There is no deployment yet", False),
        ("{n} things bear the mark", True),
        ("Nothing was created; everything is ready", False),
        ("`apply` resumes from the last checkpoint", False),
    ],
)
def test_the_list_of_phrases_finds_what_it_should(text: str, denied: bool) -> None:
    tree = ast.parse(f"print({text!r})")
    [(_, found)] = denied_phrases.literal_texts(tree)
    assert any(re.search(pattern, found, re.IGNORECASE) for pattern in denied_phrases.DENIED) == denied


def test_every_mutant_of_a_decision_still_finds_its_line() -> None:
    sys.path.insert(0, str(ROOT / "tests" / "bench"))
    try:
        import decision_mutants
    finally:
        sys.path.pop(0)
    assert decision_mutants.problems() == []


MOST_ANY, MOST_ANY_WITH_JSON = 29, 79
_JSON_MAPPING = re.compile(r"\b(dict|Mapping)\[str, Any\]")


def _signatures_with_any(json_too: bool) -> list[str]:
    """Functions outside the emulator whose parameters or result are Any; `json_too` counts mappings of it as well."""
    found = []
    for path in (path for path in SOURCES if "emulator" not in path.parts and "assets" not in path.parts):
        for node in _functions(ast.parse(path.read_text("utf-8"))):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            extra = [one for one in (node.args.vararg, node.args.kwarg) if one]
            annotations = [one.annotation for one in (*arguments, *extra)] + [node.returns]
            texts = [ast.unparse(annotation) for annotation in annotations if annotation]
            if any(
                re.search(r"\bAny\b", text if json_too else _JSON_MAPPING.sub("", text)) for text in texts
            ):
                found.append(f"{_name(path)}:{node.lineno} {node.name}")
    return found


def test_signatures_say_what_they_take_and_return() -> None:
    assert len(_signatures_with_any(json_too=False)) <= MOST_ANY, _signatures_with_any(json_too=False)
    assert len(_signatures_with_any(json_too=True)) <= MOST_ANY_WITH_JSON
