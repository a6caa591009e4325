"""What a node does with its pods: mounts, networks, images, init containers, starts, restarts, termination."""

from __future__ import annotations

from collections.abc import Iterator

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.drills import kubernetes
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.context import ClusterContext
from grpo_wizard.steps.emulator.kube.controllers import gke_networks
from grpo_wizard.steps.emulator.kube.node import (
    addressing,
    images,
    init_containers,
    mounts,
    pod_status,
    sidecars,
)

# Real durations in seconds. The head's and the worker's include Ray and the image's own setup (uv, apt).
SANDBOX_S, START_S, READY_S, RAY_S = 2.0, 1.0, 1.0, 45.0
BACKOFF_S = (10, 20, 40, 80, 160, 300)  # kubelet's restart and image back-off
_SOURCE = "kubelet"


def reconcile(kube: ClusterContext) -> Iterator[None]:
    """Advance every pod on a node by one stage; yields between pods, so that requests can be served."""
    for seen in kube.store.list(kinds.POD):
        meta = seen["metadata"]
        pod = kube.store.find(kinds.POD, meta["namespace"], meta["name"])
        if (
            pod
            and pod["spec"].get("nodeName")
            and pod["spec"]["nodeName"] not in kube.controller_state_for("lost")
        ):
            _step(kube, pod)
            yield
    live = {pod["metadata"]["uid"] for pod in kube.store.list(kinds.POD)}
    for uid in [u for u in kube.controller_state_for("pods") if u not in live]:
        kube.controller_state_for("pods").pop(uid)
        kube.cancel_timers(f"pod/{uid}/")


def _step(kube: ClusterContext, pod: JSON) -> None:
    uid = pod["metadata"]["uid"]
    if "deletionTimestamp" in pod["metadata"]:
        _terminate(kube, pod)
    elif pod["status"].get("phase") in ("Failed", "Succeeded"):
        return
    elif kubernetes.drill_of(pod) == "evict":
        _evict(kube, pod)
    elif uid not in kube.controller_state_for("pods"):
        _start_pod(kube, pod)
    elif kube.controller_state_for("pods")[uid] != "up" or kubernetes.drill_of(pod) or not _all_ready(pod):
        _advance(kube, pod)


def _all_ready(pod: JSON) -> bool:
    return all(r["ready"] for r in pod["status"].get("containerStatuses", ()))


def timer_key(pod: JSON, name: str) -> str:
    return f"pod/{pod['metadata']['uid']}/{name}"


def _start_pod(kube: ClusterContext, pod: JSON) -> None:
    kube.controller_state_for("pods")[pod["metadata"]["uid"]] = "volumes"
    now, node = kube.timestamp(), kube.store.find(kinds.NODE, "", pod["spec"]["nodeName"])

    def edit(p: JSON) -> None:
        p["status"].update(
            startTime=now,
            hostIP=node["status"]["addresses"][0]["address"] if node else "",
            **pod_status.initial_status(p["spec"]),
        )
        pod_status.update_conditions(p, now)

    kube.edit_object(kinds.POD, pod, edit)


def _advance(kube: ClusterContext, pod: JSON) -> None:
    """Advance at most one stage: volumes, network, then containers."""
    uid, stage = pod["metadata"]["uid"], kube.controller_state_for("pods")[pod["metadata"]["uid"]]
    if stage == "volumes":
        trouble = mounts.mount_failure(kube, pod)
        if trouble:
            if kube.timer_expired(timer_key(pod, f"mount/{trouble}"), 0):
                _record_repeated(kube, pod, "FailedMount", trouble)
        elif kube.timer_expired(timer_key(pod, "mounted"), SANDBOX_S):
            kube.controller_state_for("pods")[uid] = "network"
            _set_up_network(kube, pod)  # at once: controller state alone triggers no reconciliation
    elif stage == "network":
        _set_up_network(kube, pod)
    else:
        _containers(kube, pod)


def _record_repeated(
    kube: ClusterContext, pod: JSON, reason: str, message: str, every: float = 120.0
) -> None:
    """Record a problem at once and then every two minutes, like the kubelet's retries."""
    key = timer_key(pod, f"told/{reason}")
    last_messages = kube.controller_state_for("told")
    if last_messages.get(key) == message and not kube.timer_expired(key, every, 5.0):
        return
    last_messages[key] = message
    kube.cancel_timers(key)
    kube.record_event(kinds.POD, pod, reason, message, _SOURCE, warning=True)


def _set_up_network(kube: ClusterContext, pod: JSON) -> None:
    missing = gke_networks.missing_network(kube, pod)
    if missing:
        _record_repeated(
            kube,
            pod,
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = "
            f'failed to setup network for sandbox: networks.networking.gke.io "{missing}" not found',
        )
        return
    ip = addressing.allocate_pod_ip(kube, pod)
    now = kube.timestamp()

    def edit(p: JSON) -> None:
        p["status"].update(podIP=ip, podIPs=[{"ip": ip}])
        if extra := gke_networks.pod_annotations(kube, p):
            p["metadata"].setdefault("annotations", {}).update(extra)
        pod_status.update_conditions(p, now)

    kube.edit_object(kinds.POD, pod, edit)
    kube.controller_state_for("pods")[pod["metadata"]["uid"]] = "containers"


