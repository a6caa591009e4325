"""What the emulator does with any request: validation against Google's documents, `--record`, `--faults`."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator, wait_until

from grpo_wizard.steps.emulator import process
from grpo_wizard.steps.emulator.server.recorder import Recorder, mask_secrets, read_faults

JSON = dict[str, Any]
QUOTAS = "projects/my-project/locations/global/services/compute.googleapis.com/quotaInfos"
ENABLE = "/serviceusage/v1/projects/my-project/services:batchEnable"


@pytest.fixture(scope="module")
def cloud(shared_rehearsal: EmulatorServer) -> EmulatorServer:
    """A world with every API of the tutorial enabled."""
    names = ("compute", "container", "lustre", "servicenetworking", "cloudquotas", "cloudresourcemanager")
    shared_rehearsal.enable(*(f"{name}.googleapis.com" for name in names))
    return shared_rehearsal


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("POST", ENABLE, {"serviceIds": ["x"], "colour": 1}, 'Unknown name "colour": Cannot find field.'),
        ("POST", ENABLE, {"serviceIds": "x"}, "Invalid value at 'service_ids' (List), \"x\""),
        ("POST", ENABLE, {"serviceIds": [5]}, "Invalid value at 'service_ids[0]' (TYPE_STRING), 5"),
        (
            "POST",
            "/container/v1/projects/my-project/locations/us-central1/clusters",
            {"cluster": {"name": "x", "nodePools": [{"config": {"colour": 1}}]}},
            "Unknown name \"colour\" at 'cluster.node_pools[0].config': Cannot find field.",
        ),
        (
            "POST",
            "/container/v1/projects/my-project/locations/us-central1/clusters",
            {"cluster": {"networkConfig": {"datapathProvider": "ROUND"}}},
            "Invalid value at 'cluster.network_config.datapath_provider' (TYPE_ENUM), \"ROUND\"",
        ),
        (
            "POST",
            "/lustre/v1/projects/my-project/locations/us-central1-b/instances?instanceId=x",
            {"capacity": 1},
            "Unknown name \"capacity\" at 'instance': Cannot find field.",
        ),
        (
            "POST",
            "/lustre/v1/projects/my-project/locations/us-central1-b/instances",
            {"filesystem": "x"},
            "'instanceId' not specified",
        ),
        ("GET", "/compute/v1/projects/my-project/global/networks?colour=1", None, 'Unknown name "colour"'),
        ("GET", "/compute/v1/projects/my-project/global/networks?maxResults=x", None, "max_results"),
        (
            "GET",
            f"/cloudquotas/v1/{QUOTAS}?big=1",
            None,
            'Unknown name "big"',
        ),
    ],
)
def test_a_wrong_request_is_refused_naming_the_field(
    cloud: EmulatorServer, method: str, path: str, body: JSON | None, says: str
) -> None:
    status, answer = cloud.call(method, path, body)
    assert status == 400
    assert says in answer["error"]["message"]
    assert answer["error"]["status"] == "INVALID_ARGUMENT"


def test_what_google_does_not_have_is_404_and_what_is_not_served_is_501(cloud: EmulatorServer) -> None:
    assert cloud.call("GET", "/compute/v1/projects/my-project/global/spoons")[0] == 404
    status, answer = cloud.call("GET", "/compute/v1/projects/my-project/global/images")
    assert status == 501 and "/compute/v1/projects/my-project/global/images" in answer["error"]["message"]
    assert cloud.call("GET", "/spoons/v1/x")[0] == 501
    log = (cloud.home / "rehearsal/server.log").read_text()
    assert "global/images" in log and "/spoons/v1/x" in log


def test_an_api_that_is_off_is_refused_as_google_refuses_it(rehearsal: EmulatorServer) -> None:
    status, answer = rehearsal.call("GET", "/container/v1/projects/my-project/locations/-/clusters")
    error = answer["error"]
    assert (status, error["status"]) == (403, "PERMISSION_DENIED")
    assert error["message"].startswith(
        "Kubernetes Engine API has not been used in project 123456789012 before or it is disabled. "
        "Enable it by visiting https://console.developers.google.com/apis/api/container.googleapis.com/"
    )
    (info,) = error["details"]
    assert (info["reason"], info["domain"]) == ("SERVICE_DISABLED", "googleapis.com")
    assert info["metadata"]["consumer"] == "projects/123456789012"
    rehearsal.enable("container.googleapis.com")
    assert rehearsal.call("GET", "/container/v1/projects/my-project/locations/-/clusters")[0] == 200


def test_the_record_holds_googles_own_paths_and_no_token(cloud: EmulatorServer) -> None:
    cloud.call("GET", "/cloudresourcemanager/v1/projects/my-project?alt=json")
    cloud.call(
        "GET", f"/huggingface/~{cloud.token}/api/whoami-v2", headers={"Authorization": "Bearer hf_secret123"}
    )
    lines = cloud.recorded_requests()
    assert {
        "service": "cloudresourcemanager.googleapis.com",
        "method": "GET",
        "path": "/v1/projects/my-project",
        "query": {"alt": "json"},
        "body": None,
        "status": 200,
    } in lines
    assert any(line["service"] == "huggingface.co" and line["path"] == "/api/whoami-v2" for line in lines)
    text = cloud.record.read_text()
    assert cloud.token not in text and "hf_secret123" not in text


def test_secret_data_are_masked_wherever_they_stand(tmp_path: Path) -> None:
    secret = {
        "kind": "Secret",
        "metadata": {
            "name": "s",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "aGk="},
        },
        "data": {"token": "aGk="},
        "stringData": {"key": "aGk="},
    }
    recorder = Recorder(tmp_path / "r")
    recorder.write("kubernetes", "POST", "/api/v1/x", {}, {"kind": "List", "items": [secret]}, 201)
    assert "aGk=" not in (tmp_path / "r").read_text()
    assert mask_secrets(secret)["data"] == {"token": "***"}
    assert secret["data"] == {"token": "aGk="}, "what the server works on must stay as it is"


def faulty(home: Path, *faults: JSON) -> EmulatorServer:
    home.mkdir()
    path = home / "faults.json"
    path.write_text(json.dumps(faults))
    return start_emulator(home, ray="none", faults=path)


def test_faults_answer_count_delay_drop_and_truncate(tmp_path: Path) -> None:
    project = {"service": "serviceusage.googleapis.com", "method": "GET", "path": "*/services/*"}
    server = faulty(
        tmp_path / "home",
        {
            "match": {**project, "nth": 2},
            "do": {"status": 503, "body": "<html>", "headers": {"Retry-After": "7"}},
        },
        {"match": {**project, "nth": 3}, "do": {"delay_s": 0.5}},
        {"match": {**project, "nth": 4}, "do": {"truncate": 5}},
        {"match": {"path": "*:batchEnable", "nth": 1}, "do": {"drop": "before"}},
        {"match": {"path": "*:batchEnable", "nth": 2}, "do": {"drop": True}},
    )
    path = "/serviceusage/v1/projects/my-project/services/compute.googleapis.com"
    try:
        assert server.call("GET", path)[0] == 200
        with pytest.raises(json.JSONDecodeError):
            server.call("GET", path)
        begun = time.monotonic()
        assert server.call("GET", path)[0] == 200
        assert time.monotonic() - begun >= 0.5
        with pytest.raises(http.client.IncompleteRead):
            server.call("GET", path)
        for state in ("DISABLED", "ENABLED"):  # dropped before the work, then after it
            with pytest.raises((urllib.error.URLError, http.client.HTTPException, ConnectionError)):
                server.call("POST", ENABLE, {"serviceIds": ["compute.googleapis.com"]})
            wait_until(lambda state=state: server.call("GET", path)[1]["state"] == state)
        assert [line["status"] for line in server.recorded_requests() if line["method"] == "GET"][1] == 503
    finally:
        process.stop(server.home)


def test_a_fault_can_be_an_operations_end(tmp_path: Path) -> None:
    error = {"code": 8, "message": "out of spoons"}
    server = faulty(tmp_path / "home", {"match": {"path": "*:batchEnable"}, "do": {"operation_error": error}})
    try:
        _, operation = server.call("POST", ENABLE, {"serviceIds": ["compute.googleapis.com"]})
        while not operation.get("done"):
            _, operation = server.call("GET", f"/serviceusage/v1/{operation['name']}")
        assert operation["error"] == error
        assert server.cloud_resources() == []
    finally:
        process.stop(server.home)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "list"),
        ('[{"match": {}}]', "Fault 0"),
        ('[{"do": {"status": 500}}, {"match": {"colour": 1}, "do": {}}]', "Fault 1: unknown key 'colour'"),
    ],
)
def test_a_fault_file_that_says_nothing_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(ValueError, match=says):
        read_faults(tmp_path / "f")


def test_several_calls_come_in_one_batch(cloud: EmulatorServer) -> None:
    parts = "".join(
        f"--b\r\nContent-Type: application/http\r\nContent-ID: <x+{n}>\r\n\r\n"
        f"GET /compute/v1/projects/my-project/global/networks{suffix} HTTP/1.1\r\nAccept: */*\r\n\r\n\r\n"
        for n, suffix in enumerate(("", "/none-of-this-name"))
    )
    connection = http.client.HTTPConnection(cloud.base_url.removeprefix("http://"))
    headers = {"Authorization": f"Bearer {cloud.token}", "Content-Type": "multipart/mixed; boundary=b"}
    connection.request("POST", "/batch/compute/v1", parts + "--b--", headers)
    response = connection.getresponse()
    text = response.read().decode()
    assert response.status == 200
    assert "Content-ID: <response-x+0>" in text and "compute#networkList" in text
    assert "Content-ID: <response-x+1>" in text and "HTTP/1.1 404 Not Found" in text
