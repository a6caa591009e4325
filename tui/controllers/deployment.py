"""One deployment on the table: its draft, its lock, its clients, and what is going on with it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.errors import LockHeld, WizardError
from grpo_wizard.state.home import Home
from grpo_wizard.state.lock import Holder, Lock, holder
from grpo_wizard.state.store import Store
from grpo_wizard.steps.core.model import Answers, Check, Field, Finding
from grpo_wizard.steps.core.suggestions import Candidate, candidates
from grpo_wizard.steps.engine.preflight import Checked, run_check
from grpo_wizard.steps.registry import Refusals, complete, step
from grpo_wizard.tui.controllers.draft import Draft, Given, Unanswered
from grpo_wizard.tui.controllers.threads import in_thread
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import WIZARD, job_stands, stands

if TYPE_CHECKING:
    from grpo_wizard.steps.clients.context import Cloud
    from grpo_wizard.steps.clients.queries.cached import LiveWorld
    from grpo_wizard.steps.deployment.session import Session


class Desk:
    """Opened for writing when the lock could be had, else for looking only (`held_by` says who has it)."""

    def __init__(self, home: Home, name: str, prefill: Given, speed: str | None = None) -> None:
        self.home, self.name, self.speed = home, name, speed
        self.store = Store(home)
        self._lock = Lock(home, name, WIZARD)
        self.held_by: Holder | None = None
        self.blocked: set[str] = set()
        """Names of the steps in which a check was last seen to block."""
        self.draft = Draft(self.store, self.store.load(name), prefill)
        self._written = 0  # ns, of the state file when `watch_state` read it last
        self.take_lock()
        self._opening: asyncio.Task[tuple[Cloud, LiveWorld]] | None = None

    @property
    def mode(self) -> str:
        """real or rehearsal."""
        return self.draft.deployment.mode

    @property
    def is_rehearsal(self) -> bool:
        """Whether nothing here costs anything."""
        return self.mode == "rehearsal"

    @property
    def writable(self) -> bool:
        """Whether this process holds the lock."""
        return self.held_by is None

    def take_lock(self) -> bool:
        """Tries to hold the lock; the state is read again, for another may have changed it. True when held."""
        was_held = self.held_by is not None
        try:
            self._lock.acquire()
        except LockHeld:
            self.held_by = holder(self.home, self.name) or Holder(0, "", "", "")
            return False
        self.held_by = None
        if was_held:
            self.reload()
        return True

    def take_lock_again(self) -> bool:
        """Holds it already, or tries to."""
        return self.writable or self.take_lock()

    def reload(self) -> None:
        """The state as it is on disk now, under the same prefill and secrets."""
        secrets = self.draft.secrets
        self.draft = Draft(self.store, self.store.load(self.name), self.draft.prefill)
        self.draft.secrets = secrets

    def watch_state(self) -> None:
        """Reads the state anew where another process writes it and has done so since."""
        if not self.writable:
            written = self.home.state_file(self.name).stat().st_mtime_ns
            if written != self._written:
                self.reload()
                self._written = written

    def where_to_begin(self) -> str:
        """The place where the wizard was left; once things are made, what is going on with them."""
        deployment = self.draft.deployment
        if job_stands(deployment):
            return "monitor"
        if stands(deployment) or not self.writable:
            return "run"
        return self.draft.first_open() if deployment.place != "review" else "review"

    def release(self) -> None:
        """Gives the lock back."""
        self._lock.release()

    def note_checks(self, step_name: str, blocks: bool) -> None:
        """What the rail says of a step goes by its checks too."""
        (self.blocked.add if blocks else self.blocked.discard)(step_name)

    async def world(self, anew: bool = False) -> LiveWorld:
        """What checks ask; opened once. `anew` forgets all answers that it has. Raises WizardError."""
        cloud, world = await asyncio.shield(self._opened())
        if anew:
            from grpo_wizard.steps.clients.queries.cached import LiveWorld

            world = LiveWorld(cloud, self.draft.deployment.lineage)
            self._opening = asyncio.ensure_future(_ready(cloud, world))
        return world

    async def found_for(self, field: Field) -> list[Candidate]:
        """What is there in the cloud that could answer this field. Raises WizardError."""
        world = await self.world()
        return await in_thread(candidates, field, self.draft.look()[0], world)

    async def cloud(self) -> Cloud:
        """The clients; opened once. Raises WizardError."""
        cloud, _world = await asyncio.shield(self._opened())
        self._give_secrets(cloud)
        return cloud

    def _opened(self) -> asyncio.Task[tuple[Cloud, LiveWorld]]:
        failed = (
            self._opening is not None
            and self._opening.done()
            and (self._opening.cancelled() or self._opening.exception() is not None)
        )
        if self._opening is None or failed:
            self._opening = asyncio.ensure_future(in_thread(self._open))
        return self._opening

    def _open(self) -> tuple[Cloud, LiveWorld]:
        from grpo_wizard.state.audit import Audit
        from grpo_wizard.steps.clients.connect import open_cloud
        from grpo_wizard.steps.clients.queries.cached import LiveWorld

        audit = Audit(self.home.audit_file(self.name))
        cloud = open_cloud(self.mode, Path(self.home.root), self.speed, audit.append)
        self._give_secrets(cloud)
        return cloud, LiveWorld(cloud, self.draft.deployment.lineage)

    def _give_secrets(self, cloud: Cloud) -> None:
        """Those of the environment, under those that were typed."""
        from grpo_wizard.steps.clients.connect import netrc

        merged = {**cloud.secrets, **self.draft.secrets}
        if "wandb_api_key" in self.draft.secrets:
            merged["wandb_netrc"] = netrc(self.draft.secrets["wandb_api_key"])
        cloud.secrets, cloud.made_up = merged, cloud.made_up - set(self.draft.secrets)

    async def session(self) -> Session:
        """For the engine. Raises WizardError, also when answers are missing."""
        from grpo_wizard.steps.deployment.session import Session

        cloud = await self.cloud()
        return Session(self.store, self.draft.deployment, cloud, self.answers())

    def answers(self) -> dict[str, dict[str, Any]]:
        """All of them. Raises WizardError naming those that are missing or refused."""
        missing = self.draft.look()[1]
        try:
            if missing:
                raise Refusals(missing)
            return complete(self.draft.working)
        except Refusals as refused:
            lines = "\n".join(f"{key}: {rule}" for key, rule in refused.by_field.items())
            raise WizardError(
                _("Answers are missing"), lines, _("Go back to the step and answer them.")
            ) from None

    def environment(self) -> dict[str, str]:
        """For a process that goes on with this deployment: tokens that were typed go along as they came in, by environment."""
        names = {"hf_token": "HF_TOKEN", "wandb_api_key": "WANDB_API_KEY"}
        return {
            **os.environ,
            **{names[key]: value.reveal() for key, value in self.draft.secrets.items() if key in names},
        }


async def _ready(cloud: Cloud, world: LiveWorld) -> tuple[Cloud, LiveWorld]:
    return cloud, world


def look_at(step_name: str, check: Check, answers: Answers, world: LiveWorld) -> list[Checked]:
    """One check; blocking. One that needs an answer that is not given yet says which."""
    try:
        return run_check(step_name, check, answers, world)
    except Unanswered as missing:
        where, _dot, name = str(missing.args[0]).partition(".")
        label = step(where).field(name).label
        title = _("{check}: waits for {field}").format(check=check.title, field=label)
        return [Checked(step_name, check, Finding("info", title))]
