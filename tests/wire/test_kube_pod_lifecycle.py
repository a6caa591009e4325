"""Pods run and fail as on GKE: nodes, images, mounts, networks, KubeRay, drills."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import msgspec
import pytest
from kube_test_server import (
    FakeRayHeadManager,
    KubeTestServer,
    cpu_pool,
    gpu_pool,
    kube_test_server,
    tutorial_backend,
    wait_until,
)
from kubernetes import client
from tutorial_kube_objects import (
    RAY,
    apply_raycluster,
    as_yaml,
    claim,
    condition_status,
    event_messages,
    get_raycluster,
    manifest,
    ray_objects,
    ray_pods,
    volume,
    wait_for_raycluster,
)

from grpo_wizard.steps.emulator.kube.api import schemas

NAME = "ray-cluster-kuberay"


@pytest.fixture
def it() -> Iterator[KubeTestServer]:
    with kube_test_server() as world:
        yield world


def _replicas(it: KubeTestServer, count: int) -> None:
    patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": count}]
    it.kubectl("patch", "raycluster", NAME, "--type=json", "-p", json.dumps(patch))


def _waiting(pod: dict[str, Any]) -> str:
    rows = [*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ())]
    return " ".join(r["state"]["waiting"]["reason"] for r in rows if "waiting" in r["state"])


def test_nodes_carry_the_marks_of_gke(it: KubeTestServer) -> None:
    apply_raycluster(it, 1)
    wait_for_raycluster(it, 1)
    nodes = json.loads(it.kubectl("get", "nodes", "-o", "json").stdout)["items"]
    gpu = next(n for n in nodes if n["metadata"]["labels"]["cloud.google.com/gke-nodepool"] == "gpu-pool")
    assert gpu["metadata"]["name"].startswith("gke-nemo-cluster-gpu-pool-")
    assert gpu["metadata"]["labels"]["cloud.google.com/gke-accelerator"] == "nvidia-b200"
    assert gpu["metadata"]["labels"]["topology.kubernetes.io/zone"] == "us-central1-b"
    assert gpu["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert gpu["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_a_ray_cluster_becomes_head_workers_service_and_token_and_scales_to_nothing(
    it: KubeTestServer,
) -> None:
    apply_raycluster(it, 0)
    assert (
        condition_status(wait_for_raycluster(it, 0), "RayClusterProvisioned")
        == "True AllPodRunningAndReadyFirstTime"
    )
    _replicas(it, 2)
    cluster = wait_for_raycluster(it, 2)
    assert cluster["status"]["state"] == "ready" and cluster["status"]["desiredGPU"] == "16"
    worker = ray_pods(it, "worker")[0]
    assert worker["metadata"]["labels"]["ray.io/cluster"] == NAME
    assert worker["metadata"]["labels"]["ray.io/group"] == "worker-grp-0"
    assert worker["spec"]["initContainers"][0]["name"] == "wait-gcs-ready"
    core = client.CoreV1Api(it.client())
    assert {p.port for p in core.read_namespaced_service(f"{NAME}-head-svc", "default").spec.ports} >= {
        8265,
        6379,
    }
    assert base64.b64decode(core.read_namespaced_secret(NAME, "default").data["auth_token"])
    _replicas(it, 0)
    wait_until(lambda: not ray_pods(it, "worker"))
    wait_until(lambda: it.backend.added_nodes.get("gpu-pool") == 0)  # empty GPU nodes are given back
    it.kubectl("delete", "raycluster", NAME, "--timeout=20s")
    wait_until(lambda: not ray_pods(it, "head"))
    assert not core.list_namespaced_secret("default", field_selector=f"metadata.name={NAME}").items


def test_ready_and_provisioned_never_go_back_but_head_pod_ready_does(it: KubeTestServer) -> None:
    apply_raycluster(it, 0)
    wait_for_raycluster(it, 0)
    head = ray_pods(it, "head")[0]["metadata"]["name"]
    it.backend.node_pools["default-pool"]["initialNodeCount"] = 0
    it.call(_pools_changed(it))
    cluster = wait_until(
        lambda: (c := get_raycluster(it)) and condition_status(c, "HeadPodReady").startswith("False") and c
    )
    assert cluster["status"]["state"] == "ready"
    assert condition_status(cluster, "RayClusterProvisioned").startswith("True")
    it.backend.node_pools["default-pool"]["initialNodeCount"] = 1
    it.call(_pools_changed(it))
    wait_for_raycluster(it, 0)
    assert ray_pods(it, "head")[0]["metadata"]["name"] != head


async def _pools_changed(it: KubeTestServer) -> None:
    it.cluster.on_pools_changed()


def test_the_pools_maximum_is_told_as_the_autoscaler_tells_it() -> None:
    with kube_test_server(tutorial_backend(max_nodes=1)) as it:
        apply_raycluster(it, 2)
        texts = wait_until(lambda: event_messages(it, "NotTriggerScaleUp"))
        assert "max node group size reached" in texts[0]
        assert any("Insufficient nvidia.com/gpu" in t for t in event_messages(it, "FailedScheduling"))


def test_an_empty_reservation_is_told_in_the_clouds_words() -> None:
    ground = tutorial_backend()
    ground.available_nodes = 0
    with kube_test_server(ground) as it:
        apply_raycluster(it, 1)
        texts = wait_until(lambda: event_messages(it, "FailedScaleUp"))
        assert "reservation 'nemo-res'" in texts[0]
        waits = wait_until(lambda: event_messages(it, "NotTriggerScaleUp"))
        assert waits == ["pod didn't trigger scale-up: 1 in backoff after failed scale-up"]
        ground.available_nodes = 1
        wait_for_raycluster(it, 1)


def test_an_image_that_is_not_there_is_told_by_the_pod_alone(it: KubeTestServer) -> None:
    objects = [volume(), claim(), *ray_objects(0)]
    objects[-1]["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = (
        "nvcr.io/nvidia/nemo-rl:v9.bad"
    )
    it.kubectl("apply", "-f", "-", stdin=as_yaml(objects))
    wait_until(lambda: ray_pods(it, "head") and "ImagePullBackOff" in _waiting(ray_pods(it, "head")[0]))
    assert any("not found" in t for t in event_messages(it, "Failed"))
    assert "state" not in get_raycluster(it)["status"]


def test_lustre_mounts_fail_as_the_csi_driver_fails(it: KubeTestServer) -> None:
    apply_raycluster(it, 0, ip="10.9.9.9")
    texts = wait_until(lambda: event_messages(it, "FailedMount"))
    assert "Is the MGS running?" in texts[0] and "exit status 5" in texts[0]
    assert "ContainerCreating" in _waiting(ray_pods(it, "head")[0])
    assert wait_until(lambda: ray_pods(it, "head")[0]["status"]["phase"] == "Pending")


def test_a_wrong_filesystem_name_says_so(it: KubeTestServer) -> None:
    apply_raycluster(it, 0, filesystem="wrong")
    assert "Is the filesystem name correct?" in wait_until(lambda: event_messages(it, "FailedMount"))[0]


def test_claims_bind_only_to_what_fits(it: KubeTestServer) -> None:
    small = volume()
    small["spec"]["capacity"]["storage"] = "9000Gi"
    it.kubectl("apply", "-f", "-", stdin=as_yaml([small, claim()]))
    assert "too small" in wait_until(lambda: event_messages(it, "VolumeMismatch"))[0]


def _with_interfaces(workers: int) -> list[dict[str, Any]]:
    """The RayCluster with its interface annotation where it belongs: in the worker's template."""
    rows = [
        {"interfaceName": "eth0", "network": "default"},
        {"interfaceName": "eth1", "network": "gvnic-1"},
        *({"interfaceName": f"gpu{i}rdma0", "network": f"rdma-{i}"} for i in range(8)),
    ]
    objects = ray_objects(workers)
    objects[-1]["spec"]["workerGroupSpecs"][0]["template"]["metadata"] = {
        "annotations": {
            "networking.gke.io/default-interface": "eth0",
            "networking.gke.io/interfaces": json.dumps(rows),
        }
    }
    return objects


