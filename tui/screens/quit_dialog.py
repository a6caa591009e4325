"""Leaving while something is going on: in the background, paused, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.tui.commands import _detach
from grpo_wizard.tui.controllers.launch import command_line
from grpo_wizard.tui.style.i18n import _

if TYPE_CHECKING:
    from grpo_wizard.tui.app import Wizard

_BOX = "leave"


def ask(app: Wizard) -> None:
    """Asks, and does it."""
    from grpo_wizard.tui.screens.dialogs import Choose

    ways = (
        (
            "background",
            _("Go on in the background"),
            _("a process of its own goes on; open grpo-wizard again to watch it"),
        ),
        (
            "pause",
            _("Pause"),
            _(
                "ends at the next safe point; what was asked of the cloud is finished there; nothing new is begun"
            ),
        ),
        ("stay", _("Stay"), _("nothing changes")),
    )

    async def chosen(way: str | None) -> None:
        if way in ("background", "pause"):
            await leave(app, way == "background")

    engine = app.engine
    box = Choose(
        _("Leave?"),
        _("Something is going on with this deployment."),
        ways,
        id=_BOX,
        holds=lambda: engine is None or engine.is_running,
        over=_("What was going on has ended. Leaving needs no answer any more."),
    )
    app.push_screen(box, chosen)


def is_asking(app: Wizard) -> bool:
    """Whether the question stands on the screen already."""
    return any(screen.id == _BOX for screen in app.screen_stack)


async def leave(app: Wizard, in_background: bool) -> None:
    """Ends this process's part at the next safe point; then, if wished, another one goes on."""
    engine, desk = app.engine, app.desk
    assert engine is not None and desk is not None
    if not engine.is_running:  # it ended while the answer was given: nothing is left to pause
        app.leave(0)
        return
    app.notify(_("waiting for the calls that are under way"), title=_("Pausing"))
    await engine.pause()
    desk.release()
    flags = " --rehearse" if desk.is_rehearsal else ""
    if in_background:
        pid, log = _detach.start(desk.home, desk.name, command_line(desk, engine.words), desk.environment())
        message = _(
            "{name} goes on in the background as process {pid}. grpo-wizard shows it; {log} holds what it says."
        ).format(name=desk.name, pid=pid, log=log)
    else:
        message = _(
            "{name} is paused. What was made stays, and costs on. To go on: grpo-wizard{flags} --deployment {name}"
        ).format(name=desk.name, flags=flags)
    app.exit(0, message=message)
