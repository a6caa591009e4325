"""Parameters common to methods: filters, order, pages, partial responses, links."""

from __future__ import annotations

import json
import urllib.request
import zlib
from typing import Any
from urllib.parse import quote

import pytest
from emulator_server import EmulatorServer
from google.cloud import compute_v1
from google_clients import PROJECT, GoogleClients

JSON = dict[str, Any]
ROOT = f"/compute/v1/projects/{PROJECT}/global"
_MANY = [f"many-{number:02}" for number in range(12)]


@pytest.fixture(scope="module")
def cloud(shared_rehearsal: EmulatorServer) -> EmulatorServer:
    """Twelve networks, every third with jumbo frames, and a rule on the first two."""
    shared_rehearsal.enable(
        "compute.googleapis.com", "container.googleapis.com", "cloudresourcemanager.googleapis.com"
    )
    for number, name in enumerate(reversed(_MANY)):
        add(shared_rehearsal, name, mtu=8896 if number % 3 == 0 else 1460, description=f"number {number}")
    for name in _MANY[:2]:
        rule = {
            "name": f"{name}-in",
            "network": f"global/networks/{name}",
            "allowed": [{"IPProtocol": "tcp"}],
        }
        assert shared_rehearsal.call("POST", f"{ROOT}/firewalls", {**rule, "priority": 900})[0] == 200
    return shared_rehearsal


def add(server: EmulatorServer, name: str, **fields: Any) -> None:
    body = {"name": name, "autoCreateSubnetworks": False, **fields}
    status, answer = server.call("POST", f"{ROOT}/networks", body)
    assert status == 200, answer
    server.call("POST", f"{ROOT}/operations/{answer['name']}/wait")


def remove(server: EmulatorServer, name: str) -> None:
    _, answer = server.call("DELETE", f"{ROOT}/networks/{name}")
    server.call("POST", f"{ROOT}/operations/{answer['name']}/wait")


def names(server: EmulatorServer, what: str = "networks", **query: Any) -> list[str]:
    text = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    status, answer = server.call("GET", f"{ROOT}/{what}?{text}")
    assert status == 200, answer
    return [one["name"] for one in answer.get("items", [])]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("name eq many-0[0-4]", 5),  # a regular expression without quotes
        ("name ne many-0.*", 2),
        ("name eq many-(00|11)", 2),
        ('(name eq "many-0.*") (description ne "number 1.*")', 8),
        ("mtu = 8896", 4),
        ("mtu > 1460", 4),
        ("NOT mtu=1460", 4),
        ("-mtu:1460", 4),
        ("(mtu=8896) AND (name!=many-02)", 3),
        ("mtu=8896 name:many", 4),
        (
            "name=many-00 OR name=many-01 AND mtu=8896",
            0,
        ),  # OR binds closer: neither of the two has jumbo frames
        ("name=many-*", 12),
        ("autoCreateSubnetworks=false", 12),
        ("routingConfig.routingMode=REGIONAL", 12),
        ("description:*", 12),
        ("networkProfile:*", 0),
        ('name = "many-03"', 1),
        ("", 12),
    ],
)
def test_a_filter_chooses_as_compute_does(cloud: EmulatorServer, text: str, count: int) -> None:
    assert len(names(cloud, filter=text)) == count


@pytest.mark.parametrize(
    "text",
    [
        "spoon=1",
        "name eq (?=x)",
        r"name eq (a)\1",
        "name",
        "name eq",
        "(name=a",
        "subnetworks eq x",
        'name="a',
    ],
)
def test_a_filter_that_compute_cannot_read_is_refused(cloud: EmulatorServer, text: str) -> None:
    status, answer = cloud.call("GET", f"{ROOT}/networks?filter={quote(text)}")
    assert (status, answer["error"]["errors"][0]["reason"]) == (400, "invalid")
    assert answer["error"]["message"].endswith("Invalid list filter expression.")


