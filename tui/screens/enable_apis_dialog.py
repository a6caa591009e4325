"""The question that comes before the first request that writes: whether to enable the APIs now."""

from __future__ import annotations

from grpo_wizard.steps.project.permissions import APIS
from grpo_wizard.tui.screens.dialogs import ChoiceDialog
from grpo_wizard.tui.style.i18n import _

_NOW, _LATER = "now", "later"


def confirmation_dialog(project: str) -> ChoiceDialog:
    """Ask first: this is the wizard's first change in the project."""
    text = _(
        "This deployment requires {n} APIs. Enabling them is free. They will stay enabled after destroy because "
        "other workloads may use them."
    ).format(n=len(APIS))
    choices = (
        (
            _NOW,
            _("Enable now"),
            _("The reservation, quota and version checks can then run while you fill in the steps."),
        ),
        (
            _LATER,
            _("Not now"),
            _("Launch will enable them and run all checks before creating billable resources."),
        ),
    )
    return ChoiceDialog(_("Enable the APIs in {project}?").format(project=project), text, choices)


def is_confirmed(choice: str | None) -> bool:
    """Whether the user chose to enable the APIs now."""
    return choice == _NOW
