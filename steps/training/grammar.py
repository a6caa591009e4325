"""The grammar of NeMo RL's log: one pattern per kind of line, parsed into one typed event.

From the print() calls of NeMo RL v0.5.0, which its main branch had not changed by 2026-08-22:
https://github.com/NVIDIA-NeMo/RL/blob/v0.5.0/nemo_rl/algorithms/grpo.py#L1064
The grammar has no state; `reader.LogReader` combines the events.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)"


@dataclass(frozen=True, slots=True)
class EpochHeader:
    """`===== Epoch 1/2 =====`"""

    number: int
    total: int


@dataclass(frozen=True, slots=True)
class StepHeader:
    """`===== Step 4/10 =====`: the number counts within the epoch."""

    number: int
    total: int


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """`▶ Training policy...`; `samples` only for generation."""

    name: str
    samples: int | None = None


@dataclass(frozen=True, slots=True)
class MetricValue:
    """`  • Loss: 0.0312` and similar lines. `kind`: training, validation, performance."""

    kind: str
    label: str
    value: float


@dataclass(frozen=True, slots=True)
class PhaseTiming:
    """`  • generation: 37.45s (3.9%)`; `percent` is None for the total."""

    label: str
    seconds: float
    percent: float | None


@dataclass(frozen=True, slots=True)
class ValidationStarted:
    """Validation starts, after this step over the whole run (0: before the first)."""

    step: int


@dataclass(frozen=True, slots=True)
class CheckpointStarted:
    """`Saving checkpoint for step 10...`: step over the whole run."""

    step: int


@dataclass(frozen=True, slots=True)
class SamplesLogged:
    """`Logged data to …/train_data_step4.jsonl`: step over the whole run. `kind`: train or val."""

    path: str
    kind: str
    step: int


@dataclass(frozen=True, slots=True)
class TqdmBar:
    """A tqdm bar's state. `rate` as printed (`31.20it/s`); token rates only from vLLM's generation."""

    label: str
    done: int
    total: int
    elapsed: str
    eta: str
    rate: str
    input_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """A stage of the setup: data, cluster, model, config, complete, running, or a timing's label with its seconds."""

    stage: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Overrides:
    """The Hydra overrides that the run printed."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OutputDirectory:
    """`kind` is log or checkpoint."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of the run. `kind`: max_steps, timeout, async_complete, finished (the end of the job script)."""

    reason: str


@dataclass(frozen=True, slots=True)
class DynamicSampling:
    """How many prompts have a group with different rewards, of those required."""

    available: int
    required: int


@dataclass(frozen=True, slots=True)
class WandbRun:
    """A Weights & Biases run."""

    name: str
    url: str


LogEvent: TypeAlias = (
    EpochHeader
    | StepHeader
    | PhaseStarted
    | MetricValue
    | PhaseTiming
    | ValidationStarted
    | CheckpointStarted
    | SamplesLogged
    | TqdmBar
    | Setup
    | Overrides
    | OutputDirectory
    | RunEnd
    | DynamicSampling
    | WandbRun
)
_EventFactory: TypeAlias = Callable[[re.Match[str]], LogEvent]


def _overrides(found: re.Match[str]) -> Overrides:
    try:
        items = ast.literal_eval(found[1])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return Overrides(())
    return Overrides(tuple(map(str, items)) if isinstance(items, (list, tuple)) else ())


def _value(kind: str) -> _EventFactory:
    return lambda m: MetricValue(kind, m[1], float(m[2]))


# By first character, so that a line meets only the few patterns that can fit.
_PATTERNS: dict[str, list[tuple[re.Pattern[str], _EventFactory]]] = {}


def _register(first: str, pattern: str, make: _EventFactory) -> None:
    _PATTERNS.setdefault(first, []).append((re.compile(pattern), make))


