"""The Ray actors: one policy, two generators, named as in NeMo RL so that log prefixes match."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from toy_grpo import grpo, model
from toy_grpo.bars import Bar
from toy_grpo.checkpoint import read_weights, write_tokenizer, write_weights
from toy_grpo.places import local
from toy_grpo.task import Floats, Ints

_PARTS = 16


class VllmGenerationWorker:
    """Samples responses with weights in bfloat16."""

    def __init__(self, seed: int, temperature: float) -> None:
        self._seed, self._temperature = seed, temperature
        self._params: model.Params = {}

    def ready(self) -> bool:
        return True

    def set_weights(self, params: model.Params, step: int) -> None:
        """Set the trainer's weights."""
        self._params = model.bfloat16(params)
        stamp = time.strftime("%m-%d %H:%M:%S")
        print(
            f"INFO {stamp} [toy_worker.py:1] Weights received before step {step}, {len(params)} tensors",
            flush=True,
        )

    def generate(
        self, a: Ints, b: Ints, prompt_tokens: int, step: int, seconds: float, trouble: str = ""
    ) -> tuple[Ints, Ints, Floats]:
        """Return (tokens, mask, log-probabilities), [n, tokens], after `seconds`, so that a run can be watched.

        `trouble` makes it fail.
        """
        if trouble == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        while trouble == "stall":
            time.sleep(60)
        rng = np.random.default_rng([self._seed, step])
        done, written, began, parts = 0, 0, time.monotonic(), []
        progress = Bar("Processed prompts", len(a))
        progress.show(0, _speed(0, 0, 1.0))
        for number, (some_a, some_b) in enumerate(
            zip(np.array_split(a, _PARTS), np.array_split(b, _PARTS), strict=True)
        ):
            if not len(some_a):
                continue
            parts.append(model.sample(self._params, some_a, some_b, rng, self._temperature))
            done, written = done + len(some_a), written + int(parts[-1][1].sum())
            time.sleep(max(0.0, began + seconds * (number + 1) / _PARTS - time.monotonic()))
            progress.show(done, _speed(prompt_tokens * done // len(a), written, time.monotonic() - began))
        tokens, mask, logps = (np.concatenate(column) for column in zip(*parts, strict=True))
        return tokens, mask, logps


def _speed(read: int, written: int, seconds: float) -> str:
    rates = [tokens / max(seconds, 1e-9) for tokens in (read, written)]
    return f"est. speed input: {rates[0]:.2f} toks/s, output: {rates[1]:.2f} toks/s"


class DTensorPolicyWorker:
    """The policy, its optimizer, and the frozen reference."""

    def __init__(self, seed: int, learning_rate: float, max_norm: float) -> None:
        self._params = model.warm_up(np.random.default_rng([seed, 1]))
        self._reference = {name: value.copy() for name, value in self._params.items()}
        self._adam = model.Adam(learning_rate, max_norm)

    def __repr__(self) -> str:
        return "DTensorPolicyWorker[rank=0]"

    def ready(self) -> bool:
        return True

    def weights(self) -> model.Params:
        return self._params

    def logprobs(self, a: Ints, b: Ints, tokens: Ints) -> tuple[Floats, Floats]:
        """Return (policy's, reference's) log-probabilities."""
        return grpo.policy_logprobs(self._params, a, b, tokens), grpo.policy_logprobs(
            self._reference, a, b, tokens
        )

    def train(
        self, batch: grpo.Batch, loss: grpo.LossConfig, updates: int, *, diverge: bool = False
    ) -> tuple[float, float]:
        """Return (loss, gradient norm). `diverge` trains with an unbounded learning rate."""
        if diverge:
            self._adam.rate = float("inf")
        with np.errstate(all="ignore"):
            first, norm = grpo.update(self._params, self._adam, batch, loss, updates)
        return (float("nan") if diverge else first), norm

    def save(self, folder: str, layout: str) -> None:
        """Write weights, optimizer and tokenizer below <folder>/policy."""
        policy = local(folder) / "policy"
        write_weights(policy / "weights", self._params, layout)
        moments = {f"mean.{n}": v for n, v in self._adam.mean.items()} | {
            f"square.{n}": v for n, v in self._adam.square.items()
        }
        write_weights(policy / "optimizer", moments | {"steps": np.array([float(self._adam.steps)])}, layout)
        reference = policy / "weights" / ".reference.npz"
        np.savez(str(reference), **self._reference)  # type: ignore[arg-type]
        print(f"Saving tokenizer (or processor) to {folder}/policy/tokenizer", flush=True)
        write_tokenizer(policy / "tokenizer")

    def load(self, folder: str) -> None:
        """Load what `save` wrote."""
        policy = local(folder) / "policy"
        self._params = read_weights(policy / "weights")
        with np.load(policy / "weights" / ".reference.npz") as kept:
            self._reference = {name: kept[name] for name in kept.files}
        moments = read_weights(policy / "optimizer")
        self._adam.steps = int(moments.pop("steps")[0])
        self._adam.mean = {n.removeprefix("mean."): v for n, v in moments.items() if n.startswith("mean.")}
        self._adam.square = {
            n.removeprefix("square."): v for n, v in moments.items() if n.startswith("square.")
        }
