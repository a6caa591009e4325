"""A job's log, byte by byte, to one row a training step and to what is known of the job."""

from __future__ import annotations

import ast
import re
from typing import Any

from grpo_wizard.steps.training import grammar, signatures
from grpo_wizard.steps.training.evaluation import Evaluation
from grpo_wizard.steps.training.lines import Line, LineReader
from grpo_wizard.steps.training.rows import Facts, Row, finite

_LABELS = {
    "Loss": "loss",
    "Generation KL Error": "generation_kl_error",
    "Avg Reward": "avg_reward",
    "Mean Generation Length": "mean_generation_length",
}
_VALIDATION = {
    "Accuracy": "accuracy",
    "Average response length": "average_response_length",
    "Samples processed": "samples_processed",
    "Total validation time": "total_validation_seconds",
}
_MEAN_TOKENS = "Mean Total Tokens per Sample"
_ERROR = re.compile(r"[\w.]*(?:Error|Exception)\b(?::|$| \()")
_CONFIG_LIMIT = 5000  # lines; the 27B recipe's is about 250


class Reader:
    """Feed it the log's bytes in any portions; `rows`, `facts`, `evaluation` and `seen` are right after
    each."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.evaluation = Evaluation()
        self.seen: dict[str, signatures.Seen] = {}  # failure signatures by id
        self.last_output_at: float | None = None
        self._lines = LineReader()
        self._rows: dict[int, Row] = {}
        self._row: Row | None = None
        self._head: grammar.StepHead | None = None
        self._epoch: int | None = None
        self._turns = 0  # epochs passed that no header told of
        self._settled = False  # the log has named a step over the whole run, so `_turns` is right
        self._config: list[str] | None = None
        self._initial = False

    @property
    def rows(self) -> list[Row]:
        """Steps whose results are known, in order."""
        return [self._rows[step] for step in sorted(self._rows) if self._rows[step].has_results]

    def feed(self, data: bytes, at: float | None = None) -> list[Line]:
        """Reads on; `at` is when the bytes were received (epoch seconds). Returns the clean lines, for a
        log view."""
        if at is not None and data:
            self.last_output_at = at
        return self._take(self._lines.feed(data))

    def close(self) -> list[Line]:
        """Reads the last line if it has no newline."""
        return self._take(self._lines.flush())

    def document(self) -> dict[str, Any]:
        """`{"rows": […]}`; for an evaluation's log `{"eval": {…}}`."""
        if self.evaluation.score is not None and not self._rows:
            return {"eval": finite(self.evaluation.as_json())}
        return {"rows": [row.as_json() for row in self.rows]}

    def _take(self, lines: list[Line]) -> list[Line]:
        for line in lines:
            text = line.text
            if not text:
                continue
            event = None if line.sources else grammar.parse(text)
            if event is not None:
                self._handle(event)
            elif line.sources and text.endswith("]") and "%" in text:
                self.facts.bar = grammar.bar(text) or self.facts.bar
            else:
                self._other(line)
        return lines

    def _other(self, line: Line) -> None:
        """Text that is no event: part of the printed config, an evaluation's result, a sign of trouble."""
        text = line.text
        if self._config is not None and not line.sources and text[0] in " {":
            self._read_config(text)
            return
        if text[0] in "ms" and not line.sources and self.evaluation.read(text):
            return
        found = signatures.match(line, self.facts.phase)
        if found is not None:
            signatures.note(self.seen, found, line, self.facts.step, len(self._rows), bool(self.facts.ending))
        if ("Error" in text or "Exception" in text) and _ERROR.match(text):
            self.facts.last_error = signatures.evidence(text)

    def _handle(self, event: grammar.Event) -> None:
        facts = self.facts
        match event:
            case grammar.Bar():
                facts.bar = event
            case grammar.StepHead():
                self._begin(event)
            case grammar.Epoch(number, of):
                self._epoch, self._turns, self._head = number, 0, None
                facts.epoch, facts.max_epochs = number, of
            case grammar.Phase(name, samples):
                facts.phase, facts.bar = name, None
                if samples is not None and self._row is not None:
                    self._row.batch_size = samples
            case grammar.Value(kind, label, value):
                self._value(kind, label, value)
            case grammar.Timing():
                self._timing(event)
            case grammar.Validation(step):
                facts.phase, facts.bar = "Validation", None
                self._initial = step == 0
                self._told(step)
            case grammar.Saving(step):
                facts.phase, facts.last_saved_step = "Saving checkpoint", step
                self._told(step)
                if self._row is not None:
                    self._row.checkpoint = True
            case grammar.Logged(path, kind, step):
                self._logged(path, kind, step)
            case _:
                self._job(event)

    def _job(self, event: grammar.Event) -> None:
        facts = self.facts
        match event:
            case grammar.SetUp():
                self._setup(event)
            case grammar.Overrides(items):
                facts.overrides = items
            case grammar.Folder(kind, path):
                self._config = None
                setattr(facts, f"{kind}_dir", path)
            case grammar.Ending("finished"):
                facts.finished = True
            case grammar.Ending(kind):
                facts.ending, facts.phase = kind, None
            case grammar.DynamicSampling(have, need):
                facts.prompts_with_spread = (have, need)
            case grammar.Link(_, url):
                facts.wandb_url = url

    def _setup(self, event: grammar.SetUp) -> None:
        if event.what == "config":
            self._config = []
        # a start, perhaps one more in the same log: steps go on from a checkpoint
        elif event.what == "data":
            self._config = self._epoch = self._row = self._head = None
            self._turns, self._settled = 0, False
            self.facts.ending, self.facts.setup_complete, self.facts.phase = None, False, "Setting up"
        elif event.what in ("complete", "running"):
            self.facts.setup_complete = True
        elif event.seconds is not None:
            self.facts.setup_seconds[event.what] = event.seconds

    def _begin(self, head: grammar.StepHead) -> None:
        """A step begins: its number over the whole run is counted from the epoch, as NeMo RL's restarts
        with each."""
        if self._epoch is None and self._head is not None and head.number <= self._head.number:
            self._turns += 1
        self._head, self._config = head, None
        before = (self._epoch - 1) if self._epoch is not None else self._turns
        epoch = self._turns + 1 if self._epoch is None and self._settled else self._epoch
        self._place(before * head.of + head.number, epoch)
        self.facts.phase = self.facts.bar = self.facts.ending = None

    def _place(self, step: int, epoch: int | None) -> None:
        for later in [s for s in self._rows if s >= step]:  # done again from a checkpoint
            del self._rows[later]
        self._row = self._rows[step] = Row(step, epoch, self._total())
        self.facts.step, self.facts.epoch = step, epoch
        self.facts.total_steps = self._row.total_steps

    def _total(self) -> int | None:
        if self._head is None:
            return None
        limit = self.facts.number("grpo.max_num_steps")
        total = self._head.of * max(self.facts.max_epochs or 1, self._turns + 1)
        return min(total, int(limit)) if limit and limit >= self._head.number else total

    def _told(self, step: int) -> None:
        """The log names the step over the whole run: that settles the epoch when its header was missed
        (joined late)."""
        row, head = self._row, self._head
        if row is None or head is None or self._epoch is not None or row.epoch is not None:
            return
        if step >= head.number and (step - head.number) % head.of == 0:
            del self._rows[row.step]
            self._turns, self._settled = (step - head.number) // head.of, True
            row.step, row.epoch, row.total_steps = step, self._turns + 1, self._total()
            self._rows[step] = row
            self.facts.step, self.facts.epoch, self.facts.total_steps = step, row.epoch, row.total_steps

    def _logged(self, path: str, kind: str, step: int) -> None:
        if kind != "train":
            return
        if self._row is None:  # joined in the middle of a step
            self._place(step, None)
        self._told(step)
        assert self._row is not None
        self.facts.train_data[self._row.step] = path

    def _value(self, kind: str, label: str, value: float) -> None:
        row = self._row
        if kind == "validation" and (self._initial or row is None):
            self.facts.initial_validation = {
                **(self.facts.initial_validation or {}),
                _VALIDATION[label]: value,
            }
        elif row is None:
            return
        elif kind == "validation":
            row.validation = {**(row.validation or {}), _VALIDATION[label]: value}
        elif kind == "performance":
            row.throughput["mean_total_tokens" if label == _MEAN_TOKENS else label] = value
        elif label in _LABELS:
            setattr(row, _LABELS[label], value)
        elif label == "Avg Total Reward":  # dynamic sampling: over all samples, so comparable between steps
            row.avg_reward = value

    def _timing(self, event: grammar.Timing) -> None:
        row = self._row
        if row is None:
            return
        if event.percent is None:
            row.total_step_seconds = event.seconds
        else:
            row.timing[event.label], row.timing_percent[event.label] = event.seconds, event.percent

    def _read_config(self, text: str) -> None:
        assert self._config is not None
        self._config.append(text)
        if text.endswith("}"):
            try:
                found = ast.literal_eval("\n".join(self._config))
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                found = None
            if isinstance(found, dict):
                self.facts.config, self._config = found, None
        if self._config is not None and len(self._config) > _CONFIG_LIMIT:
            self._config = None


def read(data: bytes) -> Reader:
    """A whole log at once."""
    reader = Reader()
    reader.feed(data)
    reader.close()
    return reader
