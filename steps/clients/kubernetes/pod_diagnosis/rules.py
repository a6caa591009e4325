"""Why a pod is not ready: one table from symptoms to a cause and a remedy. The first rule that matches a symptom wins.

Order: what ended the pod, then its node, images, containers, mounts and networks, then scheduling, then plain waiting.
Named groups of `text` and the symptom's values fill both sentences. A cause follows "worker: ", so it begins in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.symptoms import (
    PodSnapshot,
    Symptom,
    symptoms,
    unpulled_images,
)
from grpo_wizard.steps.core.model import Diagnosis


@dataclass(frozen=True)
class PodRule:
    """`source` and `reason` must match in full, `text` is searched. `timeout`: seconds after which waiting is pointless."""

    name: str
    source: str
    reason: str
    text: str
    cause: str
    remedy: str
    timeout: float | None = None


_SHORT_TIMEOUT, _LONG_TIMEOUT = 900.0, 1800.0  # seconds: somebody must fix it; the cloud may fix it
_IMAGE = "ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull|Failed"
_SCALE_UP = "FailedScaleUp|NotTriggerScaleUp"
_LUSTRE_FIX = (
    "Check that the cluster and Lustre are in the same VPC, that lustre.legacy_port is the same on both, "
    "and that the PersistentVolume has the right address and file system."
)
_QUOTAS = "https://console.cloud.google.com/iam-admin/quotas"

RULES: tuple[PodRule, ...] = (
    PodRule(
        "evicted",
        "pod",
        "Evicted|EvictionByEvictionAPI",
        "(?P<text>.*)",
        "evicted from its node ({text})",
        "Raise its resource requests, or move other workloads off the node. KubeRay will create a new pod.",
    ),
    PodRule(
        "node_lost",
        "node",
        "NodeNotReady",
        "(?P<text>.*)",
        "node {node} is lost ({text})",
        "Wait for GKE's node repair (about 10 min), or delete that node.",
    ),
    PodRule(
        "node_lost",
        "pod",
        "NodeLost|DeletionByTaintManager|DeletionByPodGC",
        "",
        "the node is lost",
        "Wait for GKE's node repair (about 10 min), or delete that node.",
    ),
    PodRule(
        "preempted",
        "pod",
        "Preempting|PreemptionByScheduler",
        "",
        "preempted by a pod of higher priority",
        "Give the RayCluster a higher priority, or add nodes.",
    ),
    PodRule(
        "preempted",
        "pod",
        "Terminated|NodeShutdown|Shutdown|TerminationByKubelet|Preempted",
        "",
        "its machine was preempted",
        "Wait. KubeRay will create a new pod, and GKE will add a machine once there is capacity.",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "image_rights",
        "waiting|event",
        _IMAGE,
        "(?P<text>insufficient_scope[^,;]*|[^:]*(?:denied|[Uu]nauthorized|403 Forbidden)[^,;]*)",
        "image {image} does not exist or cannot be read ({text})",
        "Correct raycluster.image and run apply again, or grant the nodes' service account read access.",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "image_missing",
        "waiting|event",
        _IMAGE,
        "not found|manifest unknown|NotFound",
        "image {image} does not exist (not found in its registry)",
        "Correct raycluster.image and run apply again.",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "image_name",
        "waiting",
        "InvalidImageName",
        "",
        "{image} is not a valid image name",
        "Correct raycluster.image and run apply again.",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "image",
        "waiting",
        _IMAGE,
        "(?P<text>.*)",
        "image {image} cannot be pulled ({text})",
        "Check that the nodes can reach the registry (Cloud NAT, Private Google Access), or correct raycluster.image.",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "out_of_memory",
        "ended",
        "OOMKilled",
        "",
        "ran out of memory ({code}), {restarts} restarts: container {container}, limit {limit}",
        "Raise that container's memory limit, or reduce its memory use.",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "init_gib_failed",
        "ended",
        ".*",
        "gib",
        "init container {container} exited with code {code}: gIB or the driver was never installed",
        "Run: kubectl -n kube-system describe daemonset nccl-rdma-installer",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "config",
        "waiting",
        "CreateContainerConfigError|CreateContainerError|RunContainerError",
        "(?P<text>.*)",
        "container {container} cannot be created: {text}",
        "Create the missing object, then run apply again.",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "crash_loop",
        "waiting",
        "CrashLoopBackOff",
        "",
        "{container} keeps exiting with code {code}, {restarts} restarts",
        "Read its last output: kubectl logs {pod} -c {container} --previous",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "mount_unreachable",
        "event",
        "FailedMount|FailedAttachVolume",
        r'(?:^.*?volume "(?P<volume>[^"]+)".*)?(?P<text>Input/output error|Is the MGS running\?|Connection timed out)',
        "Lustre volume {volume} is unreachable ({text})",
        _LUSTRE_FIX,
        _LONG_TIMEOUT,
    ),
    PodRule(
        "mount_name",
        "event",
        "FailedMount|FailedAttachVolume",
        r'(?:^.*?volume "(?P<volume>[^"]+)".*)?(?:filesystem name correct|No such file or directory)',
        "Lustre volume {volume} names a file system that the instance does not have",
        "Correct lustre.filesystem, or delete the PersistentVolume and run apply again.",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "mount_driver",
        "event",
        "FailedMount|FailedAttachVolume",
        "driver name (?P<text>\\S+) not found",
        "CSI driver {text} is not installed on the node",
        "Enable the cluster's Lustre CSI driver: gcloud container clusters update --update-addons=LustreCsiDriver=ENABLED",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "mount_object",
        "event",
        "FailedMount",
        '(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found',
        "{kind} {name}, which the pod mounts, does not exist",
        "Run apply again to create it.",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "mount",
        "event",
        "FailedMount|FailedAttachVolume",
        "(?P<text>.*)",
        "a volume cannot be mounted ({text})",
        "Check the PersistentVolumeClaim and the Lustre instance.",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "device_network",
        "event",
        "FailedCreatePodSandBox",
        r'networks\.networking\.gke\.io "(?P<network>[^"]+)" not found',
        "device network {network} does not exist in the cluster",
        "Run apply again to create Network and GKENetworkParamSet {network}.",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "sandbox",
        "event",
        "FailedCreatePodSandBox|NetworkNotReady",
        "(?P<text>.*)",
        "the pod's network cannot be set up ({text})",
        "Check the node's network plugin (anetd in kube-system).",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "claim",
        "event",
        "FailedScheduling",
        "(?P<text>persistentvolumeclaim \\S+ (?:not found|is being deleted)|unbound immediate PersistentVolumeClaims)",
        "the volume claim is not bound ({text})",
        "Find the reason with kubectl describe pvc, fix it, then run apply again.",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "pool_maximum",
        "event",
        _SCALE_UP,
        "max node group size reached|max cluster .*limit reached",
        "the node pool is at its maximum size (a configured limit, not a lack of capacity)",
        "Raise {answer} (the pool's maximum size) and run apply again.",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "quota",
        "event",
        _SCALE_UP,
        "(?P<text>[^:]*quota.*)",
        "no node can be added: quota exceeded ({text})",
        f"Request more quota: {_QUOTAS}",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "preempted",
        "gone",
        "TerminationScheduled|PreemptScheduled|NodePreempted",
        "",
        "machine {node} was preempted and has not been replaced yet",
        "Wait for capacity. Spot machines can be preempted at any time; quotas.capacity=reservation avoids that.",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "reservation_gone",
        "event",
        _SCALE_UP,
        'reservation "(?P<text>[^"]+)" not found',
        "no node can be added: reservation {text} does not exist",
        "Set quotas.reservation to an existing reservation and run apply again, or have this one re-created.",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "reservation",
        "event",
        _SCALE_UP,
        "(?P<text>[^:]*reservation.*)",
        "no node can be added: the reservation is used up ({text})",
        "Free up machines in the reservation, lower quotas.gpu_nodes, or choose another reservation.",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "stock_out",
        "event",
        _SCALE_UP,
        "(?P<text>out[. ]of[. ]resources|STOCKOUT|RESOURCE_POOL_EXHAUSTED)",
        "no node can be added: the zone has no capacity for this machine type ({text})",
        "Wait, or choose another zone or a reservation.",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "device_network",
        "event",
        "NotTriggerScaleUp",
        r"Insufficient networking\.gke\.io\.networks/(?P<network>[-a-z0-9]+)",
        "no node pool offers device network {network}",
        "Check that the GPU pool has its additional networks and that GKENetworkParamSet {network} exists.",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "scale_up",
        "event",
        "FailedScaleUp",
        "(?P<text>.*)",
        "no node could be added ({text})",
        "Read the autoscaler's events in the Google Cloud console.",
        _LONG_TIMEOUT,
    ),
    PodRule("node_coming", "event", "TriggeredScaleUp", "", "a node is being added", ""),
    PodRule(
        "device_network",
        "event",
        "FailedScheduling",
        r"^(?!.*Insufficient nvidia\.com/gpu).*Insufficient networking\.gke\.io\.networks/(?P<network>[-a-z0-9]+)",
        "no node offers device network {network}",
        "Check that the GPU pool has its additional networks and that GKENetworkParamSet {network} exists.",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "no_pool",
        "event",
        "NotTriggerScaleUp",
        "scale-up: (?P<text>.*)",
        "no node pool fits this pod ({text})",
        "Compare the pod's node selector, tolerations and requests with the node pools.",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "no_room",
        "event",
        "FailedScheduling",
        r"(?P<text>.*?)(?: preemption: .*)?$",
        "no node has room ({text})",
        "Wait for the autoscaler, or add larger or more nodes to the pool.",
    ),
    PodRule(
        "policy",
        "init",
        "HeadReady",
        "^(wait-gcs-ready)$",
        "the head is ready, but the worker cannot reach it (NetworkPolicies in the namespace: {policies})",
        "Correct or delete the NetworkPolicy so that pods of this RayCluster reach port 6379 of the head.",
        _LONG_TIMEOUT,
    ),
    PodRule("init_head", "init", "HeadNotReady", "^(wait-gcs-ready)$", "waiting for the head", ""),
    PodRule(
        "init_gib",
        "init",
        ".*",
        "(?P<text>.*gib.*)",
        "init container {text} is waiting for gIB and the driver on its node",
        "If this persists, run: kubectl -n kube-system get pods -l k8s-app=nccl-rdma-installer",
    ),
    PodRule("init", "init", ".*", "(?P<text>.+)", "init container {text} is running", ""),
    PodRule("leaving", "pod", "Terminating", "", "is being deleted", ""),
)


def diagnose_pod(snapshot: PodSnapshot) -> tuple[str, Diagnosis] | None:
    """The first matching rule's name and the diagnosis; None when no symptom explains why the pod is not ready."""
    observed = symptoms(snapshot)
    for rule in RULES:
        for symptom in observed:
            values = _match(rule, symptom)
            if values is not None:
                return rule.name, _render(rule, snapshot, values)
    return None


