"""The order of the screens of a deployment, and the items of the stepper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.steps.registry import STEP_NAMES, STEPS
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import has_billable_resources, job_icon_key
from grpo_wizard.tui.widgets.stepper import StepperItem

if TYPE_CHECKING:
    from grpo_wizard.tui.controllers.deployment import DeploymentController

SCREEN_ORDER = (*STEP_NAMES, "review", "run", "monitor", "teardown")


def adjacent_screen(screen_name: str, offset: int) -> str:
    """The screen `offset` places further; an empty string before the first and after the last."""
    index = SCREEN_ORDER.index(screen_name) + offset
    return SCREEN_ORDER[index] if 0 <= index < len(SCREEN_ORDER) else ""


def stepper_items(controller: DeploymentController) -> list[StepperItem]:
    """The seven steps with their status, then Review, Run and Monitor."""
    short_titles = {"quotas": _("Quotas")}
    items = [
        StepperItem(s.name, short_titles.get(s.name, s.title), _step_status(controller, s.name), n)
        for n, s in enumerate(STEPS, 1)
    ]
    created = has_billable_resources(controller.draft.deployment)
    job = job_icon_key(controller.home, controller.draft.deployment)
    return [
        *items,
        StepperItem("review", _("Review"), "done" if created else "todo"),
        StepperItem("run", _("Run"), "done" if job != "todo" else "half" if created else "todo"),
        StepperItem("monitor", _("Monitor"), job),
    ]


def _step_status(controller: DeploymentController, name: str) -> str:
    """A step with a blocking check is not done, even if its answers are complete."""
    status = controller.draft.step_status(name)
    return "block" if status == "done" and name in controller.blocked_steps else status
