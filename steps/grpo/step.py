"""Step 7, GRPO: the recipe, the data, the parameters, and the job itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.model import Resource, Step
from grpo_wizard.steps.gcp.naming import resource_id
from grpo_wizard.steps.grpo.answers import GrpoAnswers
from grpo_wizard.steps.grpo.checks import CHECKS
from grpo_wizard.steps.grpo.duration import estimate_training
from grpo_wizard.steps.grpo.entrypoint import entrypoint
from grpo_wizard.steps.grpo.nemo_config import (
    hydra_overrides,
    resolve_config,
)

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def _resources(answers: Answers) -> Sequence[Resource]:
    grpo, project, ray = answers.grpo, answers.project, answers.raycluster
    script = entrypoint(
        recipe=grpo.recipe,
        overrides=hydra_overrides(answers),
        dataset=grpo.dataset,
        final_number_answers=grpo.final_number_answers,
    )
    parent = {
        "project": project.project_id,
        "location": project.region,
        "cluster": answers.cluster.cluster_name,
        "namespace": ray.namespace,
        "raycluster": ray.raycluster_name,
    }
    spec = {
        "entrypoint": script,
        "workers": answers.quotas.gpu_nodes,
        "checkpoint_dir": str(resolve_config(answers)["checkpointing.checkpoint_dir"]),
        "max_num_steps": resolve_config(answers).number("grpo.max_num_steps"),
    }
    return [
        Resource(
            step="grpo",
            kind="job",
            name=grpo.job_name,
            spec=spec,
            parent=parent,
            depends_on=(resource_id("raycluster", "raycluster", ray.raycluster_name),),
            command="ray job submit --address http://127.0.0.1:8265 -- bash job.sh",
            expected_duration=estimate_training(answers),
        )
    ]


STEP = Step(
    answers=GrpoAnswers,
    title="GRPO",
    purpose="The model, the data set, and the parameters of the training run.",
    checks=CHECKS,
    resources=_resources,
)
