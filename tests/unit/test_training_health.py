"""The diagnosis: what must be said, how loudly, and what must not be said at all."""

from __future__ import annotations

import json
import re

import pytest
from sample_training_logs import CONFIG, recorded_log, step_log

from grpo_wizard.steps.training import health_rules, samples, signatures
from grpo_wizard.steps.training import reader as metrics
from grpo_wizard.steps.training.health import HealthReport, diagnose
from grpo_wizard.steps.training.lines import LogLine

NOW = 1_800_000_000.0


def look(log: str | bytes, **more: object) -> HealthReport:
    raw = log.encode() if isinstance(log, str) else log
    return diagnose(metrics.parse_log(raw), **more)  # type: ignore[arg-type]


def ids(verdict: HealthReport) -> list[str]:
    return [finding.id for finding in verdict.findings]


def test_the_published_run_is_critical_for_its_zero_reward_and_yet_complete() -> None:
    reader = metrics.parse_log(recorded_log("rl_loop.log"))
    verdict = diagnose(reader, status="SUCCEEDED")
    first = verdict.findings[0]
    assert (verdict.verdict, first.id, first.since_step) == ("critical", "zero_reward", 4)
    assert first.title == "Reward has been 0.0 for 7 steps: the reward or dataset setting is probably wrong"
    assert (
        reader.run_info.end_reason == "max_steps"
        and reader.rows[-1].step == reader.run_info.total_steps == 10
    )


@pytest.mark.parametrize(
    ("steps", "samples_a_step", "verdict"), [(1, 512, "critical"), (1, 8, "warning"), (2, 8, "critical")]
)
def test_a_zero_reward_is_critical_as_soon_as_it_cannot_be_chance(
    steps: int, samples_a_step: int, verdict: str
) -> None:
    log = "".join(step_log(n + 1, 10, reward="0.0000", samples=samples_a_step) for n in range(steps))
    found = look(log)
    assert (found.verdict, found.findings[0].id) == (verdict, "zero_reward")


def test_a_reward_that_left_zero_is_no_finding() -> None:
    assert look(step_log(1, 10, reward="0.0000") + step_log(2, 10, reward="0.1000")).verdict == "healthy"


def test_a_zero_loss_alone_is_normal() -> None:
    assert look(step_log(1, 10, loss="0.0000") + step_log(2, 10, loss="0.0000")).verdict == "healthy"


def test_nan_is_critical_at_once() -> None:
    verdict = look(recorded_log("loss_nan.log"))
    assert verdict.verdict == "critical"
    assert [(f.id, f.since_step) for f in verdict.findings] == [("nan", 1), ("zero_reward", 2)]
    json.dumps(verdict.to_json(), allow_nan=False)


def test_an_nccl_timeout_leads_with_rank_and_minutes_and_is_told_once() -> None:
    verdict = look(recorded_log("nccl_watchdog.log"), status="FAILED")
    assert verdict.findings[0].title == "NCCL collective timed out (30 min), rank 6"
    assert verdict.findings[0].evidence.endswith("(4 times)") and verdict.findings[0].advice
    assert ids(verdict) == ["nccl_timeout", "dead_worker"], "the cause before the consequence, each once"


def test_the_rank_is_taken_from_rays_prefix_when_torch_does_not_name_it() -> None:
    text = "(MegatronPolicyWorker[rank=3] pid=9) Watchdog caught collective operation timeout: "
    assert (
        look(text + "WorkNCCL(Timeout(ms)=600000)\n").findings[0].title
        == "NCCL collective timed out (10 min), rank 3"
    )


@pytest.mark.parametrize("name", ["end_max_steps.log", "two_epochs.log", "carriage_returns.log"])
def test_a_normal_end_and_its_noise_raise_no_alarm(name: str) -> None:
    assert look(recorded_log(name), status="SUCCEEDED").to_json() == {"verdict": "healthy", "findings": []}


def test_workers_that_die_after_the_normal_end_are_noise() -> None:
    log = (
        step_log(1, 1)
        + "Max number of steps has been reached, stopping training early\n"
        + "ray.exceptions.ActorDiedError: gone\n"
    )
    assert look(log, status="SUCCEEDED").verdict == "healthy"
    assert ids(look(log, status="FAILED")) == ["dead_worker"]


