"""The APIs switched on from a step's screen: until they are on, most of what could be checked cannot be looked at."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.project.permissions import APIS
from grpo_wizard.tui.controllers.threads import in_thread
from grpo_wizard.tui.style.i18n import _

if TYPE_CHECKING:
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.tui.controllers.deployment import DeploymentController
    from grpo_wizard.tui.screens.dialogs import ChoiceDialog

_NOW, _LATER = "now", "later"


def confirmation_dialog(project: str) -> ChoiceDialog:
    """Asked before: it is the first thing that the wizard writes."""
    from grpo_wizard.tui.screens.dialogs import ChoiceDialog

    text = _(
        "{n} APIs are used. Switching them on is free; they stay on at a teardown, for others may need them."
    ).format(n=len(APIS))
    ways = (
        (
            _NOW,
            _("Enable now"),
            _("so that reservation, quotas and versions can be looked at while you answer"),
        ),
        (_LATER, _("Not now"), _("Launch enables them, and looks at everything before anything billable")),
    )
    return ChoiceDialog(_("Enable the APIs of {project}?").format(project=project), text, ways)


def is_confirmed(choice: str | None) -> bool:
    """Whether the question was answered so."""
    return choice == _NOW


async def enable(controller: DeploymentController) -> None:
    """Until they are on. Raises WizardError with what the first of them said."""
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
