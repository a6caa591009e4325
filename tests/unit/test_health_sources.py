"""Where a health finding comes from is something that a reader can open: a URL, or a title in words."""

from __future__ import annotations

import re

import pytest

from grpo_wizard.steps.training.health_rules import load_rules
from grpo_wizard.steps.training.signatures import load_signatures

SOURCES = {entry.id: entry.source for entry in (*load_rules(), *load_signatures())}
TITLES = (
    "Experience; no published threshold",
    "Log published with Google's tutorial",
    "Reproduced with NeMo RL",
    "The job script",
)


@pytest.mark.parametrize("id", SOURCES)
def test_a_source_is_a_url_or_a_title_and_no_private_abbreviation(id: str) -> None:
    source = SOURCES[id]
    assert source.startswith(("https://", *TITLES)), source
    rest = re.sub(r"https://\S+", "", source)
    assert not re.search(r"\w+\.py|\bR/|#\d|/issues/|/pull/", rest), source
    for url in re.findall(r"https://github\.com/NVIDIA-NeMo/RL/blob/\S+", source):
        assert "/blob/v0.5.0/" in url, "lines move: code is cited at the tag that runs"
