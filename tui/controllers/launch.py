"""Starting apply or destroy in this process, and the equivalent commands."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from grpo_wizard.state.errors import LockHeld, WizardError
from grpo_wizard.steps.engine.options import DestroyOptions, RunOptions
from grpo_wizard.tui.controllers.engine_runner import EngineRunner
from grpo_wizard.tui.style.i18n import _

if TYPE_CHECKING:
    from grpo_wizard.steps.core.events import Event
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.tui.controllers.deployment import DeploymentController
    from grpo_wizard.tui.viewmodels.run_progress import RunProgress


class Frontend(Protocol):
    """What holds the deployment and the run: the app, or plain mode's session."""

    controller: DeploymentController | None
    engine: EngineRunner | None


async def launch(app: Frontend, options: RunOptions, progress: RunProgress | None = None) -> None:
    """Start the run and put it into `app.engine`; `progress` takes its events. Raises WizardError."""
    controller = app.controller
    assert controller is not None
    if not controller.ensure_lock():
        owner = controller.lock_owner
        assert owner is not None
        raise LockHeld(controller.name, owner.pid, owner.host, owner.since, owner.command)
    if app.engine is not None and app.engine.is_running:
        raise WizardError(_("A run is in progress"), "", _("Wait for it to finish, or pause it first."))
    screen = "teardown" if isinstance(options, DestroyOptions) else "run"
    controller.draft.freeze(controller.answers(), screen)
    engine = EngineRunner(controller, options, progress)
    app.engine = engine
    await engine.start(lambda session: _event_stream(session, options))


def _event_stream(session: Session, options: RunOptions) -> AsyncIterator[Event]:
    # The engine is heavy to import, and a front end opens before anything is run.
    if isinstance(options, DestroyOptions):
        from grpo_wizard.steps.engine.destroy import destroy

        return destroy(session, options)
    from grpo_wizard.steps.engine.apply import apply

    return apply(session, options)


def cli_command(controller: DeploymentController, *args: str) -> str:
    """A grpo-wizard command for this deployment, ready to paste into a shell."""
    return shlex.join(["grpo-wizard", *cli_args(controller, list(args))])


def cli_args(controller: DeploymentController, args: list[str]) -> list[str]:
    """`args` with the options that select this deployment, for another process."""
    selection = ["--deployment", controller.name, "--home", str(controller.home.root)]
    if controller.is_rehearsal:
        selection += ["--rehearse"] + (["--speed", controller.speed] if controller.speed else [])
    return [*args, *selection]
