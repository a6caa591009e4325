"""200 clients poll once a second in a world with 2,000 pods: latency of a GET, and CPU per request.

`python tests/bench/rehearsal_polls.py [seconds] [placed|waiting]`. Every other client GETs a pod of its own over TLS, the rest ask Google's
services. `waiting`: no node has room for the pods, so that scheduler and autoscaler look at all of them. Aim: p99 of a GET at most 50 ms on
2 idle cores.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import psutil

from grpo_wizard.steps.rehearsal import life

CLIENTS, PODS = 200, 2000
CLUSTER = "projects/my-project/locations/us-central1/clusters/bench"
PATHS = (
    "/compute/v1/projects/my-project/global/networks",
    "/compute/v1/projects/my-project/zones/us-central1-b/reservations/nemo-res",
    f"/container/v1/{CLUSTER}",
    "/serviceusage/v1/projects/my-project/services/compute.googleapis.com",
)


async def prepare(
    session: aiohttp.ClientSession, address: life.Address, waiting: bool
) -> tuple[str, ssl.SSLContext]:
    """A cluster with many pods; returns its API server's address and how to trust it."""
    base = address.base_url
    apis = {"serviceIds": ["compute.googleapis.com", "container.googleapis.com"]}
    await post(session, f"{base}/serviceusage/v1/projects/my-project/services:batchEnable", apis)
    network = {"name": "n", "autoCreateSubnetworks": True}
    await post(session, f"{base}/compute/v1/projects/my-project/global/networks", network)
    await asyncio.sleep(0.5)
    cluster = {"name": "bench", "network": "n", "initialNodeCount": 1}
    await post(
        session, f"{base}/container/v1/{CLUSTER.rpartition('/clusters')[0]}/clusters", {"cluster": cluster}
    )
    while True:
        async with session.get(f"{base}/container/v1/{CLUSTER}") as response:
            body = await response.json()
        if body.get("status") == "RUNNING":
            break
        await asyncio.sleep(0.1)
    kube = f"https://{body['endpoint']}"
    ca = base64.b64decode(body["masterAuth"]["clusterCaCertificate"]).decode()
    context = ssl.create_default_context(cadata=ca)
    async with session.get(f"{kube}/api/v1/nodes", ssl=context) as response:
        node = (await response.json())["items"][0]["metadata"]["name"]
    gpus = {"limits": {"nvidia.com/gpu": "8"}}
    spec: dict[str, object] = {"nodeName": node, "containers": [{"name": "c", "image": "busybox"}]}
    if waiting:
        spec = {"containers": [{"name": "c", "image": "busybox", "resources": gpus}]}
    for number in range(PODS):
        pod = {"metadata": {"name": f"p-{number}"}, "spec": spec}
        await post(session, f"{kube}/api/v1/namespaces/default/pods", pod, context)
    while not await settled(session, kube, context, waiting):
        await asyncio.sleep(1)
    return kube, context


async def settled(session: aiohttp.ClientSession, kube: str, context: ssl.SSLContext, waiting: bool) -> bool:
    """Whether every pod runs, or has been told that it cannot."""
    async with session.get(f"{kube}/api/v1/namespaces/default/pods", ssl=context) as response:
        pods = (await response.json())["items"]
    told = (p["status"].get("conditions") if waiting else p["status"]["phase"] == "Running" for p in pods)
    return all(told)


async def post(
    session: aiohttp.ClientSession, url: str, body: object, context: ssl.SSLContext | None = None
) -> None:
    """One POST that must succeed."""
    async with session.post(url, json=body, ssl=context or True) as response:
        if response.status >= 300:
            raise SystemExit(f"{url}: {response.status} {await response.text()}")


async def poll(
    session: aiohttp.ClientSession,
    url: str,
    context: ssl.SSLContext,
    until: float,
    delay: float,
    found: list[float],
) -> None:
    """GETs once a second; appends each one's seconds. The first one opens the connection (TLS) and does not count."""
    await asyncio.sleep(delay)
    async with session.get(url, ssl=context) as response:
        await response.read()
    await asyncio.sleep(1)
    while time.monotonic() < until:
        begun = time.monotonic()
        async with session.get(url, ssl=context) as response:
            await response.read()
            if response.status != 200:
                raise SystemExit(f"{url}: {response.status}")
        found.append(time.monotonic() - begun)
        await asyncio.sleep(max(0.0, 1 - (time.monotonic() - begun)))


async def main(seconds: float, waiting: bool) -> None:
    """Starts a server, loads it, prints one JSON line."""
    with tempfile.TemporaryDirectory() as folder:
        address = life.start(Path(folder), "max", ray="none")
        headers = {"Authorization": f"Bearer {address.token}"}
        process = psutil.Process(address.pid)
        try:
            async with aiohttp.ClientSession(
                headers=headers, connector=aiohttp.TCPConnector(limit=0)
            ) as session:
                kube, context = await prepare(session, address, waiting)
                await asyncio.sleep(5)
                found: tuple[list[float], list[float]] = ([], [])  # of pods, of Google's services
                before, until = sum(process.cpu_times()[:2]), time.monotonic() + seconds
                urls = [
                    address.base_url + PATHS[n // 2 % len(PATHS)]
                    if n % 2
                    else f"{kube}/api/v1/namespaces/default/pods/p-{n}"
                    for n in range(CLIENTS)
                ]
                await asyncio.gather(
                    *(
                        poll(session, url, context, until, n / CLIENTS, found[n % 2])
                        for n, url in enumerate(urls)
                    )
                )
                used = sum(process.cpu_times()[:2]) - before
        finally:
            life.stop(Path(folder))
    count = sum(map(len, found))
    print(
        json.dumps(
            {
                "pods_are": "waiting" if waiting else "placed",
                "requests": count,
                "pod": shares(found[0]),
                "google": shares(found[1]),
                "cpu_ms_per_request": round(1000 * used / count, 2),
                "load": os.getloadavg()[0],
            }
        )
    )


def shares(found: list[float]) -> dict[str, float]:
    """Milliseconds at 50, 95 and 99 %."""
    ordered = sorted(found)
    return {f"p{n}_ms": round(1000 * ordered[int(len(ordered) * n / 100)], 1) for n in (50, 95, 99)}


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 20, "waiting" in sys.argv))
