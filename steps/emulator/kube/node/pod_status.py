"""A pod's status: container states, conditions, phase, and the kubelet's edits of them."""

from __future__ import annotations

import hashlib

from grpo_wizard.steps.emulator.context import JSON

CONTAINER_GROUPS = (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses"))


def initial_status(spec: JSON) -> JSON:
    """Return the initial container statuses, all waiting."""
    inits = bool(spec.get("initContainers"))
    return {
        key: [_waiting(c, "PodInitializing" if inits else "ContainerCreating") for c in spec.get(group, ())]
        for group, key in CONTAINER_GROUPS
        if spec.get(group)
    }


def _waiting(container: JSON, reason: str) -> JSON:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": reason}},
        "lastState": {},
    }


def container_status(pod: JSON, name: str) -> JSON:
    """Return a container's status by name."""
    rows = (*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ()))
    found: JSON = next(r for r in rows if r["name"] == name)
    return found


def set_waiting(pod: JSON, name: str, reason: str, message: str = "") -> None:
    it = container_status(pod, name)
    it.update(
        ready=False,
        started=False,
        state={"waiting": {"reason": reason, **({"message": message} if message else {})}},
    )


def set_running(pod: JSON, name: str, now: str) -> None:
    it = container_status(pod, name)
    digest = hashlib.sha256(it["image"].encode()).hexdigest()
    key = hashlib.sha256(f"{pod['metadata']['uid']}/{name}/{it['restartCount']}".encode()).hexdigest()
    it.update(
        ready=False,
        started=True,
        imageID=f"{it['image'].split('@')[0].rsplit(':', 1)[0]}@sha256:{digest}",
        containerID=f"containerd://{key}",
        state={"running": {"startedAt": now}},
    )


def set_terminated(pod: JSON, name: str, now: str, code: int, reason: str) -> None:
    """Set a container to terminated; its start time is kept."""
    it = container_status(pod, name)
    began = (it["state"].get("running") or {}).get("startedAt", now)
    it.update(
        ready=code == 0,
        started=False,
        state={
            "terminated": {
                "exitCode": code,
                "reason": reason,
                "startedAt": began,
                "finishedAt": now,
                "containerID": it.get("containerID", ""),
            }
        },
    )


def set_crash_loop_backoff(pod: JSON, name: str, message: str) -> None:
    """Set a terminated container to waiting in backoff; its last state is kept."""
    it = container_status(pod, name)
    if "terminated" in it["state"]:
        it["lastState"] = it["state"]
    it.update(
        ready=False, started=False, state={"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    )


def update_conditions(pod: JSON, now: str) -> None:
    """Derive phase and conditions from the containers' states."""
    state = pod["status"]
    rows, inits = state.get("containerStatuses", []), state.get("initContainerStatuses", [])
    done = all((r["state"].get("terminated") or {}).get("exitCode") == 0 for r in inits)
    ready = done and bool(rows) and all(r["ready"] for r in rows)
    begun = any("running" in r["state"] or r["restartCount"] or "terminated" in r["state"] for r in rows)
    if state.get("phase") not in ("Failed", "Succeeded"):
        state["phase"] = "Running" if begun else "Pending"
    unready = [r["name"] for r in rows if not r["ready"]]
    why = (
        {}
        if ready
        else {
            "reason": "ContainersNotReady",
            "message": f"containers with unready status: [{' '.join(unready)}]",
        }
    )
    undone = [r["name"] for r in inits if (r["state"].get("terminated") or {}).get("exitCode") != 0]
    init_why = (
        {}
        if done
        else {
            "reason": "ContainersNotInitialized",
            "message": f"containers with incomplete status: [{' '.join(undone)}]",
        }
    )
    wanted = [
        ("PodReadyToStartContainers", bool(state.get("podIP")), {}),
        ("Initialized", done, init_why),
        ("Ready", ready, why),
        ("ContainersReady", ready, why),
        ("PodScheduled", True, {}),
    ]
    old = {c["type"]: c for c in state.get("conditions", ())}
    state["conditions"] = [_condition(t, s, w, old.get(t), now) for t, s, w in wanted]


def _condition(name: str, holds: bool, why: JSON, old: JSON | None, now: str) -> JSON:
    word = "True" if holds else "False"
    since = old["lastTransitionTime"] if old and old["status"] == word else now
    return {"type": name, "status": word, "lastProbeTime": None, "lastTransitionTime": since, **why}
