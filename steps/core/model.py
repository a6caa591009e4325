"""The whole vocabulary of a step: what is asked (Field), what must hold (Check), what shall exist (Resource)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from grpo_wizard.steps.core.answers import Field, StepAnswers, fields_read
from grpo_wizard.steps.core.cloud_reader import CloudReader

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

Level = Literal["pass", "info", "warn", "block"]
ResourceState = Literal["absent", "creating", "ready", "failed", "deleting"]
Ownership = Literal["created", "adopted", "none"]
_MAX_VALUE_CHARS = 60  # characters of a value in a line about drift


@dataclass(frozen=True)
class CheckFinding:
    """What a check found: full sentences in `detail`, and in `fix` what to do about it (empty: nothing).

    `title` is the check's own title unless a finding needs another one.
    """

    level: Level
    title: str = ""
    detail: str = ""
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Check:
    """A condition for creating billable resources. `title` is a noun phrase; level and detail carry the result.

    `run` returns what it found; a WizardError in it becomes a warning. `needs` reads the answers that it depends on:
    live checks run again when one of them changes.
    """

    id: str
    title: str
    run: Callable[[Answers, CloudReader], Iterable[CheckFinding]]
    needs: Callable[[Answers], object] = lambda answers: ()

    @property
    def needs_fields(self) -> tuple[str, ...]:
        """The step.field names that `needs` reads."""
        return fields_read(self.needs)


@dataclass(frozen=True)
class DurationEstimate:
    """How long a thing usually takes, in seconds, and who says so."""

    low: float
    high: float
    source: str

    def remaining_after(self, steps: int) -> DurationEstimate:
        """Estimate what is left once `steps` training steps are saved; only a training run has any."""
        return self


DEFAULT_DURATION = DurationEstimate(1, 30, "seen in rehearsal; Google gives no figure")


@dataclass(frozen=True)
class OutputRef:
    """A value inside a spec that only the cloud knows: `key` of what was seen of the resource `id`."""

    resource_id: str
    key: str


@dataclass(frozen=True)
class SecretValue:
    """A value inside a spec that is never written down: filled in by the client at the last moment."""

    name: str  # hf_token | wandb_netrc
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One thing that shall exist.

    `spec` is what is sent, in the API's own JSON form (camelCase); it may hold Fact and SecretValue.
    `where` places it: project, location, cluster, namespace. `needs` are ids of other resources.
    `usd_per_hour` is None when no price is known. `kept` things stay at destroy (others may need them).
    `existing` things were named by the user: they must be there and fit, and are never made, changed or deleted.
    `watch` are spec paths in which a thing that somebody else made must agree to be adopted (None: the whole spec).
    """

    step: str
    kind: str
    name: str
    spec: Mapping[str, Any]
    parent: Mapping[str, str] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    command: str = ""
    expected_duration: DurationEstimate = DEFAULT_DURATION
    usd_per_hour: float | None = 0.0
    note: str = ""
    retain_on_destroy: bool = False
    data_source: bool = False
    adopt_paths: tuple[str, ...] | None = None

    @property
    def id(self) -> str:
        return f"{self.step}.{self.kind}.{self.name}"


@dataclass(frozen=True)
class Drift:
    """One place in which what exists differs from what shall be. `path` is dotted, as in the API's JSON."""

    path: str
    desired: Any
    actual: Any

    def __str__(self) -> str:
        have, want = repr(self.actual), repr(self.desired)
        same = next((n for n, (a, b) in enumerate(zip(have, want, strict=False)) if a != b), 0)
        return f"{self.path} is {_excerpt(have, same)}, wanted {_excerpt(want, same)}"


def _excerpt(text: str, same: int) -> str:
    """As it fits into a line: of a whole script what stands from where two differ, `same` characters on."""
    if len(text) <= _MAX_VALUE_CHARS:
        return text
    start = max(0, same - _MAX_VALUE_CHARS // 4)
    return (
        ("…" if start else "")
        + text[start : start + _MAX_VALUE_CHARS]
        + ("…" if start + _MAX_VALUE_CHARS < len(text) else "")
    )


@dataclass(frozen=True)
class Diagnosis:
    """Why something is not ready yet, and the one thing to do about it.

    `patience`: seconds after which waiting on is senseless; None: as long as is usual for its kind.
    """

    cause: str
    remedy: str
    timeout: float | None = None

    def __str__(self) -> str:
        return f"{self.cause}. {self.remedy}" if self.remedy else self.cause


@dataclass(frozen=True)
class ObservedState:
    """What was seen of a resource in the cloud just now."""

    state: ResourceState = "absent"
    owner_label: str = ""  # the lineage written on it, if any
    identity: str = ""  # uid, numeric id or creation time: tells a thing from its namesake made later
    drift: tuple[Drift, ...] = ()
    detail: str = ""  # what it waits for, or what is wrong with it
    outputs: Mapping[str, str] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None  # what keeps it from getting ready, where that is known
    resume_step: int | None = None  # the last complete checkpoint that a new job resumes from
    retryable: bool = False  # it failed for a temporary reason: apply re-creates it in the same run


ABSENT = ObservedState()


@dataclass(frozen=True, kw_only=True)
class Step:
    """One of the seven. `resources` is a pure function of complete answers."""

    answers: type[StepAnswers]
    title: str
    purpose: str
    checks: Sequence[Check]
    resources: Callable[[Answers], Sequence[Resource]]

    @property
    def name(self) -> str:
        return self.answers.step

    @property
    def fields(self) -> Sequence[Field]:
        return self.answers.fields

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)
