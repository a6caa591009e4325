"""What a destroy deletes, keeps and loses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_wizard.tui.style.i18n import _, ngettext

if TYPE_CHECKING:
    from grpo_wizard.steps.engine.plan import Decision


@dataclass(frozen=True)
class DestroyItem:
    """A resource that exists. `usd_per_hour` is None where no price is known."""

    id: str
    kind: str
    name: str
    deleted: bool
    retain_reason: str = ""
    retained_with_lustre: bool = False
    usd_per_hour: float | None = 0.0


def destroy_items(decisions: Sequence[Decision]) -> list[DestroyItem]:
    """List every resource that exists, with what a destroy does with it."""
    from grpo_wizard.steps.engine.graph import retained_ids

    found = []
    kept_with_lustre = retained_ids([d.resource for d in decisions], ("lustre",))
    for d in decisions:
        r = d.resource
        if d.observed.state == "absent":
            continue
        reason = (
            r.note or _("kept by design")
            if r.retain_on_destroy
            else _("adopted")
            if d.ownership == "adopted"
            else _("not created by this deployment")
        )
        deleted = d.ownership == "created" and not r.retain_on_destroy
        found.append(
            DestroyItem(
                id=r.id,
                kind=r.kind.replace("_", " "),
                name=r.name,
                deleted=deleted,
                retain_reason="" if deleted else reason,
                retained_with_lustre=r.id in kept_with_lustre,
                usd_per_hour=r.usd_per_hour,
            )
        )
    return found


def split(items: Sequence[DestroyItem], keep_lustre: bool) -> tuple[list[DestroyItem], list[DestroyItem]]:
    """Split into what is deleted and what is kept, when Lustre and its network are kept or not."""
    with_lustre = {item.id for item in items if item.deleted and keep_lustre and item.retained_with_lustre}
    deleted = [item for item in items if item.deleted and item.id not in with_lustre]
    kept = [item for item in items if not item.deleted]
    return deleted, kept + [item for item in items if item.id in with_lustre]


def data_loss_warning(deleted: Sequence[DestroyItem], checkpoint_steps: Sequence[int]) -> str:
    """Name the checkpoints that are deleted with Lustre; empty when it is kept or holds none."""
    if not checkpoint_steps or not any(item.kind == "lustre" for item in deleted):
        return ""
    names = ", ".join(f"step_{n}" for n in checkpoint_steps[-5:])
    return ngettext(
        "{n} checkpoint on Lustre will be deleted with it: {names}",
        "{n} checkpoints on Lustre will be deleted with it: {names}",
        len(checkpoint_steps),
    ).format(n=len(checkpoint_steps), names=names)
