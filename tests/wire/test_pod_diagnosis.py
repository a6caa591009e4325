"""Pods that wait are explained from what real clusters said: one sentence, one fix, in the order of what counts.

Objects of the fixtures are from issues: kuberay 2387 (b01), 4287 (b03), 2238 (b07); autoscaler 5692 (b05); lustre-csi-driver 104 (b09).
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.rules import RULES, diagnose_pod
from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.symptoms import PodSnapshot
from grpo_wizard.steps.core.model import Diagnosis, DurationEstimate, Resource
from grpo_wizard.steps.engine import backoff as pace
from grpo_wizard.steps.engine import reconcile

JSON = dict[str, Any]
CASES = Path(__file__).with_name("fixtures") / "pods"
IMAGE = "nvcr.io/nvidia/nemo-rl:v9.9.9"


def case(name: str) -> JSON:
    found: JSON = json.loads(next(CASES.glob(f"{name}_*.json")).read_text())
    return found


def pod(kind: str = "worker", node: str = "", meta: JSON | None = None, **status: Any) -> JSON:
    """A pod of KubeRay's with the parts that are read."""
    name = {"head": "ray-head", "worker": "ray-worker"}[kind]
    spec = {"containers": [{"name": name, "image": IMAGE, "resources": {"limits": {"memory": "500G"}}}]}
    labels = {"ray.io/node-type": kind}
    head = {"metadata": {"name": f"ray-{kind}-x", "labels": labels, **(meta or {})}}
    return {**head, "spec": spec | ({"nodeName": node} if node else {}), "status": status}


def waiting(reason: str, message: str = "", name: str = "ray-worker", **more: Any) -> JSON:
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    return {"name": name, "ready": False, "restartCount": 0, "state": state, **more}


def event(
    reason: str, message: str, when: str = "2026-11-30T10:00:00Z", version: int = 1, **more: Any
) -> JSON:
    return {
        "reason": reason,
        "message": message,
        "lastTimestamp": when,
        "metadata": {"resourceVersion": str(version)},
        **more,
    }


def found(seen: PodSnapshot) -> tuple[str, Diagnosis]:
    result = diagnose_pod(seen)
    assert result is not None
    name, trouble = result
    assert "\n" not in str(trouble) and "{" not in str(trouble) and len(str(trouble)) < 700
    return name, trouble


def test_b01_an_image_without_rights_is_named_with_its_cause() -> None:
    told = case("b01")
    row = waiting(
        told["pod_containers"][0]["waiting"]["reason"],
        told["pod_containers"][0]["waiting"]["message"],
        "ray-head",
    )
    name, trouble = found(PodSnapshot(pod("head", "n", containerStatuses=[row]), told["events"]))
    assert name == "image_rights" and IMAGE in trouble.cause and "authorization failed" in trouble.cause
    assert "raycluster.image" in trouble.remedy and trouble.timeout is not None


def test_b03_a_head_out_of_memory_is_seen_behind_a_phase_that_says_running() -> None:
    told = case("b03")
    head = pod("head", "n", phase=told["phase"], containerStatuses=told["containerStatuses"])
    name, trouble = found(PodSnapshot(head))
    assert name == "out_of_memory" and "ran out of memory (137), 6 restarts" in trouble.cause
    assert "500G" in trouble.cause and "memory limit" in trouble.remedy


@pytest.mark.parametrize(
    ("kind", "answer"), [("worker", "quotas.gpu_nodes"), ("head", "cluster.cpu_max_nodes")]
)
def test_b05_the_pools_maximum_is_told_once_with_the_answer_to_raise(kind: str, answer: str) -> None:
    told = case("b05")
    name, trouble = found(PodSnapshot(pod(kind, phase=told["phase"]), told["events"]))
    assert name == "pool_maximum" and "a configured limit, not a lack of capacity" in trouble.cause
    assert answer in trouble.remedy and "5490" not in str(trouble)


