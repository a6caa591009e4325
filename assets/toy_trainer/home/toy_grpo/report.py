"""A step's output: the lines of NeMo RL v0.5.0 (grpo.py:1560-1665, print_performance_metrics), labels and units alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from toy_grpo.rules import Layout


@dataclass
class Timer:
    """Seconds by name; names nest with a slash."""

    began: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time(self, *names: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            for name in names:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start

    def total(self) -> float:
        return time.monotonic() - self.began


@dataclass(frozen=True)
class StepNumbers:
    """One step's results. Lengths and counts are in tokens."""

    loss: float
    generation_kl_error: float
    avg_reward: float
    mean_generation_length: float
    mean_total_tokens: float
    total_tokens: int
    samples: int


def rule(title: str) -> str:
    return f"\n{'=' * 25} {title} {'=' * 25}"


def training(numbers: StepNumbers) -> str:
    return "\n".join(
        [
            "\n📊 Training Results:",
            f"  • Loss: {numbers.loss:.4f}",
            f"  • Generation KL Error: {numbers.generation_kl_error:.4f}",
            f"  • Avg Reward: {numbers.avg_reward:.4f}",
            f"  • Mean Generation Length: {numbers.mean_generation_length:.4f}",
        ]
    )


def timing(total: float, seconds: dict[str, float]) -> str:
    lines = ["\n⏱️  Timing:", f"  • Total step time: {total:.2f}s"]
    for name, value in sorted(seconds.items(), key=lambda item: item[1], reverse=True):
        lines.append(f"  • {name}: {value:.2f}s ({100 * value / total if total > 0 else 0:.1f}%)")
    return "\n".join(lines)


def performance(numbers: StepNumbers, total: float, seconds: dict[str, float], layout: Layout) -> str:
    """Print throughputs over the configuration's GPUs, computed as in NeMo RL; the toy itself uses none."""
    train, logprobs = seconds["policy_training"], seconds["policy_and_reference_logprobs"]
    tokens = numbers.total_tokens
    e2e_samples, e2e = numbers.samples / total, tokens / total
    trainers, generators = tokens / (train + logprobs), tokens / seconds["generation"]
    return "\n".join(
        [
            "\n🔍 Performance Metrics:",
            f"  • Mean Total Tokens per Sample: {numbers.mean_total_tokens:.2f}",
            "  • Throughputs (per GPU):",
            f"    - E2E (Samples/sec/gpu): {e2e_samples / layout.gpus:.2f}",
            f"    - E2E (Tokens/sec/gpu): {e2e / layout.gpus:.2f}",
            f"    - Policy Training (Tokens/sec/gpu): {tokens / train / layout.train_gpus:.2f}",
            "    - Policy and Reference Logprobs (Tokens/sec/gpu): "
            f"{tokens / logprobs / layout.train_gpus:.2f}",
            f"    - Training Worker Group (Tokens/sec/gpu): {trainers / layout.train_gpus:.2f}",
            f"    - Generation Worker Group (Tokens/sec/gpu): {generators / layout.generation_gpus:.2f}",
            "  • Throughputs (per Group):",
            f"    - E2E (Samples/sec): {e2e_samples:.2f}",
            f"    - E2E (Tokens/sec): {e2e:.2f}",
            f"    - Training Worker Group (Tokens/sec): {trainers:.2f}",
            f"    - Generation Worker Group (Tokens/sec): {generators:.2f}",
        ]
    )


def validation(accuracy: float, length: float, samples: int, seconds: float) -> str:
    return "\n".join(
        [
            "\n📊 Validation Results:",
            f"    • Accuracy: {accuracy:.4f}",
            f"    • Average response length: {length:.1f} tokens",
            f"    • Samples processed: {samples}",
            "\n  ⏱️  Validation Timing:",
            f"    • Total validation time: {seconds:.2f}s",
        ]
    )
