"""Made by apply, read by the real gcloud and kubectl: list and describe show the same as the deployment says.

A list and one description of each kind are read always (about half a minute); every single thing:
`pytest -m heavy tests/wire/test_apply_read_by_gcloud.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from gcloud_kinds import CLUSTERS, GET_OBJECTS, GROUND, KINDS, OBJECTS, POOL, SUBNET, Kind
from gcloud_reads import (
    CREDENTIALS,
    MISSING,
    Stand,
    facts,
    kubernetes_client,
    last,
    not_shown,
    place,
    secretless,
    standing,
    texts,
    unequal,
    unmet,
)  # fmt: skip
from gcloud_tables import FEW, TABLES
from google_clients import PROJECT, REGION, ZONE, Clients

from grpo_wizard.steps.clients.serialization import document

JSON = dict[str, Any]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed here: {', '.join(MISSING)}")
IDS = [kind.name for kind in KINDS]

SERVICES = "gcloud services list --enabled"
PEERINGS = "gcloud services vpc-peerings list --network=nemo-net"
NETWORK_PEERINGS = "gcloud compute networks peerings list --network=nemo-net"
COMPUTE_OPERATIONS = "gcloud compute operations list"
GKE_OPERATIONS = f"gcloud container operations list --location={REGION}"
LUSTRE_OPERATIONS = f"gcloud lustre operations list --location={ZONE}"
RESERVATIONS = "gcloud compute reservations list"
RESERVATION = f"gcloud compute reservations describe nemo-res --zone={ZONE}"
INSTANCES = "gcloud compute instances list"
GROUPS = "gcloud compute instance-groups managed list"
POLICY = f"gcloud projects get-iam-policy {PROJECT}"
OTHERS = (
    SERVICES, PEERINGS, NETWORK_PEERINGS, COMPUTE_OPERATIONS, GKE_OPERATIONS, LUSTRE_OPERATIONS, RESERVATIONS,
    RESERVATION, INSTANCES, GROUPS, POLICY,
)  # fmt: skip

# What Google gives back otherwise than it was asked for.
REWRITTEN: dict[str, dict[str, Callable[[str, str], bool]]] = {
    "cluster": {
        "initialClusterVersion": lambda asked, given: given.startswith(f"{asked}.")
    },  # the newest of it
    "address": {"ipVersion": lambda asked, given: (asked, given) == ("IPV4", "")},  # said of IPv6 only
}


def first(stand: Stand, kind: Kind) -> JSON:
    """The row of the world that the always-run part describes."""
    return next(row for row in stand.rows(kind.name) if row["name"] in stand.names(kind.name))


def description(kind: Kind, row: Mapping[str, Any]) -> str:
    return kind.describes.format(name=row["name"], place=row["location"])


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """The deployment, and all that the tests below ask of it, asked side by side."""
    with standing(tmp_path_factory.mktemp("read") / "home") as it:
        asked = [kind.lists for kind in KINDS] + [description(kind, first(it, kind)) for kind in KINDS]
        it.shell.ask([CREDENTIALS, *(f"{command} --format=json" for command in (*asked, *OTHERS))])
        it.shell.ask(FEW)
        yield it


@pytest.fixture(scope="module")
def kubernetes(stand: Stand) -> Any:
    return kubernetes_client(stand)


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_list_shows_what_the_deployment_made_and_nothing_else(stand: Stand, kind: Kind) -> None:
    listed = [(last(item["name"]), item) for item in stand.shell.json(kind.lists)]
    world = stand.rows(kind.name)
    assert sorted(name for name, _ in listed) == sorted(row["name"] for row in world)
    ours, by_others = stand.names(kind.name), {row["name"] for row in world if row["derived"]}
    if kind.name == "node_pool":
        by_others = {"default-pool"}  # comes with the cluster's own request
    assert ours and {name for name, _ in listed} == ours | by_others
    made = {row["name"] for row in stand.status if row["kind"] == kind.name and row["origin"] == "created"}
    assert made == ours


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_list_and_describe_show_the_same_and_so_do_the_world_and_googles_client(
    stand: Stand, kind: Kind
) -> None:
    same_everywhere(stand, kind, first(stand, kind))


@pytest.mark.heavy
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_every_single_thing_is_described_as_it_is_listed(stand: Stand, kind: Kind) -> None:
    rows = [row for row in stand.rows(kind.name) if row["name"] in stand.names(kind.name) or kind is POOL]
    stand.shell.ask(f"{description(kind, row)} --format=json" for row in rows)
    for row in rows:
        same_everywhere(stand, kind, row)
    print(f"{kind.name}: {len(rows)} described")


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "name"), GROUND, ids=[kind.name for kind, _ in GROUND])
def test_what_the_deployment_found_there_is_read_alike(stand: Stand, kind: Kind, name: str) -> None:
    assert read_alike(stand, kind, {"name": name, "location": ZONE})["name"] == name


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("lists", "describes"),
    [
        (f"{COMPUTE_OPERATIONS} --global", "gcloud compute operations describe {} --global"),
        (
            f"{COMPUTE_OPERATIONS} --regions={REGION}",
            f"gcloud compute operations describe {{}} --region={REGION}",
        ),
        (GKE_OPERATIONS, f"gcloud container operations describe {{}} --location={REGION}"),
        (LUSTRE_OPERATIONS, f"gcloud lustre operations describe {{}} --location={ZONE}"),
    ],
    ids=["global", "regional", "container", "lustre"],
)
def test_an_operation_is_described_as_it_is_listed(stand: Stand, lists: str, describes: str) -> None:
    operation = stand.shell.json(lists)[-1]
    assert unequal(stand.shell.json(describes.format(last(operation["name"]))), operation) == {}


@pytest.mark.parametrize("command", FEW)
def test_a_table_has_every_column_that_google_fills(stand: Stand, command: str) -> None:
    assert not_shown(stand.shell.text(command), TABLES[command]) == []


def same_everywhere(stand: Stand, kind: Kind, row: JSON) -> None:
    """One thing, read in four ways."""
    differs = unequal(read_alike(stand, kind, row), row["spec"])
    assert {path for path in differs if not path.startswith(kind.shown)} == set()


def read_alike(stand: Stand, kind: Kind, row: Mapping[str, Any]) -> JSON:
    """One thing as gcloud describes it: as it lists it, and as Google's client reads it."""
    described: JSON = stand.shell.json(description(kind, row))
    named = [item for item in stand.shell.json(kind.lists) if last(item["name"]) == row["name"]]
    (item,) = [item for item in named if kind is not SUBNET or last(item["region"]) == row["location"]]
    assert unequal(described, item) == {}
    read = kind.get(Clients(stand.walk.server), row["name"], row["location"])
    assert unequal(described, document(read)) == {}
    return described


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_what_is_shown_is_what_was_asked_for_marked_and_well(stand: Stand, kind: Kind) -> None:
    items = {last(item["name"]): item for item in stand.shell.json(kind.lists) if not strange(kind, item)}
    compared = 0
    for resource, spec in stand.wanted(kind.name, facts(stand)):
        item = items[resource.name]
        missing = unmet(spec, item)
        for path, rewritten in REWRITTEN.get(kind.name, {}).items():
            assert rewritten(*missing.pop(path)), (resource.id, path)
        assert missing == {}, resource.id
        for path in kind.marks:
            mark = place(item, path)
            said = f"grpo-wizard {mark.get('grpo-wizard')}" if isinstance(mark, dict) else mark
            assert said == f"grpo-wizard {stand.lineage}", (resource.id, path)
        if kind.status[0]:
            assert place(item, kind.status[0]) == kind.status[1]
        compared += len(texts(spec))
    assert compared > 0
    print(f"{kind.name}: {compared} fields")


