"""Logs, exec and port-forward, with the real kubectl and the real Python client."""

from __future__ import annotations

import http.server
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kube_test_server import ZONE, FakeRayHeadManager, KubeTestServer, kube_test_server, kubectl_binary
from kubernetes import client
from kubernetes.stream import portforward, stream
from tutorial_kube_objects import apply_raycluster, ray_pods, wait_for_raycluster

BIG = bytes(range(256)) * 4096 * 8  # 8 MiB


class _Pages(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = BIG if self.path == "/big" else b"hello"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        size = len(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", str(len(str(size))))
        self.end_headers()
        self.wfile.write(str(size).encode())

    def log_message(self, format: str, *args: Any) -> None:
        return None


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


@pytest.fixture(scope="module")
def it() -> Iterator[KubeTestServer]:
    server = _Server(("127.0.0.1", 0), _Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with kube_test_server(heads=FakeRayHeadManager(server.server_port)) as world:
        apply_raycluster(world, 0)
        wait_for_raycluster(world, 0)
        data = world.cluster.context.lustre_folder(f"my-project/{ZONE}/nemo-lustre") / "run" / "step_10"
        data.mkdir(parents=True)
        (data / "training_info.json").write_text("one\ntwo\nthree\n")
        (data / "escape").symlink_to("/etc")
        yield world
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def head(it: KubeTestServer) -> str:
    return str(ray_pods(it, "head")[0]["metadata"]["name"])


def test_exec_reads_the_pods_own_files(it: KubeTestServer, head: str) -> None:
    def run(*words: str) -> str:
        return it.kubectl("exec", head, "-c", "ray-head", "--", *words).stdout

    assert "training_info.json" in run("ls", "-la", "/data/run/step_10")
    assert run("tail", "-n", "1", "/data/run/step_10/training_info.json") == "three\n"
    assert run("head", "-2", "/data/run/step_10/training_info.json") == "one\ntwo\n"
    assert "└── step_10" in run("tree", "/data")
    assert run("du", "-b", "/data/run/step_10/training_info.json").startswith("14\t")
    assert run("stat", "-c", "%s %n", "/data/run/step_10/training_info.json").startswith("14 /data")
    assert "0 upgraded" in run("apt-get", "update")
    assert run("ls", "/var/run/secrets/kubernetes.io/serviceaccount").split() == [
        "ca.crt",
        "namespace",
        "token",
    ]


@pytest.mark.parametrize(
    "words, code",
    [
        (("cat", "/etc/passwd"), 1),
        (("cat", "/data/../../../../../etc/passwd"), 1),
        (("cat", "/data/run/step_10/escape/passwd"), 1),
        (("ls", "/data/run/step_10/escape/"), 2),
        (("uname",), 127),
        (("bash", "-c", "ls"), 127),
        (("/bin/sh",), 127),
        (("python", "-c", "1"), 127),
    ],
)
def test_exec_never_leaves_the_mounts_and_the_closed_list(
    it: KubeTestServer, head: str, words: Any, code: int
) -> None:
    done = it.kubectl("exec", head, "-c", "ray-head", "--", *words, check=False)
    assert (done.returncode, done.stdout) == (code, "")


def test_a_script_on_standard_input_knows_the_same_list(it: KubeTestServer, head: str) -> None:
    script = "# look\nls /data/run\nrm -rf /data\n"
    done = it.kubectl("exec", "-i", head, "-c", "ray-head", "--", "bash", "-s", stdin=script, check=False)
    assert done.stdout == "step_10\n" and done.returncode == 127
    assert "bash: line 3: rm: command not found" in done.stderr
    long = "x" * 200_000
    assert it.kubectl("exec", "-i", head, "-c", "ray-head", "--", "cat", stdin=long).stdout == long


def test_the_python_client_executes_and_gets_the_exit_code(it: KubeTestServer, head: str) -> None:
    core = client.CoreV1Api(it.client())

    def run(*words: str) -> Any:
        shell = stream(
            core.connect_get_namespaced_pod_exec,
            head,
            "default",
            command=list(words),
            container="ray-head",
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
            _preload_content=False,
        )
        shell.run_forever(timeout=10)
        return shell

    done = run("ls", "/data")
    assert (done.read_stdout(), done.returncode) == ("run\n", 0)
    assert run("reboot").returncode == 127


def test_cp_brings_a_folder_out(it: KubeTestServer, head: str, tmp_path: Path) -> None:
    it.kubectl(
        "cp", f"default/{head}:/data/run/step_10/training_info.json", str(tmp_path / "out"), "-c", "ray-head"
    )
    assert (tmp_path / "out").read_text() == "one\ntwo\nthree\n"


def test_logs_by_container_tail_and_time(it: KubeTestServer, head: str) -> None:
    assert "Ray runtime started" in it.kubectl("logs", head, "-c", "ray-head").stdout
    assert len(it.kubectl("logs", head, "-c", "ray-head", "--tail=2").stdout.splitlines()) == 2
    assert it.kubectl("logs", head, "-c", "ray-head", "--timestamps").stdout.startswith("20")
    refused = it.kubectl("logs", head, "-c", "ray-head", "--previous", check=False)
    assert "previous terminated container" in refused.stderr


@contextmanager
def _forwarded(it: KubeTestServer, target: str, port: str = ":8265") -> Iterator[str]:
    with subprocess.Popen(
        [kubectl_binary(), "port-forward", target, port],
        env=it.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield "http://127.0.0.1:" + line.split("127.0.0.1:")[1].split(" ")[0]
        finally:
            process.terminate()


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return bytes(answer.read())


def test_kubectl_forwards_forty_connections_at_once_and_megabytes_unharmed(
    it: KubeTestServer, head: str
) -> None:
    for target in (f"pod/{head}", "svc/ray-cluster-kuberay-head-svc"):
        with _forwarded(it, target) as url, ThreadPoolExecutor(40) as pool:
            assert set(pool.map(_get, [url] * 40)) == {b"hello"}
            assert _get(f"{url}/big") == BIG
            with urllib.request.urlopen(url, BIG, timeout=30) as answer:
                assert answer.read() == str(len(BIG)).encode()


def test_a_port_that_nobody_serves_is_refused(it: KubeTestServer, head: str) -> None:
    with _forwarded(it, f"pod/{head}", ":10001") as url, pytest.raises(OSError):
        _get(url)


def test_the_python_client_forwards_over_channels(it: KubeTestServer, head: str) -> None:
    core = client.CoreV1Api(it.client())
    forward = portforward(core.connect_get_namespaced_pod_portforward, head, "default", ports="8265")
    line: socket.socket = forward.socket(8265)
    line.settimeout(20)
    line.sendall(b"GET /big HTTP/1.1\r\nHost: head\r\nConnection: close\r\n\r\n")
    received = bytearray()
    while chunk := line.recv(65536):
        received += chunk
    assert received.endswith(BIG) and forward.error(8265) is None
    refused = portforward(core.connect_get_namespaced_pod_portforward, head, "default", ports="9999")
    assert refused.socket(9999).recv(10) == b""
    assert "connection refused" in refused.error(9999)