def silent(seconds: float, log: str, **more: object) -> HealthReport:
    reader = metrics.LogReader()
    reader.feed(log.encode(), at=NOW - seconds)
    return diagnose(reader, status="RUNNING", now=NOW, **more)  # type: ignore[arg-type]


def test_silence_of_a_few_steps_is_a_stall_and_not_a_failure() -> None:
    log = "".join(step_log(n, 10) for n in (1, 2, 3))
    verdict = silent(3 * 92.24 + 10, log)
    assert (verdict.verdict, ids(verdict)) == ("warning", ["stall"])
    assert re.fullmatch(r"No output since \d\d:\d\d \(a step usually takes 92 s\)", verdict.findings[0].title)
    assert silent(3 * 92.24 - 10, log).verdict == "healthy"


@pytest.mark.parametrize(
    ("last", "quiet", "stalls"),
    [
        ("Saving checkpoint for step 3...\n", 300, False),
        ("Saving checkpoint for step 3...\n", 700, True),
        ("▶ Starting validation at step 3...\n", 700, False),
        ("▶ Starting validation at step 3...\n", 1000, True),
    ],
)
def test_a_save_and_a_first_validation_may_take_longer(last: str, quiet: float, stalls: bool) -> None:
    assert ("stall" in ids(silent(quiet, step_log(1, 10) + step_log(2, 10) + last))) is stalls


def test_the_set_up_may_be_silent_for_a_quarter_of_an_hour() -> None:
    assert ids(silent(800, CONFIG)) == []
    assert ids(silent(1000, CONFIG)) == ["stall"]


def test_nothing_stalls_after_the_end() -> None:
    reader = metrics.LogReader()
    reader.feed(
        (step_log(1, 1) + "Max number of steps has been reached, stopping training early\n").encode(),
        at=NOW - 9e4,
    )
    assert diagnose(reader, status="SUCCEEDED", now=NOW).verdict == "healthy"


def test_a_run_that_resumed_at_its_last_step_did_nothing_and_says_so() -> None:
    assert ids(look(CONFIG, status="SUCCEEDED")) == ["resumed_at_end"]
    assert look(CONFIG, status="RUNNING").verdict == "unknown"


def test_a_lost_job_is_critical_and_keeps_its_rows() -> None:
    verdict = look(step_log(1, 10), status="LOST")
    assert (verdict.verdict, ids(verdict)) == ("critical", ["job_lost"])


def test_a_failure_without_a_known_sign_shows_the_last_exception() -> None:
    verdict = look(
        step_log(1, 10) + "Traceback (most recent call last):\nValueError: bad shape\n", status="FAILED"
    )
    assert [(f.id, f.evidence) for f in verdict.findings] == [("job_failed", "ValueError: bad shape")]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([("0.0008", "200")] * 3, []),
        ([("0.0008", "200")] * 3 + [("0.0500", "200")], ["kl_error"]),
        ([("0.0020", "200")] * 3, ["kl_error"]),
        ([("0.0003", "200")] * 5 + [("0.0003", "450")], ["length_explosion"]),
        ([("0.0003", "200")] * 5 + [("0.0003", "40")], ["length_collapse"]),
        ([("0.0003", "500")] * 2, ["length_limit"]),
    ],
)
def test_rules_over_rows(rows: list[tuple[str, str]], found: list[str]) -> None:
    log = CONFIG + "".join(step_log(n, 99, kl=kl, length=length) for n, (kl, length) in enumerate(rows, 1))
    assert ids(look(log)) == found


def test_longer_answers_with_a_better_reward_are_welcome() -> None:
    log = "".join(step_log(n, 9, length="200") for n in (1, 2, 3, 4)) + step_log(
        5, 9, length="450", reward="0.7000"
    )
    assert look(log).verdict == "healthy"


def test_validation_that_does_not_follow_the_reward_is_a_warning() -> None:
    part = "▶ Starting validation at step {0}...\n\n📊 Validation Results:\n    • Accuracy: {1}\n"
    log = "".join(
        step_log(n, 9, reward=f"0.{4 + n}000", tail=part.format(n, acc))
        for n, acc in ((1, "0.5000"), (2, "0.4900"), (3, "0.4900"), (4, "0.4800"))
    )
    assert ids(look(log)) == ["validation_gap"]


