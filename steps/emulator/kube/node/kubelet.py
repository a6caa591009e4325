"""What a node does with its pods: mounts, networks, images, init containers, starts, restarts, ends."""

from __future__ import annotations

from collections.abc import Iterator

from grpo_wizard.steps.emulator.drills import kubernetes
from grpo_wizard.steps.emulator.kube.api import kinds
from grpo_wizard.steps.emulator.kube.controllers import gke_networks
from grpo_wizard.steps.emulator.kube.core import Kube
from grpo_wizard.steps.emulator.kube.node import (
    addressing,
    images,
    init_containers,
    mounts,
    pod_status,
    sidecars,
)
from grpo_wizard.steps.emulator.server.context import JSON

# Seconds of the real thing. The head's and the worker's are for Ray and the image's own set-up (uv, apt).
SANDBOX_S, START_S, READY_S, RAY_S = 2.0, 1.0, 1.0, 45.0
BACKOFF_S = (10, 20, 40, 80, 160, 300)  # kubelet's restart and image back-off
_SOURCE = "kubelet"


def reconcile(kube: Kube) -> Iterator[None]:
    """Moves every pod that has a node one step on; yields between two, so that requests get their turn."""
    for seen in kube.store.list(kinds.POD):
        meta = seen["metadata"]
        pod = kube.store.find(kinds.POD, meta["namespace"], meta["name"])
        if pod and pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in kube.note("lost"):
            _step(kube, pod)
            yield
    live = {pod["metadata"]["uid"] for pod in kube.store.list(kinds.POD)}
    for uid in [u for u in kube.note("pods") if u not in live]:
        kube.note("pods").pop(uid)
        kube.forget(f"pod/{uid}/")


def _step(kube: Kube, pod: JSON) -> None:
    uid = pod["metadata"]["uid"]
    if "deletionTimestamp" in pod["metadata"]:
        _finish(kube, pod)
    elif pod["status"].get("phase") in ("Failed", "Succeeded"):
        return
    elif kubernetes.of(pod) == "evict":
        _evict(kube, pod)
    elif uid not in kube.note("pods"):
        _begin(kube, pod)
    elif kube.note("pods")[uid] != "up" or kubernetes.of(pod) or not _all_ready(pod):
        _advance(kube, pod)


def _all_ready(pod: JSON) -> bool:
    return all(r["ready"] for r in pod["status"].get("containerStatuses", ()))


def timer(pod: JSON, name: str) -> str:
    return f"pod/{pod['metadata']['uid']}/{name}"


def _begin(kube: Kube, pod: JSON) -> None:
    kube.note("pods")[pod["metadata"]["uid"]] = "volumes"
    now, node = kube.stamp(), kube.store.find(kinds.NODE, "", pod["spec"]["nodeName"])

    def edit(p: JSON) -> None:
        p["status"].update(
            startTime=now,
            hostIP=node["status"]["addresses"][0]["address"] if node else "",
            **pod_status.fresh(p["spec"]),
        )
        pod_status.settle(p, now)

    kube.change(kinds.POD, pod, edit)


def _advance(kube: Kube, pod: JSON) -> None:
    """One stage at most: volumes, network, then containers."""
    uid, stage = pod["metadata"]["uid"], kube.note("pods")[pod["metadata"]["uid"]]
    if stage == "volumes":
        trouble = mounts.trouble(kube, pod)
        if trouble:
            if kube.due(timer(pod, f"mount/{trouble}"), 0):
                _repeat(kube, pod, "FailedMount", trouble)
        elif kube.due(timer(pod, "mounted"), SANDBOX_S):
            kube.note("pods")[uid] = "network"
            _network(kube, pod)  # at once: a note alone wakes nobody
    elif stage == "network":
        _network(kube, pod)
    else:
        _containers(kube, pod)


def _repeat(kube: Kube, pod: JSON, reason: str, message: str, every: float = 120.0) -> None:
    """Tells a trouble at once and then every two minutes, as the kubelet's retries do."""
    key = timer(pod, f"told/{reason}")
    told = kube.note("told")
    if told.get(key) == message and not kube.due(key, every, 5.0):
        return
    told[key] = message
    kube.forget(key)
    kube.event(kinds.POD, pod, reason, message, _SOURCE, warning=True)


def _network(kube: Kube, pod: JSON) -> None:
    missing = gke_networks.missing(kube, pod)
    if missing:
        _repeat(
            kube,
            pod,
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = "
            f'failed to setup network for sandbox: networks.networking.gke.io "{missing}" not found',
        )
        return
    ip = addressing.pod(kube, pod)
    now = kube.stamp()

    def edit(p: JSON) -> None:
        p["status"].update(podIP=ip, podIPs=[{"ip": ip}])
        if extra := gke_networks.addresses(kube, p):
            p["metadata"].setdefault("annotations", {}).update(extra)
        pod_status.settle(p, now)

    kube.change(kinds.POD, pod, edit)
    kube.note("pods")[pod["metadata"]["uid"]] = "containers"