def _containers(kube: ClusterContext, pod: JSON) -> None:
    for container in pod["spec"].get("initContainers", ()):
        state = pod_status.container_status(pod, container["name"])["state"]
        if (state.get("terminated") or {}).get("exitCode") == 0:
            continue
        _init(kube, pod, container, state)
        return
    for container in pod["spec"]["containers"]:
        newest = kube.store.find(kinds.POD, pod["metadata"]["namespace"], pod["metadata"]["name"])
        if newest is None:
            return
        _container(kube, newest, container, pod_status.container_status(newest, container["name"]))


def _edit(kube: ClusterContext, pod: JSON, change: str, name: str, *args: str) -> None:
    """Apply an edit of pod_status and update phase and conditions."""
    now = kube.timestamp()

    def edit(p: JSON) -> None:
        if change == "wait":
            pod_status.set_waiting(p, name, *args)
        elif change == "run":
            pod_status.set_running(p, name, now)
        elif change == "ready":
            pod_status.container_status(p, name)["ready"] = True
        elif change == "end":
            pod_status.set_terminated(p, name, now, int(args[0]), args[1])
        elif change == "again":
            pod_status.set_crash_loop_backoff(p, name, args[0])
        elif change == "count":
            pod_status.container_status(p, name)["restartCount"] += 1
        pod_status.update_conditions(p, now)

    kube.edit_object(kinds.POD, pod, edit)


def _init(kube: ClusterContext, pod: JSON, container: JSON, state: JSON) -> None:
    name = container["name"]
    if "running" in state:
        if init_containers.is_finished(kube, pod, container, timer_key(pod, f"init/{name}")):
            _edit(kube, pod, "end", name, "0", "Completed")
    elif _ensure_image(kube, pod, container, state):
        _edit(kube, pod, "run", name)
        _started(kube, pod, name)


def _started(kube: ClusterContext, pod: JSON, name: str) -> None:
    kube.record_event(kinds.POD, pod, "Created", f"Created container: {name}", _SOURCE)
    kube.record_event(kinds.POD, pod, "Started", f"Started container {name}", _SOURCE)


