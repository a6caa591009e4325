"""Requests bent at one or two places: GKE, Lustre and Service Networking of the rehearsal refuse or do them, and never break.

`pytest -m heavy tests/wire/test_emulator_mutated_requests.py`; a tenth of it runs always.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator, stop_emulator
from google_clients import APIS, CLUSTER, PARENT, PROJECT, ZONE, GoogleClients, cluster, network, subnet
from test_emulator_lustre import connect, ranged

JSON = dict[str, Any]
LUSTRE = f"/lustre/v1/projects/{PROJECT}/locations/{ZONE}/instances"
CONNECTIONS = "/servicenetworking/v1/services/servicenetworking.googleapis.com/connections"
CLUSTERS = f"/container/v1/{PARENT}/clusters"
POOL: JSON = {
    "name": "p",
    "initialNodeCount": 1,
    "locations": ["us-central1-a"],
    "autoscaling": {"enabled": True, "maxNodeCount": 3},
    "config": {
        "machineType": "n2-highmem-8",
        "labels": {"a": "b"},
        "taints": [{"key": "k", "value": "v", "effect": "NO_SCHEDULE"}],
    },
    "networkConfig": {"additionalNodeNetworkConfigs": [{"network": "gvnic", "subnetwork": "gvnic-0"}]},
    "maxPodsConstraint": {"maxPodsPerNode": "32"},
    "version": "1.34",
}
SHAPES: dict[str, tuple[str, str, JSON]] = {  # method, path, a request that is taken
    "cluster": (
        "POST",
        CLUSTERS,
        {
            "cluster": {
                "name": "bent",
                "network": "nemo-net",
                "subnetwork": "nemo-net",
                "nodePools": [POOL],
                "locations": ["us-central1-a"],
                "networkConfig": {"datapathProvider": "ADVANCED_DATAPATH", "enableMultiNetworking": True},
                "ipAllocationPolicy": {"clusterIpv4CidrBlock": "/16"},
                "releaseChannel": {"channel": "REGULAR"},
                "initialClusterVersion": "1.34",
                "defaultMaxPodsConstraint": {"maxPodsPerNode": "64"},
                "workloadIdentityConfig": {"workloadPool": f"{PROJECT}.svc.id.goog"},
            }
        },
    ),
    "pool": ("POST", f"/container/v1/{CLUSTER}/nodePools", {"nodePool": POOL}),
    "zones": ("PUT", f"/container/v1/{CLUSTER}", {"update": {"desiredLocations": ["us-central1-a"]}}),
    "versions": ("PUT", f"/container/v1/{CLUSTER}", {"update": {"desiredNodeVersion": "1.34"}}),
    "lustre": (
        "POST",
        f"{LUSTRE}?instanceId=bent",
        {
            "filesystem": "lustrefs",
            "capacityGib": "18000",
            "perUnitStorageThroughput": "500",
            "network": f"projects/{PROJECT}/global/networks/nemo-net",
            "labels": {"a": "b"},
        },
    ),
    "growth": (
        "PATCH",
        f"{LUSTRE}/kept?updateMask=capacityGib,labels",
        {"capacityGib": "36000", "labels": {}},
    ),
    "connection": (
        "PATCH",
        f"{CONNECTIONS}/-?force=true",
        {"network": "projects/123456789012/global/networks/nemo-net", "reservedPeeringRanges": ["range"]},
    ),
}
_ODD = (
    "",
    "-",
    "/",
    "../x",
    "a" * 300,
    "projects/",
    "ü☃",
    "-1",
    "99999999999999999999",
    "null",
    "10.0.0.0/33",
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*at, key)
        yield from places(item, (*at, key))


def bent(shape: JSON, chance: random.Random) -> JSON:
    """The request with one of its values taken out, emptied, repeated or replaced."""
    body = copy.deepcopy(shape)
    *way, end = chance.choice(list(places(body)))
    inner: Any = body
    for key in way:
        inner = inner[key]
    old = inner[end]
    if chance.random() < 0.2:
        del inner[end]
    elif isinstance(old, bool):
        inner[end] = not old
    elif isinstance(old, int):
        inner[end] = chance.choice((-1, 0, 10**6, 2**31 - 1))
    elif isinstance(old, list):
        inner[end] = chance.choice(([], old * 2, [None], [{}]))
    else:
        inner[end] = {} if isinstance(old, dict) else chance.choice((*_ODD, None))
    return body


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    """A world in which every shape is taken; at its end no answer may have broken its schema, and no line is in the log."""
    started = start_emulator(tmp_path_factory.mktemp("noise") / "home", ray="none")
    started.enable(*APIS)
    clients = GoogleClients(started)
    network(clients, "nemo-net")
    network(clients, "gvnic", auto_create_subnetworks=False)
    clients.wait_for_success(subnet(clients, "gvnic-0", "gvnic", "192.168.0.0/24"))
    ranged(clients, "range", "nemo-net")
    connect(started, "nemo-net", "range")
    clients.wait_for_gke(clients.container.create_cluster(parent=PARENT, cluster=cluster()))
    kept = f"{LUSTRE}?instanceId=kept"
    assert started.call("POST", kept, SHAPES["lustre"][2])[0] == 200
    yield started
    stop_emulator(started)
    log = (Path(started.home) / "rehearsal" / "server.log").read_text()
    assert "Traceback" not in log, log[-3000:]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("rounds", [20, pytest.param(300, marks=pytest.mark.heavy)])
def test_a_bent_request_is_refused_or_done_and_breaks_nothing(
    server: EmulatorServer, name: str, rounds: int
) -> None:
    method, path, shape = SHAPES[name]
    chance, seen = random.Random(f"{name} {rounds}"), Counter[int]()
    for number in range(rounds):
        body = bent(shape, chance) if number else copy.deepcopy(shape)
        status, answer = server.call(method, path.replace("=bent", f"=bent-{number}"), body)
        seen[status] += 1
        assert status < 500, (status, body, answer)
        _clear(server, name, body, status, number)
    print(dict(seen))
    assert seen[200] and seen[400]


def _clear(server: EmulatorServer, name: str, body: JSON, status: int, number: int) -> None:
    """What was made goes again, so that names and quotas stay free."""
    if status != 200 or name not in ("cluster", "pool", "lustre"):
        return
    path = {
        "cluster": f"{CLUSTERS}/{body.get('cluster', {}).get('name')}",
        "pool": f"/container/v1/{CLUSTER}/nodePools/{body.get('nodePool', {}).get('name')}",
        "lustre": f"{LUSTRE}/bent-{number}",
    }[name]
    for _ in range(200):
        if server.call("DELETE", path)[0] != 400:
            return
