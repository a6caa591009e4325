"""After the job: the script that lets the GPU nodes go, as a process beside a real head, against the
rehearsal's Kubernetes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "wire"))

from kube_test_server import KubeTestServer, kube_test_server, wait_until
from ray_job_client import ray_jobs_api
from tutorial_kube_objects import (
    as_yaml,
    claim,
    get_raycluster,
    ray_objects,
    ray_pods,
    volume,
    wait_for_raycluster,
)

from grpo_wizard.steps.emulator.kube.node import environment
from grpo_wizard.steps.emulator.ray.heads import LocalRayHeadManager

NAME, PLACE = "ray-cluster-kuberay", "/etc/grpo-wizard/release"
SPEED = 120.0


def _objects(after: dict[str, str]) -> list[dict[str, Any]]:
    """The tutorial's RayCluster with the sidecar and a Role for this RayCluster alone."""
    meta = {"name": "release", "namespace": "default"}
    rule = {
        "apiGroups": ["ray.io"],
        "resources": ["rayclusters"],
        "verbs": ["get", "patch"],
        "resourceNames": [NAME],
    }
    script = files("grpo_wizard.assets").joinpath("job/release.py").read_text(encoding="utf-8")
    rbac = "rbac.authorization.k8s.io"
    found = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"release.py": script}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": [rule]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "release"},
            "subjects": [{"kind": "ServiceAccount", "name": "release", "namespace": "default"}],
        },
        volume(),
        claim(),
        *ray_objects(2),
    ]
    pod = found[-1]["spec"]["headGroupSpec"]["template"]["spec"]
    env = {**after, "RAYCLUSTER": NAME, "NAMESPACE": "default"}
    pod["serviceAccountName"] = "release"
    pod.setdefault("volumes", []).append({"name": "release", "configMap": {"name": "release"}})
    pod["containers"].append(
        {
            "name": "release",
            "image": pod["containers"][0]["image"],
            "command": ["python3", f"{PLACE}/release.py"],
            "env": [{"name": name, "value": value} for name, value in env.items()],
            "volumeMounts": [{"name": "release", "mountPath": PLACE, "readOnly": True}],
        }
    )
    return found


@contextmanager
def _cluster(root: Path, after: dict[str, str]) -> Iterator[tuple[KubeTestServer, LocalRayHeadManager]]:
    heads = LocalRayHeadManager(root / "rehearsal", speed=SPEED)
    with kube_test_server(heads=heads, folder=root) as it:
        try:
            it.kubectl("apply", "-f", "-", stdin=as_yaml(_objects(after)))
            wait_for_raycluster(it)
            yield it, heads
        finally:
            asyncio.run_coroutine_threadsafe(heads.close(), it.loop).result(60)


def _replicas(it: KubeTestServer) -> tuple[int, int, str]:
    found = get_raycluster(it)
    group = found["spec"]["workerGroupSpecs"][0]
    return (
        group["replicas"],
        group.get("minReplicas", 0),
        found["metadata"].get("annotations", {}).get("grpo-wizard/released", ""),
    )


def _job(it: KubeTestServer, heads: LocalRayHeadManager, script: str, *, wait: bool) -> None:
    (pod,) = ray_pods(it, "head")

    async def submit() -> None:
        async with ray_jobs_api(heads, environment.pod_view(it.cluster.context, pod)) as api:
            async with api.session.post(
                "/api/jobs/", json={"entrypoint": script, "submission_id": "j"}
            ) as answer:
                answer.raise_for_status()
            if wait:
                await api.wait_for_end("j")

    asyncio.run_coroutine_threadsafe(submit(), it.loop).result(120)


def _log(root: Path) -> str:
    return "".join(
        path.read_text(encoding="utf-8") for path in (root / "rehearsal/heads").glob("*/release/log")
    )


@pytest.mark.heavy
def test_the_workers_go_some_minutes_after_the_job_and_stay_when_raised_again(tmp_path: Path) -> None:
    with _cluster(tmp_path, {"AFTER_JOB": "release", "RELEASE_MINUTES": "6", "MAX_HOURS": "24"}) as (
        it,
        heads,
    ):
        _job(it, heads, "true", wait=True)
        assert _replicas(it) == (2, 0, "")
        wait_until(lambda: _replicas(it)[0] == 0, 60)
        _, _, why = _replicas(it)
        assert why.endswith(" job j ended SUCCEEDED"), _log(tmp_path)
        wait_until(lambda: get_raycluster(it)["status"].get("readyWorkerReplicas", 0) == 0, 30)
        it.kubectl(
            "patch",
            "raycluster",
            NAME,
            "--type=json",
            "-p",
            '[{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":1}]',
        )
        with pytest.raises(AssertionError):
            wait_until(lambda: _replicas(it)[0] == 0, 6)


def test_at_max_hours_a_running_job_is_stopped_and_keep_does_not_keep(tmp_path: Path) -> None:
    with _cluster(tmp_path, {"AFTER_JOB": "keep", "RELEASE_MINUTES": "30", "MAX_HOURS": "1.5"}) as (
        it,
        heads,
    ):
        _job(it, heads, "sleep 600", wait=False)
        wait_until(lambda: _replicas(it)[0] == 0, 90)
        assert "max_hours after the start of job j" in _replicas(it)[2]
        assert "job j stopped" in _log(tmp_path)
