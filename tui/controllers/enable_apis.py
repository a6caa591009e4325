"""Enabling the project's APIs from a step's screen: most checks cannot run before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.tui.controllers.threads import in_thread

if TYPE_CHECKING:
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.tui.controllers.deployment import DeploymentController


async def enable(controller: DeploymentController) -> None:
    """Enable the APIs and wait for the operations. Raises WizardError with the first failure."""
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.steps.registry import WORKFLOW

    cloud = await controller.cloud()
    answers, _missing = controller.draft.validate()
    session = Session(controller.store, controller.draft.deployment, cloud, answers, WORKFLOW)
    await in_thread(_run_to_completion, session)


def _run_to_completion(session: Session) -> None:
    from grpo_wizard.steps.engine.apply import enable_apis

    async def run() -> None:
        apis = [r for r in session.workflow.step("project").resources(session.answers) if r.kind == "api"]
        async for event in enable_apis(session, apis):
            for failed in event.data.get("failed", []) if event.event == "summary" else []:
                raise WizardError(failed["title"], failed["detail"], failed["fix"])

    asyncio.run(run())
