"""Checkpoints by their files."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.steps.training.checkpoints import list_from_files, parse_du


def saved(
    name: str, *, without: str = "", size: int = 10, weights: str = ".metadata"
) -> list[tuple[str, int]]:
    names = [
        "training_info.json",
        "config.yaml",
        "train_dataloader.pt",
        f"policy/weights/{weights}",
        "policy/optimizer/.metadata",
        "policy/tokenizer/tokenizer.json",
    ]
    return [(f"/data/run/{name}/{file}", size) for file in names if not without or without not in file]


def test_complete_checkpoints_have_their_size_and_the_newest_is_where_a_run_goes_on() -> None:
    found = list_from_files(saved("step_10", size=7) + saved("step_2") + saved("step_4"))
    assert [(row.step, row.complete, row.size_bytes, row.latest) for row in found.rows] == [
        (2, True, 60, False),
        (4, True, 60, False),
        (10, True, 42, True),
    ]
    assert (found.latest_step, found.resume_step, found.warning) == (10, 10, "")


def test_an_interrupted_save_is_no_checkpoint() -> None:
    found = list_from_files(saved("step_4") + saved("tmp_step_6"))
    assert [(row.name, row.state) for row in found.rows] == [
        ("step_4", "complete"),
        ("tmp_step_6", "interrupted"),
    ]
    assert found.resume_step == 4


def test_a_newest_folder_with_files_missing_is_named_because_nemo_rl_would_take_it() -> None:
    found = list_from_files(saved("step_4") + saved("step_6", without="weights"))
    assert (found.latest_step, found.resume_step) == (6, 4)
    assert "step_6 is incomplete (policy/weights missing)" in found.warning
    assert found.rows[-1].to_json()["complete"] is False


def test_the_copy_left_by_a_crash_in_the_swap_is_offered_when_it_is_the_only_one() -> None:
    found = list_from_files(saved("old_step_8") + saved("tmp_step_8", without="dataloader"))
    assert found.resume_step is None and "Rename it to step_8" in found.warning


def test_every_layout_of_weights_counts() -> None:
    for weights in (
        ".metadata",
        "__0_0.distcp",
        "model/shard-1.safetensors",
        "iter_0000000/common.pt",
        "policy.npz",
    ):
        assert list_from_files(saved("step_1", weights=weights)).resume_step == 1, weights


def test_du_gives_files_without_its_folder_sums() -> None:
    text = (
        "7\t/data/run/step_2/training_info.json\n5\t/data/run/step_2/policy/weights/.metadata\n"
        "4101\t/data/run/step_2/policy/weights\n8197\t/data/run/step_2/policy\n12300\t/data/run/step_2\n16396\t/data/run\n"
    )
    assert parse_du(text) == [
        ("/data/run/step_2/training_info.json", 7),
        ("/data/run/step_2/policy/weights/.metadata", 5),
    ]
    assert parse_du("4\ta b/c d\n", unit=1024) == [("a b/c d", 4096)]


def test_an_empty_folder_has_none() -> None:
    assert list_from_files([]).to_json() == {
        "checkpoints": [],
        "latest_step": None,
        "resume_step": None,
        "warning": "",
    }


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.from_regex(
                r"(/[a-z_.0-9]{0,9}){0,3}/?((tmp_|old_)?step_\d{1,3})?(/[a-z.]{1,9}){0,2}", fullmatch=True
            ),
            st.integers(0, 10**13),
        ),
        max_size=20,
    )
)
def test_any_listing_is_read(files: list[tuple[str, int]]) -> None:
    found = list_from_files(files)
    json.dumps(found.to_json())
    assert sum(row.size_bytes for row in found.rows) <= sum(size for _, size in files)
