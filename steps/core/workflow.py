"""The workflow: the ordered steps as the engine and a session see them, without importing any one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.model import Resource, Step

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


@dataclass(frozen=True)
class Workflow:
    """All steps in the wizard's order. `validate` parses saved answers; it raises ValidationErrors."""

    steps: tuple[Step, ...]
    validate: Callable[[Mapping[str, Mapping[str, object]]], Answers]

    @property
    def step_names(self) -> tuple[str, ...]:
        return tuple(step.name for step in self.steps)

    def step(self, name: str) -> Step:
        """Return the step called `name`; raises ValueError for an unknown one."""
        return self.steps[self.step_names.index(name)]

    def resources(self, answers: Answers) -> list[Resource]:
        """List every resource of the deployment in the wizard's order, without prices."""
        return [resource for step in self.steps for resource in step.resources(answers)]
