"""The audit file of requests that write: also those that get no answer, through every client that the product has."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from google.oauth2.credentials import Credentials

from grpo_wizard.state.audit import AuditLog
from grpo_wizard.state.errors import StateNotSaved, WizardError
from grpo_wizard.steps.clients.audit import is_write, operation_name
from grpo_wizard.steps.clients.context import CloudContext, call
from grpo_wizard.steps.clients.google.compute import compute_client
from grpo_wizard.steps.clients.google.service_networking import fetch_connection, start_operation
from grpo_wizard.steps.clients.kubernetes.api import ClusterEndpoint, KubeClient
from grpo_wizard.steps.clients.ray.jobs_api import RayJobsClient

JSON = dict[str, Any]
OLD_KEYS = {"time", "identity", "method", "url", "operation", "result"}
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Server:
    """Takes one request after another. Answers with `answer`, or closes the connection without one."""

    def __init__(self, audit_file: Path, answer: JSON | None) -> None:
        self.audit_file, self.answer = audit_file, answer
        self.requests: list[str] = []
        self.audited_before: list[int] = []  # lines on disk at the moment in which each request arrived
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            if not (received := connection.recv(65536)):
                return
            request += received
        self.requests.append(request.split(b"\r\n", 1)[0].decode())
        self.audited_before.append(len(read(self.audit_file)))
        if self.answer is not None:
            body = json.dumps(self.answer).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            connection.sendall(head.encode() + body)


def read(file: Path) -> list[JSON]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def context(server: Server) -> CloudContext:
    cloud = CloudContext(
        "real",
        Credentials("token"),
        "me@example.com",
        base_url=server.url,
        kube_token="token",
        audit=AuditLog(server.audit_file).append,
    )
    cloud.singleton("number of p", lambda: "123")
    return cloud


def google_insert(cloud: CloudContext) -> None:
    request = {"project": "p", "network_resource": {"name": "n"}}
    call("compute", compute_client(cloud, "NetworksClient").insert_unary, request=request)


def google_delete_connection(cloud: CloudContext) -> None:
    start_operation(
        cloud,
        "deleteConnection",
        name="services/servicenetworking.googleapis.com/connections/-",
        body={"consumerNetwork": "projects/123/global/networks/n"},
    )


def kubernetes_create(cloud: CloudContext) -> None:
    kube(cloud).send("POST", CONFIG_MAPS, {"metadata": {"name": "one"}})


def ray_submit(cloud: CloudContext) -> None:
    async def submit() -> None:
        async with RayJobsClient(cloud.base_url, audit=cloud.audit_request) as jobs:
            await jobs.submit("true", "grpo-1", attempts=1)

    asyncio.run(submit())


def kube(cloud: CloudContext) -> KubeClient:
    import certifi

    first = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----")
    pem = first[0][first[0].index("-----BEGIN") :] + first[1] + "\n"
    return KubeClient(cloud, ClusterEndpoint(cloud.base_url, pem.encode()))


WRITES: dict[str, tuple[Callable[[CloudContext], None], str, str]] = {
    "compute": (google_insert, "POST", "/compute/v1/projects/p/global/networks"),
    "servicenetworking": (google_delete_connection, "POST", "/connections/-"),
    "kubernetes": (kubernetes_create, "POST", CONFIG_MAPS),
    "ray": (ray_submit, "POST", "ray:/api/jobs/"),
}


@pytest.fixture
def audit_file(tmp_path: Path) -> Path:
    return tmp_path / "deployment" / "audit.jsonl"


@pytest.fixture
def silent(audit_file: Path) -> Iterator[Server]:
    with closing(Server(audit_file, None)) as server:
        yield server


@pytest.mark.parametrize("client", WRITES)
def test_write_without_an_answer_leaves_an_attempt_and_an_error(silent: Server, client: str) -> None:
    send, method, url = WRITES[client]
    with pytest.raises(WizardError):
        send(context(silent))
    assert len(silent.requests) == 1 and silent.requests[0].startswith(method)
    assert silent.audited_before == [1]  # it was on disk before the server got the request
    attempt, result = read(silent.audit_file)
    assert (attempt["phase"], attempt["result"]) == ("attempt", "")
    assert result["phase"] == "result" and result["result"].startswith("error: ")
    assert attempt["id"] == result["id"] != ""
    for line in (attempt, result):
        assert set(line) > OLD_KEYS and line["identity"] == "me@example.com"
        assert line["method"] == method and url in line["url"]


OPERATIONS: dict[str, tuple[JSON, str]] = {
    "compute": ({"kind": "compute#operation", "name": "operation-1"}, "operation-1"),
    "servicenetworking": ({"name": "operations/pssn.1"}, "operations/pssn.1"),
    "kubernetes": ({"metadata": {"name": "one"}}, ""),
    "ray": ({"submission_id": "grpo-1", "status": "PENDING", "entrypoint": "true"}, "grpo-1"),
}


@pytest.mark.parametrize("client", WRITES)
def test_answered_write_leaves_its_status_and_operation(audit_file: Path, client: str) -> None:
    answer, operation = OPERATIONS[client]
    with closing(Server(audit_file, answer)) as server:
        WRITES[client][0](context(server))
    attempt, result = read(audit_file)
    assert (attempt["phase"], result["phase"]) == ("attempt", "result")
    assert (result["result"], result["operation"]) == ("200", operation)
    assert attempt["id"] == result["id"] != ""


def test_reads_leave_no_line(audit_file: Path) -> None:
    async def read_job(url: str, cloud: CloudContext) -> None:
        async with RayJobsClient(url, audit=cloud.audit_request) as jobs:
            await jobs.version()

    with closing(Server(audit_file, {})) as server:
        cloud = context(server)
        call("compute", compute_client(cloud, "NetworksClient").get, request={"project": "p", "network": "n"})
        fetch_connection(cloud, "p", "n")
        kube(cloud).get(CONFIG_MAPS)
        asyncio.run(read_job(server.url, cloud))
    assert len(server.requests) == 4 and not audit_file.exists()
    assert not is_write("POST", "https://x/v1/projects/p:testIamPermissions?alt=json")
    assert is_write("POST", "https://x/v1/projects/p:setIamPolicy")


def test_write_that_cannot_be_audited_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()  # no file can be written here
    with closing(Server(tmp_path / "audit.jsonl", {})) as server:
        server.audit_file = tmp_path / "none"
        cloud = context(server)
        cloud.audit = AuditLog(tmp_path / "audit.jsonl").append
        for send, _, _ in WRITES.values():
            with pytest.raises(StateNotSaved):
                send(cloud)
    assert server.requests == []


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'{"name": "projects/operations-1/billingInfo"}'])
def test_operation_name_is_empty_for_answers_that_start_none(content: bytes) -> None:
    assert operation_name(content) == ""


def test_operation_name_of_each_google_dialect() -> None:
    gke = b'{"name": "operation-2", "operationType": "CREATE_CLUSTER"}'
    lustre = b'{"name": "projects/p/locations/l/operations/operation-3", "done": false}'
    assert (operation_name(gke), operation_name(lustre).rpartition("/")[2]) == ("operation-2", "operation-3")
