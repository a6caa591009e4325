"""The training job as a resource: looked up on the head by its marks, submitted once, resumed by a new job in the same folder."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grpo_wizard.steps.clients.context import Cloud
from grpo_wizard.steps.clients.driver import Driver, Task
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.kubernetes.api import connect
from grpo_wizard.steps.clients.kubernetes.exec import run_in_pod
from grpo_wizard.steps.clients.kubernetes.rayclusters import (
    head_is_ready,
    raise_workers,
    released,
    workers_ready,
)
from grpo_wizard.steps.clients.ray.head import Head, open_head
from grpo_wizard.steps.clients.ray.jobs_api import Job, RayError, RayUnreachable
from grpo_wizard.steps.core.model import Drift, Sight
from grpo_wizard.steps.training.checkpoints import Listing, parse_du, read

MARK, PARAMETERS = "grpo-wizard", "grpo-wizard-parameters"
_ENDED_BADLY = ("FAILED", "STOPPED")
_NEW_PARAMETERS = "another run has ended; these parameters are new"


def parameters(entrypoint: str) -> str:
    """A short hash of all that a job does: two jobs with the same one are the same run."""
    return hashlib.sha256(entrypoint.encode()).hexdigest()[:12]


class JobDriver(Driver):
    """`repeatable`: a job that FAILED, was STOPPED or is lost is simply submitted again; NeMo RL goes on from the last step_N itself."""

    repeatable = True

    def look(self, cloud: Cloud, task: Task) -> Sight:
        live = self._raycluster(cloud, task)
        if live is None or not head_is_ready(live):
            return Sight()
        return asyncio.run(self._look(cloud, task))

    async def _look(self, cloud: Cloud, task: Task) -> Sight:
        try:
            async with open_head(cloud, task.resource.where) as head:
                mine = [
                    job
                    for job in await head.jobs.list_jobs()
                    if job.metadata.get(MARK) == self._lineage(task)
                ]
                if not mine:
                    return Sight(detail="LOST" if task.memo.get("job_id") else "")
                sight = self._judge(task, mine[0], await _has_spoken(head, mine[0]))
                return await _with_resume_point(head, task, sight) if sight.state == "failed" else sight
        except RayError as error:
            raise _busy(error) from error

    def _judge(self, task: Task, job: Job, spoken: bool) -> Sight:
        same = job.metadata.get(PARAMETERS) == parameters(str(task.spec["entrypoint"]))
        facts = {"job_id": job.id, "status": job.status, "message": job.message[-400:]}
        lineage = job.metadata[MARK]
        if job.status in _ENDED_BADLY:
            return Sight(
                "failed", lineage, job.id, detail=f"{job.status}: {_last_line(job.message)}", facts=facts
            )
        if not same and job.status == "SUCCEEDED":
            return Sight(detail=_NEW_PARAMETERS, facts=facts)
        drift = (
            ()
            if same
            else (
                Drift("parameters", "those of the answers", f"those of job {job.id}, which is {job.status}"),
            )
        )
        ready = job.status == "SUCCEEDED" or (job.status == "RUNNING" and spoken)
        return Sight(
            "ready" if ready or drift else "creating", lineage, job.id, drift, f"job is {job.status}", facts
        )

    def create(self, cloud: Cloud, task: Task) -> str:
        """Submits under an id that was written down before. Released GPU nodes are asked for again first."""
        self._bring_back_workers(cloud, task)
        asyncio.run(self._submit(cloud, task))
        return ""

    def _bring_back_workers(self, cloud: Cloud, task: Task) -> None:
        kube = connect(cloud, task.at("project"), task.at("location"), task.at("cluster"))
        path = self._path(task)
        live = kube.get(path) if kube else None
        if kube is None or live is None or not head_is_ready(live):
            raise CloudError("busy", "the Ray head is not ready", transient=True)
        wanted = int(task.spec["workers"])
        if released(live):
            asyncio.run(self._worth_waking(cloud, task))
            task.tell(f"the GPU nodes were released: asking for {wanted} workers again")
            raise_workers(kube, path, wanted)
            raise CloudError("busy", "waiting for the workers to come back", transient=True)
        if workers_ready(live) < wanted:
            raise CloudError("busy", f"workers ready: {workers_ready(live)} of {wanted}", transient=True)

    async def _worth_waking(self, cloud: Cloud, task: Task) -> None:
        """Before GPU nodes are asked for again."""
        async with open_head(cloud, task.resource.where) as head:
            await _steps_are_left(head, task)

    async def _submit(self, cloud: Cloud, task: Task) -> None:
        script = str(task.spec["entrypoint"])
        metadata = {MARK: self._lineage(task), PARAMETERS: parameters(script), "name": task.name}
        try:
            async with open_head(cloud, task.resource.where) as head:
                await _steps_are_left(head, task)
                job = await head.jobs.submit(script, job_id(task.request_id), metadata)
        except RayError as error:
            raise _busy(error) from error
        cloud.audit(cloud.identity, "POST", "ray:/api/jobs/", job.id, job.status)

    def delete(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        asyncio.run(self._stop(cloud, task, sight.identity))
        return ""

    async def _stop(self, cloud: Cloud, task: Task, id: str) -> None:
        """Stopped and forgotten by Ray; checkpoints and log files on Lustre stay as they are."""
        try:
            async with open_head(cloud, task.resource.where) as head:
                await head.jobs.stop(id)
                for _ in range(100):
                    if (await head.jobs.get(id)).ended:
                        break
                    await asyncio.sleep(0.2)
                await head.jobs.delete(id)
        except RayError as error:
            raise _busy(error) from error

    def _lineage(self, task: Task) -> str:
        return task.lineage

    def _path(self, task: Task) -> str:
        return f"/apis/ray.io/v1/namespaces/{task.at('namespace')}/rayclusters/{task.at('raycluster')}"

    def _raycluster(self, cloud: Cloud, task: Task) -> Mapping[str, Any] | None:
        kube = connect(cloud, task.at("project"), task.at("location"), task.at("cluster"))
        return kube.get(self._path(task)) if kube else None


def judge_end(lineage: str, id: str, status: str, same: bool) -> Sight:
    """Of a job that has ended and that no head knows any more. `same`: whether it did what the answers ask for now."""
    facts = {"job_id": id, "status": status}
    detail = f"{status}; the Ray head was made anew since and does not know it any more"
    if status in _ENDED_BADLY:
        return Sight("failed", lineage, id, detail=detail, facts=facts)
    if not same:
        return Sight(detail=_NEW_PARAMETERS, facts=facts)
    return Sight("ready", lineage, id, detail=detail, facts=facts)


def job_id(request_id: str) -> str:
    """Ray's submission id of a create: derived from what is on disk before the call, so that a lost answer is found."""
    return f"grpo-{request_id}"


