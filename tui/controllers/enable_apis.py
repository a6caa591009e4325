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
    from grpo_wizard.tui.controllers.deployment import Desk
    from grpo_wizard.tui.screens.dialogs import Choose

_NOW, _LATER = "now", "later"


def question(project: str) -> Choose:
    """Asked before: it is the first thing that the wizard writes."""
    from grpo_wizard.tui.screens.dialogs import Choose

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
    return Choose(_("Enable the APIs of {project}?").format(project=project), text, ways)


def is_yes(way: str | None) -> bool:
    """Whether the question was answered so."""
    return way == _NOW


async def enable(desk: Desk) -> None:
    """Until they are on. Raises WizardError with what the first of them said."""
    from grpo_wizard.steps.deployment.session import Session

    cloud = await desk.cloud()
    answers = {name: dict(values) for name, values in desk.draft.look()[0].items()}
    session = Session(desk.store, desk.draft.deployment, cloud, answers)
    await in_thread(_to_the_end, session)


def _to_the_end(session: Session) -> None:
    from grpo_wizard.steps.engine.apply import switch_on_apis

    async def run() -> None:
        async for event in switch_on_apis(session):
            for failed in event.data.get("failed", []) if event.event == "summary" else []:
                raise WizardError(failed["title"], failed["detail"], failed["fix"])

    asyncio.run(run())
