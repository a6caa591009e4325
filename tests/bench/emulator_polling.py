"""200 clients poll once a second in a world with 2,000 pods: latency of a GET, and what the server takes for it.

    python tests/bench/rehearsal_polls.py [--seconds 110] [--runs 1] [--pods placed waiting]

Every other client GETs a pod of its own over TLS, the rest ask Google's services. `placed` pods run; for `waiting` ones no node has room, so
that scheduler and autoscaler look at all of them, and tell them so again every 100 s: fewer seconds than that miss it. One JSON line a run.
Limit: p99 of a GET 50 ms on 2 cores, ends with 1 above it; told without a limit are the GETs while the pods are being made, the slowest one,
memory, the world's file and list, and the CPU without any client.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import ssl
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from grpo_wizard.steps.emulator import process

P99_MS = 50.0
CLIENTS, PODS, MAKERS = 200, 2000, 4
CLUSTER = "projects/my-project/locations/us-central1/clusters/bench"
PATHS = (
    "/compute/v1/projects/my-project/global/networks",
    "/compute/v1/projects/my-project/zones/us-central1-b/reservations/nemo-res",
    f"/container/v1/{CLUSTER}",
    "/serviceusage/v1/projects/my-project/services/compute.googleapis.com",
)
_MANY = aiohttp.ClientTimeout(total=120)


class Bench:
    """A server with one cluster, and what is asked of it."""

    def __init__(self, session: aiohttp.ClientSession, address: process.ServerAddress) -> None:
        self.session, self.base = session, address.base_url
        self.process = psutil.Process(address.pid)
        self.kube, self.context, self.node = "", ssl.create_default_context(), ""

    async def get(self, url: str) -> tuple[float, bytes]:
        """Seconds and body of one GET that must succeed."""
        begun = time.monotonic()
        async with self.session.get(url, ssl=self.context, timeout=_MANY) as response:
            body = await response.read()
            if response.status != 200:
                raise SystemExit(f"{url}: {response.status}")
        return time.monotonic() - begun, body

    async def post(self, url: str, body: object) -> None:
        """One POST that must succeed."""
        async with self.session.post(url, json=body, ssl=self.context) as response:
            if response.status >= 300:
                raise SystemExit(f"{url}: {response.status} {await response.text()}")

    async def cluster(self) -> None:
        """Makes the cluster; from then on its Kubernetes can be asked."""
        apis = {"serviceIds": ["compute.googleapis.com", "container.googleapis.com"]}
        await self.post(f"{self.base}/serviceusage/v1/projects/my-project/services:batchEnable", apis)
        network = {"name": "n", "autoCreateSubnetworks": True}
        await self.post(f"{self.base}/compute/v1/projects/my-project/global/networks", network)
        await asyncio.sleep(0.5)
        cluster = {"name": "bench", "network": "n", "initialNodeCount": 1}
        parent = CLUSTER.rpartition("/clusters")[0]
        await self.post(f"{self.base}/container/v1/{parent}/clusters", {"cluster": cluster})
        body: dict[str, Any] = {}
        while body.get("status") != "RUNNING":
            await asyncio.sleep(0.1)
            body = json.loads((await self.get(f"{self.base}/container/v1/{CLUSTER}"))[1])
        self.kube = f"https://{body['endpoint']}"
        ca = base64.b64decode(body["masterAuth"]["clusterCaCertificate"]).decode()
        self.context = ssl.create_default_context(cadata=ca)
        while not self.node:
            nodes = json.loads((await self.get(f"{self.kube}/api/v1/nodes"))[1])["items"]
            self.node = nodes[0]["metadata"]["name"] if nodes else ""

    def pod(self, number: int, waiting: bool) -> dict[str, object]:
        """A pod that runs on the only node, or asks for GPUs that no node has."""
        container: dict[str, object] = {"name": "c", "image": "busybox"}
        if waiting:
            container["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
        place = {} if waiting else {"nodeName": self.node}
        return {"metadata": {"name": f"p-{number}"}, "spec": {**place, "containers": [container]}}

    async def make(self, waiting: bool, first: int) -> None:
        """Every MAKERS-th pod from `first` on, one after the other."""
        for number in range(first, PODS, MAKERS):
            await self.post(f"{self.kube}/api/v1/namespaces/default/pods", self.pod(number, waiting))

    async def wait_until_ready(self, waiting: bool) -> None:
        """Returns once every pod runs, or has been told that it cannot."""
        while True:
            pods = json.loads((await self.get(f"{self.kube}/api/v1/namespaces/default/pods"))[1])["items"]
            if all(
                p["status"].get("conditions") if waiting else p["status"]["phase"] == "Running" for p in pods
            ):
                return
            await asyncio.sleep(1)

    async def poll_until(self, ended: asyncio.Event, pods: bool) -> tuple[list[float], list[float]]:
        """200 clients until `ended`: seconds of the GETs of Kubernetes (a pod each, else the nodes) and Google."""
        found: tuple[list[float], list[float]] = ([], [])
        what = (
            f"{self.kube}/api/v1/namespaces/default/pods/p-{{}}"
            if pods
            else f"{self.kube}/api/v1/nodes/{self.node}"
        )
        urls = [self.base + PATHS[n // 2 % len(PATHS)] if n % 2 else what.format(n) for n in range(CLIENTS)]
        await asyncio.gather(
            *(self._poll(url, n / CLIENTS, ended, found[n % 2]) for n, url in enumerate(urls))
        )
        return found

    async def _poll(self, url: str, delay: float, ended: asyncio.Event, found: list[float]) -> None:
        """GETs once a second. The first one opens the connection (TLS) and does not count."""
        await asyncio.sleep(delay)
        await self.get(url)
        await asyncio.sleep(1)
        while not ended.is_set():
            took, _ = await self.get(url)
            found.append(took)
            await asyncio.sleep(max(0.0, 1 - took))

    def cpu(self) -> float:
        """Seconds of CPU that the server has used."""
        return float(sum(self.process.cpu_times()[:2]))

    def memory(self) -> float:
        """MiB that the server holds."""
        return round(float(self.process.memory_info().rss) / 2**20, 1)


async def run(folder: Path, waiting: bool, seconds: float) -> dict[str, Any]:
    """One server, filled, polled, left alone; its figures."""
    address = process.start(folder, "max", ray="none")
    headers = {"Authorization": f"Bearer {address.token}"}
    try:
        async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0)) as session:
            bench = Bench(session, address)
            await bench.cluster()
            return {
                "pods_are": "waiting" if waiting else "placed",
                **await measure_fill(bench, waiting),
                **await measure_steady(bench, seconds),
                **await measure_single(bench, min(seconds, 35)),
                "file_mib": round((process.server_folder(folder) / "world.json").stat().st_size / 2**20, 1),
                "load": round(os.getloadavg()[0], 2),
            }
    finally:
        process.stop(folder)


async def measure_fill(bench: Bench, waiting: bool) -> dict[str, Any]:
    """Makes the pods while the 200 clients poll already."""
    ended, before, used = asyncio.Event(), bench.memory(), bench.cpu()
    polling = asyncio.create_task(bench.poll_until(ended, pods=False))
    await asyncio.sleep(2.5)  # all connections are open
    begun = time.monotonic()
    await asyncio.gather(*(bench.make(waiting, first) for first in range(MAKERS)))
    made = time.monotonic() - begun
    ended.set()
    kube, google = await polling
    await bench.wait_until_ready(waiting)
    return {
        "made_s": round(made, 1),
        "settled_s": round(time.monotonic() - begun, 1),
        "made_cpu_s": round(bench.cpu() - used, 2),
        "while_made": percentiles(kube + google),
        "memory_mib": [before, bench.memory()],
    }


async def measure_steady(bench: Bench, seconds: float) -> dict[str, Any]:
    """The bar: nothing but 200 clients."""
    await asyncio.sleep(3)
    ended, before = asyncio.Event(), bench.cpu()
    asyncio.get_running_loop().call_later(seconds, ended.set)
    kube, google = await bench.poll_until(ended, pods=True)
    count = len(kube) + len(google)
    return {
        "requests": count,
        "pod": percentiles(kube),
        "google": percentiles(google),
        "cpu_ms_per_request": round(1000 * (bench.cpu() - before) / count, 2),
    }


async def measure_single(bench: Bench, seconds: float) -> dict[str, Any]:
    """No client at all; afterwards the two large answers."""
    before = bench.cpu()
    await asyncio.sleep(seconds)
    idle = (bench.cpu() - before) / seconds
    world = [(await bench.get(f"{bench.base}/_rehearsal/world"))[0] for _ in range(3)]
    status = [(await bench.get(f"{bench.base}/_rehearsal/status"))[0] for _ in range(3)]
    pods = [(await bench.get(f"{bench.kube}/api/v1/namespaces/default/pods"))[0] for _ in range(3)]
    return {
        "idle_cpu_percent": round(100 * idle, 2),
        "world_ms": round(1000 * min(world), 1),
        "status_ms": round(1000 * min(status), 1),
        "list_ms": round(1000 * min(pods), 1),
        "memory_end_mib": bench.memory(),
    }


def percentiles(found: list[float]) -> dict[str, float]:
    """Milliseconds at 50, 95 and 99 %, and the slowest."""
    ordered = sorted(found)
    parts = {f"p{n}_ms": round(1000 * ordered[int(len(ordered) * n / 100)], 1) for n in (50, 95, 99)}
    return {**parts, "worst_ms": round(1000 * ordered[-1], 1)}


def main() -> int:
    """Prints the figures of every run; 1 when one is above the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=110)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--pods", nargs="+", choices=("placed", "waiting"), default=["placed", "waiting"])
    asked, slow = parser.parse_args(), 0
    for kind in asked.pods * asked.runs:
        with tempfile.TemporaryDirectory() as folder:
            figures = asyncio.run(run(Path(folder), kind == "waiting", asked.seconds))
        met = max(figures["pod"]["p99_ms"], figures["google"]["p99_ms"]) <= P99_MS
        slow += not met
        print(json.dumps({**figures, "met": met}), flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
