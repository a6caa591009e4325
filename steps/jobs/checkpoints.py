"""Checkpoints of a deployment: the folders on Lustre, and the steps that the job's log names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.steps.clients.ray.head import open_head
from grpo_wizard.steps.clients.ray.job_driver import read_checkpoint_folder
from grpo_wizard.steps.jobs.recorded_steps import read_recorded_steps
from grpo_wizard.steps.jobs.watch import JobWatcher, job_resource, last_job_id

if TYPE_CHECKING:
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.steps.training.checkpoints import CheckpointListing


async def list_checkpoints(session: Session) -> CheckpointListing:
    """List the answers' checkpoint_dir. Raises CloudError when no Ray head is reachable."""
    async with open_head(session.cloud, job_resource(session).parent) as head:
        return await read_checkpoint_folder(head, session.answers.grpo.checkpoint_dir)


def known_checkpoint_steps(session: Session) -> tuple[int, ...]:
    """Return the steps after which a checkpoint was begun, as recorded while the job was watched.

    Blocking: where nothing was recorded for the present job, its log is parsed once and recorded.
    """
    recorded = read_recorded_steps(session.store.home, session.deployment.name, last_job_id(session))
    if recorded is not None:
        return recorded
    if not session.store.home.job_log_file(session.deployment.name).exists():
        return ()
    watcher = JobWatcher(session)
    watcher.read_spool()
    watcher.load_earlier()
    return watcher.record_checkpoints()
