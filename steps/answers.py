"""The answers of a deployment: one attribute a step, in the wizard's order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_type_hints

from grpo_wizard.steps.cluster.answers import ClusterAnswers
from grpo_wizard.steps.core.answers import AnswerValue, StepAnswers
from grpo_wizard.steps.grpo.answers import GrpoAnswers
from grpo_wizard.steps.lustre.answers import LustreAnswers
from grpo_wizard.steps.networks.answers import NetworksAnswers
from grpo_wizard.steps.project.answers import ProjectAnswers
from grpo_wizard.steps.quotas.answers import QuotasAnswers
from grpo_wizard.steps.raycluster.answers import RayclusterAnswers

if TYPE_CHECKING:
    from grpo_wizard.state.model import StoredAnswers


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What every step asked, parsed. May be partial: an answer that is not given raises NotAnswered when it is read."""

    project: ProjectAnswers
    quotas: QuotasAnswers
    networks: NetworksAnswers
    cluster: ClusterAnswers
    lustre: LustreAnswers
    raycluster: RayclusterAnswers
    grpo: GrpoAnswers

    @classmethod
    def from_values(cls, values: Mapping[str, Mapping[str, object]]) -> Answers:
        """From parsed values by step and field: the form of the state file and of JSON."""
        hints: Mapping[str, type[StepAnswers]] = get_type_hints(cls)
        steps = {name: kind(**values.get(name, {})) for name, kind in hints.items()}
        return cls(**steps)  # type: ignore[arg-type]

    def to_values(self) -> StoredAnswers:
        """{step: {field: value}} of what is given."""
        return {name: self.of(name).to_values() for name in get_type_hints(type(self))}

    def of(self, step: str) -> StepAnswers:
        """One step's answers, by its name."""
        answers: StepAnswers = getattr(self, step)
        return answers

    def with_value(self, step: str, field: str, value: AnswerValue) -> Answers:
        return replace(self, **{step: self.of(step).with_value(field, value)})  # type: ignore[arg-type]

    def without(self, keys: Iterable[str]) -> Answers:
        """The same with the answers `keys` (step.field) taken out."""
        values = self.to_values()
        for key in keys:
            step, _, field = key.partition(".")
            values[step].pop(field, None)
        return Answers.from_values(values)
