"""GSM8K as NeMo RL's ResponseDataset can score it: one JSON object a line, `question` and `answer`.

Usage: python - FOLDER number|raw < prepare_gsm8k.py
`number` keeps only what stands behind ####. Its gold is then checked, because a gold that is a rationale scores 0 for every answer and the
run learns nothing. `raw` keeps the column as it is.
"""

import json
import os
import re
import sys

from datasets import load_dataset

folder, form = sys.argv[1], sys.argv[2]


def final_number(answer):
    return answer.split("####")[-1].strip().replace(",", "").removeprefix("$")


def refused(gold):
    return "####" in gold or "\n" in gold or len(gold) > 40 or not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", gold)


os.makedirs(folder, exist_ok=True)
for split in ("train", "test"):
    rows = load_dataset("openai/gsm8k", "main", split=split)
    golds = [final_number(row["answer"]) if form == "number" else row["answer"] for row in rows]
    wrong = [number for number, gold in enumerate(golds) if form == "number" and refused(gold)]
    if wrong or not golds:
        sys.exit(f"GSM8K {split}: {len(wrong)} of {len(golds)} gold answers are no final number, the first in row {wrong[:1]}. Nothing is trained on it.")
    part = os.path.join(folder, f".{split}.jsonl.{os.getpid()}")
    with open(part, "w", encoding="utf-8") as out:
        for row, gold in zip(rows, golds):
            out.write(json.dumps({"question": row["question"], "answer": gold}) + "\n")
    os.replace(part, os.path.join(folder, f"{split}.jsonl"))
    print(f"GSM8K {split}: {len(golds)} rows, answers as {form}", flush=True)
