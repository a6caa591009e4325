"""GRPO on a toy task with NeMo RL v0.5.0's command line: --config FILE and Hydra overrides."""

from __future__ import annotations

import pprint
import sys
from pathlib import Path

from omegaconf import OmegaConf

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from toy_grpo import cluster, config, data, faults, logger, loop, rules
from toy_grpo.checkpoint import Keeper


def main() -> None:
    path, overrides = config.arguments(sys.argv[1:])
    raw = config.load(path)
    print(f"Loaded configuration from: {path}")
    if overrides:
        print(f"Overrides: {overrides}")
        raw = config.override(raw, overrides)
        print("Applied CLI overrides")
    settings = config.resolved(raw)
    print("Final config:")
    pprint.pprint(settings)
    print(
        "Rehearsal: a toy model on this machine's CPUs. "
        "GPUs and nodes below are those of the configuration; the learning is real."
    )
    folder = logger.experiment_folder(settings["logger"]["log_dir"])
    print(f"📊 Using log directory: {folder}")
    keeping = settings["checkpointing"]
    if keeping["enabled"]:
        print(f"📊 Using checkpoint directory: {keeping['checkpoint_dir']}")
    sys.stdout.flush()
    cluster.init_ray()
    fault, layout = faults.read(settings), rules.layout(settings)
    training = data.rows(settings, "train")
    validation = (
        data.rows(settings, "val")
        if settings["grpo"]["val_period"] > 0 or settings["grpo"]["val_at_start"]
        else []
    )
    print(cluster.setup_lines(layout, len(training), len(validation)), flush=True)
    logger.wandb(settings)
    loader = data.Loader(
        training,
        settings["grpo"]["num_prompts_per_step"],
        settings["grpo"]["seed"],
        settings["data"]["shuffle"],
    )
    keeper = Keeper(
        keeping["checkpoint_dir"], keeping["metric_name"], keeping["higher_is_better"], keeping["keep_top_k"]
    )
    run = loop.Run(
        settings,
        OmegaConf.to_yaml(raw, resolve=True),
        layout,
        cluster.start(settings, layout),
        loader,
        validation,
        keeper,
        folder,
        fault,
    )
    loop.resume(run)
    loop.train(run)


if __name__ == "__main__":
    main()
