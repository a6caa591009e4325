"""Convert GSM8K to what NeMo RL's ResponseDataset can score: JSON lines with `question` and `answer`.

Usage: python - FOLDER number|raw < prepare_gsm8k.py

`number` keeps only the number after ####, and checks it: a gold answer that is a rationale scores 0 for every
response, and the run learns nothing. `raw` keeps the column unchanged.
"""

import json
import os
import re
import sys
from pathlib import Path


def final_number(answer):
    """Return the number after the last ####, without thousands separators and dollar sign."""
    return answer.split("####")[-1].strip().replace(",", "").removeprefix("$")


def gold(answer, form):
    """Return the text that is written to the file and that the reward compares with."""
    return final_number(answer) if form == "number" else answer


def refused(gold):
    """Return whether no response of a model can match it."""
    return "####" in gold or "\n" in gold or len(gold) > 40 or not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", gold)


def main(folder, form):
    """Write train.jsonl and test.jsonl, each completely or not at all."""
    from datasets import load_dataset

    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        rows = list(load_dataset("openai/gsm8k", "main", split=split))
        golds = [gold(row["answer"], form) for row in rows]
        wrong = [number for number, each in enumerate(golds) if form == "number" and refused(each)]
        if wrong or not golds:
            sys.exit(
                f"GSM8K {split}: {len(wrong)} of {len(golds)} gold answers are not a final number "
                f"(rows {wrong[:5]}). The files were not written."
            )
        part = folder / f".{split}.jsonl.{os.getpid()}"
        lines = [
            json.dumps({"question": row["question"], "answer": each})
            for row, each in zip(rows, golds, strict=True)
        ]
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
        part.replace(folder / f"{split}.jsonl")
        print(f"GSM8K {split}: {len(golds)} rows, answers as {form}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
