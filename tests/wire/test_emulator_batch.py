"""Batches: several calls in one request, as gcloud and Google's Python client send them."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator
from raw_google_clients import discovery_client

from grpo_wizard.steps.emulator import process

JSON = dict[str, Any]
NETWORKS = "/compute/v1/projects/my-project/global/networks"


@pytest.fixture(scope="module")
def cloud(shared_rehearsal: EmulatorServer) -> EmulatorServer:
    names = ("compute", "container", "cloudresourcemanager")
    shared_rehearsal.enable(*(f"{name}.googleapis.com" for name in names))
    return shared_rehearsal


def batch(
    server: EmulatorServer, calls: list[tuple[str, str, Any]], to: str = "/batch/compute/v1", more: str = ""
) -> tuple[int, list[tuple[int, JSON]]]:
    """(status, (status, body) of each call); a body that is bytes goes as it is."""
    parts = []
    for number, (method, path, body) in enumerate(calls):
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        head = f"--b\r\nContent-Type: application/http\r\nContent-ID: <x+{number}>\r\n\r\n{method} {path} HTTP/1.1\r\n"
        parts.append(f"{head}Content-Type: application/json\r\n{more}\r\n".encode() + raw + b"\r\n")
    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"), timeout=60)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "multipart/mixed; boundary=b"}
    connection.request("POST", to, b"".join(parts) + b"--b--", headers)
    response = connection.getresponse()
    text = response.read().decode()
    if response.status != 200:
        return response.status, [(response.status, json.loads(text))]
    return 200, [_answer(part) for part in text.split("Content-Type: application/http")[1:]]


def _answer(part: str) -> tuple[int, JSON]:
    head, _, body = part.partition("HTTP/1.1 ")[2].partition("\r\n\r\n")
    text = body.partition("\r\n--batch_")[0]
    return int(head[:3]), json.loads(text) if text.strip() else {}


def test_each_call_succeeds_or_fails_by_itself(cloud: EmulatorServer) -> None:
    calls = [
        ("GET", NETWORKS, None),
        ("GET", f"{NETWORKS}/none-of-this-name", None),
        ("POST", NETWORKS, {"spoon": 1}),
        ("POST", NETWORKS, b'{"name": '),
        ("GET", "/compute/v1/projects/my-project/global/spoons", None),
        ("GET", "/compute/v1/projects/my-project/global/images", None),
        ("GET", "/batch/compute/v1", None),
        ("GET", f"https://compute.googleapis.com{NETWORKS}?fields=kind", None),
    ]
    status, answers = batch(cloud, calls)
    assert (status, [one for one, _ in answers]) == (200, [200, 404, 400, 400, 404, 501, 404, 200])
    assert answers[1][1]["error"]["errors"][0]["reason"] == "notFound"
    assert 'Unknown name "spoon"' in answers[2][1]["error"]["message"]
    assert answers[7][1] == {"kind": "compute#networkList"}
    wire = [line for line in cloud.recorded_requests() if line["path"].endswith("none-of-this-name")]
    assert wire[-1]["status"] == 404, "each call is recorded as if it had come alone"


def test_a_batch_goes_to_its_own_apis_endpoint(cloud: EmulatorServer) -> None:
    clusters = "/container/v1/projects/my-project/locations/-/clusters"
    assert batch(cloud, [("GET", clusters, None)], "/container/batch")[1][0][0] == 200
    assert (
        batch(cloud, [("GET", NETWORKS.replace("v1", "beta"), None)], "/batch/compute/beta")[1][0][0] == 200
    )
    assert batch(cloud, [("GET", NETWORKS, None)], "/container/batch")[1][0][0] == 404, "another API's call"
    assert batch(cloud, [("GET", NETWORKS, None)], "/batch/compute/v9")[0] == 404
    assert batch(cloud, [("GET", NETWORKS, None)], "/huggingface/batch")[0] == 404


def test_more_than_a_thousand_calls_and_none_are_refused(cloud: EmulatorServer) -> None:
    status, answers = batch(cloud, [("GET", NETWORKS, None)] * 1001)
    assert status == 400 and "1001 calls" in answers[0][1]["error"]["message"]
    assert batch(cloud, [])[0] == 400
    status, answers = batch(cloud, [("GET", f"{NETWORKS}?maxResults=1", None)] * 1000)
    assert status == 200 and {one for one, _ in answers} == {200} and len(answers) == 1000


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"--b--",
        b"no multipart at all",
        b"--b\r\nContent-Type: application/http\r\n\r\n\r\n--b--",
        b"--b\r\nContent-Type: application/http\r\n\r\nGET\r\n\r\n--b--",
        b"--b\r\nContent-Type: application/http\r\n\r\nGET http://[ HTTP/1.1\r\n\r\n--b--",
    ],
)
def test_what_is_no_batch_is_refused(cloud: EmulatorServer, raw: bytes) -> None:
    connection = http.client.HTTPConnection(cloud.base_url.removeprefix("http://"), timeout=60)
    headers = {"Authorization": f"Bearer {cloud.token}", "Content-Type": "multipart/mixed; boundary=b"}
    connection.request("POST", "/batch/compute/v1", raw, headers)
    response = connection.getresponse()
    assert response.status == 400
    assert json.loads(response.read())["error"]["message"].startswith(
        "Failed to parse batch request, error: "
    )


def test_a_calls_own_header_goes_before_that_of_the_whole(cloud: EmulatorServer) -> None:
    here = "/cloudresourcemanager/v1/projects/my-project"
    answers = batch(
        cloud, [("GET", here, None)], "/cloudresourcemanager/batch", "x-goog-user-project: nobody\r\n"
    )[1]
    assert answers[0][0] == 403


def test_what_a_batch_writes_is_kept(cloud: EmulatorServer) -> None:
    made = batch(
        cloud, [("POST", NETWORKS, {"name": f"batched-{n}", "autoCreateSubnetworks": False}) for n in "ab"]
    )[1]
    waits = [
        ("POST", f"{NETWORKS.rpartition('/')[0]}/operations/{body['name']}/wait", None) for _, body in made
    ]
    assert [body["status"] for _, body in batch(cloud, waits)[1]] == ["DONE", "DONE"]
    gone = [("DELETE", f"{NETWORKS.rpartition('/')[0]}/operations/{body['name']}", None) for _, body in made]
    assert batch(cloud, gone)[1] == [(204, {}), (204, {})], (
        "an operation that is forgotten answers without a body"
    )
    world = json.loads((cloud.home / "rehearsal" / "world.json").read_text())
    assert {"batched-a", "batched-b"} <= {record["name"] for record in world["records"]}


def test_a_fault_meets_a_call_in_a_batch_too(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    refusal = {"error": {"code": 503, "message": "not today", "status": "UNAVAILABLE"}}
    file.write_text(
        json.dumps([{"match": {"path": "*/networks", "nth": 2}, "do": {"status": 503, "body": refusal}}])
    )
    server = start_emulator(tmp_path / "home", ray="none", faults=file)
    try:
        server.enable("compute.googleapis.com")
        answers = batch(server, [("GET", NETWORKS, None)] * 3)[1]
        assert [status for status, _ in answers] == [200, 503, 200] and answers[1][1] == refusal
    finally:
        process.stop(server.home)


def test_googles_own_client_reads_a_batch(cloud: EmulatorServer) -> None:
    api = discovery_client("cloudresourcemanager", "v1", cloud.base_url, cloud.token)
    got: dict[str, tuple[Any, Any]] = {}
    many = api.new_batch_http_request(
        callback=lambda name, answer, error: got.update({name: (answer, error)})
    )
    many._batch_uri = f"{cloud.base_url}/cloudresourcemanager/batch"
    many.add(api.projects().get(projectId="my-project"), request_id="mine")
    many.add(api.projects().get(projectId="nobodys-project"), request_id="miss")
    many.execute()
    assert got["mine"][0]["projectNumber"] == "123456789012" and got["miss"][1].status_code == 403