_register("=", r"=+ Step (\d+)/(\d+) =+$", lambda m: StepHeader(int(m[1]), int(m[2])))
_register("=", r"=+ Epoch (\d+)/(\d+) =+$", lambda m: EpochHeader(int(m[1]), int(m[2])))
_register(
    "▶",
    r"▶ Generating responses for batch of size (\d+)\.\.\.$",
    lambda m: PhaseStarted("Generating responses", int(m[1])),
)
_register("▶", r"▶ Starting validation at step (\d+)\.\.\.$", lambda m: ValidationStarted(int(m[1])))
_register(
    "▶",
    r"▶ Setting up (data|compute cluster|model)(?: and training)?\.\.\.$",
    lambda m: Setup(m[1].split()[-1]),
)
_register("▶", r"▶ (\w[^.(]*?)(?: \([^)]*\))?\.\.\.,?$", lambda m: PhaseStarted(m[1]))
_register("🔍", r"🔍 Running initial validation\.\.\.$", lambda _: ValidationStarted(0))
_register("🚀", r"🚀 Running (?:a)?synchronous GRPO training", lambda _: Setup("running"))
_register("📊", r"📊 Using (log|checkpoint) directory: (.+)$", lambda m: OutputDirectory(m[1], m[2]))
_register(
    " ",
    r"  • (Loss|Draft Loss|Generation KL Error|Avg Reward|Avg Filtered Reward|Avg Total Reward"
    rf"|Mean Generation Length): ({_NUMBER})(?: \w+)?$",
    _value("training"),
)
_register(
    " ", rf"  • Total step time: ({_NUMBER})s$", lambda m: PhaseTiming("Total step time", float(m[1]), None)
)
_register(
    " ",
    rf"  • ([A-Za-z0-9_]+(?:/[A-Za-z0-9_]+)*): ({_NUMBER})s \(({_NUMBER})%\)$",
    lambda m: PhaseTiming(m[1], float(m[2]), float(m[3])),
)
_register(" ", rf"    - ([A-Z][^:]*\([^)]*/[^)]*\)): ({_NUMBER})$", _value("performance"))
_register(
    " ",
    r"    • (Accuracy|Average response length|Samples processed|Total validation time): "
    rf"({_NUMBER})(?: tokens|s)?$",
    _value("validation"),
)
_register(
    " ",
    r"  • (Mean Total Tokens per Sample|Training FLOPS|Training Model Floating Point Utilization"
    rf"|Training Worker Idle Time Ratio|Average Token Imbalance): ({_NUMBER})(?:%| TFLOPS \(.*\))?$",
    _value("performance"),
)
_register(" ", r" {10,}SETUP COMPLETE$", lambda _: Setup("complete"))
_register(
    " ",
    rf"  (vLLM init|Generation init|Policy init|Other setup|Total setup|Total setup time): ({_NUMBER})s",
    lambda m: Setup(m[1], float(m[2])),
)
_register("S", r"Saving checkpoint for step (\d+)\.\.\.$", lambda m: CheckpointStarted(int(m[1])))
_register(
    "L",
    r"Logged data to (\S*?(train|val)_data_step(\d+)\.jsonl)$",
    lambda m: SamplesLogged(m[1], m[2], int(m[3])),
)
_register("O", r"Overrides: ([\[(].*[\])])$", _overrides)
_register("F", r"Final config:$", lambda _: Setup("config"))
_register(
    "M", r"Max number of steps has been reached, stopping training early$", lambda _: RunEnd("max_steps")
)
_register("T", r"Timeout has been reached, stopping training early$", lambda _: RunEnd("timeout"))
_register("A", r"Async GRPO training complete!$", lambda _: RunEnd("async_complete"))
_register("-", r"--- Job Finished ---$", lambda _: RunEnd("finished"))
_register(
    "D",
    r"Detected (\d+) prompts with non-zero std; (\d+) are required and used for training\.$",
    lambda m: DynamicSampling(int(m[1]), int(m[2])),
)
_register("w", r"wandb: .*View run (\S+) at: (\S+)$", lambda m: WandbRun(m[1], m[2]))

_BAR = re.compile(
    r"(?P<label>[^:\r]+?):? +\d+%(?:\|[^|]*\| *| Completed \| )(?P<done>\d+)/(?P<total>\d+) "
    r"\[(?P<elapsed>[\d:]+)<(?P<eta>[\d:?]+), +(?P<rate>[\d.?]+ ?\w+/\w+)(?:, (?P<rest>.*?))?\] *$"
)
_SPEED = re.compile(r"est\. speed input: ([\d.]+) toks/s, output: ([\d.]+) toks/s")


def parse(text: str) -> LogEvent | None:
    """Parse a clean line of the driver into its event; None for any other text."""
    for pattern, make in _PATTERNS.get(text[:1], ()):
        if found := pattern.match(text):
            return make(found)
    return parse_bar(text) if "%" in text and text.endswith(("]", "] ")) else None


def parse_bar(text: str) -> TqdmBar | None:
    """Parse the state of a tqdm bar, or None."""
    found = _BAR.match(text)
    if not found:
        return None
    speed = _SPEED.search(found["rest"] or "")
    return TqdmBar(
        found["label"].strip(),
        int(found["done"]),
        int(found["total"]),
        found["elapsed"],
        found["eta"],
        found["rate"],
        float(speed[1]) if speed else None,
        float(speed[2]) if speed else None,
    )
