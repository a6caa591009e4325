"""Following the job to its end, as the events that the wizard's commands and the journal share."""

from __future__ import annotations

from collections.abc import AsyncIterator

from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.jobs.watch import JobWatcher


async def job_events(watcher: JobWatcher) -> AsyncIterator[Event]:
    """Follow the job's log into its spool; yield an event for each new status and each training step."""
    reported, status = len(watcher.reader.rows), ""
    async for _ in watcher.run():
        rows = watcher.reader.rows
        if watcher.status == status and len(rows) <= reported:
            continue
        reported, status = len(rows), watcher.status
        yield Event("job", "grpo.job", job_event_data(watcher))


def job_event_data(watcher: JobWatcher) -> dict[str, object]:
    """The data of a job event: the status and the last training step."""
    rows = watcher.reader.rows
    last = rows[-1].to_json() if rows else {}
    reward = last.get("avg_reward")
    return {
        "job_id": watcher.job_id,
        "status": watcher.status,
        "step": last.get("step"),
        "total_steps": watcher.reader.run_info.total_steps,
        "avg_reward": reward,
        "detail": f"reward {reward:.4f}" if isinstance(reward, float) else "",
    }


def job_failures(watcher: JobWatcher) -> list[dict[str, str]]:
    """The summary's list `failed` for a job that has ended; empty when it SUCCEEDED."""
    if watcher.status == "SUCCEEDED":
        return []
    return [
        {
            "id": "grpo.job",
            "title": f"Job status: {watcher.status or 'LOST'}",
            "detail": watcher.detail[-400:],
            "fix": "Run grpo-wizard health to find the cause. Then run apply to resume from the last complete checkpoint.",
        }
    ]
