"""What becomes of each thing when a deployment is taken down, as far as looking tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_wizard.tui.controllers.deployment import DeploymentController
from grpo_wizard.tui.style.i18n import _, ngettext

if TYPE_CHECKING:
    from grpo_wizard.steps.engine.plan import Decision


@dataclass(frozen=True)
class DestroyItem:
    """One thing that is there."""

    id: str
    kind: str
    name: str
    deleted: bool
    retain_reason: str = ""
    retained_with_lustre: bool = False


def destroy_items(decisions: Sequence[Decision]) -> list[DestroyItem]:
    """Of all that is there; what is absent has none."""
    from grpo_wizard.steps.engine.graph import retained_ids

    found = []
    needed = retained_ids([d.resource for d in decisions], ("lustre",))
    for d in decisions:
        r = d.resource
        if d.observed.state == "absent":
            continue
        why = (
            r.note or _("stays by design")
            if r.retain_on_destroy
            else _("adopted")
            if d.ownership == "adopted"
            else _("not made by this deployment")
        )
        goes = d.ownership == "created" and not r.retain_on_destroy
        found.append(
            DestroyItem(r.id, r.kind.replace("_", " "), r.name, goes, "" if goes else why, r.id in needed)
        )
    return found


def split(listed: Sequence[DestroyItem], keep_lustre: bool) -> tuple[list[DestroyItem], list[DestroyItem]]:
    """What goes and what stays, when Lustre and its network are kept or not."""
    kept = {fate.id for fate in listed if fate.deleted and keep_lustre and fate.retained_with_lustre}
    goes = [fate for fate in listed if fate.deleted and fate.id not in kept]
    return goes, [fate for fate in listed if not fate.deleted] + [fate for fate in listed if fate.id in kept]


def data_loss_warning(controller: DeploymentController, keep_lustre: bool) -> str:
    """What cannot be had back, in a sentence; nothing where nothing is lost."""
    steps = known_checkpoints(controller)
    if not steps or keep_lustre:
        return ""
    names = ", ".join(f"step_{n}" for n in steps[-5:])
    return ngettext(
        "{n} checkpoint on Lustre is lost with it: {names}",
        "{n} checkpoints on Lustre are lost with it: {names}",
        len(steps),
    ).format(n=len(steps), names=names)


def known_checkpoints(controller: DeploymentController) -> list[int]:
    """Steps after which a checkpoint was begun, by the job's log as read so far."""
    spool = controller.home.job_log_file(controller.name)
    if not spool.exists():
        return []
    from grpo_wizard.steps.training.reader import parse_log

    return [row.step for row in parse_log(spool.read_bytes()).rows if row.checkpoint]