def strange(kind: Kind, item: JSON) -> bool:
    """An automatic subnet bears its network's name; none of them is asked for."""
    return kind.name == "subnet" and last(item["name"]) == last(item["network"])


def test_every_api_of_the_plan_is_enabled_and_listed(stand: Stand) -> None:
    listed = {last(item["name"]): item for item in stand.shell.json(SERVICES)}
    assert stand.names("api") <= set(listed)
    assert set(listed) >= {row["name"] for row in stand.rows("api")}
    assert {item["state"] for item in listed.values()} == {"ENABLED"}
    assert all(item["config"]["title"] and item["config"]["name"] == name for name, item in listed.items())


def test_the_private_connection_is_listed_by_both_of_its_services(stand: Stand) -> None:
    (connection,) = stand.shell.json(PEERINGS)
    (row,) = stand.rows("peering")
    assert unequal(connection, row["spec"]) == {}
    ((resource, wanted),) = stand.wanted("peering", facts(stand))
    assert last(connection["network"]) == resource.name == wanted["network"]
    assert connection["reservedPeeringRanges"] == wanted["reservedPeeringRanges"]
    (network,) = stand.shell.json(NETWORK_PEERINGS)
    (peering,) = network["peerings"]
    assert network["name"] == "nemo-net" and peering["name"] == connection["peering"]
    assert peering["state"] == "ACTIVE" and peering["network"].endswith("/networks/servicenetworking")


