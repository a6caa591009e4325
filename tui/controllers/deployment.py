"""The deployment that the interface has open: its draft, its lock and its clients."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import LockHeld, WizardError
from grpo_wizard.state.home import Home
from grpo_wizard.state.lock import Lock, LockOwner, lock_owner
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.core.answers import Field, NotAnswered
from grpo_wizard.steps.core.model import Check, CheckFinding
from grpo_wizard.steps.engine.preflight import CheckResult, run_check
from grpo_wizard.steps.gcp.suggestions import Suggestion, suggestions
from grpo_wizard.steps.pricing.book import PriceBook
from grpo_wizard.steps.pricing.refresh import load_price_book
from grpo_wizard.steps.registry import WORKFLOW, ValidationErrors, step, validate
from grpo_wizard.tui.controllers.draft import AnswersByStep, Draft
from grpo_wizard.tui.controllers.threads import in_thread
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.deployments import WIZARD_LOCK_COMMAND, has_billable_resources, has_job

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers
    from grpo_wizard.steps.clients.context import CloudContext
    from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
    from grpo_wizard.steps.deployment.session import Session


class DeploymentController:
    """Writable if it got the lock, else read-only; `lock_owner` is then the process that holds it."""

    def __init__(self, home: Home, name: str, prefill: AnswersByStep, speed: str | None = None) -> None:
        self.home, self.name, self.speed = home, name, speed
        self.store = StateStore(home)
        self._lock = Lock(home, name, WIZARD_LOCK_COMMAND)
        self.lock_owner: LockOwner | None = None
        self.blocked_steps: set[str] = set()
        """Names of the steps in which a check last blocked."""
        self.draft = Draft(self.store, self.store.load(name), prefill)
        self._state_mtime_ns = 0  # of the state file when it was last read
        self.acquire_lock()
        self._connecting: asyncio.Task[tuple[CloudContext, CachedCloudReader]] | None = None

    @property
    def mode(self) -> str:
        """real or rehearsal."""
        return self.draft.deployment.mode

    @property
    def is_rehearsal(self) -> bool:
        """Whether it runs on the emulator, where nothing is billed."""
        return self.mode == "rehearsal"

    @property
    def price_book(self) -> PriceBook:
        """The prices known now. Reads one cached file; `refresh_prices` asks for today's."""
        return load_price_book(Path(self.home.root), self.mode)

    @property
    def writable(self) -> bool:
        """Whether this process holds the lock."""
        return self.lock_owner is None

    def acquire_lock(self) -> bool:
        """Try to take the lock, and reload the state if another process had it. True when held."""
        was_held = self.lock_owner is not None
        try:
            self._lock.acquire()
        except LockHeld:
            self.lock_owner = lock_owner(self.home, self.name) or LockOwner(0, "", "", "")
            return False
        self.lock_owner = None
        if was_held:
            self.reload()
        return True

    def ensure_lock(self) -> bool:
        """True when the lock is held, after a try if necessary."""
        return self.writable or self.acquire_lock()

    def reload(self) -> None:
        """Read the state from disk, with the same prefill and secrets."""
        secrets = self.draft.secrets
        self.draft = Draft(self.store, self.store.load(self.name), self.draft.prefill)
        self.draft.secrets = secrets

    def reload_if_changed(self) -> None:
        """Reload if another process, which holds the lock, has saved the state since."""
        if not self.writable:
            written = self.home.state_file(self.name).stat().st_mtime_ns
            if written != self._state_mtime_ns:
                self.reload()
                self._state_mtime_ns = written

    def initial_screen(self) -> str:
        """The screen to open: where the wizard was left, or the run or job once resources exist."""
        deployment = self.draft.deployment
        if has_job(deployment):
            return "monitor"
        if has_billable_resources(deployment) or not self.writable:
            return "run"
        return self.draft.resume_screen() if deployment.place != "review" else "review"

    def release_lock(self) -> None:
        """Release the lock."""
        self._lock.release()

    def record_checks(self, step_name: str, blocks: bool) -> None:
        """Remember whether a step's checks block, for the stepper."""
        (self.blocked_steps.add if blocks else self.blocked_steps.discard)(step_name)

    async def cloud_reader(self, refresh: bool = False) -> CachedCloudReader:
        """What checks read the cloud through; opened once. `refresh` drops its cache. Raises WizardError."""
        cloud, reader = await asyncio.shield(self._connection())
        if refresh:
            from grpo_wizard.steps.clients.queries.cached import CachedCloudReader

            reader = CachedCloudReader(cloud, self.draft.deployment.lineage)
            self._connecting = asyncio.ensure_future(_ready_connection(cloud, reader))
        return reader

    async def suggestions_for(self, field: Field) -> list[Suggestion]:
        """Existing cloud resources that could be this field's value. Raises WizardError."""
        reader = await self.cloud_reader()
        return await in_thread(suggestions, field, self.draft.validate()[0], reader)

    async def cloud(self) -> CloudContext:
        """The clients, opened once. Raises WizardError."""
        cloud, _world = await asyncio.shield(self._connection())
        self._apply_secrets(cloud)
        return cloud

    def _connection(self) -> asyncio.Task[tuple[CloudContext, CachedCloudReader]]:
        failed = (
            self._connecting is not None
            and self._connecting.done()
            and (self._connecting.cancelled() or self._connecting.exception() is not None)
        )
        if self._connecting is None or failed:
            self._connecting = asyncio.ensure_future(in_thread(self._connect))
        return self._connecting

    def _connect(self) -> tuple[CloudContext, CachedCloudReader]:
        from grpo_wizard.state.audit import AuditLog
        from grpo_wizard.steps.clients.connect import open_cloud
        from grpo_wizard.steps.clients.queries.cached import CachedCloudReader

        audit = AuditLog(self.home.audit_file(self.name))
        cloud = open_cloud(self.mode, Path(self.home.root), self.speed, audit.append)
        self._apply_secrets(cloud)
        return cloud, CachedCloudReader(cloud, self.draft.deployment.lineage)

    def _apply_secrets(self, cloud: CloudContext) -> None:
        """Give the clients the secrets of the environment; those typed in the wizard win."""
        from grpo_wizard.steps.clients.connect import wandb_netrc

        merged = {**cloud.secrets, **self.draft.secrets}
        if "wandb_api_key" in self.draft.secrets:
            merged["wandb_netrc"] = wandb_netrc(self.draft.secrets["wandb_api_key"])
        cloud.secrets, cloud.placeholder_secrets = merged, cloud.placeholder_secrets - set(self.draft.secrets)

    async def session(self) -> Session:
        """A session for the engine. Raises WizardError, also when answers are missing."""
        from grpo_wizard.steps.deployment.session import Session

        cloud = await self.cloud()
        return Session(self.store, self.draft.deployment, cloud, self.answers(), WORKFLOW)

    def answers(self) -> Answers:
        """All answers. Raises WizardError with those that are missing or invalid."""
        missing = self.draft.validate()[1]
        try:
            if missing:
                raise ValidationErrors(missing)
            return validate(self.draft.working_answers)
        except ValidationErrors as refused:
            lines = "\n".join(f"{key}: {rule}" for key, rule in refused.by_field.items())
            raise WizardError(
                _("Some settings are missing or invalid"),
                lines,
                _("Go back to the affected steps and correct them."),
            ) from None

    def child_environment(self) -> dict[str, str]:
        """The environment of a process that continues this deployment; typed tokens are passed in it."""
        names = {"hf_token": "HF_TOKEN", "wandb_api_key": "WANDB_API_KEY"}
        return {
            **os.environ,
            **{names[key]: value.reveal() for key, value in self.draft.secrets.items() if key in names},
        }


async def _ready_connection(
    cloud: CloudContext, reader: CachedCloudReader
) -> tuple[CloudContext, CachedCloudReader]:
    return cloud, reader


def run_single_check(
    step_name: str, check: Check, answers: Answers, reader: CachedCloudReader
) -> list[CheckResult]:
    """Run one check, blocking. One that needs a setting that is not set yet names it."""
    try:
        return run_check(step_name, check, answers, reader)
    except NotAnswered as missing:
        step_key, _dot, name = missing.key.partition(".")
        label = step(step_key).field(name).label
        detail = _("This check will run once {field} is set.").format(field=label)
        return [CheckResult(step_name, check, CheckFinding("info", check.title, detail=detail))]
