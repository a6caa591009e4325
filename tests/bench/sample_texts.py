"""Draws user-facing texts at random, for a person to read aloud.

    python tests/bench/sample_texts.py [--count 100] [--seed 11] [--words 3]

Prints FILE:LINE and the text; a value that is filled in shows as {}. Drawn are the literals of the product that a user can
meet, the texts of `assets/*.toml`, and the Markdown pages (the same selection as tests/unit/denied_phrases.py).
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))

from denied_phrases import product_texts  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--words", type=int, default=3, help="leave out texts with fewer words")
    options = parser.parse_args()
    texts = sorted(
        {
            (file, line, " ".join(text.split()))
            for file, line, text in product_texts(ROOT)
            if len(text.split()) >= options.words
        }
    )
    drawn = random.Random(options.seed).sample(texts, min(options.count, len(texts)))
    for file, line, text in drawn:
        print(f"{file}:{line}: {text}")
    print(f"\n{len(drawn)} of {len(texts)} texts, seed {options.seed}", file=sys.stderr)


if __name__ == "__main__":
    main()
