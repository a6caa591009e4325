"""The toy takes NeMo RL's configuration: every recipe, Hydra's overrides, and its refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
import trainer_import_path
from hydra.errors import HydraException
from toy_grpo import config, faults, rules

from grpo_wizard.steps.emulator.ray.head_home import write_nemo_home

OVERRIDES = [
    "cluster.num_nodes=2",
    "cluster.gpus_per_node=8",
    "grpo.max_num_steps=10",
    "grpo.seed=7",
    "grpo.num_prompts_per_step=16",
    "grpo.num_generations_per_prompt=32",
    "policy.model_name=google/gemma-3-27b-it",
    "checkpointing.checkpoint_dir='/data/a b=c'",
    "data.dataset_name=ResponseDataset",
    "+data.train_data_path=/data/gsm8k/train.jsonl",
    "+data.input_key=question",
    "logger.wandb_enabled=False",
    "logger.wandb.name=x",
    "policy.dtensor_cfg.tensor_parallel_size=8",
    "policy.train_global_batch_size=512",
    "policy.generation.colocated.enabled=False",
    "policy.generation.colocated.resources.num_nodes=1",
    "policy.generation.colocated.resources.gpus_per_node=8",
    "policy.generation.vllm_cfg.tensor_parallel_size=8",
    "policy.generation.vllm_cfg.gpu_memory_utilization=0.9",
]
RECIPE = "grpo-gemma3-27b-it-8n4g-fsdp2tp4-actckpt-long"


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_nemo_home(tmp_path_factory.mktemp("home")) / "examples/configs/recipes/llm"


def test_the_home_holds_every_recipe_of_the_catalogue_and_they_take_the_wizards_overrides(
    recipes: Path,
) -> None:
    files = sorted(recipes.glob("*.yaml"))
    assert len(files) >= 40 and RECIPE in {path.stem for path in files}
    for path in [recipes / f"{RECIPE}.yaml", *files[::7]]:
        settings = config.resolved(config.override(config.load(path), OVERRIDES))
        assert settings["checkpointing"]["checkpoint_dir"] == "/data/a b=c"
        assert settings["data"]["input_key"] == "question"
        assert (
            settings["policy"]["generation"]["max_new_tokens"]
            == settings["policy"]["max_total_sequence_length"]
        )


def test_a_recipes_own_values_stand_over_the_base(recipes: Path) -> None:
    settings = config.resolved(config.load(recipes / f"{RECIPE}.yaml"))
    assert (settings["grpo"]["num_prompts_per_step"], settings["policy"]["max_total_sequence_length"]) == (
        64,
        16384,
    )
    assert settings["grpo"]["val_period"] == 10


@pytest.mark.parametrize(
    "override", ["grpo.max_steps=10", "data.train_data_path=/data/x", "cluster.gpus=8", "policy.dtensor.tp=1"]
)
def test_a_key_that_is_not_there_is_refused_in_hydras_words(recipes: Path, override: str) -> None:
    with pytest.raises(HydraException, match=rf"Could not override '{override.split('=')[0]}'"):
        config.override(config.load(recipes / f"{RECIPE}.yaml"), [override])


def test_the_command_line_is_nemo_rls() -> None:
    path, overrides = config.arguments(["--config", "a/b.yaml", "grpo.seed=1", "+data.x=y"])
    assert (path, overrides) == (Path("a/b.yaml"), ["grpo.seed=1", "+data.x=y"])


@pytest.mark.parametrize(
    "more,words",
    [
        (
            ["policy.dtensor_cfg.tensor_parallel_size=3"],
            "World size (8) must be divisible by PP * CP * TP (1 * 1 * 3)",
        ),
        (["grpo.num_prompts_per_step=17"], "Total batch size (544) is not a multiple of batch_size (512)"),
        (["policy.generation.colocated.resources.gpus_per_node=4"], "must be equal to cluster.gpus_per_node"),
        (["policy.generation.colocated.resources.num_nodes=null"], "must be > 0 when cluster.num_nodes > 1"),
        (["checkpointing.metric_name=accuracy"], "must start with 'val:' or 'train:'"),
    ],
)
def test_a_layout_that_nemo_rl_refuses_is_refused_in_its_words(
    recipes: Path, more: list[str], words: str
) -> None:
    settings = config.resolved(config.override(config.load(recipes / f"{RECIPE}.yaml"), [*OVERRIDES, *more]))
    with pytest.raises((AssertionError, ValueError)) as refused:
        rules.layout(settings)
    assert words in str(refused.value)


def test_the_tutorials_layout_trains_on_one_node_and_generates_on_the_other(recipes: Path) -> None:
    found = rules.layout(config.resolved(config.override(config.load(recipes / f"{RECIPE}.yaml"), OVERRIDES)))
    assert (found.train_gpus, found.generation_gpus, found.gpus) == (8, 8, 16)


def test_a_fault_is_read_from_the_override_or_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_FAULTS", str(tmp_path / "f.json"))
    assert faults.read({}) == faults.Fault()
    (tmp_path / "f.json").write_text('{"fault": "zero_reward"}', encoding="utf-8")
    assert faults.read({}) == faults.Fault("zero_reward", 1)
    assert faults.read({"toy": {"fault": "nan@5"}}) == faults.Fault("nan", 5)
    with pytest.raises(ValueError, match="unknown fault 'nap'"):
        faults.read({"toy": {"fault": "nap"}})


def test_the_toy_in_the_package_is_the_one_that_is_assembled(recipes: Path) -> None:
    home = recipes.parents[3]
    for path in trainer_import_path.HOME.rglob("*.py"):
        assert (home / path.relative_to(trainer_import_path.HOME)).read_bytes() == path.read_bytes()
