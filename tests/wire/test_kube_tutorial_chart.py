"""Our manifests and the tutorial's own chart in the same emulator: what ours contain, and what the chart
loses.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
from kube_test_server import (
    FakeCloudBackend,
    KubeTestServer,
    cpu_pool,
    gpu_pool,
    kube_test_server,
    wait_until,
)
from test_manifests_golden import google, manifests, tutorial
from tutorial_kube_objects import as_yaml, ray_pods, wait_for_raycluster

from grpo_wizard.steps.emulator.kube.api import schemas

JSON = dict[str, Any]
INTERFACES = [f"eth{n}" for n in range(10)]  # the pod network, gVNIC, eight RDMA


def _ours() -> list[JSON]:
    """The objects of the tutorial's answers in an order in which kubectl can make them."""
    return list(manifests(tutorial()).values())


def _ground(objects: list[JSON]) -> FakeCloudBackend:
    csi = next(o for o in objects if o["kind"] == "PersistentVolume")["spec"]["csi"]
    seen = csi["volumeAttributes"]
    where = f"{seen['ip']}@tcp:/{seen['filesystem']}"
    lustre = {"mountPoint": where, "filesystem": seen["filesystem"], "state": "ACTIVE"}
    config = gpu_pool()["config"] | {
        "reservationAffinity": {"consumeReservationType": "SPECIFIC_RESERVATION", "values": ["nemo-res"]}
    }
    return FakeCloudBackend(
        {"default-pool": cpu_pool(), "gpu-pool": gpu_pool(config=config)}, {csi["volumeHandle"]: lustre}
    )


@pytest.fixture(scope="module")
def it() -> Iterator[KubeTestServer]:
    objects = _ours()
    with kube_test_server(_ground(objects)) as world:
        world.kubectl("apply", "-f", "-", stdin=as_yaml(objects))
        wait_for_raycluster(world, 2)
        yield world


def test_a_worker_of_ours_has_ten_interfaces_its_gpus_and_its_mounts(it: KubeTestServer) -> None:
    worker = ray_pods(it, "worker")[0]
    notes = worker["metadata"]["annotations"]
    assert [row["interfaceName"] for row in json.loads(notes["networking.gke.io/interfaces"])] == INTERFACES
    given = [row["networkName"] for row in json.loads(notes["networking.gke.io/pod-ips"])]
    assert given == ["gvnic-1", *(f"rdma-{i}" for i in range(8))], "and the pod's own address, eth0"
    ray = worker["spec"]["containers"][0]
    assert str(ray["resources"]["limits"]["nvidia.com/gpu"]) == "8"
    assert {"/data", "/dev/shm", "/tmp/ray", "/usr/local/nvidia", "/usr/local/gib"} <= {
        mount["mountPath"] for mount in ray["volumeMounts"]
    }
    assert ray["command"][:2] == ["bash", "-c"] and ray["command"][2].startswith("set -e\n")


def test_every_object_in_the_cluster_passes_its_schema_strictly(it: KubeTestServer) -> None:
    """What apply made, and what controllers made of it; of each kind and namespace two (the checker reads its files anew)."""
    seen, found = Counter[str](), schemas.SchemaErrors()
    for kind, obj in list(it.cluster.context.store.all_objects()):
        key = f"{kind.kind} {obj['metadata'].get('namespace', '')}"
        seen[key] += 1
        if kind.is_custom:
            schemas.validate(schemas.schema_of(kind), obj, "", found)
        elif seen[key] <= 2:
            kubernetes_validate.validate(obj, "1.33", strict=True)
    assert (found.unknown_fields, found.wrong_types, found.violated_rules, found.missing_fields) == (
        [],
        [],
        [],
        [],
    )
    assert {o["kind"] for o in _ours()} <= {key.split()[0] for key in seen}


def test_the_charts_rendering_loses_its_interfaces_and_its_command(it: KubeTestServer) -> None:
    """The chart has no `metadata` under its templates, so that the annotation is gone; without `overwrite-container-cmd` KubeRay flattens
    the command without quotes: its first line is a bare `set`, which prints the environment."""
    it.kubectl("delete", "raycluster", "ray-cluster-kuberay", "--timeout=20s")
    wait_until(lambda: not ray_pods(it, "worker"))
    chart = google("rendered-seed")
    chart[-1]["spec"]["workerGroupSpecs"][0]["replicas"] = 2
    it.kubectl("apply", "-f", "-", stdin=as_yaml(chart))
    wait_for_raycluster(it, 2)
    worker = ray_pods(it, "worker")[0]
    assert not any("networking.gke.io" in key for key in worker["metadata"]["annotations"])
    ray = worker["spec"]["containers"][0]
    assert ray["command"] == ["/bin/bash", "-c", "--"]
    assert ray["args"][0].startswith(" bash  -c  set -ex") and "ulimit -n 65536; ray start" in ray["args"][0]
    networks = it.kubectl("get", "networks", "-o", "name").stdout
    assert networks.count("/rdma-") == 8, "though the cluster has every device network"