def test_the_operations_that_apply_started_are_listed_and_done(stand: Stand) -> None:
    ours = {kind.name: stand.shell.json(kind.lists) for kind in KINDS}
    compute = stand.shell.json(COMPUTE_OPERATIONS)
    made = [i for name in ("network", "subnet", "firewall", "address") for i in ours[name]]
    wanted = {i["selfLink"] for i in made if "grpo-wizard" in i.get("description", "")}
    assert {operation["targetLink"] for operation in compute} == wanted and len(compute) == len(wanted)
    assert {(o["operationType"], o["status"], o["progress"]) for o in compute} == {("insert", "DONE", 100)}
    assert not any("error" in operation for operation in compute)
    gke = {(o["operationType"], o["targetLink"], o["status"]) for o in stand.shell.json(GKE_OPERATIONS)}
    pool = next(i for i in ours["node_pool"] if i["name"] == "gpu-pool")
    assert gke == {
        ("CREATE_CLUSTER", ours["cluster"][0]["selfLink"], "DONE"),
        ("CREATE_NODE_POOL", pool["selfLink"], "DONE"),
    }
    (lustre,) = stand.shell.json(LUSTRE_OPERATIONS)
    assert (lustre["done"], lustre["metadata"]["verb"], lustre["metadata"]["target"]) == (
        True,
        "create",
        ours["lustre"][0]["name"],
    )
    assert (
        unequal({k: v for k, v in lustre["response"].items() if not k.startswith("@")}, ours["lustre"][0])
        == {}
    )


def test_the_reservation_counts_the_machines_that_the_gpu_nodes_took(stand: Stand) -> None:
    described = stand.shell.json(RESERVATION)
    listed = next(i for i in stand.shell.json(RESERVATIONS) if i["name"] == "nemo-res")
    assert unequal(described, listed) == {}
    nodes = json.loads(
        stand.shell.text("kubectl get nodes -l cloud.google.com/gke-nodepool=gpu-pool -o json")
    )
    assert int(described["specificReservation"]["inUseCount"]) == len(nodes["items"]) == 2
    assert described["status"] == "READY"
    read = (
        Clients(stand.walk.server)
        .compute("Reservations")
        .get(project=PROJECT, zone=ZONE, reservation="nemo-res")
    )
    assert unequal(described, document(read)) == {}


def test_the_projects_policy_is_the_one_that_googles_client_reads(stand: Stand) -> None:
    from google.cloud import resourcemanager_v3
    from google.oauth2.credentials import Credentials

    server = stand.walk.server
    client = resourcemanager_v3.ProjectsClient(
        credentials=Credentials(token=server.token),
        transport="rest",
        client_options={"api_endpoint": f"{server.base_url}/cloudresourcemanager"},
    )
    policy = client.get_iam_policy(resource=f"projects/{PROJECT}")
    told = stand.shell.json(POLICY)
    assert {b["role"]: set(b["members"]) for b in told["bindings"]} == {
        b.role: set(b.members) for b in policy.bindings
    }


