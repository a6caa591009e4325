"""The entrypoint, read back by the shell and by Hydra's own grammar."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from grpo_wizard.steps.grpo.entrypoint import entrypoint, hydra_quote

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=30),
    st.text("\\'\"$ {}=,:[]()+~a0", max_size=12),
)


def _composed(override: str) -> object:
    config = OmegaConf.create({"key": 1})
    OmegaConf.set_struct(config, True)
    ConfigLoaderImpl._apply_overrides_to_config(OverridesParser.create().parse_overrides([override]), config)
    return config.key


@settings(derandomize=True, max_examples=400, deadline=None)
@given(VALUES)
@example("null")
@example("a b=c, 'd'\\")
@example("${oc.env:HOME}")
@example("/data/nemo rl/ü")
@example("")
def test_a_value_comes_back_from_hydra_as_it_was(value: object) -> None:
    assert _composed(f"key={hydra_quote(value)}") == value


@settings(derandomize=True, max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=20), max_size=4))
def test_the_shell_hands_over_every_override_unchanged(values: list[str]) -> None:
    overrides = [f"+k{number}={value}" for number, value in enumerate(values)]
    text = entrypoint("some-recipe", overrides, "OpenMathInstruct-2").replace(
        "exec uv run python", "printf '%s\\0'"
    )
    home = subprocess.run(["sh", "-c", f"NEMO_RL_HOME=/; {text}"], capture_output=True, check=True)
    assert home.stdout.decode().split("\0")[4:-1] == overrides


def test_nothing_in_it_could_leak_or_rewrite() -> None:
    text = entrypoint("grpo-gemma3-27b-it-8n4g-fsdp2tp4-actckpt-long", ["grpo.max_num_steps=10"])
    assert not any(
        word in text for word in ("git pull", "sed ", "set -x", "set -ex", "HF_TOKEN", "WANDB_API_KEY")
    )
    assert text.startswith(
        'set -eu\ncd "${NEMO_RL_HOME:-/opt/nemo-rl}"\n'
        "export PYTHONUNBUFFERED=1 RAY_COLOR_PREFIX=0 RAY_DEDUP_LOGS=0 "
    )
    assert shlex.quote("grpo.max_num_steps=10") in text


def test_a_recipes_name_is_quoted_for_the_shell() -> None:
    assert "--config 'examples/configs/recipes/llm/a b; rm.yaml'" in entrypoint("a b; rm", [], "DeepScaler")


def test_shellcheck_finds_nothing_in_it() -> None:
    text = entrypoint("grpo-gemma3-27b-it-8n4g-fsdp2tp4-actckpt-long", ["logger.wandb.name='a b'"])
    found = subprocess.run(
        [str(Path(sys.executable).with_name("shellcheck")), "--shell=sh", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout
