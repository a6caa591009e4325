"""Quitting while a run is in progress: continue in the background, pause, or stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.tui.controllers.detach import run_args, start_detached
from grpo_wizard.tui.controllers.launch import cli_args
from grpo_wizard.tui.style.i18n import _

if TYPE_CHECKING:
    from grpo_wizard.tui.app import Wizard

_DIALOG_ID = "leave"


def show_quit_dialog(app: Wizard) -> None:
    """Ask what to do with the run, then do it."""
    from grpo_wizard.tui.screens.dialogs import ChoiceDialog

    choices = (
        (
            "background",
            _("Continue in the background"),
            _("A separate process will continue the run. Open grpo-wizard again to watch it."),
        ),
        (
            "pause",
            _("Pause"),
            _(
                "Stop once the calls in flight are complete. Operations already started in Google Cloud will finish."
            ),
        ),
        ("stay", _("Stay"), _("Keep the wizard open.")),
    )

    async def on_choice(choice: str | None) -> None:
        if choice in ("background", "pause"):
            await pause_and_quit(app, choice == "background")

    engine = app.engine
    dialog = ChoiceDialog(
        _("Quit?"),
        _("A run is in progress."),
        choices,
        id=_DIALOG_ID,
        is_relevant=lambda: engine is None or engine.is_running,
        expired_message=_("The run has finished. You can quit now."),
    )
    app.push_screen(dialog, on_choice)


def is_quit_dialog_open(app: Wizard) -> bool:
    """Whether the dialog is open already."""
    return any(screen.id == _DIALOG_ID for screen in app.screen_stack)


async def pause_and_quit(app: Wizard, in_background: bool) -> None:
    """Pause the run at the next safe point and quit; `in_background` starts a process that continues it."""
    engine, controller = app.engine, app.controller
    assert engine is not None and controller is not None
    if not engine.is_running:  # it ended while the dialog was open
        app.release_and_exit(0)
        return
    app.notify(_("Waiting for the calls in flight to complete"), title=_("Pausing"))
    await engine.pause()
    controller.release_lock()
    flags = " --rehearse" if controller.is_rehearsal else ""
    if in_background:
        args = cli_args(controller, run_args(engine.options, controller.name))
        pid, log = start_detached(controller.home, controller.name, args, controller.child_environment())
        message = _(
            "{name} is still running in the background (process {pid}). Open grpo-wizard to watch it. Output is in {log}."
        ).format(name=controller.name, pid=pid, log=log)
    else:
        resume = _("Resume with: {command}").format(
            command=f"grpo-wizard{flags} --deployment {controller.name}"
        )
        billed = "" if controller.is_rehearsal else _("Existing resources will still be billed.") + " "
        message = _("{name} is paused.").format(name=controller.name) + f" {billed}{resume}"
    app.exit(0, message=message)