def _container(kube: ClusterContext, pod: JSON, container: JSON, row: JSON) -> None:
    name, state = container["name"], row["state"]
    if "running" in state:
        if kubernetes.drill_of(pod) in ("oom", "crash") and kubernetes.target_container(pod) == name:
            _crash(kube, pod, name, row)
        elif not row["ready"] and kube.timer_expired(
            timer_key(pod, f"ready/{name}/{row['restartCount']}"), _readiness_delay(pod, container)
        ):
            _edit(kube, pod, "ready", name)
            if _all_ready(kube.store.get(kinds.POD, pod["metadata"]["namespace"], pod["metadata"]["name"])):
                kube.controller_state_for("pods")[pod["metadata"]["uid"]] = "up"
                sidecars.start(kube, pod)
    elif (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        pause = BACKOFF_S[min(row["restartCount"], len(BACKOFF_S) - 1)]
        if kube.timer_expired(timer_key(pod, f"back/{name}/{row['restartCount']}"), pause, 0.3):
            _edit(kube, pod, "count", name)
            _edit(kube, pod, "run", name)
            _started(kube, pod, name)
    elif _ensure_image(kube, pod, container, state):
        _edit(kube, pod, "run", name)
        _started(kube, pod, name)


def _readiness_delay(pod: JSON, container: JSON) -> float:
    ray = (
        "ray.io/node-type" in (pod["metadata"].get("labels") or {})
        and container is pod["spec"]["containers"][0]
    )
    return RAY_S if ray else READY_S


def _crash(kube: ClusterContext, pod: JSON, name: str, row: JSON) -> None:
    """Terminate a running container as a drill requires, with the kubelet's backoff."""
    reason, code = ("OOMKilled", "137") if kubernetes.drill_of(pod) == "oom" else ("Error", "1")
    meta = pod["metadata"]
    pause = BACKOFF_S[min(row["restartCount"], len(BACKOFF_S) - 1)]
    _edit(kube, pod, "end", name, code, reason)
    if name == pod["spec"]["containers"][0]["name"]:
        sidecars.stop_processes(kube, pod)
    message = (
        f"back-off {pause}s restarting failed container={name} "
        f"pod={meta['name']}_{meta['namespace']}({meta['uid']})"
    )
    _edit(kube, pod, "again", name, message)
    kube.record_event(
        kinds.POD,
        pod,
        "BackOff",
        f"Back-off restarting failed container {name} in pod "
        f"{meta['name']}_{meta['namespace']}({meta['uid']})",
        _SOURCE,
        warning=True,
    )


def _ensure_image(kube: ClusterContext, pod: JSON, container: JSON, state: JSON) -> bool:
    """Return whether the image is present; pull it, or fail and back off."""
    image, node = container["image"], pod["spec"]["nodeName"]
    cached: JSON = kube.controller_state_for("images").setdefault(node, {})
    takes = None if _image_removed(pod, image in cached) else images.pull_seconds(image, kube.project)
    key = timer_key(pod, f"pull/{container['name']}")
    if takes is None:
        _pull_failed(kube, pod, container, state)
        return False
    if image in cached and (container["imagePullPolicy"] != "Always" or kube.timer_expired(key, 1)):
        kube.record_event(
            kinds.POD, pod, "Pulled", f'Container image "{image}" already present on machine', _SOURCE
        )
        return True
    if key not in kube.controller_state_for("timers"):
        kube.record_event(kinds.POD, pod, "Pulling", f'Pulling image "{image}"', _SOURCE)
    if not kube.timer_expired(key, takes):
        return False
    cached[image] = True
    kube.record_event(
        kinds.POD,
        pod,
        "Pulled",
        f'Successfully pulled image "{image}" in {takes:g}s ({takes:g}s including '
        f"waiting). Image size: {images.image_size(image)} bytes.",
        _SOURCE,
    )
    return True


def _image_removed(pod: JSON, cached: bool) -> bool:
    """Return whether a drill removes the image; Ray's is removed from its registry, so nodes keep theirs."""
    if kubernetes.drill_of(pod) == "image":
        return True
    return (
        kubernetes.is_active("image-gone")
        and not cached
        and "ray.io/cluster" in (pod["metadata"].get("labels") or {})
    )


def _pull_failed(kube: ClusterContext, pod: JSON, container: JSON, state: JSON) -> None:
    """Alternate ErrImagePull and ImagePullBackOff, with growing pauses."""
    name, image = container["name"], container["image"]
    reason = (state.get("waiting") or {}).get("reason")
    tries = kube.controller_state_for("told").setdefault(timer_key(pod, f"tries/{name}"), 0)
    text = images.pull_error(image)
    if reason not in ("ErrImagePull", "ImagePullBackOff"):
        kube.record_event(kinds.POD, pod, "Pulling", f'Pulling image "{image}"', _SOURCE)
        kube.record_event(
            kinds.POD, pod, "Failed", f'Failed to pull image "{image}": {text}', _SOURCE, warning=True
        )
        kube.record_event(kinds.POD, pod, "Failed", "Error: ErrImagePull", _SOURCE, warning=True)
        _edit(kube, pod, "wait", name, "ErrImagePull", text)
    elif reason == "ErrImagePull" and kube.timer_expired(timer_key(pod, f"pullback/{name}/{tries}"), 5, 0.2):
        kube.record_event(kinds.POD, pod, "BackOff", f'Back-off pulling image "{image}"', _SOURCE)
        kube.record_event(kinds.POD, pod, "Failed", "Error: ImagePullBackOff", _SOURCE, warning=True)
        _edit(
            kube,
            pod,
            "wait",
            name,
            "ImagePullBackOff",
            f'Back-off pulling image "{image}": ErrImagePull: {text}',
        )
    elif reason == "ImagePullBackOff" and kube.timer_expired(
        timer_key(pod, f"pullagain/{name}/{tries}"), BACKOFF_S[min(tries, len(BACKOFF_S) - 1)], 2.0
    ):
        kube.controller_state_for("told")[timer_key(pod, f"tries/{name}")] = tries + 1
        kube.record_event(kinds.POD, pod, "Pulling", f'Pulling image "{image}"', _SOURCE)
        kube.record_event(
            kinds.POD, pod, "Failed", f'Failed to pull image "{image}": {text}', _SOURCE, warning=True
        )
        _edit(kube, pod, "wait", name, "ErrImagePull", text)


def _evict(kube: ClusterContext, pod: JSON) -> None:
    text = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 64Mi."
    kube.record_event(kinds.POD, pod, "Evicted", text, _SOURCE, warning=True)
    now = kube.timestamp()

    def edit(p: JSON) -> None:
        for row in p["status"].get("containerStatuses", ()):
            if "running" in row["state"]:
                pod_status.set_terminated(p, row["name"], now, 137, "Error")
                row["ready"] = False
        p["status"].update(phase="Failed", reason="Evicted", message=text)
        pod_status.update_conditions(p, now)

    kube.edit_object(kinds.POD, pod, edit)
    sidecars.clean_up(kube, pod)


def _terminate(kube: ClusterContext, pod: JSON) -> None:
    """End a pod that is being deleted soon after SIGTERM, well within its grace period."""
    key = timer_key(pod, "ending")
    if key not in kube.controller_state_for("timers"):
        for container in pod["spec"]["containers"]:
            kube.record_event(kinds.POD, pod, "Killing", f"Stopping container {container['name']}", _SOURCE)
        sidecars.clean_up(kube, pod)
    if kube.timer_expired(key, min(pod["metadata"].get("deletionGracePeriodSeconds", 30), 5)) and not pod[
        "metadata"
    ].get("finalizers"):
        kube.store.remove(kinds.POD, pod)
