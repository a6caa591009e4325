"""The files and environment of a head: NEMO_RL_HOME with the toy trainer and its recipes, the `uv` shim, variables."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from grpo_wizard.steps.emulator.context import PodView

TAG_ENV = "GRPO_WIZARD_HEAD"
# Only these variables of the server's own environment reach a pod.
_INHERITED_ENV = ("HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME", "SYSTEMROOT")
# Keeps every part of Ray on 127.0.0.1. Otherwise Ray replaces it by the machine's own address, on which the GCS,
# the raylet and the metrics exporters then listen (Ray 2.60, services.resolve_ip_for_localhost; measured).
_LOOPBACK_ENV = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "DASHBOARD_METRIC_PORT": "0",
    "AUTOSCALER_METRIC_PORT": "0",
}


def map_path(path: str, mounts: dict[str, Path]) -> str:
    """Return the local path of a pod's path below a mount; other texts unchanged."""
    for mount in sorted(mounts, key=len, reverse=True):
        if path == mount or path.startswith(mount.rstrip("/") + "/"):
            return str(mounts[mount]) + path[len(mount.rstrip("/")) :]
    return path


def write_nemo_home(folder: Path) -> Path:
    """Write NEMO_RL_HOME below `folder`: the toy trainer, the base configuration, one file per recipe.

    Returns its path.
    """
    home = folder / "nemo-rl"
    with as_file(files("grpo_wizard.assets").joinpath("toy_trainer")) as toy:
        shutil.copytree(toy / "home", home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    recipes = home / "examples/configs/recipes/llm"
    recipes.mkdir(parents=True, exist_ok=True)
    for row in json.loads(
        files("grpo_wizard.assets").joinpath("catalog/recipes.json").read_text(encoding="utf-8")
    )["recipes"]:
        # JSON is valid YAML.
        (recipes / f"{row['recipe']}.yaml").write_text(
            json.dumps(recipe_config(row), indent=2) + "\n", encoding="utf-8"
        )
    return home


def recipe_config(row: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe as NeMo RL configuration, which overrides grpo_math_1B.yaml."""
    mcore = row["backend"] == "mcore"
    parallel = {
        "tensor_model_parallel_size": row["tensor_parallel"],
        "pipeline_model_parallel_size": row["pipeline_parallel"] or 1,
    }
    policy = {
        "model_name": row["model"],
        "max_total_sequence_length": row["max_total_sequence_length"],
        "train_global_batch_size": row["train_global_batch_size"],
        "dtensor_cfg": {
            "enabled": not mcore,
            "_v2": row["backend"] == "dtensor2",
            "tensor_parallel_size": 1 if mcore else row["tensor_parallel"],
        },
        "megatron_cfg": {"enabled": mcore, **(parallel if mcore else {})},
        "generation": {
            "vllm_cfg": {
                "tensor_parallel_size": row["vllm_tensor_parallel"],
                "gpu_memory_utilization": row["vllm_memory"],
            },
            "colocated": _colocated(row),
        },
    }
    return {
        "defaults": "../../grpo_math_1B.yaml",
        "grpo": {
            "num_prompts_per_step": row["num_prompts_per_step"],
            "num_generations_per_prompt": row["num_generations_per_prompt"],
        },
        "checkpointing": {
            "checkpoint_dir": f"results/{row['recipe']}",
            "model_save_format": "safetensors" if row["backend"] == "dtensor2" else None,
        },
        "policy": policy,
        "logger": {
            "log_dir": f"logs/{row['recipe']}",
            "wandb_enabled": True,
            "tensorboard_enabled": True,
            "wandb": {"project": "nemo-rl", "name": row["recipe"]},
        },
        "cluster": {"num_nodes": row["nodes"], "gpus_per_node": row["gpus_per_node"]},
    }


def _colocated(row: dict[str, Any]) -> dict[str, Any]:
    if row["colocated"]:
        return {"enabled": True}
    return {"enabled": False, "resources": {"num_nodes": 1, "gpus_per_node": row["gpus_per_node"]}}


def write_shims(folder: Path) -> Path:
    """Write a folder for PATH with `uv`, `python` and `python3`, which run this environment's Python."""
    here = folder / "bin"
    here.mkdir(parents=True, exist_ok=True)
    python = shlex.quote(sys.executable)
    with as_file(files("grpo_wizard.assets").joinpath("toy_trainer/uv.py")) as script:
        commands = {"uv": f"{python} {shlex.quote(str(script))}", "python": python, "python3": python}
    for name, command in commands.items():
        (here / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        (here / name).chmod(0o700)
    return here


def container_environment(pod: PodView, folder: Path, tag: str) -> dict[str, str]:
    """Return the environment of a pod's processes: the pod's variables with mapped paths, and PATH with the shims first."""
    passed = {name: os.environ[name] for name in _INHERITED_ENV if name in os.environ}
    own = {name: map_path(value, pod.mounts) for name, value in pod.env.items()}
    path = os.pathsep.join(
        [str(folder / "bin"), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    )
    mounts = {mount: str(path) for mount, path in pod.mounts.items()}
    return {**passed, **own, **_LOOPBACK_ENV, "PATH": path, TAG_ENV: tag, "TOY_MOUNTS": json.dumps(mounts)}