def test_idle_generation_informs_without_touching_the_verdict() -> None:
    log = step_log(1, 9) + "  • policy_training: 80.00s (86.0%)\n  • generation: 2.00s (2.2%)\n"
    verdict = look(log)
    assert (verdict.verdict, [f.level for f in verdict.findings]) == ("healthy", ["info"])
    assert ids(look(CONFIG + log)) == [], "colocated: nothing idles"


def test_groups_without_spread_are_counted_from_the_training_samples() -> None:
    lines = [
        json.dumps(
            {"rewards": [r], "input_lengths": n, "generation_logprobs": [0, -1.0], "prev_logprobs": [0, -1.2]}
        )
        for r, n in ((1, 90), (1, 100), (0, 90), (1, 90), (0, 90), (0, 90))
    ]
    found = samples.group_stats(
        samples.parse_rows("\n".join(lines) + '\n{"cut sho'), 2, step=7, max_length=100
    )
    assert found is not None
    assert (found.groups, found.mean_reward, found.pass_rate) == (3, 0.5, (1.0, 0.5, 0.0))
    assert found.zero_variance_share == pytest.approx(2 / 3) and found.truncated_share == pytest.approx(1 / 6)
    assert found.token_mult_prob_error == pytest.approx(1.2214, abs=1e-4)
    assert ids(look(step_log(7, 9), groups=[found])) == ["zero_variance", "prob_error", "truncation"]


def test_trouble_that_the_run_left_behind_is_no_finding_unless_it_lasts() -> None:
    log = (
        "Not enough GPUs available. Requested 16 GPUs, but only 8 are available in the cluster.\n"
        "OSError: [Errno 28] No space left on device\n"
    )
    assert ids(look(log)) == ["disk_full", "too_few_gpus"]
    assert ids(look(log + step_log(1, 9))) == ["disk_full"]


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        (
            "huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated repo for url",
            "gated_model",
        ),
        (
            "wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
            "wandb_key",
        ),
        ("AssertionError: World size (8) must be divisible by PP * CP * TP (1 * 1 * 3)", "world_size"),
        ("AssertionError: Total batch size (256) is not a multiple of batch_size (512)", "batch_size"),
        ("RuntimeError: vLLM is not installed. Please check that the py_executable", "vllm_missing"),
        ("ValueError: Failed to merge the Job's runtime env {'env_vars': {'HF_TOKEN': 'x'}}", "runtime_env"),
        ("Could not override 'data.dataset_name'.", "override"),
        ("[2026-11-30] file_system_monitor.cc:111: /tmp/ray/session_1 is over 95% full", "disk_nearly_full"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "gpu_memory"),
        (
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "host_memory",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'step_2/policy/weights/.metadata'",
            "checkpoint_format",
        ),
        ("RuntimeError: NCCL error: unhandled cuda error", "nccl_error"),
        (
            "ray.exceptions.RayChannelTimeoutError: Timed out waiting for object available to read",
            "ray_channel_timeout",
        ),
    ],
)
def test_a_failure_is_known_by_its_line(line: str, sign: str) -> None:
    found = signatures.match_signature(LogLine(line), None)
    assert found is not None and found[0].id == sign


def test_memory_that_runs_out_is_told_by_the_phase_it_happened_in() -> None:
    assert ids(look("▶ Computing logprobs...\ntorch.OutOfMemoryError: CUDA out of memory.\n")) == [
        "gpu_memory_logprobs"
    ]


def test_evidence_holds_no_secret() -> None:
    token = "hf_" + "A1b2" * 8
    verdict = look(
        f"+ export HF_TOKEN={token}\nValueError: Failed to merge the Job's runtime env HF_TOKEN={token}\n"
    )
    assert ids(verdict) == ["runtime_env", "secret_in_log"] and token not in json.dumps(verdict.to_json())


def test_every_entry_of_both_tables_says_what_it_is_and_whence() -> None:
    for sign in signatures.load_signatures():
        assert sign.level in ("critical", "warning") and sign.needles and sign.advice and sign.source
        groups = re.compile(sign.pattern).groupindex if sign.pattern else {}
        sign.title.format(**dict.fromkeys([*groups, "minutes"], "1"))
    assert len({rule.id for rule in health_rules.load_rules()}) == len(health_rules.load_rules())
    for rule in health_rules.load_rules():
        assert rule.level in ("critical", "warning", "info") and rule.advice and rule.source


def test_nothing_read_is_unknown_and_not_healthy() -> None:
    assert look(b"").verdict == "unknown"