def _match(rule: PodRule, symptom: Symptom) -> dict[str, str] | None:
    if symptom.source not in rule.source.split("|") or not re.fullmatch(rule.reason, symptom.reason):
        return None
    if symptom.source == "ended":
        found = re.search(rule.text, symptom.values["container"])  # the name shows what the container is for
    else:
        found = re.search(rule.text, symptom.text)
    return None if found is None else {**symptom.values, **{k: v or "" for k, v in found.groupdict().items()}}


def _render(rule: PodRule, snapshot: PodSnapshot, values: Mapping[str, str]) -> Diagnosis:
    known = {"pod": str(snapshot.pod["metadata"]["name"]), "image": "", "volume": "", "limit": "", **values}
    if not known["image"]:
        known["image"] = next((image for _, image in unpulled_images(snapshot.pod)), "")
    known["text"] = known.get("text", "").strip().rstrip(".:")
    known["policies"] = known.get("policies") or "none"
    known["limit"] = known["limit"] or "none"
    head = (snapshot.pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "head"
    known["answer"] = "cluster.cpu_max_nodes" if head else "quotas.gpu_nodes"
    return Diagnosis(rule.cause.format_map(known), rule.remedy.format_map(known), rule.timeout)


def summarize(found: Sequence[tuple[str, Diagnosis]]) -> str:
    """`worker`, or `3 workers` when several pods have the first one's cause."""
    label, first = found[0]
    count = sum(1 for other, diagnosis in found if (other, diagnosis.cause) == (label, first.cause))
    return f"{count} {label}s" if count > 1 else label
