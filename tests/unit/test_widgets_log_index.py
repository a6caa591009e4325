"""Offsets, reading and searching of a growing log file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.tui.widgets import log_index as module
from grpo_wizard.tui.widgets.log_index import ERROR, LogIndex


def _read(path: Path) -> LogIndex:
    spool = LogIndex(path)
    while spool.scan():
        pass
    return spool


def _lines(spool: LogIndex) -> list[bytes]:
    return [spool.line(number)[0] for number in range(len(spool))]


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.binary(max_size=40), max_size=12))
def test_log_index_splits_at_newlines_for_any_chunks(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("spool") / "log"
    path.touch()
    spool = LogIndex(path)
    for chunk in chunks:
        with path.open("ab") as out:
            out.write(chunk)
        while spool.scan():
            pass
    expected = b"".join(chunks).split(b"\n")
    assert _lines(spool) == (expected if expected[-1] else expected[:-1])
    spool.close()


def test_log_index_reads_a_file_larger_than_one_chunk(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d %s\n" % (n, b"x" * (n % 200)) for n in range(30_000)))
    spool = _read(path)
    assert len(spool) == spool.complete_lines == 30_000
    assert [spool.line(n)[0].split()[1] for n in (0, 14_999, 29_999)] == [b"0", b"14999", b"29999"]
    assert all(spool.number_at(spool.span(n)[0]) == n for n in range(0, 30_000, 997))


def test_log_index_waits_for_a_missing_file(tmp_path: Path) -> None:
    spool = LogIndex(tmp_path / "log")
    assert not spool.scan() and len(spool) == 0 and spool.find(b"x", -1) is None
    spool.path.write_bytes(b"now")
    assert spool.scan() and _lines(spool) == [b"now"] and spool.complete_lines == 0


def test_log_index_restarts_on_a_truncated_or_replaced_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old\n" * 50)
    spool = _read(path)
    path.write_bytes(b"new\n")
    while spool.scan():
        pass
    assert _lines(spool) == [b"new"] and spool.generation == 1
    other = tmp_path / "other"
    other.write_bytes(b"third one\nfourth\n")
    other.replace(path)
    while spool.scan():
        pass
    assert _lines(spool) == [b"third one", b"fourth"] and spool.generation == 2


def test_log_index_reads_only_the_ends_of_a_very_long_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * 1_300_000 + b"\n" + b"0%|\r" * 50_000 + b"100%|done\nlast\n")
    spool = _read(path)
    head, left_out = spool.line(0)
    assert head == b"a" * len(head) and len(head) + left_out == 1_300_000 and len(head) < 10_000
    bars, left_out = spool.line(1)
    assert bars.endswith(b"\r100%|done") and len(bars) < 10_000 and left_out == 0
    assert spool.line(2) == (b"last", 0)


def test_log_index_searches_both_ways_and_wraps_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    hits = [3, 40, 41, 97]
    words = [b"needle" if number in hits else b"straw" for number in range(100)]
    path.write_bytes(b"".join(b"%s line %d\n" % (word, number) for number, word in enumerate(words)))
    for window in (1, 7, 64, 1 << 20):
        monkeypatch.setattr(module, "_WINDOW", window)
        spool = _read(path)
        for pattern in (b"needle", re.compile(b"NEEDLE", re.IGNORECASE)):
            seen, here = [], -1
            for _step in range(5):
                here = spool.find(pattern, here) or 0
                seen.append(here)
            assert seen == [3, 40, 41, 97, 3]
            seen, here = [], 41
            for _step in range(4):
                here = spool.find(pattern, here, backwards=True) or 0
                seen.append(here)
            assert seen == [40, 3, 97, 41]
            assert spool.find(b"nothing", 5) is None
        assert list(spool.lines_matching(b"needle", 4)) == [40, 41, 97]
        spool.close()


def test_log_index_finds_actors_and_the_first_error(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(
        b"no errors so far, Warning: Max number of steps has been reached, stopping early\n"
        b"(VllmGenerationWorker pid=8926, ip=10.0.1.7) INFO fine\n(DTensorPolicyWorker pid=12) step\n"
        b"(raylet) not an actor\nray.exceptions.ActorDiedError: it died\nTraceback (most recent call last):\n"
    )
    spool = _read(path)
    assert spool.actors == {"VllmGenerationWorker", "DTensorPolicyWorker"}
    assert spool.find(ERROR, -1) == 4


def test_log_index_needs_eight_bytes_per_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x\n" * 200_000)
    spool = _read(path)
    assert spool._starts.itemsize * len(spool._starts) <= 8 * 200_001
    spool.close()
    assert spool.scan() is False and len(spool) == 200_000
