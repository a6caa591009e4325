"""No module of the product imports itself through others, not even from inside a function.

The contracts in pyproject.toml say the same of packages; they leave out the emulator's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
GRAPH = """
import grimp, json
graph = grimp.build_graph("grpo_wizard", exclude_type_checking_imports=True, cache_dir=None)
print(json.dumps({m: sorted(graph.find_modules_directly_imported_by(m)) for m in graph.modules}))
"""


def _imports(tree: Path) -> dict[str, list[str]]:
    """Modules and what they import when the program runs, read through links as the tools see them."""
    package = tree / "grpo_wizard"
    package.mkdir()
    for target in ("tui/entry/__init__.py", "tui/entry/__main__.py", "tui", "steps", "state"):
        (package / Path(target).name).symlink_to(ROOT / target)
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, "-c", GRAPH], capture_output=True, text=True, check=True, env=environment, cwd=tree
    )
    imports: dict[str, list[str]] = json.loads(done.stdout)
    return imports


def test_no_module_imports_itself_through_others(tmp_path: Path) -> None:
    imports = _imports(tmp_path)
    assert len(imports) > 400 and "grpo_wizard.steps.engine.apply" in imports
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(reversed(error.args[1]))) from None
