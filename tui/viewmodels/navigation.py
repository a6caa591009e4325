"""Where one can be in a deployment, in order, and how the rail shows it."""

from __future__ import annotations

from grpo_wizard.steps.registry import NAMES, STEPS
from grpo_wizard.tui.controllers.deployment import Desk
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import job_sign, stands
from grpo_wizard.tui.widgets.stepper import RailItem

PLACES = (*NAMES, "review", "run", "monitor", "teardown")


def neighbour(place: str, by: int) -> str:
    """The place before or after; nothing before the first."""
    at = PLACES.index(place) + by
    return PLACES[at] if 0 <= at < len(PLACES) else ""


def rail_items(desk: Desk) -> list[RailItem]:
    """The seven steps with their signs, and what comes after them."""
    short = {"quotas": _("Quotas")}
    items = [
        RailItem(s.name, short.get(s.name, s.title), _step_sign(desk, s.name), n)
        for n, s in enumerate(STEPS, 1)
    ]
    made = stands(desk.draft.deployment)
    job = job_sign(desk.home, desk.draft.deployment)
    return [
        *items,
        RailItem("review", _("Review"), "done" if made else "todo"),
        RailItem("run", _("Run"), "done" if job != "todo" else "half" if made else "todo"),
        RailItem("monitor", _("Monitor"), job),
    ]


def _step_sign(desk: Desk, name: str) -> str:
    """A step whose check blocks is not done, however complete its answers are."""
    known = desk.draft.sign(name)
    return "block" if known == "done" and name in desk.blocked else known