def test_gclouds_own_filter_on_a_list_field_is_refused_as_users_report(cloud: EmulatorServer) -> None:
    text = (
        r'(network eq ".*\bx\b.*")(sourceRanges eq ".*\b0\.0\.0\.0/0\b.*")'  # firewall-rules list --filter=…
    )
    assert cloud.call("GET", f"{ROOT}/firewalls?filter={quote(text)}")[0] == 400
    assert names(cloud, "firewalls", filter=r'network eq ".*\bmany\-00\b.*"') == ["many-00-in"]
    assert names(cloud, "firewalls", filter="sourceRanges:0.0.0.0/0") == ["many-00-in", "many-01-in"]


def test_lists_come_by_name_or_newest_first(cloud: EmulatorServer) -> None:
    assert names(cloud) == _MANY
    newest = cloud.call("GET", f"{ROOT}/networks?orderBy=creationTimestamp%20desc")[1]["items"]
    times = [one["creationTimestamp"] for one in newest]
    assert times == sorted(times, reverse=True) and times != sorted(times)
    status, answer = cloud.call("GET", f"{ROOT}/networks?orderBy=mtu")
    assert status == 400 and "orderBy" in answer["error"]["message"]
    status, answer = cloud.call("GET", f"{ROOT}/networks?maxResults=501")
    assert status == 400 and "'maxResults': '501'" in answer["error"]["message"]
    status, answer = cloud.call("GET", f"{ROOT}/networks?pageToken=spoon")
    assert status == 400 and "'pageToken': 'spoon'" in answer["error"]["message"]


@pytest.mark.parametrize("order", ["", "creationTimestamp desc"])
def test_pages_show_each_thing_once_though_others_come_and_go(cloud: EmulatorServer, order: str) -> None:
    seen: list[str] = []
    token, turn, gone = "", 0, ""
    while token or not turn:
        _, page = cloud.call("GET", f"{ROOT}/networks?maxResults=4&pageToken={token}&orderBy={quote(order)}")
        seen += [one["name"] for one in page["items"]]
        token, turn = page.get("nextPageToken", ""), turn + 1
        if turn == 1:  # one that was shown goes, and one comes that stands before what was shown
            gone = next(name for name in seen if name not in _MANY[:2])
            remove(cloud, gone)
            add(cloud, f"a-new-{len(order)}")
    assert sorted(name for name in seen if name in _MANY) == _MANY and len(seen) == len(set(seen))
    assert turn >= 3
    remove(cloud, f"a-new-{len(order)}")
    add(cloud, gone, description="number 12")


def test_the_python_client_walks_the_pages(cloud: EmulatorServer) -> None:
    request = compute_v1.ListNetworksRequest(project=PROJECT, max_results=5, filter="name:many")
    pages = list(GoogleClients(cloud).compute("Networks").list(request=request).pages)
    assert [len(page.items) for page in pages] == [5, 5, 2]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("kind", {"kind": "compute#networkList"}),
        ("items/name", {"items": [{"name": "many-00"}]}),
        ("items(name,mtu)", {"items": [{"name": "many-00", "mtu": 1460}]}),
        ("items.routingConfig.routingMode,kind", {"kind": "compute#networkList", "items": [{"routingConfig": {"routingMode": "REGIONAL"}}]}),
        ("items(routingConfig/*),next_page_token", None),
    ],
)  # fmt: skip
def test_a_part_of_an_answer_is_asked_for(cloud: EmulatorServer, fields: str, expected: JSON | None) -> None:
    path = f"{ROOT}/networks?filter=name%3Dmany-00&fields={quote(fields)}"
    status, answer = cloud.call("GET", path)
    assert status == 200 and set(answer) <= {"kind", "items", "nextPageToken"}
    assert answer == expected if expected else set(answer["items"][0]) == {"routingConfig"}


