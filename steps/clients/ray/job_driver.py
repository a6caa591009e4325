"""The training job as a resource: found on the head by its metadata, submitted once, resumed by a new job in the same folder."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.driver import Driver, ResourceContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.kubernetes.api import connect_cluster
from grpo_wizard.steps.clients.kubernetes.exec import run_in_pod
from grpo_wizard.steps.clients.kubernetes.rayclusters import (
    head_is_ready,
    is_scaled_down,
    ready_worker_count,
    scale_workers,
)
from grpo_wizard.steps.clients.ray.head import RayHeadConnection, open_head
from grpo_wizard.steps.clients.ray.jobs_api import Job, RayError, RayUnreachable
from grpo_wizard.steps.core.model import Drift, ObservedState
from grpo_wizard.steps.training.checkpoints import CheckpointListing, list_from_files, parse_du

OWNER_KEY, PARAMETERS_KEY = "grpo-wizard", "grpo-wizard-parameters"
_FAILED_STATUSES = ("FAILED", "STOPPED")
_NEW_PARAMETERS = "a run with different parameters has ended; this one has not been submitted yet"


def parameters_hash(entrypoint: str) -> str:
    """A short hash of everything that a job does: jobs with the same hash are the same run."""
    return hashlib.sha256(entrypoint.encode()).hexdigest()[:12]


class JobDriver(Driver):
    """A job that FAILED, was STOPPED or is lost is submitted again; NeMo RL itself resumes from the last step_N."""

    recreate_on_failure = True

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        live = self._fetch_raycluster(cloud, context)
        if live is None or not head_is_ready(live):
            return ObservedState()
        return asyncio.run(self._read(cloud, context))

    async def _read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        try:
            async with open_head(cloud, context.resource.parent) as head:
                jobs = self._matching_jobs(context, await head.jobs.list_jobs())
                if not jobs:
                    return ObservedState(detail="LOST" if context.recorded.get("job_id") else "")
                observed = self._observed_state(context, jobs[0], await _has_output(head, jobs[0]))
                if observed.state == "failed" and "checkpoint_dir" in context.spec:
                    return await _with_resume_point(head, context, observed)
                return observed
        except RayError as error:
            raise _to_cloud_error(error) from error

    def _matching_jobs(self, context: ResourceContext, jobs: Sequence[Job]) -> list[Job]:
        """The deployment's jobs, newest first. A job that the answers no longer name is the one on record alone:
        deleting it must not stop the one that replaced it.
        """
        own = [job for job in jobs if job.metadata.get(OWNER_KEY) == self._deployment_id(context)]
        if "entrypoint" in context.spec:
            return own
        return [job for job in own if job.id == context.recorded.get("job_id")]

    def _observed_state(self, context: ResourceContext, job: Job, has_output: bool) -> ObservedState:
        script = context.spec.get("entrypoint")
        same = script is None or job.metadata.get(PARAMETERS_KEY) == parameters_hash(str(script))
        facts = {"job_id": job.id, "status": job.status, "message": job.message[-400:]}
        lineage = job.metadata[OWNER_KEY]
        if job.status in _FAILED_STATUSES:
            detail = f"{job.status}: {_last_line(job.message)}"
            return ObservedState(
                "failed", lineage, job.id, detail=detail, outputs=facts, retryable=job.failed_to_start
            )
        if not same and job.status == "SUCCEEDED":
            return ObservedState(detail=_NEW_PARAMETERS, outputs=facts)
        drift = (
            ()
            if same
            else (
                Drift("parameters", "this configuration's", f"those of job {job.id}, which is {job.status}"),
            )
        )
        ready = job.status == "SUCCEEDED" or (job.status == "RUNNING" and has_output)
        return ObservedState(
            "ready" if ready or drift else "creating", lineage, job.id, drift, f"job is {job.status}", facts
        )

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        """Submit under an id that is already on disk. Released GPU nodes are requested again first."""
        self._scale_up_workers(cloud, context)
        asyncio.run(self._submit(cloud, context))
        return ""

    def _scale_up_workers(self, cloud: CloudContext, context: ResourceContext) -> None:
        kube = connect_cluster(
            cloud, context.location("project"), context.location("location"), context.location("cluster")
        )
        path = self._raycluster_path(context)
        live = kube.get(path) if kube else None
        if kube is None or live is None or not head_is_ready(live):
            raise CloudError("busy", "The Ray head is not ready", transient=True)
        wanted = int(context.spec["workers"])
        if is_scaled_down(live):
            asyncio.run(self._check_before_scale_up(cloud, context))
            context.emit(f"the GPU nodes were released: requesting {wanted} workers again")
            scale_workers(kube, path, wanted)
            raise CloudError("busy", "Waiting for the workers to start again", transient=True)
        if ready_worker_count(live) < wanted:
            raise CloudError("busy", f"Workers ready: {ready_worker_count(live)} of {wanted}", transient=True)

    async def _check_before_scale_up(self, cloud: CloudContext, context: ResourceContext) -> None:
        """Check that the run has steps left before GPU nodes are requested again."""
        async with open_head(cloud, context.resource.parent) as head:
            await _require_steps_left(head, context)

    async def _submit(self, cloud: CloudContext, context: ResourceContext) -> None:
        script = str(context.spec["entrypoint"])
        metadata = {
            OWNER_KEY: self._deployment_id(context),
            PARAMETERS_KEY: parameters_hash(script),
            "name": context.name,
        }
        try:
            async with open_head(cloud, context.resource.parent) as head:
                await _require_steps_left(head, context)
                await head.jobs.submit(script, submission_id(context.request_id), metadata)
        except RayError as error:
            raise _to_cloud_error(error) from error

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        asyncio.run(self._stop(cloud, context, observed.identity))
        return ""

    async def _stop(self, cloud: CloudContext, context: ResourceContext, id: str) -> None:
        """Stop the job and delete it from Ray; checkpoints and log files on Lustre stay."""
        try:
            async with open_head(cloud, context.resource.parent) as head:
                await head.jobs.stop(id)
                for _ in range(100):
                    if (await head.jobs.get(id)).ended:
                        break
                    await asyncio.sleep(0.2)
                await head.jobs.delete(id)
        except RayError as error:
            raise _to_cloud_error(error) from error

    def _deployment_id(self, context: ResourceContext) -> str:
        return context.deployment_id

    def _raycluster_path(self, context: ResourceContext) -> str:
        return f"/apis/ray.io/v1/namespaces/{context.location('namespace')}/rayclusters/{context.location('raycluster')}"

    def _fetch_raycluster(self, cloud: CloudContext, context: ResourceContext) -> Mapping[str, object] | None:
        kube = connect_cluster(
            cloud, context.location("project"), context.location("location"), context.location("cluster")
        )
        return kube.get(self._raycluster_path(context)) if kube else None


def ended_job_state(deployment_id: str, id: str, status: str, same_parameters: bool) -> ObservedState:
    """The state of a job that has ended and that the head no longer knows."""
    facts = {"job_id": id, "status": status}
    detail = f"{status}; the Ray head has since been re-created and lost the job's record"
    if status in _FAILED_STATUSES:
        return ObservedState("failed", deployment_id, id, detail=detail, outputs=facts)
    if not same_parameters:
        return ObservedState(detail=_NEW_PARAMETERS, outputs=facts)
    return ObservedState("ready", deployment_id, id, detail=detail, outputs=facts)


def submission_id(request_id: str) -> str:
    """Ray's submission id of a create: derived from the saved request id, so that the job is found after a lost answer."""
    return f"grpo-{request_id}"