def test_a_worker_carries_its_interfaces_and_waits_for_a_network_that_is_missing(it: KubeTestServer) -> None:
    networks = manifest("network-mapping.yaml")
    it.kubectl("apply", "-f", "-", stdin=as_yaml([volume(), claim(), *networks, *_with_interfaces(1)]))
    wait_for_raycluster(it, 1)
    notes = ray_pods(it, "worker")[0]["metadata"]["annotations"]
    named = [row["networkName"] for row in json.loads(notes["networking.gke.io/pod-ips"])]
    assert named == ["gvnic-1", *(f"rdma-{i}" for i in range(8))]


def test_a_device_network_that_no_pool_is_wired_to_keeps_the_worker_pending() -> None:
    ground = tutorial_backend()
    ground.node_pools["gpu-pool"] = gpu_pool(networkConfig={})
    with kube_test_server(ground) as it:
        networks = manifest("network-mapping.yaml")
        it.kubectl("apply", "-f", "-", stdin=as_yaml([volume(), claim(), *networks, *_with_interfaces(1)]))
        texts = wait_until(lambda: event_messages(it, "NotTriggerScaleUp"))
        assert "networking.gke.io.networks/" in texts[0]


def test_the_installer_fills_the_host_before_a_waiting_init_container_ends() -> None:
    with kube_test_server(tutorial_backend()) as it:
        objects = ray_objects(1)
        spec = objects[-1]["spec"]["workerGroupSpecs"][0]["template"]["spec"]
        spec["initContainers"] = [
            {
                "name": "wait-gib",
                "image": "busybox",
                "volumeMounts": [{"name": "gib-nccl-plugin-volume", "mountPath": "/gib"}],
            }
        ]
        it.kubectl("apply", "-f", "-", stdin=as_yaml([volume(), claim(), *objects]))
        wait_until(
            lambda: (
                ray_pods(it, "worker")
                and ray_pods(it, "worker")[0]["status"]
                .get("initContainerStatuses", [{}])[0]
                .get("state", {})
                .get("running")
            )
        )
        it.kubectl("apply", "-f", "-", stdin=as_yaml(manifest("nccl-rdma-installer.yaml")))
        wait_for_raycluster(it, 1)


