"""Bytes to clean lines: nothing lost, nothing invented, however they arrive."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_training_logs import recorded_log

from grpo_wizard.steps.training import grammar
from grpo_wizard.steps.training.lines import LineReader, LogLine, clean_line, truncate

exact = settings(derandomize=True, max_examples=60, deadline=None)


def read(*chunks: bytes) -> list[LogLine]:
    reader = LineReader()
    return [line for chunk in chunks for line in reader.feed(chunk)] + reader.flush()


def test_a_chunk_may_end_inside_a_character() -> None:
    lines = read(recorded_log("half_emoji_1.bin"), recorded_log("half_emoji_2.bin"))
    assert [line.text for line in lines] == ["  • Loss: 0.0312", "📊 Training Results:"]


def test_the_unfinished_line_is_shown_without_its_half_character() -> None:
    reader = LineReader()
    reader.feed("done\n\rbar 1%\rbar 2% 📊".encode()[:-2])
    assert reader.pending() == "bar 2% "


def test_of_a_bar_the_last_state_is_kept_and_glued_text_becomes_a_line() -> None:
    texts = [line.text for line in read(recorded_log("carriage_returns.log"))]
    bars = [text for text in texts if text.startswith("Processed prompts")]
    assert len(bars) == 1 and "| 1024/1024 [" in bars[0] and bars[0].endswith("toks/s]")
    assert "▶ Computing advantages..." in texts


def test_markup_is_left_letter_by_letter() -> None:
    raw = recorded_log("markup.log")
    assert [line.text for line in read(raw)] == raw.decode().splitlines()


def test_rays_prefix_and_repeat_mark_become_data() -> None:
    lines = read(recorded_log("ray_driver.out"))
    worker = next(line for line in lines if line.text.startswith("Saving tokenizer"))
    assert (worker.sources[0].actor, worker.sources[0].pid, worker.sources[0].rank) == (
        "DTensorPolicyWorker[rank=0]",
        14099,
        0,
    )
    assert [line.repeated for line in lines if line.text.startswith("Saving tokenizer")] == [0, 3]
    bars = [line for line in read(recorded_log("ray_driver.err")) if line.text.startswith("Processed")]
    assert len(bars) == 7 and {bar.sources[0].actor for bar in bars} == {"VllmGenerationWorker"}
    last = grammar.parse_bar(bars[-1].text)
    assert last is not None and (last.done, last.total) == (6, 6)


def test_nested_prefixes_are_stripped_in_order() -> None:
    raw = (
        "\x1b[36m(VllmAsyncGenerationWorker pid=7, ip=10.4.1.7)\x1b[0m "
        "\x1b[1;36m(EngineCore_DP0 pid=8)\x1b[0;0m "
        "(RayWorkerWrapper pid=9) INFO text (kept pid=1)"
    )
    (line,) = clean_line(raw)
    assert line.text == "INFO text (kept pid=1)"
    assert [(s.actor, s.pid, s.ip) for s in line.sources] == [
        ("VllmAsyncGenerationWorker", 7, "10.4.1.7"),
        ("EngineCore_DP0", 8, None),
        ("RayWorkerWrapper", 9, None),
    ]


@pytest.mark.parametrize(
    "driver",
    [
        "▶ Training policy...",
        "========================= Step 5/10 =========================",
        "  • Loss: 0.0312",
        "    - E2E (Tokens/sec): 254.40",
        "Saving checkpoint for step 10...",
        "  • generation: 37.45s (3.9%)",
        "Logged data to /data/logs/exp_001/train_data_step6.jsonl",
    ],
)
def test_a_drivers_line_glued_to_a_workers_is_read_as_the_drivers(driver: str) -> None:
    bar = "Processed prompts: 100%|███| 256/256 [00:01<00:00, 170.63it/s]"
    for worker in (f"\r{bar}", "INFO 02-27 18:34:02 [block_pool.py:390] Successfully reset prefix cache"):
        prefix = "\x1b[36m(VllmGenerationWorker pid=19458, ip=10.4.1.7)\x1b[0m "
        for raw in (prefix + worker + driver, driver + prefix + worker):
            lines = {line.text: line.sources for line in clean_line(raw)}
            assert set(lines) == {driver, worker.strip("\r")}, raw
            assert lines[driver] == () and lines[worker.strip("\r")][0].pid == 19458
    assert [line.text for line in clean_line(f"{driver}\r{bar}")] == [driver, bar]


def test_text_that_only_resembles_a_prefix_or_a_line_is_left_in_one_piece() -> None:
    for raw in (
        "The worker (Policy pid=12) died - see above",
        "(A pid=1) it says: ▶ Training policy... or so",
    ):
        assert len(clean_line(raw)) == 1


def test_a_line_of_1_3_million_characters_is_kept_whole_and_cut_for_a_screen() -> None:
    raw = b"before\n" + b"y" * 1_300_000 + "\n  • Loss: 0.0420\n".encode()
    lines = read(*(raw[i : i + 20_000] for i in range(0, len(raw), 20_000)))
    assert [len(line.text) for line in lines] == [6, 1_300_000, 16]
    assert truncate(lines[1].text).endswith("… [+1298000 characters]")
    assert grammar.parse(lines[2].text) == grammar.MetricValue("training", "Loss", 0.042)


def test_offsets_find_the_line_in_the_stream() -> None:
    raw = recorded_log("rl_loop.log")
    for line in read(raw)[::97]:
        assert raw[line.offset :].split(b"\n")[0].decode() == line.text


@exact
@given(st.lists(st.integers(1, 4000), min_size=1, max_size=40))
def test_any_chunks_give_the_same_lines(sizes: list[int]) -> None:
    raw = (
        recorded_log("ray_driver.err")
        + recorded_log("carriage_returns.log")
        + recorded_log("nccl_watchdog.log")
    )
    chunks: list[bytes] = []
    start = 0
    while start < len(raw):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(raw[start : start + size])
        start += size
    assert read(*chunks) == read(raw)


@exact
@given(st.binary(max_size=400))
def test_no_bytes_at_all_break_it(raw: bytes) -> None:
    lines = read(raw)
    assert all("\n" not in line.text and "\r" not in line.text for line in lines)


@exact
@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x1b(%"), max_size=80),
    st.sampled_from(["DTensorPolicyWorker[rank=3]", "Policy", "A_b.c"]),
    st.integers(1, 10**6),
)
def test_text_behind_a_prefix_is_not_changed(text: str, actor: str, pid: int) -> None:
    (line,) = clean_line(f"\x1b[36m({actor} pid={pid})\x1b[0m {text}")
    assert line.sources[0].actor == actor and line.sources[0].pid == pid
    assert line.text == text or line.repeated
