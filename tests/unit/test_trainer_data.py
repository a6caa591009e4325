"""GSM8K in a rehearsal: the real preparation script reads it, and refuses golds that no answer could
equal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from trainer_import_path import ASSETS

SCRIPT = (ASSETS / "job/prepare_gsm8k.py").read_text(encoding="utf-8")
SITE = ASSETS / "toy_trainer/site"


def _prepare(folder: Path, form: str, site: Path = SITE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-", str(folder), form],
        input=SCRIPT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(site)},
    )


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_script_keeps_only_final_numbers(tmp_path: Path) -> None:
    assert _prepare(tmp_path / "number", "number").returncode == 0
    assert _prepare(tmp_path / "raw", "raw").returncode == 0
    for split, count in (("train", 7473), ("test", 1319)):
        number, raw = (
            _rows(tmp_path / "number" / f"{split}.jsonl"),
            _rows(tmp_path / "raw" / f"{split}.jsonl"),
        )
        assert len(number) == len(raw) == count
        for short, long in zip(number, raw, strict=True):
            assert re.fullmatch(r"-?\d+", short["answer"])
            assert (
                long["answer"].endswith(f"\n#### {short['answer']}") and long["question"] == short["question"]
            )
    assert not list(tmp_path.rglob(".*jsonl*"))


def test_the_rationales_add_up(tmp_path: Path) -> None:
    assert _prepare(tmp_path, "raw").returncode == 0
    for row in _rows(tmp_path / "test.jsonl"):
        marks = re.findall(r"<<(\d+)([-+*])(\d+)=(-?\d+)>>", row["answer"])
        assert marks and marks[-1][3] == row["answer"].rpartition("#### ")[2]
        for left, sign, right, result in marks:
            assert (
                int(result)
                == {"+": int(left) + int(right), "-": int(left) - int(right), "*": int(left) * int(right)}[
                    sign
                ]
            )


@pytest.mark.parametrize(
    "answer", ["four", "48/2=24\n24 clips", "#### ", "4 #### 1 or 2", "#### " + "9" * 41]
)
def test_a_gold_that_is_no_final_number_stops_the_job(tmp_path: Path, answer: str) -> None:
    (tmp_path / "datasets.py").write_text(
        f"def load_dataset(path, name, *, split): return [{{'question': 'q', 'answer': {answer!r}}}]\n"
    )
    done = _prepare(tmp_path / "out", "number", tmp_path)
    assert done.returncode == 1
    assert "1 of 1 gold answers are not a final number" in done.stderr
    assert not (tmp_path / "out/train.jsonl").exists()


@pytest.mark.parametrize(
    "call,words",
    [
        ("'openai/other', 'main', split='train'", "opens no connection"),
        ("'openai/gsm8k', split='train'", "Config name is missing"),
        ("'openai/gsm8k', 'main', split='dev'", "Unknown split"),
    ],
)
def test_what_the_stand_in_does_not_have_is_said(call: str, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import datasets; datasets.load_dataset({call})"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SITE)},
    )
    assert done.returncode == 1 and words in done.stderr