def test_a_head_out_of_memory_restarts_while_its_phase_says_running(it: KubeTestServer) -> None:
    apply_raycluster(it, 0)
    wait_for_raycluster(it, 0)
    name = ray_pods(it, "head")[0]["metadata"]["name"]
    it.kubectl("annotate", "pod", name, "rehearsal/drill=oom:ray-head")

    def row() -> dict[str, Any]:
        return next(
            r for r in ray_pods(it, "head")[0]["status"]["containerStatuses"] if r["name"] == "ray-head"
        )

    wait_until(lambda: row()["restartCount"] >= 1 and "waiting" in row()["state"])
    assert row()["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert row()["lastState"]["terminated"]["exitCode"] == 137
    assert row()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert ray_pods(it, "head")[0]["status"]["phase"] == "Running"
    it.kubectl("annotate", "pod", name, "rehearsal/drill-")
    wait_for_raycluster(it, 0)


def test_an_evicted_pod_and_a_preempted_node_are_made_up_for(it: KubeTestServer) -> None:
    apply_raycluster(it, 1)
    wait_for_raycluster(it, 1)
    first = ray_pods(it, "worker")[0]
    it.kubectl("annotate", "node", first["spec"]["nodeName"], "rehearsal/drill=preempt")
    wait_until(
        lambda: (
            ray_pods(it, "worker")
            and ray_pods(it, "worker")[0]["metadata"]["uid"] != first["metadata"]["uid"]
        )
    )
    wait_for_raycluster(it, 1)
    second = ray_pods(it, "worker")[0]
    it.kubectl("annotate", "pod", second["metadata"]["name"], "rehearsal/drill=evict")
    wait_until(lambda: event_messages(it, "Evicted"))
    wait_until(
        lambda: (
            ray_pods(it, "worker")
            and ray_pods(it, "worker")[0]["metadata"]["uid"] != second["metadata"]["uid"]
        )
    )
    wait_for_raycluster(it, 1)


def test_a_silent_node_makes_its_head_unready_and_repair_brings_another() -> None:
    with kube_test_server(tutorial_backend()) as it:
        apply_raycluster(it, 0)
        wait_for_raycluster(it, 0)
        first = ray_pods(it, "head")[0]
        node = first["spec"]["nodeName"]
        it.kubectl("annotate", "node", node, "rehearsal/drill=lost")
        wait_until(lambda: condition_status(get_raycluster(it), "HeadPodReady").startswith("False"))
        wait_until(lambda: "deletionTimestamp" in ray_pods(it, "head")[0]["metadata"])
        assert ray_pods(it, "head")[0]["metadata"]["uid"] == first["metadata"]["uid"], (
            "gone only with its node"
        )
        it.kubectl("annotate", "node", node, "rehearsal/drill=repair", "--overwrite")
        wait_until(
            lambda: (
                ray_pods(it, "head")
                and ray_pods(it, "head")[0]["metadata"]["uid"] != first["metadata"]["uid"]
            )
        )
        wait_for_raycluster(it, 0)
        assert ray_pods(it, "head")[0]["spec"]["nodeName"] != first["spec"]["nodeName"]


def test_drills_of_a_ray_cluster_meet_the_pods_to_come(it: KubeTestServer) -> None:
    objects = [volume(), claim(), *ray_objects(1)]
    objects[-1]["metadata"]["annotations"] = {"rehearsal/drill": "worker:image"}
    it.kubectl("apply", "-f", "-", stdin=as_yaml(objects))
    wait_until(lambda: ray_pods(it, "worker") and "ImagePullBackOff" in _waiting(ray_pods(it, "worker")[0]))
    assert condition_status(get_raycluster(it), "HeadPodReady").startswith("True")
    it.kubectl("annotate", "pod", ray_pods(it, "worker")[0]["metadata"]["name"], "rehearsal/drill-")
    wait_for_raycluster(it, 1)


def test_every_object_passes_kubernetes_own_schemas(it: KubeTestServer) -> None:
    networks, installer = manifest("network-mapping.yaml"), manifest("nccl-rdma-installer.yaml")
    everything = as_yaml([volume(), claim(), *networks, *installer, *_with_interfaces(1)])
    it.kubectl("apply", "-f", "-", stdin=everything)
    wait_for_raycluster(it, 1)
    it.kubectl("create", "deployment", "web", "--image=nginx")
    it.kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    seen, found = Counter[str](), schemas.SchemaErrors()
    for kind, obj in list(it.cluster.context.store.all_objects()):
        seen[f"{kind.kind} {obj['metadata'].get('namespace', '')}"] += 1
        if kind.is_custom:
            schemas.validate(schemas.schema_of(kind), obj, "", found)
        elif (
            seen[f"{kind.kind} {obj['metadata'].get('namespace', '')}"] <= 2
        ):  # the checker reads its files anew
            kubernetes_validate.validate(obj, "1.33", strict=True)
    checked = {key.split()[0] for key in seen}
    assert (found.unknown_fields, found.wrong_types, found.violated_rules, found.missing_fields) == (
        [],
        [],
        [],
        [],
    )
    assert {
        "Pod",
        "Node",
        "RayCluster",
        "Network",
        "DaemonSet",
        "Event",
        "PersistentVolume",
        "Endpoints",
    } <= checked


def test_daemon_sets_with_no_node_to_land_on_are_rolled_out(it: KubeTestServer) -> None:
    it.kubectl("apply", "-f", "-", stdin=as_yaml(manifest("nccl-rdma-installer.yaml")))
    it.kubectl("rollout", "status", "ds/nccl-rdma-installer", "-n", "kube-system", "--timeout=10s")
    status = json.loads(
        it.kubectl("get", "ds", "nccl-rdma-installer", "-n", "kube-system", "-o", "json").stdout
    )["status"]
    assert status["desiredNumberScheduled"] == 0 and status["numberReady"] == 0


def test_without_the_ray_add_on_there_is_no_ray_cluster() -> None:
    with kube_test_server(addons=set[str]()) as it:
        refused = it.kubectl("apply", "-f", "-", stdin=as_yaml(ray_objects(0)), check=False)
        assert refused.returncode == 1
        assert 'no matches for kind "RayCluster" in version "ray.io/v1"' in refused.stderr
        done = it.kubectl("get", "rayclusters", check=False)
        assert 'the server doesn\'t have a resource type "rayclusters"' in done.stderr


def test_a_sidecar_of_the_head_is_started_with_its_account_and_ended_with_its_pod() -> None:
    heads = FakeRayHeadManager(0)
    with kube_test_server(heads=heads) as it:
        objects = ray_objects(0)
        spec = objects[-1]["spec"]["headGroupSpec"]["template"]["spec"]
        spec["containers"].append(
            {
                "name": "release",
                "image": "python:3.12",
                "command": ["python", "/x/after.py"],
                "env": [{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "volumeMounts": [{"name": "script", "mountPath": "/x"}],
            }
        )
        spec["volumes"].append({"name": "script", "configMap": {"name": "after"}})
        script = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "after"},
            "data": {"after.py": "pass\n"},
        }
        it.kubectl("apply", "-f", "-", stdin=as_yaml([volume(), claim(), script, *objects]))
        wait_for_raycluster(it, 0)
        name, argv, env, mounts = wait_until(lambda: heads.sidecars)[0]
        assert (name, argv) == ("release", ["python", "/x/after.py"])
        assert (
            env["WHO"] == ray_pods(it, "head")[0]["metadata"]["name"]
            and env["KUBERNETES_SERVICE_HOST"] == "127.0.0.1"
        )
        assert (mounts["/x"] / "after.py").read_text() == "pass\n"
        account = mounts["/var/run/secrets/kubernetes.io/serviceaccount"]
        token = (account / "token").read_text()
        assert (account / "token").stat().st_mode & 0o777 == 0o600
        assert it.raw("GET", "/api/v1/namespaces/default/pods", token=token)[0] == 403
        it.kubectl("delete", "raycluster", NAME, "--timeout=20s")
        wait_until(lambda: set(heads.deleted_pods) == {env["WHO"]})


def test_a_head_deleted_by_force_and_a_cluster_that_ends_leave_no_process() -> None:
    heads = FakeRayHeadManager(0)
    with kube_test_server(heads=heads) as it:
        apply_raycluster(it, 0)
        wait_for_raycluster(it, 0)
        first = ray_pods(it, "head")[0]["metadata"]["name"]
        it.kubectl("delete", "pod", first, "--force", "--grace-period=0")
        wait_until(lambda: heads.deleted_pods == [first])
        wait_until(lambda: ray_pods(it, "head"))  # until then the cluster's status is still that of the first
        wait_for_raycluster(it, 0)
        second = ray_pods(it, "head")[0]["metadata"]["name"]
    assert second != first and second in heads.deleted_pods


def test_the_world_survives_a_restart(tmp_path: Any) -> None:
    ground = tutorial_backend()
    with kube_test_server(ground, folder=tmp_path) as it:
        apply_raycluster(it, 1)
        wait_for_raycluster(it, 1)
        before = {(r["kind"], r["name"]) for r in it.cluster.rows()}
        saved = json.loads(msgspec.json.encode(it.cluster.dump()))
    with kube_test_server(ground, folder=tmp_path, saved=saved) as it:
        wait_for_raycluster(it, 1)
        assert {(r["kind"], r["name"]) for r in it.cluster.rows()} == before
        rows = {(r["kind"], r["name"]): r for r in it.cluster.rows()}
        assert rows["raycluster", NAME]["state"] == "ready" and not rows["raycluster", NAME]["derived"]
        assert rows["secret", NAME]["derived"] and "***" in str(rows["secret", NAME]["spec"])
        assert {"pv", "pvc", "configmap"} <= {k for k, _ in rows}


def test_a_pool_of_three_is_three_nodes() -> None:
    ground = tutorial_backend()
    ground.node_pools["default-pool"] = cpu_pool(3)
    with kube_test_server(ground) as it:
        wait_until(lambda: len(it.kubectl("get", "nodes", "-o", "name").stdout.split()) == 3)
    assert RAY[4] == NAME


def test_a_cluster_stopped_and_started_again_lives_on(it: KubeTestServer) -> None:
    it.call(it.cluster.stop())
    assert it.call(it.cluster.start()) == it.url
    it.kubectl("run", "later", "--image=nginx")
    it.kubectl("wait", "--for=condition=Ready", "pod/later", "--timeout=20s")
