"""Checkpoints of the toy: complete when renamed, the best and the latest kept, read back as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trainer_import_path  # noqa: F401
from toy_grpo.checkpoint import Keeper, metric_of, read_weights, write_tokenizer, write_weights
from toy_grpo.data import Loader
from toy_grpo.places import local
from toy_grpo.task import problem

from grpo_wizard.steps.training import checkpoints as wizard

INFO = {
    "consumed_samples": 160,
    "current_step": 10,
    "current_epoch": 0,
    "total_steps": 10,
    "total_valid_tokens": 1,
    "val_reward": 0.5,
}
TENSORS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([np.nan, -0.0])}


def _save(keeper: Keeper, step: int, layout: str = "dtensor1", **info: Any) -> None:
    folder = keeper.begin(step, {**INFO, "total_steps": step, **info}, "grpo: {}\n")
    for part in ("weights", "optimizer"):
        write_weights(local(folder) / "policy" / part, TENSORS, layout)
    write_tokenizer(local(folder) / "policy/tokenizer")
    keeper.finish(step, {"epoch": 0, "taken": step})


def _steps(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("layout", ["dtensor1", "dtensor2"])
def test_the_wizard_finds_it_complete_and_the_tensors_come_back(tmp_path: Path, layout: str) -> None:
    keeper = Keeper(str(tmp_path), None, True, 3)
    _save(keeper, 10, layout)
    files = [(str(path), path.stat().st_size) for path in tmp_path.rglob("*") if path.is_file()]
    (found,) = wizard.list_from_files(files).rows
    assert (found.step, found.complete) == (10, True)
    back = read_weights(tmp_path / "step_10/policy/weights")
    assert back.keys() == TENSORS.keys() and all(
        np.array_equal(back[name], TENSORS[name], equal_nan=True) for name in TENSORS
    )


def test_an_interrupted_save_is_no_checkpoint(tmp_path: Path) -> None:
    keeper = Keeper(str(tmp_path), None, True, 3)
    _save(keeper, 10)
    keeper.begin(20, INFO, "")
    assert keeper.latest() == (10, {**INFO, "total_steps": 10})
    assert _steps(tmp_path) == ["step_10", "tmp_step_20"]


def test_the_best_are_kept_and_the_latest_always(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keeper = Keeper(str(tmp_path), "val:accuracy", True, 2)
    for step, accuracy in ((10, 0.9), (20, 0.8), (30, 0.1), (40, 0.2)):
        _save(keeper, step, **{"val:accuracy": accuracy})
    assert _steps(tmp_path) == ["step_10", "step_20", "step_40"]
    assert f"Removing checkpoint {tmp_path}/step_30 due to being outside top-2" in capsys.readouterr().out


def test_a_checkpoint_without_the_metric_ranks_last(tmp_path: Path) -> None:
    keeper = Keeper(str(tmp_path), "val:accuracy", True, 1)
    _save(keeper, 10, **{"val:accuracy": 0.1})
    _save(keeper, 15)
    _save(keeper, 20, **{"val:accuracy": 0.05})
    assert _steps(tmp_path) == ["step_10", "step_20"]


def test_saving_again_at_a_step_replaces_it(tmp_path: Path) -> None:
    keeper = Keeper(str(tmp_path), None, True, None)
    _save(keeper, 10)
    _save(keeper, 10, consumed_samples=7)
    found = keeper.latest()
    assert found is not None and found[1]["consumed_samples"] == 7 and _steps(tmp_path) == ["step_10"]


def test_a_metric_that_was_not_measured_warns_and_one_that_does_not_exist_ends_the_run() -> None:
    info: dict[str, Any] = {}
    with pytest.warns(UserWarning, match="but no val metrics were collected"):
        metric_of("val:accuracy", info, {"val": {}, "train": {}})
    assert info == {}
    with pytest.raises(ValueError, match="Metric accuracy not found in train metrics"):
        metric_of("train:accuracy", info, {"val": {}, "train": {"reward": 1.0}})


def test_a_pods_path_is_found_below_its_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_MOUNTS", json.dumps({"/data": str(tmp_path), "/data/deep": "/elsewhere"}))
    assert [
        str(local(path)) for path in ("/data/x", "/data", "/data/deep/y", "/database/x", "results/x")
    ] == [f"{tmp_path}/x", str(tmp_path), "/elsewhere/y", "/database/x", "results/x"]


def test_a_loader_goes_on_where_it_stopped() -> None:
    problems = [problem(i, f"{i} and {i}", "1") for i in range(11)]
    whole, resumed = Loader(problems, 2, 5, True), Loader(problems, 2, 5, True, taken=3)
    batches = [[row.idx for row in whole.next()] for _ in range(5)]
    assert [[row.idx for row in resumed.next()] for _ in range(2)] == batches[3:]
    assert len({index for batch in batches for index in batch}) == 10
    with pytest.raises(IndexError):
        whole.next()
    whole.new_epoch()
    assert [row.idx for row in whole.next()] != batches[0]