def test_a_mask_may_be_a_header_and_what_it_does_not_find_is_named(cloud: EmulatorServer) -> None:
    path = f"/cloudresourcemanager/v3/projects/{PROJECT}"
    assert cloud.call("GET", path, headers={"X-Goog-FieldMask": "projectId,state"})[1] == {
        "projectId": PROJECT,
        "state": "ACTIVE",
    }
    status, answer = cloud.call("GET", f"{path}?$fields=spoon.handle")
    (violation,) = answer["error"]["details"][0]["fieldViolations"]
    assert status == 400 and violation["field"] == "spoon"
    assert cloud.call("GET", f"{ROOT}/networks?fields=items(name")[0] == 400
    scopes = cloud.call(
        "GET", f"/compute/v1/projects/{PROJECT}/aggregated/subnetworks?fields=items/*/warning/code"
    )[1]
    assert set(scopes) == {"items"} and scopes["items"]["regions/us-east1"] == {
        "warning": {"code": "NO_RESULTS_ON_PAGE"}
    }


def test_parameters_that_every_method_takes_change_nothing_but_the_form(cloud: EmulatorServer) -> None:
    path = f"{ROOT}/networks/many-00"
    plain = raw(cloud, path)
    for query in (
        "alt=json",
        "$.xgafv=2",
        "quotaUser=me",
        "key=AIzaSpoon",
        "userIp=10.0.0.1",
        "$alt=json;enum-encoding=int",
    ):
        assert raw(cloud, f"{path}?{query}") == plain, query
    assert plain.startswith(b'{\n  "'), "Google indents unless it is told not to"
    assert json.loads(plain) == json.loads(raw(cloud, f"{path}?prettyPrint=false"))
    assert b"\n" not in raw(cloud, f"{path}?prettyPrint=false")


def raw(server: EmulatorServer, path: str, **headers: str) -> bytes:
    request = urllib.request.Request(
        server.base_url + path, headers={"Authorization": f"Bearer {server.token}", **headers}
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as response:
        return bytes(response.read())


def test_a_long_get_may_come_as_a_post(cloud: EmulatorServer) -> None:
    head = {"X-HTTP-Method-Override": "GET", "Content-Type": "application/x-www-form-urlencoded"}
    text = "filter=" + quote(" OR ".join(f"name={name}" for name in _MANY[:6]))
    request = urllib.request.Request(
        f"{cloud.base_url}{ROOT}/networks", text.encode(), {"Authorization": f"Bearer {cloud.token}", **head}
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as response:
        assert [one["name"] for one in json.load(response)["items"]] == _MANY[:6]


@pytest.mark.parametrize(
    "link",
    [
        "https://www.googleapis.com/compute/v1/projects/my-project/global/networks/many-00",
        "https://compute.googleapis.com/compute/v1/projects/my-project/global/networks/many-00",
        "https://compute.googleapis.com/compute/beta/projects/my-project/global/networks/many-00",
        "http://127.0.0.1:1/compute/v1/projects/my-project/global/networks/many-00",
        "https://www.googleapis.com/compute/v1/projects/123456789012/global/networks/many-00",
        "projects/my-project/global/networks/many-00",
        "global/networks/many-00",
    ],
)
def test_a_link_may_have_any_host_version_or_none(cloud: EmulatorServer, link: str) -> None:
    number = zlib.crc32(link.encode())
    rule = {"name": f"linked-{number}", "network": link, "allowed": [{"IPProtocol": "icmp"}]}
    assert cloud.call("POST", f"{ROOT}/firewalls", rule)[0] == 200
    network = cloud.call("GET", f"{ROOT}/firewalls/linked-{number}")[1]["network"]
    assert network == f"{cloud.base_url}/compute/v1/projects/my-project/global/networks/many-00"


def test_a_thing_is_found_by_its_number_too(cloud: EmulatorServer) -> None:
    got = cloud.call("GET", f"{ROOT}/networks/many-00")[1]
    assert cloud.call("GET", f"{ROOT}/networks/{got['id']}")[1]["name"] == "many-00"
    assert cloud.call("GET", f"{ROOT}/networks/1{got['id']}")[0] == 404
