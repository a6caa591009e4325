"""Why a pod waits: one table from signs to one sentence and one fix. The first rule that fits a sign is the answer.

Order: what ended the pod, then its node, images, containers, mounts and networks, then scheduling, then plain waiting.
Named groups of `text` and the sign's values fill the sentence.
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
    """`source` and `reason` are matched whole, `text` is searched. `patience`: seconds after which waiting on is senseless."""

    name: str
    source: str
    reason: str
    text: str
    cause: str
    remedy: str
    timeout: float | None = None


_SHORT_TIMEOUT, _LONG_TIMEOUT = 900.0, 1800.0  # what no waiting mends; what the cloud may mend
_IMAGE = "ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull|Failed"
_SCALE_UP = "FailedScaleUp|NotTriggerScaleUp"
_LUSTRE_FIX = (
    "see that cluster and Lustre are in the same VPC, that lustre.legacy_port is the same on both, "
    "and that the PersistentVolume has its address and file system"
)
_QUOTAS = "https://console.cloud.google.com/iam-admin/quotas"

RULES: tuple[PodRule, ...] = (
    PodRule(
        "evicted",
        "pod",
        "Evicted|EvictionByEvictionAPI",
        "(?P<text>.*)",
        "was evicted from its node ({text})",
        "give it more room, or move what else fills the node; KubeRay makes a new pod",
    ),
    PodRule(
        "node_lost",
        "node",
        "NodeNotReady",
        "(?P<text>.*)",
        "its node {node} is lost ({text})",
        "wait for GKE's node repair (about 10 min), or delete that node",
    ),
    PodRule(
        "node_lost",
        "pod",
        "NodeLost|DeletionByTaintManager|DeletionByPodGC",
        "",
        "its node is lost",
        "wait for GKE's node repair (about 10 min), or delete that node",
    ),
    PodRule(
        "preempted",
        "pod",
        "Preempting|PreemptionByScheduler",
        "",
        "had to make room for a pod of higher priority",
        "give the RayCluster a higher priority, or more nodes",
    ),
    PodRule(
        "preempted",
        "pod",
        "Terminated|NodeShutdown|Shutdown|TerminationByKubelet|Preempted",
        "",
        "its machine was taken back by the cloud (preempted)",
        "wait: a new pod and, where there is capacity, a new machine come by themselves",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "image_rights",
        "waiting|event",
        _IMAGE,
        "(?P<text>insufficient_scope[^,;]*|[^:]*(?:denied|[Uu]nauthorized|403 Forbidden)[^,;]*)",
        "image {image} is not there or may not be read ({text})",
        "correct raycluster.image and run apply again, or let the nodes' service account read it",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "image_missing",
        "waiting|event",
        _IMAGE,
        "not found|manifest unknown|NotFound",
        "image {image} does not exist (not found in its registry)",
        "correct raycluster.image and run apply again",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "image_name",
        "waiting",
        "InvalidImageName",
        "",
        "{image} is no name of an image",
        "correct raycluster.image and run apply again",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "image",
        "waiting",
        _IMAGE,
        "(?P<text>.*)",
        "image {image} cannot be pulled ({text})",
        "see whether the nodes reach the registry (Cloud NAT, Private Google Access), or correct raycluster.image",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "out_of_memory",
        "ended",
        "OOMKilled",
        "",
        "ran out of memory ({code}), {restarts} restarts: container {container}, limit {limit}",
        "raise that container's memory limit, or lower what it holds",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "init_gib_failed",
        "ended",
        ".*",
        "gib",
        "init container {container} ended with {code}: gIB or the driver never came",
        "kubectl -n kube-system describe daemonset nccl-rdma-installer",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "config",
        "waiting",
        "CreateContainerConfigError|CreateContainerError|RunContainerError",
        "(?P<text>.*)",
        "container {container} cannot be made: {text}",
        "make what it names, then run apply again",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "crash_loop",
        "waiting",
        "CrashLoopBackOff",
        "",
        "{container} keeps ending with {code}, {restarts} restarts",
        "read its last words: kubectl logs {pod} -c {container} --previous",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "mount_unreachable",
        "event",
        "FailedMount|FailedAttachVolume",
        r'(?:^.*?volume "(?P<volume>[^"]+)".*)?(?P<text>Input/output error|Is the MGS running\?|Connection timed out)',
        "the Lustre volume {volume} cannot be reached ({text})",
        _LUSTRE_FIX,
        _LONG_TIMEOUT,
    ),
    PodRule(
        "mount_name",
        "event",
        "FailedMount|FailedAttachVolume",
        r'(?:^.*?volume "(?P<volume>[^"]+)".*)?(?:filesystem name correct|No such file or directory)',
        "the Lustre volume {volume} names a file system that the instance does not have",
        "correct lustre.filesystem, or delete the PersistentVolume and run apply again",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "mount_driver",
        "event",
        "FailedMount|FailedAttachVolume",
        "driver name (?P<text>\\S+) not found",
        "the node has no CSI driver {text}",
        "switch the cluster's Lustre CSI driver on (gcloud container clusters update --update-addons=LustreCsiDriver=ENABLED)",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "mount_object",
        "event",
        "FailedMount",
        '(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found',
        "{kind} {name}, which it mounts, does not exist",
        "run apply again: it makes what is missing",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "mount",
        "event",
        "FailedMount|FailedAttachVolume",
        "(?P<text>.*)",
        "a volume cannot be mounted ({text})",
        "look at the PersistentVolumeClaim and the Lustre instance",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "device_network",
        "event",
        "FailedCreatePodSandBox",
        r'networks\.networking\.gke\.io "(?P<network>[^"]+)" not found',
        "device network {network} does not exist in the cluster",
        "run apply again: it makes Network and GKENetworkParamSet {network}",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "sandbox",
        "event",
        "FailedCreatePodSandBox|NetworkNotReady",
        "(?P<text>.*)",
        "its network cannot be set up ({text})",
        "look at the node's network plugin (anetd in kube-system)",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "claim",
        "event",
        "FailedScheduling",
        "(?P<text>persistentvolumeclaim \\S+ (?:not found|is being deleted)|unbound immediate PersistentVolumeClaims)",
        "its volume claim is not bound ({text})",
        "kubectl describe pvc says why; run apply again when it is mended",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "pool_maximum",
        "event",
        _SCALE_UP,
        "max node group size reached|max cluster .*limit reached",
        "the node pool is at its maximum, which is a limit and not the capacity",
        "raise {answer} (the pool's maximum) and run apply again",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "quota",
        "event",
        _SCALE_UP,
        "(?P<text>[^:]*quota.*)",
        "no node can be added: quota is short ({text})",
        f"ask for more at {_QUOTAS}",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "preempted",
        "gone",
        "TerminationScheduled|PreemptScheduled|NodePreempted",
        "",
        "its machine {node} was taken back by the cloud (preempted), and no other has come yet",
        "wait for capacity; spot machines can be taken at any time: quotas.capacity=reservation does not lose them",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "reservation_gone",
        "event",
        _SCALE_UP,
        'reservation "(?P<text>[^"]+)" not found',
        "no node can be added: reservation {text} is not there (any more)",
        "name one that is there as quotas.reservation and run apply again, or have this one made anew",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "reservation",
        "event",
        _SCALE_UP,
        "(?P<text>[^:]*reservation.*)",
        "no node can be added: the reservation is used up ({text})",
        "free machines of the reservation, lower quotas.gpu_nodes, or name another one",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "stock_out",
        "event",
        _SCALE_UP,
        "(?P<text>out[. ]of[. ]resources|STOCKOUT|RESOURCE_POOL_EXHAUSTED)",
        "no node can be added: the zone has no machine of this type left ({text})",
        "wait, or take another zone or a reservation",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "device_network",
        "event",
        "NotTriggerScaleUp",
        r"Insufficient networking\.gke\.io\.networks/(?P<network>[-a-z0-9]+)",
        "no node pool offers device network {network}",
        "see that the GPU pool has its additional networks and that GKENetworkParamSet {network} is there",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "scale_up",
        "event",
        "FailedScaleUp",
        "(?P<text>.*)",
        "no node could be added ({text})",
        "read the autoscaler's events in the console",
        _LONG_TIMEOUT,
    ),
    PodRule("node_coming", "event", "TriggeredScaleUp", "", "a node is being added for it", ""),
    PodRule(
        "device_network",
        "event",
        "FailedScheduling",
        r"^(?!.*Insufficient nvidia\.com/gpu).*Insufficient networking\.gke\.io\.networks/(?P<network>[-a-z0-9]+)",
        "no node offers device network {network}",
        "see that the GPU pool has its additional networks and that GKENetworkParamSet {network} is there",
        _SHORT_TIMEOUT,
    ),
    PodRule(
        "no_pool",
        "event",
        "NotTriggerScaleUp",
        "scale-up: (?P<text>.*)",
        "no node pool fits it ({text})",
        "compare the pod's node selector, tolerations and requests with the pools",
        _LONG_TIMEOUT,
    ),
    PodRule(
        "no_room",
        "event",
        "FailedScheduling",
        r"(?P<text>.*?)(?: preemption: .*)?$",
        "no node has room ({text})",
        "wait for the autoscaler, or give the pool bigger or more nodes",
    ),
    PodRule(
        "policy",
        "init",
        "HeadReady",
        "^(wait-gcs-ready)$",
        "the head is ready, but the worker does not reach it (NetworkPolicies here: {policies})",
        "let pods of this RayCluster reach port 6379 of its head: correct or delete that NetworkPolicy",
        _LONG_TIMEOUT,
    ),
    PodRule("init_head", "init", "HeadNotReady", "^(wait-gcs-ready)$", "waits for the head", ""),
    PodRule(
        "init_gib",
        "init",
        ".*",
        "(?P<text>.*gib.*)",
        "init container {text} waits for gIB and the driver on its node",
        "if it lasts: kubectl -n kube-system get pods -l k8s-app=nccl-rdma-installer",
    ),
    PodRule("init", "init", ".*", "(?P<text>.+)", "init container {text} is at work", ""),
    PodRule("leaving", "pod", "Terminating", "", "is being deleted", ""),
)


def diagnose_pod(snapshot: PodSnapshot) -> tuple[str, Diagnosis] | None:
    """The name of the first rule that fits, and its trouble; None when nothing is said that explains a wait."""
    told = symptoms(snapshot)
    for rule in RULES:
        for sign in told:
            values = _match(rule, sign)
            if values is not None:
                return rule.name, _render(rule, snapshot, values)
    return None


def _match(rule: PodRule, symptom: Symptom) -> dict[str, str] | None:
    if symptom.source not in rule.source.split("|") or not re.fullmatch(rule.reason, symptom.reason):
        return None
    if symptom.source == "ended":
        found = re.search(
            rule.text, symptom.values["container"]
        )  # what a container is called tells what it was for
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
    """`worker ×3`: how often the first trouble is met."""
    who, first = found[0]
    count = sum(1 for w, trouble in found if (w, trouble.cause) == (who, first.cause))
    return f"{count} {who}s" if count > 1 else who
