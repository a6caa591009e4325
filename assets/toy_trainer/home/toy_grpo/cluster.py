"""Join the Ray cluster and start the actors, with the setup lines that NeMo RL prints."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import Any

import ray

from toy_grpo import grpo
from toy_grpo.bars import Bar
from toy_grpo.rules import Layout
from toy_grpo.workers import DTensorPolicyWorker, VllmGenerationWorker

GENERATORS = 2


@dataclass(frozen=True)
class Crew:
    """Handles of the actors."""

    policy: Any
    generators: list[Any]


def init_ray() -> None:
    """Join the cluster with the whole environment as runtime_env, as NeMo RL v0.5.0 does (virtual_cluster.py:94-101)."""
    environment = dict(os.environ)
    ray.init(
        address="auto", log_to_driver=True, include_dashboard=False, runtime_env={"env_vars": environment}
    )


def setup_lines(layout: Layout, training_rows: int, validation_rows: int) -> str:
    lines = ["\n▶ Setting up data...", f"  ✓ Training dataloader loaded with {training_rows} samples"]
    if validation_rows:
        lines.append(f"  ✓ Validation dataloader loaded with {validation_rows} samples")
    lines.append("\n▶ Setting up compute cluster...")
    if layout.colocated:
        lines.append(f"  ✓ Ray cluster for policy initialized with {layout.nodes} nodes")
    else:
        lines += [
            f"  ✓ Ray train cluster initialized with {layout.train_nodes} nodes "
            f"with {layout.train_gpus // layout.train_nodes} GPUs per node",
            f"  ✓ Ray inference cluster initialized with {layout.generation_nodes} nodes "
            f"with {layout.generation_gpus // layout.generation_nodes} GPUs per node",
        ]
    return "\n".join(lines)


def start(config: dict[str, Any], layout: Layout) -> Crew:
    """Start the three actors, generators first."""
    print("\n▶ Setting up model and training...", flush=True)
    print(
        "  ⚙️  Using sequential worker initialization (colocated mode)"
        if layout.colocated
        else "  ⚡ Using parallel worker initialization (non-colocated mode)",
        flush=True,
    )
    began, seed = time.monotonic(), config["grpo"]["seed"]
    temperature = config["policy"]["generation"]["temperature"]
    generator, trainer = (
        ray.remote(num_cpus=0)(VllmGenerationWorker),
        ray.remote(num_cpus=0)(DTensorPolicyWorker),
    )
    _, rate = grpo.schedule(config["grpo"]["max_num_steps"])
    generators = [generator.remote(seed * GENERATORS + rank, temperature) for rank in range(GENERATORS)]
    policy = trainer.remote(seed, rate, config["policy"]["max_grad_norm"])
    generation_seconds = _wait("vllm_policy", generators)
    print(f"  ✓ Using vLLM backend for generation with {config['policy']['model_name']}", flush=True)
    policy_seconds = _wait("lm_policy", [policy])
    if not layout.colocated:
        print(f"Using ip: {ray.util.get_node_ip_address()}, port: 0 for collective communication", flush=True)
    _timing(generation_seconds, policy_seconds, time.monotonic() - began)
    return Crew(policy, generators)


def _wait(name: str, actors: list[Any]) -> float:
    began, bar = time.monotonic(), Bar(f"Initializing {name} workers", len(actors), "worker")
    for number, actor in enumerate(actors):
        ray.get(actor.ready.remote())
        bar.show(number + 1)
    seconds = time.monotonic() - began
    print(f"  ✓ {len(actors)} workers initialized in {seconds:.2f}s", flush=True)
    return seconds


def _timing(generation: float, policy: float, total: float) -> None:
    print("\n▶ Worker Initialization Timing:")
    for label, seconds in (
        ("vLLM init", generation),
        ("Policy init", policy),
        ("Other setup", max(0.0, total - generation - policy)),
        ("Total setup", total),
    ):
        print(f"  {label}: {seconds:.1f}s")
    print(f"\n{'=' * 60}\n{' ' * 18}SETUP COMPLETE\n  Total setup time: {total:.1f}s\n{'=' * 60}\n")
    sys.stdout.flush()