def test_b09_lustre_that_cannot_be_mounted_names_what_to_look_at_on_one_line() -> None:
    told = case("b09")
    row = waiting(told["reason"], name="ray-head")
    name, trouble = found(
        PodSnapshot(pod("head", "n", phase=told["phase"], containerStatuses=[row]), told["events"])
    )
    assert (
        name == "mount_unreachable" and "lustre-pv" in trouble.cause and "MGS running" in str(trouble.cause)
    )
    assert (
        "same VPC" in trouble.remedy
        and "legacy_port" in trouble.remedy
        and "address and file system" in trouble.remedy
    )


GONE = event(
    "TerminationScheduled",
    "Node is scheduled for termination.",
    involvedObject={"kind": "Node", "name": "gke-a"},
)
SILENT = {
    "metadata": {"name": "gke-a"},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
        ]
    },
}
INIT = {"name": "wait-gcs-ready", "state": {"running": {"startedAt": "2026-11-30T10:00:00Z"}}}
CREATING = [waiting("ContainerCreating")]
CRASH = {"lastState": {"terminated": {"exitCode": 3, "reason": "Error"}}, "restartCount": 4}
# (rule, what is seen, words of the sentence, words of the fix)
SEEN: list[tuple[str, PodSnapshot, str, str]] = [
    (
        "image_missing",
        PodSnapshot(
            pod(
                node="n",
                containerStatuses=[
                    waiting("ErrImagePull", f'failed to resolve reference "{IMAGE}": {IMAGE}: not found')
                ],
            )
        ),
        IMAGE,
        "raycluster.image",
    ),
    (
        "image_rights",
        PodSnapshot(
            pod(node="n", containerStatuses=[waiting("ImagePullBackOff")]),
            [event("Failed", 'Failed to pull image "x": GET https://x: 403 Forbidden')],
        ),
        "403 Forbidden",
        "service account",
    ),
    (
        "image",
        PodSnapshot(pod(node="n", containerStatuses=[waiting("ImagePullBackOff", "dial tcp: i/o timeout")])),
        "i/o timeout",
        "Cloud NAT",
    ),
    (
        "quota",
        PodSnapshot(
            pod(),
            [
                event(
                    "FailedScaleUp",
                    "Node scale up in zones us-central1-b associated with this pod failed: GCE quota exceeded. Pod is at risk of not being scheduled.",
                )
            ],
        ),
        "GCE quota exceeded",
        "quotas",
    ),
    (
        "pool_maximum",
        PodSnapshot(
            pod(), [event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")]
        ),
        "maximum",
        "gpu_nodes",
    ),
    (
        "reservation_gone",
        PodSnapshot(
            pod(),
            [
                event(
                    "FailedScaleUp",
                    'Node scale up in zones us-central1-b associated with this pod failed: scale.up.error.out.of.resources: Google Compute Engine: reservation "nemo-res" not found for node pool "gpu-pool" at zone "us-central1-b".. Pod is at risk of not being scheduled.',
                )
            ],
        ),
        "reservation nemo-res does not exist",
        "quotas.reservation",
    ),
    (
        "reservation",
        PodSnapshot(
            pod(),
            [
                event(
                    "FailedScaleUp",
                    "Node scale up failed: GCE out of resources. Specified reservation 'nemo-res' does not have available resources for the request.",
                )
            ],
        ),
        "reservation 'nemo-res'",
        "reservation",
    ),
    (
        "stock_out",
        PodSnapshot(
            pod(),
            [
                event(
                    "FailedScaleUp",
                    "Node scale up in zones us-central1-b failed: GCE out of resources. Pod is at risk of not being scheduled.",
                )
            ],
        ),
        "out of resources",
        "another zone",
    ),
    (
        "crash_loop",
        PodSnapshot(
            pod(
                node="n",
                phase="Running",
                containerStatuses=[waiting("CrashLoopBackOff", "back-off 5m0s", **CRASH)],
            )
        ),
        "keeps exiting with code 3, 4 restarts",
        "--previous",
    ),
    (
        "mount_name",
        PodSnapshot(
            pod(node="n", containerStatuses=CREATING),
            [
                event(
                    "FailedMount",
                    'MountVolume failed for volume "lustre-pv" : exit status 2\nIs the filesystem name correct?',
                )
            ],
        ),
        "file system",
        "lustre.filesystem",
    ),
    (
        "mount_object",
        PodSnapshot(
            pod(node="n", containerStatuses=CREATING),
            [event("FailedMount", 'MountVolume.SetUp failed for volume "release" : configmap "r" not found')],
        ),
        "configmap r",
        "apply",
    ),
    ("init_head", PodSnapshot(pod(node="n", initContainerStatuses=[INIT])), "waiting for the head", ""),
    (
        "init_gib",
        PodSnapshot(pod(node="n", initContainerStatuses=[{**INIT, "name": "wait-for-gib"}])),
        "wait-for-gib is waiting for gIB",
        "nccl-rdma-installer",
    ),
    (
        "init_gib_failed",
        PodSnapshot(
            pod(
                node="n",
                initContainerStatuses=[
                    waiting(
                        "CrashLoopBackOff", name="wait-for-gib", lastState={"terminated": {"exitCode": 1}}
                    )
                ],
            )
        ),
        "never installed",
        "nccl-rdma-installer",
    ),
    (
        "device_network",
        PodSnapshot(
            pod(node="n", containerStatuses=CREATING),
            [
                event(
                    "FailedCreatePodSandBox",
                    'failed to setup network for sandbox: networks.networking.gke.io "rdma-3" not found',
                )
            ],
        ),
        "rdma-3",
        "GKENetworkParamSet rdma-3",
    ),
    (
        "device_network",
        PodSnapshot(
            pod(),
            [
                event(
                    "NotTriggerScaleUp",
                    "pod didn't trigger scale-up: 1 Insufficient networking.gke.io.networks/gvnic-1.IP",
                )
            ],
        ),
        "gvnic-1",
        "gvnic-1",
    ),
    (
        "policy",
        PodSnapshot(pod(node="n", initContainerStatuses=[INIT]), head_ready=True, policies=("deny-all",)),
        "deny-all",
        "6379",
    ),
    (
        "evicted",
        PodSnapshot(
            pod(node="n", phase="Failed", reason="Evicted", message="The node was low on resource: memory.")
        ),
        "low on resource",
        "Raise its resource requests",
    ),
    (
        "preempted",
        PodSnapshot(
            pod(
                node="n",
                phase="Failed",
                reason="Terminated",
                message="Pod was terminated in response to imminent node shutdown.",
            )
        ),
        "machine was preempted",
        "Wait",
    ),
    (
        "preempted",
        PodSnapshot(
            pod(), [event("FailedScaleUp", "Node scale up failed: GCE out of resources.")], node_events=[GONE]
        ),
        "gke-a was preempted",
        "Wait",
    ),
    (
        "node_lost",
        PodSnapshot(
            pod(
                node="gke-a",
                phase="Running",
                containerStatuses=[{"name": "ray-worker", "ready": True, "state": {"running": {}}}],
            ),
            node=SILENT,
        ),
        "gke-a is lost",
        "repair",
    ),
    (
        "node_lost",
        PodSnapshot(pod(node="gke-a", meta={"deletionTimestamp": "2026-11-30T10:00:00Z"}), node=SILENT),
        "gke-a is lost",
        "repair",
    ),
    (
        "claim",
        PodSnapshot(
            pod(),
            [
                event(
                    "FailedScheduling",
                    '0/1 nodes are available: persistentvolumeclaim "lustre-pvc" not found.',
                )
            ],
        ),
        "lustre-pvc",
        "pvc",
    ),
    (
        "node_coming",
        PodSnapshot(
            pod(),
            [
                event(
                    "FailedScheduling", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", version=1
                ),
                event("TriggeredScaleUp", "pod triggered scale-up", version=2),
            ],
        ),
        "being added",
        "",
    ),
    (
        "no_room",
        PodSnapshot(
            pod(),
            [
                event(
                    "FailedScheduling",
                    "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
                )
            ],
        ),
        "Insufficient cpu",
        "nodes",
    ),
]


@pytest.mark.parametrize(
    ("rule", "seen", "why", "fix"), SEEN, ids=[f"{n}-{row[0]}" for n, row in enumerate(SEEN)]
)
def test_each_trouble_has_its_sentence_and_its_fix(rule: str, seen: PodSnapshot, why: str, fix: str) -> None:
    name, trouble = found(seen)
    assert (name, why in trouble.cause, fix in trouble.remedy) == (rule, True, True), trouble


def test_news_that_no_longer_holds_explains_nothing() -> None:
    """Events last an hour: a pod that has a node by now, and whose containers run, waits for none of it."""
    old = [
        event("FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu."),
        event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached"),
        event("FailedMount", "Is the MGS running?"),
        event("Failed", "Failed to pull image: not found"),
        event("FailedCreatePodSandBox", 'networks.networking.gke.io "rdma-0" not found'),
    ]
    running = {
        "name": "ray-worker",
        "ready": False,
        "state": {"running": {"startedAt": "2026-11-30T10:00:00Z"}},
    }
    assert diagnose_pod(PodSnapshot(pod(node="n", phase="Running", containerStatuses=[running]), old)) is None


def test_a_pool_that_waits_before_it_tries_again_is_told_by_why_it_failed() -> None:
    """kubernetes/autoscaler issues 1607 and 5692: the newest event says only that the pool is in backoff."""
    failed = event("FailedScaleUp", "GCE out of resources", "2026-11-30T10:00:00Z", 3)
    backoff = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"
    later = event("NotTriggerScaleUp", backoff, "2026-11-30T10:05:00Z", 5)
    assert found(PodSnapshot(pod(), [failed, later]))[0] == "stock_out"
    assert "backoff" in found(PodSnapshot(pod(), [later]))[1].cause, "alone it is all that is known"


def test_the_autoscalers_newest_word_is_the_one_that_holds() -> None:
    refused = event(
        "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", version=5
    )
    coming = event("TriggeredScaleUp", "pod triggered scale-up", version=9)
    assert found(PodSnapshot(pod(), [refused, coming]))[0] == "node_coming"
    later = event("FailedScaleUp", "GCE out of resources", "2026-11-30T10:05:00Z", 3)
    assert found(PodSnapshot(pod(), [coming, later]))[0] == "stock_out"


def test_every_rule_is_one_sentence_and_only_waiting_has_no_fix() -> None:
    assert {rule.name for rule in RULES if not rule.remedy} == {"node_coming", "init_head", "init", "leaving"}
    for rule in RULES:
        assert not rule.cause.endswith("."), rule.name
        if rule.remedy:
            assert rule.remedy[0].isupper() and (rule.remedy.endswith(".") or ": " in rule.remedy), rule.name


RAY = Resource(
    step="raycluster",
    kind="raycluster",
    name="ray",
    spec={},
    expected_duration=DurationEstimate(300, 1800, "test"),
)


def test_what_no_waiting_mends_ends_it_sooner_and_all_of_it_shrinks_with_the_pace() -> None:
    bad, slow = (
        Diagnosis("image x does not exist", "correct raycluster.image", 900.0),
        Diagnosis("no room", "wait"),
    )
    assert (
        pace.diagnosis_timeout(bad, RAY, 1.0)
        < pace.timeout(RAY, 1.0)
        == pace.diagnosis_timeout(slow, RAY, 1.0)
    )
    assert pace.diagnosis_timeout(bad, RAY, 120.0) < pace.diagnosis_timeout(bad, RAY, 1.0)


@pytest.mark.parametrize(("seconds", "ends"), [(1000.0, False), (1200.0, True)])
def test_a_time_out_fails_with_the_trouble_and_its_fix(seconds: float, ends: bool) -> None:
    pursuit = object.__new__(reconcile._ResourceReconciler)  # no session is needed to judge a wait
    pursuit.resource, pursuit.time_scale, pursuit.last_message = RAY, 1.0, "waiting for the head: …"
    pursuit.diagnosis = Diagnosis("head: image x does not exist", "correct raycluster.image", 900.0)

    async def judge() -> None:
        now = asyncio.get_running_loop().time()
        pursuit.started = pursuit.diagnosed_at = now - seconds
        pursuit.check_deadline()

    if not ends:
        asyncio.run(judge())
        return
    with pytest.raises(CloudError) as raised:
        asyncio.run(judge())
    assert (raised.value.detail, raised.value.fix) == (
        "head: image x does not exist",
        "correct raycluster.image",
    )