def _containers(kube: Kube, pod: JSON) -> None:
    for container in pod["spec"].get("initContainers", ()):
        state = pod_status.row(pod, container["name"])["state"]
        if (state.get("terminated") or {}).get("exitCode") == 0:
            continue
        _init(kube, pod, container, state)
        return
    for container in pod["spec"]["containers"]:
        newest = kube.store.find(kinds.POD, pod["metadata"]["namespace"], pod["metadata"]["name"])
        if newest is None:
            return
        _container(kube, newest, container, pod_status.row(newest, container["name"]))


def _edit(kube: Kube, pod: JSON, change: str, name: str, *args: str) -> None:
    """Applies one of podstate's edits and settles phase and conditions."""
    now = kube.stamp()

    def edit(p: JSON) -> None:
        if change == "wait":
            pod_status.wait(p, name, *args)
        elif change == "run":
            pod_status.run(p, name, now)
        elif change == "ready":
            pod_status.row(p, name)["ready"] = True
        elif change == "end":
            pod_status.end(p, name, now, int(args[0]), args[1])
        elif change == "again":
            pod_status.again(p, name, args[0])
        elif change == "count":
            pod_status.row(p, name)["restartCount"] += 1
        pod_status.settle(p, now)

    kube.change(kinds.POD, pod, edit)


def _init(kube: Kube, pod: JSON, container: JSON, state: JSON) -> None:
    name = container["name"]
    if "running" in state:
        if init_containers.done(kube, pod, container, timer(pod, f"init/{name}")):
            _edit(kube, pod, "end", name, "0", "Completed")
    elif _image(kube, pod, container, state):
        _edit(kube, pod, "run", name)
        _started(kube, pod, name)


def _started(kube: Kube, pod: JSON, name: str) -> None:
    kube.event(kinds.POD, pod, "Created", f"Created container: {name}", _SOURCE)
    kube.event(kinds.POD, pod, "Started", f"Started container {name}", _SOURCE)


