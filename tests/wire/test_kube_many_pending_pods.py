"""Many pending pods: events are reported once, repeated together, and dropped with the pods; kills during
saves.
"""

from __future__ import annotations

import os
import signal
import ssl
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from emulator_server import EmulatorServer, start_emulator, wait_until
from kube_test_server import FakeCloudBackend, KubeTestServer, cpu_pool, kube_test_server

from grpo_wizard.steps.emulator import process

_PODS = "/api/v1/namespaces/default/pods"


def _pod(name: str, gpus: str = "8") -> Any:
    container = {"name": "c", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def _timers(it: KubeTestServer, drawer: str) -> list[str]:
    return [key for key in it.cluster.context.controller_state["timers"] if key.startswith(f"{drawer}/")]


def _reconcile(it: KubeTestServer) -> None:
    """Runs all controllers once more. Two runs: one that was under way may have begun before this call."""
    for _ in range(2):
        before = it.cluster.controllers.completed_runs
        it.loop.call_soon_threadsafe(it.cluster.context.request_reconcile)
        wait_until(lambda before=before: it.cluster.controllers.completed_runs > before)


def test_pods_of_one_shape_share_their_timers_and_an_unchanged_verdict_rewrites_nothing() -> None:
    with kube_test_server(FakeCloudBackend({"default-pool": cpu_pool()}), addons=set()) as it:
        for number in range(12):
            assert it.raw("POST", _PODS, _pod(f"p-{number}", "4" if number % 2 else "8"))[0] == 201
        wait_until(lambda: len(it.cluster.context.controller_state.get("refusals", {})) == 12)
        wait_until(lambda: len(_timers(it, "sched")) == len(_timers(it, "told")) == 2)
        before = it.raw("GET", _PODS)[1]["items"]
        _reconcile(it)
        after = it.raw("GET", _PODS)[1]["items"]
        assert [p["metadata"]["resourceVersion"] for p in after] == [
            p["metadata"]["resourceVersion"] for p in before
        ]
        assert all(p["status"]["conditions"][0]["reason"] == "Unschedulable" for p in after)
        assert it.cluster.count() == len(it.cluster.rows())
        for number in range(12):
            it.raw("DELETE", f"{_PODS}/p-{number}")
        wait_until(lambda: not _timers(it, "sched") and not _timers(it, "told"))
        assert it.cluster.context.controller_state["refusals"] == {}


def test_a_verdict_that_stands_is_told_again_when_its_time_has_come() -> None:
    with kube_test_server(FakeCloudBackend({"default-pool": cpu_pool()}), addons=set()) as it:
        for name in ("a", "b"):
            it.raw("POST", _PODS, _pod(name))
        wait_until(lambda: len(_timers(it, "sched")) == len(_timers(it, "told")) == 1)
        timers = it.cluster.context.controller_state["timers"]
        it.loop.call_soon_threadsafe(
            lambda: timers.update(dict.fromkeys([*_timers(it, "sched"), *_timers(it, "told")], 0.0))
        )
        it.cluster.context.request_reconcile()
        wait_until(lambda: _counts(it) == {("FailedScheduling", 2), ("NotTriggerScaleUp", 2)})
        assert all(at > time.time() + 20 for key, at in timers.items() if key.startswith(("sched/", "told/")))


def _counts(it: KubeTestServer) -> set[tuple[str, int]]:
    events = it.raw("GET", "/api/v1/namespaces/default/events")[1]["items"]
    return {(e["reason"], e["count"]) for e in events if e["involvedObject"]["kind"] == "Pod"}


def test_a_crowded_world_killed_again_and_again_while_it_is_written_comes_back_whole(tmp_path: Path) -> None:
    saved: set[str] = set()
    try:
        for turn in range(3):
            server = start_emulator(tmp_path, ray="none")
            saved = _filled_and_killed(server, turn, saved)
        assert len([name for name in saved if name.startswith("p-")]) == 450
    finally:
        process.stop(tmp_path)


def _filled_and_killed(server: EmulatorServer, turn: int, saved: set[str]) -> set[str]:
    """Holds what was saved before against what came back, adds 150 pods, and dies among 150 more. Returns what is saved."""
    ask = _kubernetes(server)
    assert saved <= {p["metadata"]["name"] for p in ask("GET", _PODS)["items"]}
    with ThreadPoolExecutor(4) as makers:
        list(makers.map(lambda number: ask("POST", _PODS, _pod(f"p-{turn}-{number}")), range(150)))
        wait_until(lambda: len([n for n in _names_in_file(server) if n.startswith(f"p-{turn}-")]) == 150)
        saved = _names_in_file(server)
        late = [makers.submit(ask, "POST", _PODS, _pod(f"late-{turn}-{number}")) for number in range(150)]
        wait_until(late[40 * turn + 20].done)
        os.kill(server.address.pid, signal.SIGKILL)
    assert any(one.exception() for one in late), "it was killed while it was asked"
    return saved


def _names_in_file(server: EmulatorServer) -> set[str]:
    """The pods in the world's file, which is whole whenever it is read."""
    records = msgspec.json.decode((process.server_folder(server.home) / "world.json").read_bytes())["records"]
    kubes = [r["extra"]["kube"]["store"]["objects"] for r in records if "kube" in r["extra"]]
    metas = [p["metadata"] for kube in kubes for kind, rows in kube if kind == "pods" for p in rows]
    return {meta["name"] for meta in metas if meta["namespace"] == "default"}


def _kubernetes(server: EmulatorServer) -> Any:
    """How to ask the Kubernetes of the cluster `crowd`, which is made where it does not stand."""
    parent = "/container/v1/projects/my-project/locations/us-central1"
    path = f"{parent}/clusters/crowd"
    if server.call("GET", path)[0] != 200:
        server.enable("compute.googleapis.com", "container.googleapis.com")
        network = {"name": "n", "autoCreateSubnetworks": True}
        assert server.call("POST", "/compute/v1/projects/my-project/global/networks", network)[0] == 200
        cluster = {"cluster": {"name": "crowd", "network": "n", "initialNodeCount": 1}}
        wait_until(lambda: server.call("POST", f"{parent}/clusters", cluster)[0] == 200)
    wait_until(lambda: server.call("GET", path)[1]["status"] == "RUNNING")
    url = f"https://{server.call('GET', path)[1]['endpoint']}"
    context = ssl.create_default_context(cafile=server.address.env["REQUESTS_CA_BUNDLE"])
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )

    def ask(method: str, where: str, body: Any = None) -> Any:
        data = None if body is None else msgspec.json.encode(body)
        head = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
        with opener.open(
            urllib.request.Request(url + where, data, head, method=method), timeout=30
        ) as answer:
            return msgspec.json.decode(answer.read())

    return ask
