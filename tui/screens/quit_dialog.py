"""Leaving while something is going on: in the background, paused, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.tui.controllers.detach import run_args, start_detached
from grpo_wizard.tui.controllers.launch import cli_args
from grpo_wizard.tui.style.i18n import _

if TYPE_CHECKING:
    from grpo_wizard.tui.app import Wizard

_DIALOG_ID = "leave"


def show_quit_dialog(app: Wizard) -> None:
    """Asks, and does it."""
    from grpo_wizard.tui.screens.dialogs import ChoiceDialog

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
            await pause_and_quit(app, way == "background")

    engine = app.engine
    box = ChoiceDialog(
        _("Leave?"),
        _("Something is going on with this deployment."),
        ways,
        id=_DIALOG_ID,
        is_relevant=lambda: engine is None or engine.is_running,
        expired_message=_("What was going on has ended. Leaving needs no answer any more."),
    )
    app.push_screen(box, chosen)


def is_quit_dialog_open(app: Wizard) -> bool:
    """Whether the question stands on the screen already."""
    return any(screen.id == _DIALOG_ID for screen in app.screen_stack)


async def pause_and_quit(app: Wizard, in_background: bool) -> None:
    """Ends this process's part at the next safe point; then, if wished, another one goes on."""
    engine, desk = app.engine, app.controller
    assert engine is not None and desk is not None
    if not engine.is_running:  # it ended while the answer was given: nothing is left to pause
        app.release_and_exit(0)
        return
    app.notify(_("waiting for the calls that are under way"), title=_("Pausing"))
    await engine.pause()
    desk.release_lock()
    flags = " --rehearse" if desk.is_rehearsal else ""
    if in_background:
        args = cli_args(desk, run_args(engine.options, desk.name))
        pid, log = start_detached(desk.home, desk.name, args, desk.child_environment())
        message = _(
            "{name} goes on in the background as process {pid}. grpo-wizard shows it; {log} holds what it says."
        ).format(name=desk.name, pid=pid, log=log)
    else:
        message = _(
            "{name} is paused. What was made stays, and costs on. To go on: grpo-wizard{flags} --deployment {name}"
        ).format(name=desk.name, flags=flags)
    app.exit(0, message=message)
