"""Release the GPU nodes once the job has ended, so that idle nodes are not billed.

Runs as a sidecar of the Ray head's pod (in a rehearsal, as a local process of the same file). Standard library
only. It may get and patch one RayCluster and nothing else.

  AFTER_JOB            release: RELEASE_MINUTES after the newest job has ended, worker
                       replicas are set to 0. keep: they stay.
  RELEASE_MINUTES      minutes between the job's end and the release
  MAX_HOURS            hours after the job's start (or, if no job is found, this
                       script's) at which the job is stopped and the workers are
                       released, whatever AFTER_JOB is; 0: no limit
                       All three can also be set in settings.json next to this file (a
                       ConfigMap, which may change at runtime); the file takes precedence.
  RAYCLUSTER NAMESPACE the one resource that is patched
  RAY_URL              default http://127.0.0.1:8265; RAY_AUTH_TOKEN_PATH or
                       RAY_AUTH_TOKEN if Ray requires a token
  KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT, SERVICE_ACCOUNT_DIR   the API
                       server and this pod's identity (set by Kubernetes)
  TIME_DIVISOR         shortens the durations of a rehearsal; 1 otherwise
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANNOTATION = "grpo-wizard/released"
RUNNING = ("PENDING", "RUNNING")
_TRIES = 8
_NO_PROXY = urllib.request.ProxyHandler({})  # both servers are inside the cluster: no proxy


@dataclass(frozen=True)
class Settings:
    """The settings, in seconds."""

    release: bool
    release_s: float
    max_s: float  # 0: no limit

    @classmethod
    def read(cls, env: dict[str, str]) -> Settings:
        """Parse settings.

        An unreadable value counts as its default, an unknown AFTER_JOB as release, which costs less.
        """
        divisor = max(_number(env, "TIME_DIVISOR", 1.0), 1e-9)
        minutes, hours = _number(env, "RELEASE_MINUTES", 30), _number(env, "MAX_HOURS", 24)
        return cls(env.get("AFTER_JOB", "release") != "keep", minutes * 60 / divisor, hours * 3600 / divisor)


def asked_now(env: dict[str, str], beside: Path) -> Settings:
    """Return the settings of the environment, overridden by settings.json. An unreadable file is ignored."""
    try:
        overrides = json.loads((beside / "settings.json").read_text(encoding="utf-8"))
        return Settings.read({**env, **{key: str(value) for key, value in overrides.items()}})
    except (OSError, ValueError, AttributeError):
        return Settings.read(env)


def _number(env: dict[str, str], name: str, default: float) -> float:
    try:
        value = float(env.get(name, "") or default)
    except ValueError:
        return default
    return value if 0 <= value < float("inf") else default


@dataclass(frozen=True)
class Decision:
    """Why to release, and the jobs to stop first."""

    reason: str
    stop: tuple[str, ...] = ()


def decide(
    settings: Settings, jobs: list[dict[str, Any]] | None, now: float, began: float
) -> Decision | None:
    """Return None if there is nothing to do yet. `jobs` is Ray's list (None: Ray did not respond); times in seconds.

    `began` is this pod's start, and the start of max_hours if no job is found: releasing early is better than
    paying.
    """
    known = jobs or []
    running = [job for job in known if job.get("status") in RUNNING]
    newest = max(known, key=_start, default=None)
    if newest is not None and not running and settings.release:
        ended = (max(job.get("end_time") or 0 for job in known) or _start(newest)) / 1000
        if now - ended >= settings.release_s:
            return Decision(f"job {newest.get('submission_id')} ended {newest.get('status')}")
    counted = min(running, key=_start, default=newest)
    if settings.max_s and now - (_start(counted) / 1000 if counted else began) >= settings.max_s:
        what = f"after the start of job {counted.get('submission_id')}" if counted else "without a known job"
        return Decision(f"max_hours {what}", tuple(str(job.get("submission_id")) for job in running))
    return None


def _start(job: dict[str, Any]) -> float:
    return float(job.get("start_time") or 0)


def released_patch(cluster: dict[str, Any], reason: str, now: float) -> dict[str, Any] | None:
    """Return the merge patch that scales every worker group to 0.

    None if they are at 0, or if workers released for this reason were scaled up again: the next job is about
    to be submitted.
    """
    groups = cluster.get("spec", {}).get("workerGroupSpecs") or []
    before = (cluster["metadata"].get("annotations") or {}).get(ANNOTATION, "")
    if before.endswith(f" {reason}") or not any(
        group.get("replicas") or group.get("minReplicas") for group in groups
    ):
        return None
    # A merge patch replaces whole lists, so each group is sent as it was read; with resourceVersion, a concurrent
    # change is a conflict.
    small = [{**group, "replicas": 0, "minReplicas": 0} for group in groups]
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    meta = {
        "resourceVersion": cluster["metadata"]["resourceVersion"],
        "annotations": {ANNOTATION: f"{stamp} {reason}"},
    }
    return {"metadata": meta, "spec": {"workerGroupSpecs": small}}


class Ray:
    """Ray's Jobs API on this pod's loopback."""

    def __init__(self, env: dict[str, str]) -> None:
        self._url = env.get("RAY_URL") or "http://127.0.0.1:8265"
        self._env = env
        self._open = urllib.request.build_opener(_NO_PROXY).open

    def jobs(self) -> list[dict[str, Any]] | None:
        """Return the jobs; None if Ray does not respond."""
        try:
            found = self._call("GET", "/api/jobs/")
            return [job for job in found if job.get("type") == "SUBMISSION"]  # without Ray's own drivers
        except (OSError, ValueError) as error:
            say(f"Ray does not respond: {error}")
            return None

    def stop(self, job: str) -> None:
        try:
            self._call("POST", f"/api/jobs/{job}/stop")
            say(f"job {job} stopped")
        except (OSError, ValueError) as error:
            say(f"job {job} could not be stopped ({error}); its workers are released anyway")

    def _call(self, method: str, path: str) -> Any:
        request = urllib.request.Request(self._url + path, method=method, headers=self._headers())
        with self._open(request, timeout=10) as answer:
            return json.loads(answer.read())

    def _headers(self) -> dict[str, str]:
        path, token = self._env.get("RAY_AUTH_TOKEN_PATH"), self._env.get("RAY_AUTH_TOKEN", "")
        if path and Path(path).is_file():
            token = Path(path).read_text(encoding="utf-8").strip()
        return {"Authorization": f"Bearer {token}"} if token else {}


class Cluster:
    """This RayCluster on the API server."""

    def __init__(self, env: dict[str, str]) -> None:
        self._folder = Path(env.get("SERVICE_ACCOUNT_DIR") or "/var/run/secrets/kubernetes.io/serviceaccount")
        host = env["KUBERNETES_SERVICE_HOST"]
        host = f"[{host}]" if ":" in host else host
        self._url = (
            f"https://{host}:{env.get('KUBERNETES_SERVICE_PORT', '443')}/apis/ray.io/v1/namespaces/"
            f"{env['NAMESPACE']}/rayclusters/{env['RAYCLUSTER']}"
        )
        context = ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
        self._open = urllib.request.build_opener(_NO_PROXY, urllib.request.HTTPSHandler(context=context)).open

    def release(self, reason: str) -> bool:
        """Scale the workers to 0; True when they are. Raises OSError, ValueError."""
        patch = released_patch(self._call("GET"), reason, time.time())
        if patch is None:
            return True
        self._call("PATCH", patch)
        say(f"workers released: {reason}")
        return True

    def _call(self, method: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        # The token is read every time, because Kubernetes rotates it.
        token = (self._folder / "token").read_text(encoding="utf-8").strip()
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "Content-Type": "application/merge-patch+json",
        }
        data = json.dumps(body).encode() if body is not None else None
        with self._open(
            urllib.request.Request(self._url, data, headers, method=method), timeout=20
        ) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found


def release(cluster: Cluster, reason: str, unit_s: float) -> bool:
    """Try to release, with growing pauses, then log the failure; the main loop tries again later."""
    for number in range(_TRIES):
        try:
            return cluster.release(reason)
        except (OSError, ValueError, KeyError) as error:
            detail = (
                error.read().decode(errors="replace")[:300]
                if isinstance(error, urllib.error.HTTPError)
                else ""
            )
            say(f"not released ({error}) {detail}")
            time.sleep(min(60.0, 2.0**number) * unit_s)
    return False


def say(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}", flush=True)


def main() -> int:
    env, beside = dict(os.environ), Path(__file__).parent
    settings, ray, cluster = asked_now(env, beside), Ray(env), Cluster(env)
    unit = 1.0 / max(_number(env, "TIME_DIVISOR", 1.0), 1.0)
    began, done = time.time(), ""
    known: list[dict[str, Any]] | None = None
    say(f"watching {env['NAMESPACE']}/{env['RAYCLUSTER']}: {settings}")
    while True:
        if (asked := asked_now(env, beside)) != settings:
            settings, done = asked, ""
            say(f"settings changed: {settings}")
        known = ray.jobs() or known  # a Ray that no longer responds does not reset its job's age
        decision = decide(settings, known, time.time(), began)
        # Release once for each reason, so that workers scaled up for a new job stay.
        if decision is not None and decision.reason != done:
            for job in decision.stop:
                ray.stop(job)
            if release(cluster, decision.reason, unit):
                done = decision.reason
        time.sleep(max(0.5, 30.0 * unit))


if __name__ == "__main__":
    sys.exit(main())
