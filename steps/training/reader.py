"""Parse a job's log, as its bytes arrive, into one row per training step and facts about the run."""

from __future__ import annotations

import ast
import re
from typing import Any

from grpo_wizard.steps.training import grammar, signatures
from grpo_wizard.steps.training.evaluation import Evaluation
from grpo_wizard.steps.training.lines import LineReader, LogLine
from grpo_wizard.steps.training.rows import RunInfo, StepMetrics, json_safe

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


class LogReader:
    """Feed it the log's bytes in chunks of any size; every attribute is current after each."""

    def __init__(self) -> None:
        self.run_info = RunInfo()
        self.evaluation = Evaluation()
        self.signature_matches: dict[str, signatures.SignatureMatch] = {}  # failure signatures by id
        self.last_output_at: float | None = None
        self._lines = LineReader()
        self._rows: dict[int, StepMetrics] = {}
        self._row: StepMetrics | None = None
        self._step_header: grammar.StepHeader | None = None
        self._epoch: int | None = None
        self._epoch_offset = 0  # epochs that ended without a header in the log
        self._epoch_offset_known = (
            False  # the log has named a step over the whole run, so `_epoch_offset` is right
        )
        self._config: list[str] | None = None
        self._in_initial_validation = False

    @property
    def rows(self) -> list[StepMetrics]:
        """The steps whose results are known, in order."""
        return [self._rows[step] for step in sorted(self._rows) if self._rows[step].has_results]

    def feed(self, data: bytes, at: float | None = None) -> list[LogLine]:
        """Parse more bytes, received `at` (epoch seconds). Return the clean lines, for a log view."""
        if at is not None and data:
            self.last_output_at = at
        return self._process_lines(self._lines.feed(data))

    def close(self) -> list[LogLine]:
        """Parse the last line if it has no newline."""
        return self._process_lines(self._lines.flush())

    def to_json(self) -> dict[str, Any]:
        """Return `{"rows": […]}`; for an evaluation's log `{"eval": {…}}`."""
        if self.evaluation.score is not None and not self._rows:
            return {"eval": json_safe(self.evaluation.to_json())}
        return {"rows": [row.to_json() for row in self.rows]}

    def _process_lines(self, lines: list[LogLine]) -> list[LogLine]:
        for line in lines:
            text = line.text
            if not text:
                continue
            event = None if line.sources else grammar.parse(text)
            if event is not None:
                self._handle_event(event)
            elif line.sources and text.endswith("]") and "%" in text:
                self.run_info.progress_bar = grammar.parse_bar(text) or self.run_info.progress_bar
            else:
                self._handle_text(line)
        return lines

    def _handle_text(self, line: LogLine) -> None:
        """Handle text that is not an event: part of the printed config, an evaluation's result, a failure."""
        text = line.text
        if self._config is not None and not line.sources and text[0] in " {":
            self._read_config(text)
            return
        if text[0] in "ms" and not line.sources and self.evaluation.parse_line(text):
            return
        found = signatures.match_signature(line, self.run_info.phase)
        if found is not None:
            signatures.record_match(
                self.signature_matches,
                found,
                line,
                self.run_info.step,
                len(self._rows),
                bool(self.run_info.end_reason),
            )
        if ("Error" in text or "Exception" in text) and _ERROR.match(text):
            self.run_info.last_error = signatures.redact(text)

    def _handle_event(self, event: grammar.LogEvent) -> None:
        facts = self.run_info
        match event:
            case grammar.TqdmBar():
                facts.progress_bar = event
            case grammar.StepHeader():
                self._start_step(event)
            case grammar.EpochHeader(number, of):
                self._epoch, self._epoch_offset, self._step_header = number, 0, None
                facts.epoch, facts.max_epochs = number, of
            case grammar.PhaseStarted(name, samples):
                facts.phase, facts.progress_bar = name, None
                if samples is not None and self._row is not None:
                    self._row.batch_size = samples
            case grammar.MetricValue(kind, label, value):
                self._value(kind, label, value)
            case grammar.PhaseTiming():
                self._timing(event)
            case grammar.ValidationStarted(step):
                facts.phase, facts.progress_bar = "Validation", None
                self._in_initial_validation = step == 0
                self._on_global_step(step)
            case grammar.CheckpointStarted(step):
                facts.phase, facts.last_saved_step = "Saving checkpoint", step
                self._on_global_step(step)
                if self._row is not None:
                    self._row.checkpoint = True
            case grammar.SamplesLogged(path, kind, step):
                self._logged(path, kind, step)
            case _:
                self._handle_job_event(event)

    def _handle_job_event(self, event: grammar.LogEvent) -> None:
        facts = self.run_info
        match event:
            case grammar.Setup():
                self._setup(event)
            case grammar.Overrides(items):
                facts.overrides = items
            case grammar.OutputDirectory(kind, path):
                self._config = None
                setattr(facts, f"{kind}_dir", path)
            case grammar.RunEnd("finished"):
                facts.finished = True
            case grammar.RunEnd(kind):
                facts.end_reason, facts.phase = kind, None
            case grammar.DynamicSampling(have, need):
                facts.prompts_with_nonzero_std = (have, need)
            case grammar.WandbRun(_, url):
                facts.wandb_url = url

    def _setup(self, event: grammar.Setup) -> None:
        if event.stage == "config":
            self._config = []
        # a start, perhaps another one in the same log: steps continue from a checkpoint
        elif event.stage == "data":
            self._config = self._epoch = self._row = self._step_header = None
            self._epoch_offset, self._epoch_offset_known = 0, False
            self.run_info.end_reason, self.run_info.setup_complete, self.run_info.phase = (
                None,
                False,
                "Setting up",
            )
        elif event.stage in ("complete", "running"):
            self.run_info.setup_complete = True
        elif event.seconds is not None:
            self.run_info.setup_seconds[event.stage] = event.seconds

    def _start_step(self, head: grammar.StepHeader) -> None:
        """Start a step. Its number over the whole run follows from the epoch: NeMo RL's own restarts with each."""
        if self._epoch is None and self._step_header is not None and head.number <= self._step_header.number:
            self._epoch_offset += 1
        self._step_header, self._config = head, None
        before = (self._epoch - 1) if self._epoch is not None else self._epoch_offset
        epoch = self._epoch_offset + 1 if self._epoch is None and self._epoch_offset_known else self._epoch
        self._start_row(before * head.total + head.number, epoch)
        self.run_info.phase = self.run_info.progress_bar = self.run_info.end_reason = None

    def _start_row(self, step: int, epoch: int | None) -> None:
        for later in [s for s in self._rows if s >= step]:  # repeated from a checkpoint
            del self._rows[later]
        self._row = self._rows[step] = StepMetrics(step, epoch, self._total_steps())
        self.run_info.step, self.run_info.epoch = step, epoch
        self.run_info.total_steps = self._row.total_steps

    def _total_steps(self) -> int | None:
        if self._step_header is None:
            return None
        limit = self.run_info.number("grpo.max_num_steps")
        total = self._step_header.total * max(self.run_info.max_epochs or 1, self._epoch_offset + 1)
        return min(total, int(limit)) if limit and limit >= self._step_header.number else total

    def _on_global_step(self, step: int) -> None:
        """Settle the epoch from a step number over the whole run, when its header was missed (joined late)."""
        row, head = self._row, self._step_header
        if row is None or head is None or self._epoch is not None or row.epoch is not None:
            return
        if step >= head.number and (step - head.number) % head.total == 0:
            del self._rows[row.step]
            self._epoch_offset, self._epoch_offset_known = (step - head.number) // head.total, True
            row.step, row.epoch, row.total_steps = step, self._epoch_offset + 1, self._total_steps()
            self._rows[step] = row
            self.run_info.step, self.run_info.epoch, self.run_info.total_steps = (
                step,
                row.epoch,
                row.total_steps,
            )

    def _logged(self, path: str, kind: str, step: int) -> None:
        if kind != "train":
            return
        if self._row is None:  # joined in the middle of a step
            self._start_row(step, None)
        self._on_global_step(step)
        assert self._row is not None
        self.run_info.train_data[self._row.step] = path

    def _value(self, kind: str, label: str, value: float) -> None:
        row = self._row
        if kind == "validation" and (self._in_initial_validation or row is None):
            self.run_info.initial_validation = {
                **(self.run_info.initial_validation or {}),
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

    def _timing(self, event: grammar.PhaseTiming) -> None:
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
                self.run_info.config, self._config = found, None
        if self._config is not None and len(self._config) > _CONFIG_LIMIT:
            self._config = None


def parse_log(data: bytes) -> LogReader:
    """Parse a whole log."""
    reader = LogReader()
    reader.feed(data)
    reader.close()
    return reader
