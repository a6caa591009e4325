"""The arithmetic task: the sum of two digits, written digit by digit.

The toy model cannot read: for each problem it sees the last digits of the first two numbers in the question,
and must write their sum. As with math_verify (NeMo RL v0.5.0, math_environment.py:57-63), a gold answer that
is not a bare number matches no response, so raw GSM8K rationales give reward 0 here too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

EOS = 10
VOCABULARY = 11  # digits 0-9 and the end sign
MAX_TOKENS = 3  # two digits and the end sign
FEATURES = 10 + 10 + MAX_TOKENS + VOCABULARY + 1  # a, b, position, previous token (or none)
ENV_TOKENS = 3  # tokens of "Environment: incorrect": in a published run, mean total tokens = generated + 3.00

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Problem:
    """One row: the two digits, whether its gold answer can be verified, and its text."""

    idx: int
    a: int
    b: int
    verifiable: bool
    question: str


def gold_is_final_number(gold: str) -> bool:
    """Return whether the gold answer is one bare number (measured with math_verify: rationales scored 0 of
    18, final numbers 18 of 18).
    """
    return _NUMBER.fullmatch(gold.strip().replace(",", "")) is not None


def problem(idx: int, question: str, gold: str) -> Problem:
    """Return what the toy sees of a row."""
    numbers = [int(found.split(".")[0].lstrip("-") or 0) for found in _NUMBER.findall(question)[:2]]
    a, b = ([*numbers, idx, idx // 10])[:2]
    return Problem(idx, a % 10, b % 10, gold_is_final_number(gold), question)


def answer_tokens(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Return (tokens [n, MAX_TOKENS] padded with EOS, mask [n, MAX_TOKENS]) of the correct responses."""
    total = a + b
    tens, ones = total // 10, total % 10
    two = total >= 10
    tokens = np.stack([np.where(two, tens, ones), np.where(two, ones, EOS), np.full_like(total, EOS)], axis=1)
    mask = np.stack([np.ones_like(total), np.ones_like(total), two.astype(np.int64)], axis=1)
    return tokens, mask


def features(a: Ints, b: Ints, position: int, previous: Ints) -> Floats:
    """Return the one-hot input [n, FEATURES] for the token at `position`; `previous` is -1 for none."""
    rows = np.arange(len(a))
    x = np.zeros((len(a), FEATURES))
    x[rows, a] = 1.0
    x[rows, 10 + b] = 1.0
    x[:, 20 + position] = 1.0
    x[rows, 20 + MAX_TOKENS + previous + 1] = 1.0
    return x


def sequence_features(a: Ints, b: Ints, tokens: Ints) -> Floats:
    """Return the inputs for all positions of the given sequences, [n * MAX_TOKENS, FEATURES]."""
    previous = np.concatenate([np.full((len(a), 1), -1, dtype=np.int64), tokens[:, :-1]], axis=1)
    steps = [features(a, b, t, previous[:, t]) for t in range(MAX_TOKENS)]
    return np.stack(steps, axis=1).reshape(-1, FEATURES)


def rewards(a: Ints, b: Ints, tokens: Ints, mask: Ints, verifiable: NDArray[np.bool_]) -> Floats:
    """Return 1.0 where the response is the sum and the gold answer can be verified, otherwise 0.0."""
    right, right_mask = answer_tokens(a, b)
    same = ((tokens == right) | (right_mask == 0)).all(axis=1) & (mask.sum(axis=1) == right_mask.sum(axis=1))
    return np.asarray(same & verifiable, dtype=np.float64)


def text_of(tokens: Sequence[int]) -> str:
    """Return the digits before the end token."""
    return "".join(str(token) for token in tokens if token != EOS)
