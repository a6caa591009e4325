"""Mean rewards of a run of the toy's GRPO without Ray, as JSON: python toy_simulation.py STEPS SEED."""

from __future__ import annotations

import json
import sys

import numpy as np
import trainer_import_path  # noqa: F401
from toy_grpo import grpo, model, task

LOSS = grpo.LossConfig(0.2, 0.2, 0.01, True)


def run(steps: int, seed: int) -> list[float]:
    """The tutorial's 16 prompts x 32 generations."""
    params = model.warm_up(np.random.default_rng([seed, 1]))
    reference = {name: value.copy() for name, value in params.items()}
    updates, rate = grpo.schedule(steps)
    adam, rng, means = model.Adam(rate), np.random.default_rng(seed), []
    for _ in range(steps):
        a, b = (np.repeat(rng.integers(0, 10, 16), 32) for _ in range(2))
        tokens, mask, logps = model.sample(model.bfloat16(params), a, b, rng)
        reward = task.rewards(a, b, tokens, mask, np.ones(len(a), dtype=bool))
        means.append(float(reward.mean()))
        advantages = grpo.advantages(reward, 32, leave_one_out=True, normalize=True)
        prev, ref = (model.token_logprobs(some, a, b, tokens) for some in (params, reference))
        grpo.update(params, adam, grpo.Batch(a, b, tokens, mask, logps, prev, ref, advantages), LOSS, updates)
    return means


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]))))
