"""The table of deliberate differences: complete rows, switches that exist, and words that Review can show."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.core import tutorial_differences
from grpo_wizard.steps.registry import STEPS, all_resources, step, validate

TUTORIAL = Path(__file__).parents[2] / "assets" / "answers-tutorial.toml"


def _answers(**above: dict[str, Any]) -> Answers:
    given = tomllib.loads(TUTORIAL.read_text("utf-8"))
    return validate({name: {**given.get(name, {}), **above.get(name, {})} for name in {*given, *above}})


@pytest.mark.parametrize("row", tutorial_differences.DIFFERENCES, ids=lambda row: row.name)
def test_a_row_says_what_and_why_in_one_clause_each(row: tutorial_differences.Difference) -> None:
    assert 10 < len(row.what) <= 110 and 10 < len(row.why) <= 110
    assert not row.what.endswith(".") and not row.why.endswith(".")


def test_names_are_told_apart() -> None:
    names = [row.name for row in tutorial_differences.DIFFERENCES]
    assert len(names) == len(set(names)) >= 20


@pytest.mark.parametrize(
    "row", [d for d in tutorial_differences.DIFFERENCES if d.opt_out], ids=lambda row: row.name
)
def test_a_switch_is_a_field_that_takes_its_own_text(row: tutorial_differences.Difference) -> None:
    key, _, value = str(row.opt_out_setting).partition("=")
    name, _, field = key.partition(".")
    assert row.opt_out is not None
    assert step(name).field(field).parse(value) == row.opt_out[1]
    assert not row.is_enabled(_answers(**{name: {field: value}}))


def test_all_are_on_for_the_tutorials_answers_but_what_only_h200_needs() -> None:
    off = [row["name"] for row in tutorial_differences.rows(_answers()) if not row["on"]]
    assert off == ["h200_boot_disk"]
    h200 = {"gpu_type": "nvidia-h200-141gb", "machine_type": "a3-ultragpu-8g"}
    assert all(row["on"] for row in tutorial_differences.rows(_answers(quotas=h200)))


def test_switched_off_leaves_only_what_has_no_switch() -> None:
    rows = tutorial_differences.rows(_answers(**tutorial_differences.opt_out_answers()))
    assert [row["name"] for row in rows if row["on"] and row["switch"]] == []
    assert any(row["on"] for row in rows)


def test_a_row_shows_in_resources_that_some_deployment_has() -> None:
    some = [_answers(), _answers(raycluster={"fluentbit": True})]
    kinds = {f"{r.step}.{r.kind}" for answers in some for r in all_resources(answers)}
    assert {place for row in tutorial_differences.DIFFERENCES for place in row.resource_kinds} <= kinds


def test_every_advanced_switch_that_defaults_to_the_better_way_is_in_the_table() -> None:
    switches = {
        f"{each.name}.{field.name}"
        for each in STEPS
        for field in each.fields
        if field.kind == "switch" and field.advanced and field.default is True
    }
    assert switches <= {row.opt_out[0] for row in tutorial_differences.DIFFERENCES if row.opt_out}


def test_the_table_loads_no_sdk() -> None:
    code = (
        "import sys; from grpo_wizard.steps.core import tutorial_differences; "
        "print({name.partition('.')[0] for name in sys.modules} & {'google', 'kubernetes', 'ray', 'textual'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "set()"
