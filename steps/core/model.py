"""The vocabulary of a step: its checks, its resources, and what is observed of them."""

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
_MAX_VALUE_CHARS = 60  # of a value in a line about drift


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
    """How long something usually takes, in seconds, and where the figure comes from."""

    low: float
    high: float
    source: str

    def remaining_after(self, steps: int) -> DurationEstimate:
        """Estimate what is left once `steps` training steps are saved; only a training run has any."""
        return self


DEFAULT_DURATION = DurationEstimate(1, 30, "measured in rehearsal; Google publishes no figure")


@dataclass(frozen=True)
class OutputRef:
    """A value in a spec that only the cloud knows: the output `key` of another resource."""

    resource_id: str
    key: str


@dataclass(frozen=True)
class SecretValue:
    """A value in a spec that is never stored: the client fills it in when it sends the request."""

    name: str  # hf_token | wandb_netrc
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One resource of the desired state.

    `spec` is what is sent, in the API's own JSON form (camelCase); it may contain OutputRef and SecretValue.
    `parent` locates it: project, location, cluster, namespace. `depends_on` are IDs of other resources.
    `usd_per_hour` is None when no price is known. `retain_on_destroy`: destroy keeps it, because others may use it.
    `data_source`: the user named an existing resource, which must match and is never created, changed or deleted.
    `adopt_paths` are the spec paths in which a resource that someone else created must match to be adopted
    (None: the whole spec).
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
    """One value that differs from the spec. `path` is dotted, as in the API's JSON."""

    path: str
    desired: Any
    actual: Any

    def __str__(self) -> str:
        actual, desired = repr(self.actual), repr(self.desired)
        same = next((n for n, (a, b) in enumerate(zip(actual, desired, strict=False)) if a != b), 0)
        return f"{self.path} is {_excerpt(actual, same)}, expected {_excerpt(desired, same)}"


def _excerpt(text: str, same: int) -> str:
    """Shorten a long value to the part around its first difference, `same` characters in."""
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
    """Why a resource is not ready yet, and the one fix.

    `timeout`: seconds after which waiting is pointless; None: as long as is usual for its kind.
    """

    cause: str
    remedy: str
    timeout: float | None = None

    def __str__(self) -> str:
        return f"{self.cause}. {self.remedy}" if self.remedy else self.cause


@dataclass(frozen=True)
class ObservedState:
    """The state of a resource as the cloud last reported it."""

    state: ResourceState = "absent"
    owner_label: str = ""  # the deployment ID on its label, if any
    identity: str = ""  # uid, numeric ID or creation time: distinguishes it from a later one of the same name
    drift: tuple[Drift, ...] = ()
    detail: str = ""  # what it waits for, or what failed
    outputs: Mapping[str, str] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None  # why it is not ready, if known
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
