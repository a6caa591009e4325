"""Journal and audit: whole lines, torn lines, readers that come later, and no credential in them."""

import asyncio
import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.state.audit import AuditLog
from grpo_wizard.state.errors import StateError, StateInvalid, StateNotSaved
from grpo_wizard.state.journal import Journal
from grpo_wizard.state.secret import Secret

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUE = st.none() | st.booleans() | st.integers() | TEXT | st.lists(TEXT, max_size=2)
EVENT = st.dictionaries(TEXT, VALUE, max_size=4)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(events=st.lists(EVENT, max_size=6), cut=st.integers(1, 30), more=EVENT)
def test_a_torn_last_line_costs_that_line_only(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], cut: int, more: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    journal = Journal(path)
    for event in [*events, {"event": "a line that gets torn before its end"}]:
        journal.append(event)
    path.write_bytes(path.read_bytes()[:-cut])
    assert journal.read()[0] == events
    journal.append(more)
    found, offset = journal.read()
    # Cut by its line break alone, the torn line is whole once a break follows it.
    assert [event for event in found if "torn" not in str(event.get("event"))] == [*events, more]
    assert journal.read(offset) == ([], offset)


def test_a_reader_goes_on_from_its_offset_and_begins_anew_with_a_new_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    assert journal.read() == ([], 0)
    assert journal.end_offset() == 0
    journal.append({"n": 1})
    _, offset = journal.read()
    assert offset == journal.end_offset()
    journal.append({"n": 2, "text": "ü日本\n"})
    events, offset = journal.read(offset)
    assert events == [{"n": 2, "text": "ü日本\n"}]
    journal.path.write_text('{"n": 3}\n')
    assert journal.read(offset) == ([{"n": 3}], 9)


def test_an_unfinished_line_is_left_for_the_next_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.path.write_text('{"n": 1}\n{"n": ')
    events, offset = journal.read()
    assert events == [{"n": 1}]
    journal.path.write_text('{"n": 1}\n{"n": 2}\n')
    assert journal.read(offset)[0] == [{"n": 2}]


def test_numbers_that_are_not_finite_become_texts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append({"loss": float("nan"), "rows": [{"kl": float("-inf")}, 1.5]})
    assert json.loads(journal.path.read_text()) == {"loss": "nan", "rows": [{"kl": "-inf"}, 1.5]}


def test_a_secret_cannot_be_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(StateInvalid) as caught:
        journal.append({"token": Secret("hf_not_for_anybody")})
    assert "hf_" not in str(caught.value)
    assert journal.read() == ([], 0)


def test_following_gives_what_was_and_what_comes_and_ends_after_a_last_look(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append({"n": 0})
    done = threading.Event()

    def write() -> None:
        for number in range(1, 20):
            Journal(journal.path).append({"n": number})
        done.set()

    writer = threading.Thread(target=write)
    follower = journal.follow(interval=0.005, ended=done.is_set)
    assert next(follower) == {"n": 0}
    writer.start()
    assert [event["n"] for event in follower] == list(range(1, 20))
    writer.join()


def test_watching_in_an_event_loop_gives_the_same(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")

    async def both() -> list[int]:
        done = asyncio.Event()

        async def write() -> None:
            for number in range(10):
                journal.append({"n": number})
                await asyncio.sleep(0.002)
            done.set()

        task = asyncio.create_task(write())
        seen = [event["n"] async for event in journal.follow_async(interval=0.005, ended=done.is_set)]
        await task
        return seen

    assert asyncio.run(both()) == list(range(10))


def test_a_folder_in_the_journal_s_place_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").mkdir()
    with pytest.raises(StateNotSaved):
        Journal(tmp_path / "journal.jsonl").append({})
    with pytest.raises(StateError, match="cannot be read"):
        Journal(tmp_path / "journal.jsonl").read()


def test_an_audit_line_has_who_what_and_when_and_masks_credentials(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "folder" / "audit.jsonl")
    url = "https://compute.googleapis.com/v1/projects/p/global/networks?requestId=1&access_token=ya29.x&key=AIza#f"
    audit.append("me@example.com", "POST", url, "operation-1", "200")
    line = json.loads(audit.path.read_text())
    assert line.pop("time").endswith("Z")
    assert line == {
        "identity": "me@example.com",
        "method": "POST",
        "operation": "operation-1",
        "result": "200",
        "url": "https://compute.googleapis.com/v1/projects/p/global/networks?requestId=1&access_token=***&key=***#f",
    }
    assert stat.S_IMODE(audit.path.stat().st_mode) == 0o600
