"""The sub-commands' part of the contract: every field of every step can be answered and is refused by its own rule, by --set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from field_samples import TOKENS, invalid_text, valid_text

from grpo_wizard.state.errors import InvalidSecret
from grpo_wizard.steps.clients.connect import secrets_from_env
from grpo_wizard.steps.core.answers import Field, InvalidValue
from grpo_wizard.steps.core.model import Step
from grpo_wizard.steps.registry import fields
from grpo_wizard.tui.cli import main

ANSWERS = str(Path(__file__).parents[2] / "assets" / "answers-tutorial.toml")
ASKED = [pair for pair in fields() if pair[1].kind != "secret"]
SECRETS = [field for _, field in fields() if field.kind == "secret"]


@pytest.mark.parametrize(("step", "field"), ASKED, ids=[f"{s.name}.{f.name}" for s, f in ASKED])
def test_set_answers_and_refuses_every_field(
    step: Step, field: Field, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, home = f"{step.name}.{field.name}", str(tmp_path)
    begin = ["init", "--rehearse", "--home", home, "--deployment", "one", "--answers", ANSWERS]
    bad = invalid_text(field)
    with pytest.raises(InvalidValue) as refusal:
        field.parse(bad)
    assert main([*begin, "--set", f"{key}={bad}"]) == 1
    assert f"{key}: {refusal.value}" in capsys.readouterr().err
    assert not (tmp_path / "deployments").exists() or not list(tmp_path.rglob("state.json"))
    assert main([*begin, "--set", f"{key}={valid_text(field)}"]) == 0
    saved = json.loads(next(tmp_path.rglob("state.json")).read_text())["answers"]
    assert saved[step.name][field.name] == field.parse(valid_text(field))


@pytest.mark.parametrize("field", SECRETS, ids=[field.name for field in SECRETS])
def test_the_environment_answers_and_refuses_every_secret(field: Field) -> None:
    with pytest.raises(InvalidSecret):
        secrets_from_env({field.env[0]: invalid_text(field)})
    assert secrets_from_env({field.env[0]: TOKENS[field.name]})[field.name].reveal() == TOKENS[field.name]


def test_a_later_answer_file_is_laid_over_an_earlier(tmp_path: Path) -> None:
    above = tmp_path / "above.toml"
    above.write_text('[networks]\nmtu = 0\n[lustre]\nlustre_name = "other"\n')
    words = ["init", "--rehearse", "--home", str(tmp_path), "--answers", ANSWERS, "--answers", str(above)]
    assert main([*words, "--set", "lustre.lustre_name=last"]) == 0
    saved = json.loads(next(tmp_path.rglob("state.json")).read_text())["answers"]
    assert (saved["networks"]["mtu"], saved["lustre"]["lustre_name"]) == (0, "last")
    assert saved["project"]["project_id"] == "my-project"
