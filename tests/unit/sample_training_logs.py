"""Logs for the tests of the reader: recorded ones, and ones built from NeMo RL's print format."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "fixtures" / "training"


def recorded_log(name: str) -> bytes:
    """A recorded log's bytes; fixtures/training/README.md says where it is from."""
    return (FOLDER / name).read_bytes()


def step_log(
    number: int,
    of: int,
    *,
    loss: str = "0.0100",
    kl: str = "0.0004",
    reward: str = "0.5000",
    length: str = "200.0000",
    samples: int = 512,
    seconds: str = "92.24",
    tail: str = "",
) -> str:
    """One training step as the driver prints it."""
    return (
        f"\n========================= Step {number}/{of} =========================\n"
        f"▶ Preparing batch...\n▶ Generating responses for batch of size {samples}...\n"
        "▶ Processing rewards...,\n▶ Training policy...\n"
        f"{tail}"
        "\n📊 Training Results:\n"
        f"  • Loss: {loss}\n  • Generation KL Error: {kl}\n  • Avg Reward: {reward}\n"
        f"  • Mean Generation Length: {length}\n"
        f"\n⏱️  Timing:\n  • Total step time: {seconds}s\n  • policy_training: 44.10s (47.8%)\n"
    )


CONFIG = """Loaded configuration from: examples/configs/grpo.yaml
Overrides: ['grpo.max_num_steps=4', '++policy.generation.max_new_tokens=512']
Applied CLI overrides
Final config:
{'checkpointing': {'checkpoint_dir': '/data/run', 'save_period': 2},
 'grpo': {'max_num_epochs': 3,
          'max_num_steps': 4,
          'note': 'a } in text'},
 'policy': {'generation': {'colocated': {'enabled': True},
                           'max_new_tokens': 512}}}
📊 Using log directory: /data/logs/exp_001
📊 Using checkpoint directory: /data/run
▶ Setting up data...
  ✓ Training dataloader loaded with 3 samples
▶ Worker Initialization Timing:
  vLLM init: 12.3s
  Total setup: 15.0s
                  SETUP COMPLETE
🚀 Running synchronous GRPO training
"""
