"""Where one can be in a deployment, in order, and how the rail shows it."""

from __future__ import annotations

from grpo_wizard.steps.registry import STEP_NAMES, STEPS
from grpo_wizard.tui.controllers.deployment import DeploymentController
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import has_billable_resources, job_icon_key
from grpo_wizard.tui.widgets.stepper import StepperItem

SCREEN_ORDER = (*STEP_NAMES, "review", "run", "monitor", "teardown")


def adjacent_screen(screen_name: str, offset: int) -> str:
    """The place before or after; nothing before the first."""
    at = SCREEN_ORDER.index(screen_name) + offset
    return SCREEN_ORDER[at] if 0 <= at < len(SCREEN_ORDER) else ""


def stepper_items(controller: DeploymentController) -> list[StepperItem]:
    """The seven steps with their signs, and what comes after them."""
    short = {"quotas": _("Quotas")}
    items = [
        StepperItem(s.name, short.get(s.name, s.title), _step_status(controller, s.name), n)
        for n, s in enumerate(STEPS, 1)
    ]
    made = has_billable_resources(controller.draft.deployment)
    job = job_icon_key(controller.home, controller.draft.deployment)
    return [
        *items,
        StepperItem("review", _("Review"), "done" if made else "todo"),
        StepperItem("run", _("Run"), "done" if job != "todo" else "half" if made else "todo"),
        StepperItem("monitor", _("Monitor"), job),
    ]


def _step_status(controller: DeploymentController, name: str) -> str:
    """A step whose check blocks is not done, however complete its answers are."""
    known = controller.draft.step_status(name)
    return "block" if known == "done" and name in controller.blocked_steps else known