def _container(kube: Kube, pod: JSON, container: JSON, row: JSON) -> None:
    name, state = container["name"], row["state"]
    if "running" in state:
        if kubernetes.of(pod) in ("oom", "crash") and kubernetes.container(pod) == name:
            _die(kube, pod, name, row)
        elif not row["ready"] and kube.due(
            timer(pod, f"ready/{name}/{row['restartCount']}"), _ready_after(pod, container)
        ):
            _edit(kube, pod, "ready", name)
            if _all_ready(kube.store.get(kinds.POD, pod["metadata"]["namespace"], pod["metadata"]["name"])):
                kube.note("pods")[pod["metadata"]["uid"]] = "up"
                sidecars.start(kube, pod)
    elif (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        pause = BACKOFF_S[min(row["restartCount"], len(BACKOFF_S) - 1)]
        if kube.due(timer(pod, f"back/{name}/{row['restartCount']}"), pause, 0.3):
            _edit(kube, pod, "count", name)
            _edit(kube, pod, "run", name)
            _started(kube, pod, name)
    elif _image(kube, pod, container, state):
        _edit(kube, pod, "run", name)
        _started(kube, pod, name)


def _ready_after(pod: JSON, container: JSON) -> float:
    ray = (
        "ray.io/node-type" in (pod["metadata"].get("labels") or {})
        and container is pod["spec"]["containers"][0]
    )
    return RAY_S if ray else READY_S


def _die(kube: Kube, pod: JSON, name: str, row: JSON) -> None:
    """The drill's end of a running container, and the kubelet's back-off."""
    reason, code = ("OOMKilled", "137") if kubernetes.of(pod) == "oom" else ("Error", "1")
    meta = pod["metadata"]
    pause = BACKOFF_S[min(row["restartCount"], len(BACKOFF_S) - 1)]
    _edit(kube, pod, "end", name, code, reason)
    if name == pod["spec"]["containers"][0]["name"]:
        sidecars.killed(kube, pod)
    message = (
        f"back-off {pause}s restarting failed container={name} "
        f"pod={meta['name']}_{meta['namespace']}({meta['uid']})"
    )
    _edit(kube, pod, "again", name, message)
    kube.event(
        kinds.POD,
        pod,
        "BackOff",
        f"Back-off restarting failed container {name} in pod "
        f"{meta['name']}_{meta['namespace']}({meta['uid']})",
        _SOURCE,
        warning=True,
    )


def _image(kube: Kube, pod: JSON, container: JSON, state: JSON) -> bool:
    """Whether the image is there; pulls it, or fails and backs off."""
    image, node = container["image"], pod["spec"]["nodeName"]
    cached: JSON = kube.note("images").setdefault(node, {})
    takes = None if _gone(pod, image in cached) else images.seconds(image, kube.project)
    key = timer(pod, f"pull/{container['name']}")
    if takes is None:
        _pull_failed(kube, pod, container, state)
        return False
    if image in cached and (container["imagePullPolicy"] != "Always" or kube.due(key, 1)):
        kube.event(kinds.POD, pod, "Pulled", f'Container image "{image}" already present on machine', _SOURCE)
        return True
    if key not in kube.note("timers"):
        kube.event(kinds.POD, pod, "Pulling", f'Pulling image "{image}"', _SOURCE)
    if not kube.due(key, takes):
        return False
    cached[image] = True
    kube.event(
        kinds.POD,
        pod,
        "Pulled",
        f'Successfully pulled image "{image}" in {takes:g}s ({takes:g}s including '
        f"waiting). Image size: {images.size(image)} bytes.",
        _SOURCE,
    )
    return True


def _gone(pod: JSON, cached: bool) -> bool:
    """Whether a drill takes the image away; Ray's from its registry, so that what a node has stays."""
    if kubernetes.of(pod) == "image":
        return True
    return (
        kubernetes.runs("image-gone")
        and not cached
        and "ray.io/cluster" in (pod["metadata"].get("labels") or {})
    )


def _pull_failed(kube: Kube, pod: JSON, container: JSON, state: JSON) -> None:
    """ErrImagePull, then ImagePullBackOff, in turn with growing pauses."""
    name, image = container["name"], container["image"]
    reason = (state.get("waiting") or {}).get("reason")
    tries = kube.note("told").setdefault(timer(pod, f"tries/{name}"), 0)
    text = images.error(image)
    if reason not in ("ErrImagePull", "ImagePullBackOff"):
        kube.event(kinds.POD, pod, "Pulling", f'Pulling image "{image}"', _SOURCE)
        kube.event(kinds.POD, pod, "Failed", f'Failed to pull image "{image}": {text}', _SOURCE, warning=True)
        kube.event(kinds.POD, pod, "Failed", "Error: ErrImagePull", _SOURCE, warning=True)
        _edit(kube, pod, "wait", name, "ErrImagePull", text)
    elif reason == "ErrImagePull" and kube.due(timer(pod, f"pullback/{name}/{tries}"), 5, 0.2):
        kube.event(kinds.POD, pod, "BackOff", f'Back-off pulling image "{image}"', _SOURCE)
        kube.event(kinds.POD, pod, "Failed", "Error: ImagePullBackOff", _SOURCE, warning=True)
        _edit(
            kube,
            pod,
            "wait",
            name,
            "ImagePullBackOff",
            f'Back-off pulling image "{image}": ErrImagePull: {text}',
        )
    elif reason == "ImagePullBackOff" and kube.due(
        timer(pod, f"pullagain/{name}/{tries}"), BACKOFF_S[min(tries, len(BACKOFF_S) - 1)], 2.0
    ):
        kube.note("told")[timer(pod, f"tries/{name}")] = tries + 1
        kube.event(kinds.POD, pod, "Pulling", f'Pulling image "{image}"', _SOURCE)
        kube.event(kinds.POD, pod, "Failed", f'Failed to pull image "{image}": {text}', _SOURCE, warning=True)
        _edit(kube, pod, "wait", name, "ErrImagePull", text)


def _evict(kube: Kube, pod: JSON) -> None:
    text = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 64Mi."
    kube.event(kinds.POD, pod, "Evicted", text, _SOURCE, warning=True)
    now = kube.stamp()

    def edit(p: JSON) -> None:
        for row in p["status"].get("containerStatuses", ()):
            if "running" in row["state"]:
                pod_status.end(p, row["name"], now, 137, "Error")
                row["ready"] = False
        p["status"].update(phase="Failed", reason="Evicted", message=text)
        pod_status.settle(p, now)

    kube.change(kinds.POD, pod, edit)
    sidecars.gone(kube, pod)


def _finish(kube: Kube, pod: JSON) -> None:
    """A pod that is being deleted ends soon after SIGTERM, well within its grace."""
    key = timer(pod, "ending")
    if key not in kube.note("timers"):
        for container in pod["spec"]["containers"]:
            kube.event(kinds.POD, pod, "Killing", f"Stopping container {container['name']}", _SOURCE)
        sidecars.gone(kube, pod)
    if kube.due(key, min(pod["metadata"].get("deletionGracePeriodSeconds", 30), 5)) and not pod[
        "metadata"
    ].get("finalizers"):
        kube.store.remove(kinds.POD, pod)
