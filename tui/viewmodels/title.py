"""The title line of a deployment that is open."""

from __future__ import annotations

from grpo_wizard.tui.controllers.deployment import Desk
from grpo_wizard.tui.viewmodels.deployments import running_price, spent
from grpo_wizard.tui.widgets.title_bar import TitleState


def heading(desk: Desk, sign: str, now: float, drills: tuple[str, ...] = ()) -> TitleState:
    """Name, places, and the price of what is there now: nothing in a rehearsal."""
    answers, _missing = desk.draft.look()
    places = tuple(
        str(answers["project"][key]) for key in ("project_id", "zone") if key in answers["project"]
    )
    if desk.is_rehearsal:
        return TitleState(desk.name, True, places, sign, 0.0, False, 0.0, drills)
    known, unknown = running_price(desk.draft.deployment)
    return TitleState(desk.name, False, places, sign, known, unknown > 0, spent(desk.draft.deployment, now))
