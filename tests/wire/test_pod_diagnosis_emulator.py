"""Troubles of the rehearsed cluster, read by the wizard's own client over HTTPS and explained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kube_test_server import TOKEN, KubeTestServer, kube_test_server, tutorial_backend, wait_until
from tutorial_kube_objects import (
    apply_raycluster,
    as_yaml,
    claim,
    manifest,
    ray_objects,
    ray_pods,
    volume,
    wait_for_raycluster,
)

from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.kubernetes.api import ClusterEndpoint, KubeClient
from grpo_wizard.steps.clients.kubernetes.pod_diagnosis.pods import explain
from grpo_wizard.steps.clients.kubernetes.rayclusters import head_is_ready

NAME = "ray-cluster-kuberay"
CASES = Path(__file__).with_name("fixtures") / "pods"


@pytest.fixture
def it() -> Iterator[KubeTestServer]:
    with kube_test_server() as world:
        yield world


def client(it: KubeTestServer) -> KubeClient:
    cloud = CloudContext("rehearsal", None, "tests", kube_token=TOKEN)
    return KubeClient(cloud, ClusterEndpoint(it.url, it.cluster.ca_path.read_bytes()))


def told(it: KubeTestServer, *words: str) -> str:
    """Waits for an explanation with all of these words."""
    kube = client(it)
    last = ""

    def look() -> str:
        nonlocal last
        last = explain(kube, "default", NAME)
        return last if all(word in last for word in words) else ""

    try:
        return str(wait_until(look))
    except AssertionError:
        raise AssertionError(f"no explanation with {words}, but {last!r}") from None


def annotate(it: KubeTestServer, pod: str, drill: str) -> None:
    it.kubectl("annotate", "pod", pod, f"rehearsal/drill{drill}", "--overwrite")


def test_a_head_that_is_killed_for_memory_and_one_that_crashes(it: KubeTestServer) -> None:
    apply_raycluster(it, 0)
    wait_for_raycluster(it, 0)
    assert explain(client(it), "default", NAME) == ""
    head = ray_pods(it, "head")[0]["metadata"]["name"]
    annotate(it, head, "=oom:ray-head")
    told(it, "head: ran out of memory (137)", "limit 500G", "memory limit")
    annotate(it, head, "=crash:ray-head")
    told(it, "head: ray-head keeps exiting with code 1", f"kubectl logs {head} -c ray-head --previous")
    annotate(it, head, "-")
    wait_for_raycluster(it, 0)
    wait_until(lambda: explain(client(it), "default", NAME) == "")


def test_b07_a_head_that_is_gone_is_missing_whatever_the_status_latched(it: KubeTestServer) -> None:
    apply_raycluster(it, 0)
    wait_for_raycluster(it, 0)
    it.backend.node_pools["default-pool"]["initialNodeCount"] = 0
    it.kubectl("delete", "pod", ray_pods(it, "head")[0]["metadata"]["name"], "--force", "--grace-period=0")
    it.cluster.context.request_reconcile()
    told(it, "head: no node")
    b07 = json.loads((CASES / "b07_state_ready_but_head_gone.json").read_text())
    assert b07["status"]["state"] == "ready" and not head_is_ready(b07), "a job is not submitted to it"


def test_a_raycluster_without_any_pod_says_that_its_head_is_missing() -> None:
    with kube_test_server(addons={"lustre"}) as it:
        assert "head missing" in explain(client(it), "default", NAME)


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (
            "scale.up.error.quota.exceeded: Insufficient regional quota",
            ("quota exceeded", "console.cloud.google.com"),
        ),
        (
            "scale.up.error.out.of.resources: specific reservation 'nemo-res' has no machine left",
            ("reservation is used up", "nemo-res"),
        ),
        (
            "scale.up.error.out.of.resources: GCE_STOCKOUT",
            ("no capacity for this machine type", "another zone"),
        ),
    ],
)
def test_machines_that_do_not_come(
    refused: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = tutorial_backend()
    monkeypatch.setattr(ground, "allocate_node", lambda cluster_key, pool: refused)
    with kube_test_server(ground) as it:
        apply_raycluster(it, 2)
        told(it, "2 workers: no node can be added", *words)


DENY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "deny-all", "namespace": "default"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
}


def _waits(name: str) -> dict[str, Any]:
    mount = {"name": "gib-nccl-plugin-volume", "mountPath": "/usr/local/gib"}
    return {"name": name, "image": "busybox", "volumeMounts": [mount]}


def test_a_worker_waits_for_gib_and_then_for_a_head_that_a_policy_hides(it: KubeTestServer) -> None:
    objects = ray_objects(1)
    objects[-1]["spec"]["workerGroupSpecs"][0]["template"]["spec"]["initContainers"] = [
        _waits("wait-for-gib")
    ]
    it.kubectl("apply", "-f", "-", stdin=as_yaml([DENY, volume(), claim(), *objects]))
    told(it, "worker: init container wait-for-gib is waiting for gIB", "nccl-rdma-installer")
    it.kubectl("apply", "-f", "-", stdin=as_yaml(manifest("nccl-rdma-installer.yaml")))
    told(it, "worker: the head is ready, but the worker cannot reach it", "deny-all", "6379")
    it.kubectl("delete", "networkpolicy", "deny-all")
    wait_for_raycluster(it, 1)


def test_a_silent_node_and_a_device_network_that_nobody_knows(it: KubeTestServer) -> None:
    rows = [{"interfaceName": "eth0", "network": "default"}, {"interfaceName": "eth1", "network": "gvnic-9"}]
    objects = ray_objects(0)
    notes = {"networking.gke.io/default-interface": "eth0", "networking.gke.io/interfaces": json.dumps(rows)}
    objects[-1]["spec"]["headGroupSpec"]["template"]["metadata"] = {"annotations": notes}
    it.kubectl("apply", "-f", "-", stdin=as_yaml([volume(), claim(), *objects]))
    assert "gvnic-9" in told(it, "head:", "device network gvnic-9")
    it.kubectl("delete", "raycluster", NAME, "--timeout=20s")
    it.kubectl("apply", "-f", "-", stdin=as_yaml(ray_objects(0)))
    wait_for_raycluster(it, 0)
    node = ray_pods(it, "head")[0]["spec"]["nodeName"]
    it.kubectl("annotate", "node", node, "rehearsal/drill=lost")
    told(it, "head", f"node {node} is lost", "repair")
    it.kubectl("annotate", "node", node, "rehearsal/drill-")
    wait_for_raycluster(it, 0)


def test_objects_that_are_missing_are_named(it: KubeTestServer) -> None:
    it.kubectl("apply", "-f", "-", stdin=as_yaml(ray_objects(0)))
    told(it, "head: the volume claim is not bound", "lustre-pvc")
