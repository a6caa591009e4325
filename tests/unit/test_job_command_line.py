"""The job's command line as a shell and Hydra read it, and the gold answers as the job writes them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from sample_answers import answers

from grpo_wizard.steps.core.answers import InvalidValue
from grpo_wizard.steps.core.model import CheckFinding
from grpo_wizard.steps.emulator.ray.head_home import recipe_config
from grpo_wizard.steps.grpo.checks import CHECKS, unscorable_gold_answers
from grpo_wizard.steps.grpo.nemo_config import parse_override, resolve_config, split_overrides
from grpo_wizard.steps.grpo.recipes import recipes_by_name
from grpo_wizard.steps.grpo.step import STEP
from grpo_wizard.steps.registry import ValidationErrors, all_resources

_UV = """#!/bin/sh
case "$2 $3" in "python -") cat > /dev/null; exit 0;; esac
python3 -c 'import json,sys; open(sys.argv[1],"w").write(json.dumps(sys.argv[2:]))' "$ARGV" "$@"
"""


def _words(folder: Path, changed: dict[str, Any]) -> list[str]:
    """What the training script is started with, by a real shell."""
    job = next(r for r in all_resources(answers(**changed)) if r.kind == "job")
    (folder / "uv").write_text(_UV)
    (folder / "uv").chmod(0o700)
    path, argv = f"{folder}:{os.environ['PATH']}", folder / "argv.json"
    env = {"PATH": path, "ARGV": str(argv), "NEMO_RL_HOME": str(folder)}
    subprocess.run(["/bin/sh", "-c", str(job.spec["entrypoint"])], env=env, check=True, timeout=60)
    words: list[str] = json.loads(argv.read_text())
    return words


def _composed(words: list[str], recipe: str) -> Any:
    """The recipe with the command line's overrides, by Hydra's own parser."""
    base = Path(__file__).parents[2] / "assets/toy_trainer/home/examples/configs/grpo_math_1B.yaml"
    own = recipe_config(recipes_by_name()[recipe])
    own.pop("defaults")
    OmegaConf.register_new_resolver("mul", lambda a, b: a * b, replace=True)
    config = OmegaConf.merge(OmegaConf.load(base), OmegaConf.create(own))
    OmegaConf.set_struct(config, True)
    overrides = words[words.index("--config") + 2 :]
    ConfigLoaderImpl._apply_overrides_to_config(OverridesParser.create().parse_overrides(overrides), config)
    return config


@pytest.mark.parametrize(
    "folder",
    [
        "/data/epoch=9-step=1",
        "/data/a b/c",
        "/data/ü-日本",
        "/data/$HOME/`id`",
        "/data/a,b{c}:d",
        "/data/${now:x}",
        "/data/null",
    ],
)
def test_any_folder_comes_through_the_shell_and_hydra_as_it_was_typed(tmp_path: Path, folder: str) -> None:
    changed = {"grpo__checkpoint_dir": folder}
    config = _composed(_words(tmp_path, changed), answers().grpo.recipe)
    assert OmegaConf.to_container(config.checkpointing, resolve=True)["checkpoint_dir"] == folder  # type: ignore[call-overload,index]
    assert resolve_config(answers(**changed))["checkpointing.checkpoint_dir"] == folder


@pytest.mark.parametrize("folder", ["/data/it's", '/data/"x"', "/data/a\\b", "/data/a\nb", "/tmp/x"])
def test_a_folder_that_could_break_the_line_is_refused_at_once(folder: str) -> None:
    with pytest.raises(ValidationErrors) as refused:
        answers(grpo__checkpoint_dir=folder)
    assert "under /data" in refused.value.by_field["grpo.checkpoint_dir"]


@pytest.mark.parametrize("recipe", sorted(recipes_by_name())[::5])
def test_hydra_composes_what_the_rules_looked_at(tmp_path: Path, recipe: str) -> None:
    changed = {"grpo__recipe": recipe, "grpo__overrides": ["grpo.val_period=5", "+data.note='a b=c'"]}
    config, seen = _composed(_words(tmp_path, changed), recipe), resolve_config(answers(**changed))
    for key in (
        "grpo.val_period",
        "grpo.num_prompts_per_step",
        "policy.train_global_batch_size",
        "policy.max_total_sequence_length",
        "policy.dtensor_cfg.enabled",
        "policy.dtensor_cfg.tensor_parallel_size",
        "policy.megatron_cfg.tensor_model_parallel_size",
        "policy.megatron_cfg.pipeline_model_parallel_size",
        "policy.generation.vllm_cfg.tensor_parallel_size",
        "policy.generation.colocated.enabled",
    ):
        assert OmegaConf.select(config, key) == seen[key], key
    assert config.data.note == "a b=c"


@pytest.mark.parametrize("text", ["x", "=5", "a=[1,2", "a='b", "grpo.seed=1,2", "a b=1"])
def test_an_override_that_hydra_cannot_read_is_refused_while_it_is_typed(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_override(text)


def test_overrides_on_one_line_are_parted_outside_quotes_and_brackets() -> None:
    line = "a.b='x y=z'  +c=[1, 2] ~d e={k: 'v w'} f=\"it's\""
    assert split_overrides(line) == ["a.b='x y=z'", "+c=[1, 2]", "~d", "e={k: 'v w'}", 'f="it\'s"']
    assert STEP.field("overrides").parse(line) == split_overrides(line)


@settings(derandomize=True, max_examples=80, deadline=None)
@given(
    st.lists(
        st.from_regex(r"\+?[a-z]{1,5}(\.[a-z]{1,5})?=('[a-z =,#]{0,8}'|[0-9]{1,4}|true)", fullmatch=True),
        max_size=5,
    )
)
def test_a_line_of_overrides_is_read_back_item_by_item(items: list[str]) -> None:
    assert STEP.field("overrides").parse("  ".join(items)) == items


def test_a_users_override_is_what_the_job_is_judged_by() -> None:
    changed = answers(grpo__overrides="grpo.max_num_steps=7 checkpointing.checkpoint_dir=/data/other")
    job = next(r for r in all_resources(changed) if r.kind == "job")
    assert (job.spec["max_num_steps"], job.spec["checkpoint_dir"]) == (7, "/data/other")


def _gold(**changed: Any) -> CheckFinding:
    [check] = [check for check in CHECKS if check.id == "gold"]
    [found] = check.run(answers(**changed), None)  # type: ignore[arg-type]
    return found


def test_the_tutorials_gold_answers_are_told_before_ten_steps_of_zero_reward() -> None:
    assert _gold().level == "pass"
    raw = _gold(grpo__final_number_answers=False)
    assert (
        raw.level == "warn"
        and "every reward would be 0" in raw.detail
        and raw.fix == "Set grpo.final_number_answers=true."
    )


@pytest.mark.parametrize("bad", ["48/2 = 24\n#### 24", "#### 24", "a\nb", "1" * 41, "two"])
def test_a_gold_that_nothing_equals_is_found(bad: str) -> None:
    assert unscorable_gold_answers([bad], "raw") == [bad]


@pytest.mark.parametrize(
    "good,gold", [("x\n#### 72", "72"), ("#### 2,125", "2125"), ("#### -4", "-4"), ("#### $1.50", "1.50")]
)
def test_a_final_number_is_no_fault(good: str, gold: str) -> None:
    assert unscorable_gold_answers([good], "number") == [] and unscorable_gold_answers([gold], "raw") == []
