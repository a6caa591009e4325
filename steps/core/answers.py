"""A step's questions and its answers: one class a step, whose attributes are both.

    class QuotasAnswers(StepAnswers, step="quotas"):
        gpu_nodes: int = question(label="GPU nodes", help="…", parse=validators.integer(1, 64), default=2)

`QuotasAnswers.fields` are the questions in order; an instance holds the answers, and type checkers know
`answers.quotas.gpu_nodes` as an int. Nothing is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar, cast, dataclass_transform

if TYPE_CHECKING:
    from grpo_wizard.state.model import Value
    from grpo_wizard.steps.answers import Answers

AnswerValue = str | int | float | bool | list[str]
FieldKind = Literal["text", "integer", "number", "switch", "choice", "secret"]
_T = TypeVar("_T", bound=AnswerValue)


class InvalidValue(ValueError):
    """A value that a field does not accept. The text is one sentence that says what is allowed."""


class NotAnswered(Exception):
    """An answer was read before it was given. `key` is its step.field."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@dataclass(frozen=True, kw_only=True)
class Field:
    """One question. `parse` is the only validator: every front end and every file uses it.

    `default` is a value or a function of the answers given so far; None: the question must be answered.
    `env` are the tutorial's own variables (`init --from-env`). `choices_from` names a list of
    `suggestions` that is read from the cloud.
    """

    step: str = ""
    name: str = ""
    label: str
    help: str
    parse: Callable[[object], AnswerValue]
    default: AnswerValue | Callable[[Answers], AnswerValue | None] | None = None
    env: tuple[str, ...] = ()
    kind: FieldKind = "text"
    choices: tuple[str, ...] = ()
    unit: str = ""
    advanced: bool = False
    optional: bool = False
    choices_from: str = ""
    shown_when: Callable[[Answers], bool] = lambda answers: True

    @property
    def key(self) -> str:
        """step.field, as `--set` and the messages name it."""
        return f"{self.step}.{self.name}"

    def default_for(self, answers: Answers) -> AnswerValue | None:
        """The default under these answers. Raises NotAnswered when it follows from one that is missing."""
        return self.default(answers) if callable(self.default) else self.default

    def __get__(self, answers: object, owner: type[object]) -> Field:
        """Reached through a class: the question. Reached through an object: the answer is not there."""
        if answers is None:
            return self
        raise NotAnswered(self.key)


def question(
    *,
    label: str,
    help: str,
    parse: Callable[[object], _T],
    default: _T | Callable[[Answers], _T | None] | None = None,
    env: tuple[str, ...] = (),
    kind: FieldKind = "text",
    choices: tuple[str, ...] = (),
    unit: str = "",
    advanced: bool = False,
    optional: bool = False,
    choices_from: str = "",
    shown_when: Callable[[Answers], bool] = lambda answers: True,
) -> _T:
    """Declares an answer of a StepAnswers class; the arguments are those of Field."""
    field = Field(
        label=label,
        help=help,
        parse=parse,
        default=default,
        env=env,
        kind=kind,
        choices=choices,
        unit=unit,
        advanced=advanced,
        optional=optional,
        choices_from=choices_from,
        shown_when=shown_when,
    )
    return cast(_T, field)


def secret(*, label: str, help: str, env: tuple[str, ...]) -> Field:
    """Declares a question whose answer never becomes part of the answers: it goes into the Kubernetes Secret only."""
    return Field(label=label, help=help, parse=str, default="", env=env, kind="secret", optional=True)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(question,))
class StepAnswers:
    """Base of each step's answers. Frozen. Reading an answer that was not given raises NotAnswered."""

    step: ClassVar[str]
    fields: ClassVar[tuple[Field, ...]]

    def __init_subclass__(cls, *, step: str) -> None:
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        named = {name: replace(field, step=step, name=name) for name, field in declared.items()}
        for name, field in named.items():
            setattr(cls, name, field)
        cls.step, cls.fields = step, tuple(named.values())

    def __init__(self, **values: object) -> None:
        names = [field.name for field in self.fields if field.kind != "secret"]
        if unknown := values.keys() - set(names):
            raise TypeError(f"{self.step} has no answer named {', '.join(sorted(unknown))}")
        self.__dict__.update({name: values[name] for name in names if name in values})

    def get(self, name: str) -> Value:
        """The answer called `name`; None while it is not given."""
        return cast("Value", self.__dict__.get(name))

    def to_values(self) -> dict[str, Value]:
        """The answers that are given, by name, as the state file holds them."""
        return dict(self.__dict__)

    def with_value(self, name: str, value: AnswerValue) -> StepAnswers:
        return type(self)(**self.__dict__ | {name: value})

    def without(self, names: Mapping[str, object] | set[str]) -> StepAnswers:
        return type(self)(**{name: value for name, value in self.__dict__.items() if name not in names})

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to {self.step}.{name}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete {self.step}.{name}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({given})"


class _FieldRecorder:
    """Stands in for Answers and notes which answers are read."""

    def __init__(self, keys: dict[str, None], step: str = "") -> None:
        self._keys, self._step = keys, step

    def __getattr__(self, name: str) -> _FieldRecorder | None:
        if not self._step:
            return _FieldRecorder(self._keys, name)
        self._keys[f"{self._step}.{name}"] = None
        return None


def fields_read(read: Callable[[Answers], object]) -> tuple[str, ...]:
    """The step.field names that `read` reads, in order: `lambda a: (a.quotas.gpu_type, a.project.zone)`.

    Written as code, the names are verified by the type checker. `read` may only read answers, not compute with them.
    """
    keys: dict[str, None] = {}
    read(cast("Answers", _FieldRecorder(keys)))
    return tuple(keys)
