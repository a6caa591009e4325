"""From words to a run: `apply --yes …` or `destroy --confirm …`, as the command line would understand them."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from grpo_wizard.state.errors import LockHeld, WizardError
from grpo_wizard.tui.controllers.engine_runner import EngineRunner
from grpo_wizard.tui.style.i18n import _

if TYPE_CHECKING:
    from grpo_wizard.steps.core.events import Event
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.tui.controllers.deployment import DeploymentController
    from grpo_wizard.tui.viewmodels.run_progress import RunProgress


class Frontend(Protocol):
    """What holds the deployment and the run: the app, or plain mode's table."""

    controller: DeploymentController | None
    engine: EngineRunner | None


async def launch(app: Frontend, args: list[str], progress: RunProgress | None = None) -> None:
    """Begins it in this process and puts it into `app.engine`; `story` takes its events. Raises WizardError."""
    desk = app.controller
    assert desk is not None
    if not desk.ensure_lock():
        who = desk.lock_owner
        assert who is not None
        raise LockHeld(desk.name, who.pid, who.host, who.since, who.command)
    if app.engine is not None and app.engine.is_running:
        raise WizardError(_("Something is going on already"), "", _("Wait for it, or pause it first."))
    desk.draft.freeze(desk.answers(), "teardown" if args[0] == "destroy" else "run")
    engine = EngineRunner(desk, args, progress)
    app.engine = engine
    await engine.start(lambda session: _event_stream(session, args))


async def _event_stream(session: Session, args: list[str]) -> AsyncIterator[Event]:
    from grpo_wizard.steps.engine.apply import ApplyOptions, apply, destroy

    if args[0] == "destroy":
        keep = {"lustre"} if "--keep" in args else set()
        async for event in destroy(session, keep=keep):
            yield event
        return
    from grpo_wizard.tui.commands.apply import preflight_gate

    replaced = tuple(args[n + 1] for n, word in enumerate(args) if word == "--replace")
    options = ApplyOptions(
        adopt="--adopt" in args,
        replace=replaced,
        gate=None if "--skip-checks" in args else lambda: preflight_gate(session),
        allow_unpriced="--skip-checks" in args,
    )
    async for event in apply(session, options):
        yield event


def cli_command(controller: DeploymentController, *args: str) -> str:
    """A command of ours for this deployment, to be typed as it stands."""
    return shlex.join(["grpo-wizard", *cli_args(controller, list(args))])


def cli_args(controller: DeploymentController, args: list[str]) -> list[str]:
    """`words` with what says which deployment, for a process of its own."""
    more = ["--deployment", controller.name, "--home", str(controller.home.root)]
    if controller.is_rehearsal:
        more += ["--rehearse"] + (["--speed", controller.speed] if controller.speed else [])
    return [*args, *more]
