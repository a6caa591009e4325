"""From words to a run: `apply --yes …` or `destroy --confirm …`, as the command line would understand them."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from grpo_wizard.state.errors import LockHeld, WizardError
from grpo_wizard.tui.controllers.engine_runner import EngineRun
from grpo_wizard.tui.style.i18n import _

if TYPE_CHECKING:
    from grpo_wizard.steps.core.events import Event
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.tui.controllers.deployment import Desk
    from grpo_wizard.tui.viewmodels.run_progress import Story


class FrontEnd(Protocol):
    """What holds the deployment and the run: the app, or plain mode's table."""

    desk: Desk | None
    engine: EngineRun | None


async def launch(app: FrontEnd, words: list[str], story: Story | None = None) -> None:
    """Begins it in this process and puts it into `app.engine`; `story` takes its events. Raises WizardError."""
    desk = app.desk
    assert desk is not None
    if not desk.take_lock_again():
        who = desk.held_by
        assert who is not None
        raise LockHeld(desk.name, who.pid, who.host, who.since, who.command)
    if app.engine is not None and app.engine.is_running:
        raise WizardError(_("Something is going on already"), "", _("Wait for it, or pause it first."))
    desk.draft.freeze(desk.answers(), "teardown" if words[0] == "destroy" else "run")
    engine = EngineRun(desk, words, story)
    app.engine = engine
    await engine.start(lambda session: _story(session, words))


async def _story(session: Session, words: list[str]) -> AsyncIterator[Event]:
    from grpo_wizard.steps.engine.apply import Options, apply, undo

    if words[0] == "destroy":
        keep = {"lustre"} if "--keep" in words else set()
        async for event in undo(session, keep=keep):
            yield event
        return
    from grpo_wizard.tui.commands.apply import checks_gate

    replaced = tuple(words[n + 1] for n, word in enumerate(words) if word == "--replace")
    options = Options(
        adopt="--adopt" in words,
        replace=replaced,
        gate=None if "--skip-checks" in words else lambda: checks_gate(session),
    )
    async for event in apply(session, options):
        yield event


def same_here(desk: Desk, *words: str) -> str:
    """A command of ours for this deployment, to be typed as it stands."""
    return shlex.join(["grpo-wizard", *command_line(desk, list(words))])


def command_line(desk: Desk, words: list[str]) -> list[str]:
    """`words` with what says which deployment, for a process of its own."""
    more = ["--deployment", desk.name, "--home", str(desk.home.root)]
    if desk.is_rehearsal:
        more += ["--rehearse"] + (["--speed", desk.speed] if desk.speed else [])
    return [*words, *more]
