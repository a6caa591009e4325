"""The title bar of an open deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.tui.viewmodels.deployments import cost_to_date, hourly_price
from grpo_wizard.tui.widgets.title_bar import TitleState

if TYPE_CHECKING:
    from grpo_wizard.tui.controllers.deployment import DeploymentController


def deployment_title(
    controller: DeploymentController, status: str, now: float, drills: tuple[str, ...] = ()
) -> TitleState:
    """Show name, project, zone, and the price of what exists now (nothing in a rehearsal)."""
    answers, _missing = controller.draft.validate()
    location = tuple(
        str(answer) for key in ("project_id", "zone") if (answer := answers.project.get(key)) is not None
    )
    if controller.is_rehearsal:
        return TitleState(controller.name, True, location, status, 0.0, False, 0.0, drills)
    known, unknown = hourly_price(controller.draft.deployment, controller.price_book)
    return TitleState(
        controller.name,
        False,
        location,
        status,
        known,
        unknown > 0,
        cost_to_date(controller.draft.deployment, now, controller.price_book),
    )
