"""What `health` and `metrics` say of a saved log to a reader: how it ended, and in which epoch a step was."""

from __future__ import annotations

import pytest
from sample_training_logs import FOLDER, step_log

from grpo_wizard.tui.cli import main


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    main(list(words))
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", ["rl_loop.log", "end_max_steps.log"])
def test_a_run_that_did_all_its_steps_is_said_to_be_completed(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    lines = said(capsys, "health", str(FOLDER / name))
    assert "The run is complete: step 10 of 10." in lines
    assert not any("stopping" in line or "Cancelling" in line for line in lines)


def test_a_run_that_was_cut_off_is_not_said_to_have_ended(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = tmp_path_factory.mktemp("log") / "cut.log"
    log.write_text(step_log(1, 10) + step_log(2, 10), "utf-8")
    assert not any("limit" in line or "complete" in line for line in said(capsys, "health", str(log)))
    with log.open("a", encoding="utf-8") as more:
        more.write("Timeout has been reached, stopping training early\n")
    assert "The run reached its time limit: step 2 of 10." in said(capsys, "health", str(log))


def test_the_epoch_is_shown_where_there_is_more_than_one(capsys: pytest.CaptureFixture[str]) -> None:
    head, *rows = [line.split() for line in said(capsys, "metrics", "--from", str(FOLDER / "two_epochs.log"))]
    assert head[:2] == ["step", "epoch"]
    assert [row[:2] for row in rows] == [[str(n), "1" if n < 4 else "2"] for n in range(1, 7)]
    one = said(capsys, "metrics", "--from", str(FOLDER / "end_max_steps.log"))
    assert "epoch" not in one[0]
