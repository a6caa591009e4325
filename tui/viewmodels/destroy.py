"""What becomes of each thing when a deployment is taken down, as far as looking tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_wizard.tui.controllers.deployment import Desk
from grpo_wizard.tui.style.i18n import _, ngettext

if TYPE_CHECKING:
    from grpo_wizard.steps.engine.plan import Decision


@dataclass(frozen=True)
class Fate:
    """One thing that is there."""

    id: str
    kind: str
    name: str
    goes: bool
    why: str = ""
    goes_with_lustre: bool = False


def fates(decisions: Sequence[Decision]) -> list[Fate]:
    """Of all that is there; what is absent has none."""
    from grpo_wizard.steps.engine.plan import kept_back

    found = []
    needed = kept_back([d.resource for d in decisions], ("lustre",))
    for d in decisions:
        r = d.resource
        if d.sight.state == "absent":
            continue
        why = (
            r.note or _("stays by design")
            if r.kept
            else _("adopted")
            if d.origin == "adopted"
            else _("not made by this deployment")
        )
        goes = d.origin == "created" and not r.kept
        found.append(Fate(r.id, r.kind.replace("_", " "), r.name, goes, "" if goes else why, r.id in needed))
    return found


def sides(listed: Sequence[Fate], keeps_lustre: bool) -> tuple[list[Fate], list[Fate]]:
    """What goes and what stays, when Lustre and its network are kept or not."""
    kept = {fate.id for fate in listed if fate.goes and keeps_lustre and fate.goes_with_lustre}
    goes = [fate for fate in listed if fate.goes and fate.id not in kept]
    return goes, [fate for fate in listed if not fate.goes] + [fate for fate in listed if fate.id in kept]


def lost(desk: Desk, keeps_lustre: bool) -> str:
    """What cannot be had back, in a sentence; nothing where nothing is lost."""
    steps = checkpoints_known(desk)
    if not steps or keeps_lustre:
        return ""
    names = ", ".join(f"step_{n}" for n in steps[-5:])
    return ngettext(
        "{n} checkpoint on Lustre is lost with it: {names}",
        "{n} checkpoints on Lustre are lost with it: {names}",
        len(steps),
    ).format(n=len(steps), names=names)


def checkpoints_known(desk: Desk) -> list[int]:
    """Steps after which a checkpoint was begun, by the job's log as read so far."""
    spool = desk.home.spool_file(desk.name)
    if not spool.exists():
        return []
    from grpo_wizard.steps.training.reader import read

    return [row.step for row in read(spool.read_bytes()).rows if row.checkpoint]