async def read_checkpoint_folder(head: RayHeadConnection, folder: str) -> CheckpointListing:
    """List a checkpoint folder on Lustre with `du` in the head's container."""
    done = await run_in_pod(head, "ray-head", ["du", "-ab", folder])
    return list_from_files(parse_du(done.stdout))


def no_steps_left_reason(listing: CheckpointListing, task_spec: Mapping[str, Any]) -> str:
    """Why a run in this folder has no step left, empty when it has one.

    NeMo RL v0.5.0 takes the highest step_N by name, finds it at max_num_steps and ends successfully without training:
    https://github.com/NVIDIA-NeMo/RL/blob/v0.5.0/nemo_rl/algorithms/grpo.py
    """
    latest, last = listing.latest_step, int(task_spec["max_num_steps"])
    if latest is None or latest < last:
        return ""
    return f"{task_spec['checkpoint_dir']} already holds step_{latest}, and the run ends at step {last}, so no step is left"


NO_STEPS_LEFT_REMEDY = "Raise grpo.max_num_steps, or choose another grpo.checkpoint_dir."


async def _require_steps_left(head: RayHeadConnection, context: ResourceContext) -> None:
    """Raise CloudError before a submission that would train nothing. A folder that cannot be listed does not stop it."""
    try:
        reason = no_steps_left_reason(
            await read_checkpoint_folder(head, str(context.spec["checkpoint_dir"])), context.spec
        )
    except CloudError as error:
        context.emit(f"the checkpoint folder could not be listed: {error.title}")
        return
    if reason:
        raise CloudError("conflict", "The run has no steps left", reason, NO_STEPS_LEFT_REMEDY)


async def _with_resume_point(
    head: RayHeadConnection, context: ResourceContext, observed: ObservedState
) -> ObservedState:
    """Add the step from which the next attempt resumes: NeMo RL itself takes the newest complete step_N of the folder."""
    step = (await read_checkpoint_folder(head, str(context.spec["checkpoint_dir"]))).resume_step
    if step is None:
        text = "no checkpoint is complete, so the next attempt will start from the beginning"
        return replace(observed, detail=f"{observed.detail}; {text}")
    text = f"the next attempt will resume from step_{step}"
    return replace(observed, detail=f"{observed.detail}; {text}", resume_step=step)


async def _has_output(head: RayHeadConnection, job: Job) -> bool:
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


def _to_cloud_error(error: RayError) -> CloudError:
    unreachable = isinstance(error, RayUnreachable)
    kind = "busy" if unreachable else "refused"
    return CloudError(kind, error.title, error.detail, error.fix, transient=unreachable)


def _last_line(message: str) -> str:
    lines = [line for line in message.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else ""