@pytest.mark.parametrize("kind", OBJECTS)
def test_kubectl_shows_the_objects_that_apply_made(stand: Stand, kubernetes: Any, kind: str) -> None:
    items = [i for i in stand.shell.json(GET_OBJECTS)["items"] if i["kind"] == OBJECTS[kind]]
    listed = {(i["metadata"].get("namespace", ""), i["metadata"]["name"]): i for i in items}
    world = {(row["namespace"], row["name"]): row for row in stand.rows(kind)}
    assert set(listed) == set(world)
    assert {key[1] for key, row in world.items() if not row["derived"]} == stand.names(kind)
    compared = 0
    for resource, spec in stand.wanted(kind, facts(stand)):
        key = resource.where.get("namespace", ""), resource.name
        item, row = secretless(listed[key]), secretless(world[key]["spec"])
        spec.pop("stringData", None)  # comes back as data
        assert unmet(spec, item) == {} and unmet(row, item) == {}
        assert item["metadata"]["labels"]["grpo-wizard"] == stand.lineage
        resources = kubernetes.resources.get(api_version=item["apiVersion"], kind=item["kind"])
        read = resources.get(resource.name, resource.where.get("namespace")).to_dict()
        assert unequal(item, secretless(read)) == {}
        compared += len(texts(spec))
    assert compared > 0
    print(f"{kind}: {compared} fields")


def nodes(stand: Stand) -> dict[str, JSON]:
    return {item["metadata"]["name"]: item for item in stand.shell.json("kubectl get nodes")["items"]}


def test_nodes_are_the_machines_that_gcloud_lists_in_the_groups_of_their_pools(stand: Stand) -> None:
    instances = {item["name"]: item for item in stand.shell.json(INSTANCES)}
    pools = {pool["name"]: pool for pool in stand.shell.json(POOL.lists)}
    (cluster,) = stand.shell.json(CLUSTERS.lists)
    assert set(instances) == set(nodes(stand)) and len(instances) == cluster["currentNodeCount"] == 3
    for name, node in nodes(stand).items():
        machine, labels = instances[name], node["metadata"]["labels"]
        pool = pools[labels["cloud.google.com/gke-nodepool"]]
        assert last(machine["machineType"]) == pool["config"]["machineType"]
        assert last(machine["machineType"]) == labels["node.kubernetes.io/instance-type"]
        assert last(machine["zone"]) == labels["topology.kubernetes.io/zone"]
        assert node["spec"]["providerID"] == f"gce://{PROJECT}/{last(machine['zone'])}/{name}"
        assert machine["labels"]["goog-k8s-node-pool-name"] == pool["name"]
        assert machine["labels"]["grpo-wizard"] == stand.lineage
        assert name.rpartition("-")[0] in {
            last(url).removesuffix("-grp") for url in pool["instanceGroupUrls"]
        }
        at = {row["type"]: row["address"] for row in node["status"]["addresses"]}
        first = machine["networkInterfaces"][0]
        assert (first["networkIP"], first["accessConfigs"][0]["natIP"]) == (
            at["InternalIP"],
            at["ExternalIP"],
        )
    groups = {item["name"]: item for item in stand.shell.json(GROUPS)}
    assert set(groups) == {last(url) for url in cluster["instanceGroupUrls"]}
    assert sum(group["targetSize"] for group in groups.values()) == len(instances)