async def checkpoints(head: Head, folder: str) -> Listing:
    """What stands below a checkpoint folder on Lustre, listed by `du` in the head's container."""
    done = await run_in_pod(head, "ray-head", ["du", "-ab", folder])
    return read(parse_du(done.stdout))


def no_step_left(listing: Listing, task_spec: Mapping[str, Any]) -> str:
    """Why a run in this folder would have nothing to do, empty when it would: NeMo RL takes the highest step_N by name
    (v0.5.0, checkpoint.py:272), sees that it is at max_num_steps, and ends as if it had succeeded (grpo.py:1063)."""
    latest, last = listing.latest_step, int(task_spec["max_num_steps"])
    if latest is None or latest < last:
        return ""
    return f"{task_spec['checkpoint_dir']} holds step_{latest} already, and the run ends at step {last}: not one step would be made"


STEPS_FIX = "raise grpo.max_num_steps, or choose another grpo.checkpoint_dir"


async def _steps_are_left(head: Head, task: Task) -> None:
    """Raises CloudError before a submission that would only pretend to train. A folder that cannot be listed stops nothing."""
    try:
        why = no_step_left(await checkpoints(head, str(task.spec["checkpoint_dir"])), task.spec)
    except CloudError as error:
        task.tell(f"the checkpoint folder could not be listed: {error.title}")
        return
    if why:
        raise CloudError("conflict", "the run has no step left to make", why, STEPS_FIX)


async def _with_resume_point(head: Head, task: Task, sight: Sight) -> Sight:
    """Where the next try goes on: NeMo RL takes the newest complete step_N of the same folder by itself."""
    step = (await checkpoints(head, str(task.spec["checkpoint_dir"]))).resume_step
    where = (
        f"the next try goes on from step_{step}"
        if step is not None
        else "no checkpoint is complete: the next try begins anew"
    )
    return replace(sight, detail=f"{sight.detail}; {where}")


async def _has_spoken(head: Head, job: Job) -> bool:
    """Whether the job's log has a first line."""
    if job.status != "RUNNING":
        return False
    try:
        async with head.jobs.request(
            "GET", f"{head.agent_url}/logs/job-driver-{job.id}.log", headers={"Range": "bytes=0-4095"}
        ) as answer:
            return answer.status in (200, 206) and b"\n" in await answer.read()
    except RayError:
        return False


def _busy(error: RayError) -> CloudError:
    waits = isinstance(error, RayUnreachable)
    return CloudError("busy" if waits else "refused", error.title, error.detail, error.fix, transient=waits)


def _last_line(message: str) -> str:
    lines = [line for line in message.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else ""
