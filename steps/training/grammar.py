"""What a line of NeMo RL means: one pattern each, to one typed event.

Source: print() calls of NeMo RL v0.5.0 (nemo_rl/algorithms/grpo.py:1064-1812, utils.py, worker_groups.py),
read 2026-11-30; the labels are the same at its main branch of 2026-08-22. The grammar has no state:
`metrics.Reader` puts the events together.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)"


@dataclass(frozen=True, slots=True)
class Epoch:
    """`===== Epoch 1/2 =====`"""

    number: int
    of: int


@dataclass(frozen=True, slots=True)
class StepHead:
    """`===== Step 4/10 =====`: the number counts within the epoch."""

    number: int
    of: int


@dataclass(frozen=True, slots=True)
class Phase:
    """`▶ Training policy...`; `samples` only for generation."""

    name: str
    samples: int | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """`  • Loss: 0.0312` and its like. `kind`: training, validation, performance."""

    kind: str
    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Timing:
    """`  • generation: 37.45s (3.9%)`; `percent` is None for the total."""

    label: str
    seconds: float
    percent: float | None


@dataclass(frozen=True, slots=True)
class Validation:
    """Validation begins, after this step over the whole run (0: before the first)."""

    step: int


@dataclass(frozen=True, slots=True)
class Saving:
    """`Saving checkpoint for step 10...`: step over the whole run."""

    step: int


@dataclass(frozen=True, slots=True)
class Logged:
    """`Logged data to …/train_data_step4.jsonl`: step over the whole run. `kind`: train or val."""

    path: str
    kind: str
    step: int


@dataclass(frozen=True, slots=True)
class Bar:
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
class SetUp:
    """A mark of the set-up. `what`: data, cluster, model, config, complete, running, or a timing's label
    with its seconds."""

    what: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Overrides:
    """The Hydra overrides that the run printed."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Folder:
    """`kind` is log or checkpoint."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Ending:
    """The run's own last word. `kind`: max_steps, timeout, async_complete, finished (the job script's
    end)."""

    kind: str


@dataclass(frozen=True, slots=True)
class DynamicSampling:
    """Prompts whose group has any spread in reward, of those required."""

    have: int
    need: int


@dataclass(frozen=True, slots=True)
class Link:
    """A Weights & Biases run."""

    name: str
    url: str


Event: TypeAlias = (
    Epoch
    | StepHead
    | Phase
    | Value
    | Timing
    | Validation
    | Saving
    | Logged
    | Bar
    | SetUp
    | Overrides
    | Folder
    | Ending
    | DynamicSampling
    | Link
)
_Maker: TypeAlias = Callable[[re.Match[str]], Event]


def _overrides(found: re.Match[str]) -> Overrides:
    try:
        items = ast.literal_eval(found[1])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return Overrides(())
    return Overrides(tuple(map(str, items)) if isinstance(items, (list, tuple)) else ())


def _value(kind: str) -> _Maker:
    return lambda m: Value(kind, m[1], float(m[2]))


# By first character, so that a line meets only the few patterns that can fit.
_RULES: dict[str, list[tuple[re.Pattern[str], _Maker]]] = {}


def _rule(first: str, pattern: str, make: _Maker) -> None:
    _RULES.setdefault(first, []).append((re.compile(pattern), make))


_rule("=", r"=+ Step (\d+)/(\d+) =+$", lambda m: StepHead(int(m[1]), int(m[2])))
_rule("=", r"=+ Epoch (\d+)/(\d+) =+$", lambda m: Epoch(int(m[1]), int(m[2])))
_rule(
    "▶",
    r"▶ Generating responses for batch of size (\d+)\.\.\.$",
    lambda m: Phase("Generating responses", int(m[1])),
)
_rule("▶", r"▶ Starting validation at step (\d+)\.\.\.$", lambda m: Validation(int(m[1])))
_rule(
    "▶",
    r"▶ Setting up (data|compute cluster|model)(?: and training)?\.\.\.$",
    lambda m: SetUp(m[1].split()[-1]),
)
_rule("▶", r"▶ (\w[^.(]*?)(?: \([^)]*\))?\.\.\.,?$", lambda m: Phase(m[1]))
_rule("🔍", r"🔍 Running initial validation\.\.\.$", lambda _: Validation(0))
_rule("🚀", r"🚀 Running (?:a)?synchronous GRPO training", lambda _: SetUp("running"))
_rule("📊", r"📊 Using (log|checkpoint) directory: (.+)$", lambda m: Folder(m[1], m[2]))
_rule(
    " ",
    r"  • (Loss|Draft Loss|Generation KL Error|Avg Reward|Avg Filtered Reward|Avg Total Reward"
    rf"|Mean Generation Length): ({_NUMBER})(?: \w+)?$",
    _value("training"),
)
_rule(" ", rf"  • Total step time: ({_NUMBER})s$", lambda m: Timing("Total step time", float(m[1]), None))
_rule(
    " ",
    rf"  • ([A-Za-z0-9_]+(?:/[A-Za-z0-9_]+)*): ({_NUMBER})s \(({_NUMBER})%\)$",
    lambda m: Timing(m[1], float(m[2]), float(m[3])),
)
_rule(" ", rf"    - ([A-Z][^:]*\([^)]*/[^)]*\)): ({_NUMBER})$", _value("performance"))
_rule(
    " ",
    r"    • (Accuracy|Average response length|Samples processed|Total validation time): "
    rf"({_NUMBER})(?: tokens|s)?$",
    _value("validation"),
)
_rule(
    " ",
    r"  • (Mean Total Tokens per Sample|Training FLOPS|Training Model Floating Point Utilization"
    rf"|Training Worker Idle Time Ratio|Average Token Imbalance): ({_NUMBER})(?:%| TFLOPS \(.*\))?$",
    _value("performance"),
)
_rule(" ", r" {10,}SETUP COMPLETE$", lambda _: SetUp("complete"))
_rule(
    " ",
    rf"  (vLLM init|Generation init|Policy init|Other setup|Total setup|Total setup time): ({_NUMBER})s",
    lambda m: SetUp(m[1], float(m[2])),
)
_rule("S", r"Saving checkpoint for step (\d+)\.\.\.$", lambda m: Saving(int(m[1])))
_rule(
    "L", r"Logged data to (\S*?(train|val)_data_step(\d+)\.jsonl)$", lambda m: Logged(m[1], m[2], int(m[3]))
)
_rule("O", r"Overrides: ([\[(].*[\])])$", _overrides)
_rule("F", r"Final config:$", lambda _: SetUp("config"))
_rule("M", r"Max number of steps has been reached, stopping training early$", lambda _: Ending("max_steps"))
_rule("T", r"Timeout has been reached, stopping training early$", lambda _: Ending("timeout"))
_rule("A", r"Async GRPO training complete!$", lambda _: Ending("async_complete"))
_rule("-", r"--- Job Finished ---$", lambda _: Ending("finished"))
_rule(
    "D",
    r"Detected (\d+) prompts with non-zero std; (\d+) are required and used for training\.$",
    lambda m: DynamicSampling(int(m[1]), int(m[2])),
)
_rule("w", r"wandb: .*View run (\S+) at: (\S+)$", lambda m: Link(m[1], m[2]))

_BAR = re.compile(
    r"(?P<label>[^:\r]+?):? +\d+%(?:\|[^|]*\| *| Completed \| )(?P<done>\d+)/(?P<total>\d+) "
    r"\[(?P<elapsed>[\d:]+)<(?P<eta>[\d:?]+), +(?P<rate>[\d.?]+ ?\w+/\w+)(?:, (?P<rest>.*?))?\] *$"
)
_SPEED = re.compile(r"est\. speed input: ([\d.]+) toks/s, output: ([\d.]+) toks/s")


def parse(text: str) -> Event | None:
    """The event that a clean line of the driver stands for, or None for any other text."""
    for pattern, make in _RULES.get(text[:1], ()):
        if found := pattern.match(text):
            return make(found)
    return bar(text) if "%" in text and text.endswith(("]", "] ")) else None


def bar(text: str) -> Bar | None:
    """A tqdm bar's state, or None."""
    found = _BAR.match(text)
    if not found:
        return None
    speed = _SPEED.search(found["rest"] or "")
    return Bar(
        found["label"].strip(),
        int(found["done"]),
        int(found["total"]),
        found["elapsed"],
        found["eta"],
        found["rate"],
        float(speed[1]) if speed else None,
        float(speed[2]) if speed else None,
    )