@pytest.mark.heavy
def test_a_group_and_its_manager_list_the_nodes_of_their_pool(stand: Stand) -> None:
    for group in (item["name"] for item in stand.shell.json(GROUPS)):
        where, begins = f"{group} --zone={ZONE}", f"{group.removesuffix('-grp')}-"
        wanted = {name for name in nodes(stand) if name.startswith(begins)}
        listed = stand.shell.json(f"gcloud compute instance-groups list-instances {where}")
        managed = stand.shell.json(f"gcloud compute instance-groups managed list-instances {where}")
        assert wanted and {last(row["instance"]) for row in listed} == wanted
        assert {(row["name"], row["instanceStatus"]) for row in managed} == {(n, "RUNNING") for n in wanted}


def test_a_gpu_node_has_the_pools_labels_taints_and_cards_in_the_pools_networks(stand: Stand) -> None:
    pool = next(pool for pool in stand.shell.json(POOL.lists) if pool["name"] == "gpu-pool")
    machines = {item["name"]: item for item in stand.shell.json(INSTANCES)}
    more = pool["networkConfig"]["additionalNodeNetworkConfigs"]
    gpu = {
        name: node
        for name, node in nodes(stand).items()
        if node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] == "gpu-pool"
    }
    assert len(gpu) == 2 and len(more) == 9
    for name, node in gpu.items():
        labels, (card,) = node["metadata"]["labels"], pool["config"]["accelerators"]
        assert labels["cloud.google.com/gke-accelerator"] == card["acceleratorType"]
        assert (
            labels["cloud.google.com/reservation-name"] == pool["config"]["reservationAffinity"]["values"][0]
        )
        assert {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"} in node["spec"]["taints"]
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == str(card["acceleratorCount"])
        cards = machines[name]["networkInterfaces"][1:]
        assert [(last(c["network"]), last(c["subnetwork"])) for c in cards] == [
            (one["network"], one["subnetwork"]) for one in more
        ]


def test_a_workers_ten_interfaces_have_addresses_in_the_ranges_that_gcloud_lists(stand: Stand) -> None:
    subnets = {item["name"]: item for item in stand.shell.json(SUBNET.lists) if not strange(SUBNET, item)}
    objects = stand.shell.json(GET_OBJECTS)["items"]
    params = {i["metadata"]["name"]: i["spec"] for i in objects if i["kind"] == OBJECTS["network_params"]}
    pods = stand.shell.json("kubectl get pods -l ray.io/node-type=worker")["items"]
    assert len(pods) == 2
    (cluster,) = stand.shell.json(CLUSTERS.lists)
    for pod in pods:
        told, node = pod["metadata"]["annotations"], nodes(stand)[pod["spec"]["nodeName"]]
        asked = json.loads(told["networking.gke.io/interfaces"])
        given = json.loads(told["networking.gke.io/pod-ips"])
        assert len(asked) == 10 and [row["network"] for row in asked[1:]] == [r["networkName"] for r in given]
        for row in given:
            subnet = subnets[params[row["networkName"]]["vpcSubnet"]]
            assert last(subnet["network"]) == params[row["networkName"]]["vpc"]
            assert ip_address(row["ip"]) in ip_network(subnet["ipCidrRange"])
        own = ip_network(node["spec"]["podCIDR"])
        assert ip_address(pod["status"]["podIP"]) in own
        assert own.subnet_of(ip_network(cluster["clusterIpv4Cidr"]))
        assert pod["status"]["hostIP"] == node["status"]["addresses"][0]["address"]


def test_the_clusters_subnet_holds_its_nodes_and_the_range_of_its_pods(stand: Stand) -> None:
    (cluster,) = stand.shell.json(CLUSTERS.lists)
    subnet = next(
        item
        for item in stand.shell.json(SUBNET.lists)
        if item["selfLink"].endswith(cluster["networkConfig"]["subnetwork"])
    )
    policy = cluster["ipAllocationPolicy"]
    assert subnet["secondaryIpRanges"] == [
        {"rangeName": policy["clusterSecondaryRangeName"], "ipCidrRange": policy["clusterIpv4Cidr"]}
    ]
    inside = ip_network(subnet["ipCidrRange"])
    assert all(ip_address(n["status"]["addresses"][0]["address"]) in inside for n in nodes(stand).values())
