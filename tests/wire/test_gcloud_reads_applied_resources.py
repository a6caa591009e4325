"""Made by apply, read by the real gcloud and kubectl: list and describe show the same as the deployment says.

A list and one description of each kind are read always (about half a minute); every single thing:
`pytest -m heavy tests/wire/test_gcloud_reads_applied_resources.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from gcloud_deployment import (
    CREDENTIALS,
    MISSING,
    LiveDeployment,
    cloud_outputs,
    kubernetes_client,
    leaf_texts,
    live_deployment,
    mask_secret,
    missing_rows,
    missing_values,
    short_name,
    value_at,
    value_differences,
)  # fmt: skip
from gcloud_expected_tables import FEW, TABLES
from gcloud_resource_kinds import CLUSTERS, GET_OBJECTS, KINDS, OBJECTS, POOL, PREEXISTING, SUBNET, GcloudKind
from google_clients import PROJECT, REGION, ZONE, GoogleClients

from grpo_wizard.steps.clients.serialization import to_json

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


def first(stand: LiveDeployment, kind: GcloudKind) -> JSON:
    """The row of the world that the always-run part describes."""
    return next(row for row in stand.rows(kind.name) if row["name"] in stand.names(kind.name))


def description(kind: GcloudKind, row: Mapping[str, Any]) -> str:
    return kind.describe_command.format(name=row["name"], place=row["location"])


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDeployment]:
    """The deployment, and all that the tests below ask of it, asked side by side."""
    with live_deployment(tmp_path_factory.mktemp("read") / "home") as it:
        asked = [kind.list_command for kind in KINDS] + [description(kind, first(it, kind)) for kind in KINDS]
        it.shell.run_all([CREDENTIALS, *(f"{command} --format=json" for command in (*asked, *OTHERS))])
        it.shell.run_all(FEW)
        yield it


@pytest.fixture(scope="module")
def kubernetes(stand: LiveDeployment) -> Any:
    return kubernetes_client(stand)


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_list_shows_what_the_deployment_made_and_nothing_else(
    stand: LiveDeployment, kind: GcloudKind
) -> None:
    listed = [(short_name(item["name"]), item) for item in stand.shell.json(kind.list_command)]
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
    stand: LiveDeployment, kind: GcloudKind
) -> None:
    same_everywhere(stand, kind, first(stand, kind))


@pytest.mark.heavy
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_every_single_thing_is_described_as_it_is_listed(stand: LiveDeployment, kind: GcloudKind) -> None:
    rows = [row for row in stand.rows(kind.name) if row["name"] in stand.names(kind.name) or kind is POOL]
    stand.shell.run_all(f"{description(kind, row)} --format=json" for row in rows)
    for row in rows:
        same_everywhere(stand, kind, row)
    print(f"{kind.name}: {len(rows)} described")


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "name"), PREEXISTING, ids=[kind.name for kind, _ in PREEXISTING])
def test_what_the_deployment_found_there_is_read_alike(
    stand: LiveDeployment, kind: GcloudKind, name: str
) -> None:
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
def test_an_operation_is_described_as_it_is_listed(stand: LiveDeployment, lists: str, describes: str) -> None:
    operation = stand.shell.json(lists)[-1]
    assert (
        value_differences(stand.shell.json(describes.format(short_name(operation["name"]))), operation) == {}
    )


@pytest.mark.parametrize("command", FEW)
def test_a_table_has_every_column_that_google_fills(stand: LiveDeployment, command: str) -> None:
    assert missing_rows(stand.shell.text(command), TABLES[command]) == []


def same_everywhere(stand: LiveDeployment, kind: GcloudKind, row: JSON) -> None:
    """One thing, read in four ways."""
    differs = value_differences(read_alike(stand, kind, row), row["spec"])
    assert {path for path in differs if not path.startswith(kind.computed_paths)} == set()


def read_alike(stand: LiveDeployment, kind: GcloudKind, row: Mapping[str, Any]) -> JSON:
    """One thing as gcloud describes it: as it lists it, and as Google's client reads it."""
    described: JSON = stand.shell.json(description(kind, row))
    named = [item for item in stand.shell.json(kind.list_command) if short_name(item["name"]) == row["name"]]
    (item,) = [item for item in named if kind is not SUBNET or short_name(item["region"]) == row["location"]]
    assert value_differences(described, item) == {}
    read = kind.get(GoogleClients(stand.harness.server), row["name"], row["location"])
    assert value_differences(described, to_json(read)) == {}
    return described


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_what_is_shown_is_what_was_asked_for_marked_and_well(stand: LiveDeployment, kind: GcloudKind) -> None:
    items = {
        short_name(item["name"]): item
        for item in stand.shell.json(kind.list_command)
        if not strange(kind, item)
    }
    compared = 0
    for resource, spec in stand.expected_specs(kind.name, cloud_outputs(stand)):
        item = items[resource.name]
        missing = missing_values(spec, item)
        for path, rewritten in REWRITTEN.get(kind.name, {}).items():
            assert rewritten(*missing.pop(path)), (resource.id, path)
        assert missing == {}, resource.id
        for path in kind.owner_label_paths:
            mark = value_at(item, path)
            said = f"grpo-wizard {mark.get('grpo-wizard')}" if isinstance(mark, dict) else mark
            assert said == f"grpo-wizard {stand.deployment_id}", (resource.id, path)
        if kind.status[0]:
            assert value_at(item, kind.status[0]) == kind.status[1]
        compared += len(leaf_texts(spec))
    assert compared > 0
    print(f"{kind.name}: {compared} fields")


def strange(kind: GcloudKind, item: JSON) -> bool:
    """An automatic subnet bears its network's name; none of them is asked for."""
    return kind.name == "subnet" and short_name(item["name"]) == short_name(item["network"])


def test_every_api_of_the_plan_is_enabled_and_listed(stand: LiveDeployment) -> None:
    listed = {short_name(item["name"]): item for item in stand.shell.json(SERVICES)}
    assert stand.names("api") <= set(listed)
    assert set(listed) >= {row["name"] for row in stand.rows("api")}
    assert {item["state"] for item in listed.values()} == {"ENABLED"}
    assert all(item["config"]["title"] and item["config"]["name"] == name for name, item in listed.items())


def test_the_private_connection_is_listed_by_both_of_its_services(stand: LiveDeployment) -> None:
    (connection,) = stand.shell.json(PEERINGS)
    (row,) = stand.rows("peering")
    assert value_differences(connection, row["spec"]) == {}
    ((resource, wanted),) = stand.expected_specs("peering", cloud_outputs(stand))
    assert short_name(connection["network"]) == resource.name == wanted["network"]
    assert connection["reservedPeeringRanges"] == wanted["reservedPeeringRanges"]
    (network,) = stand.shell.json(NETWORK_PEERINGS)
    (peering,) = network["peerings"]
    assert network["name"] == "nemo-net" and peering["name"] == connection["peering"]
    assert peering["state"] == "ACTIVE" and peering["network"].endswith("/networks/servicenetworking")


def test_the_operations_that_apply_started_are_listed_and_done(stand: LiveDeployment) -> None:
    ours = {kind.name: stand.shell.json(kind.list_command) for kind in KINDS}
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
        value_differences(
            {k: v for k, v in lustre["response"].items() if not k.startswith("@")}, ours["lustre"][0]
        )
        == {}
    )


def test_the_reservation_counts_the_machines_that_the_gpu_nodes_took(stand: LiveDeployment) -> None:
    described = stand.shell.json(RESERVATION)
    listed = next(i for i in stand.shell.json(RESERVATIONS) if i["name"] == "nemo-res")
    assert value_differences(described, listed) == {}
    nodes = json.loads(
        stand.shell.text("kubectl get nodes -l cloud.google.com/gke-nodepool=gpu-pool -o json")
    )
    assert int(described["specificReservation"]["inUseCount"]) == len(nodes["items"]) == 2
    assert described["status"] == "READY"
    read = (
        GoogleClients(stand.harness.server)
        .compute("Reservations")
        .get(project=PROJECT, zone=ZONE, reservation="nemo-res")
    )
    assert value_differences(described, to_json(read)) == {}


def test_the_projects_policy_is_the_one_that_googles_client_reads(stand: LiveDeployment) -> None:
    from google.cloud import resourcemanager_v3
    from google.oauth2.credentials import Credentials

    server = stand.harness.server
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
def test_kubectl_shows_the_objects_that_apply_made(stand: LiveDeployment, kubernetes: Any, kind: str) -> None:
    items = [i for i in stand.shell.json(GET_OBJECTS)["items"] if i["kind"] == OBJECTS[kind]]
    listed = {(i["metadata"].get("namespace", ""), i["metadata"]["name"]): i for i in items}
    world = {(row["namespace"], row["name"]): row for row in stand.rows(kind)}
    assert set(listed) == set(world)
    assert {key[1] for key, row in world.items() if not row["derived"]} == stand.names(kind)
    compared = 0
    for resource, spec in stand.expected_specs(kind, cloud_outputs(stand)):
        key = resource.parent.get("namespace", ""), resource.name
        item, row = mask_secret(listed[key]), mask_secret(world[key]["spec"])
        spec.pop("stringData", None)  # comes back as data
        assert missing_values(spec, item) == {} and missing_values(row, item) == {}
        assert item["metadata"]["labels"]["grpo-wizard"] == stand.deployment_id
        resources = kubernetes.resources.get(api_version=item["apiVersion"], kind=item["kind"])
        read = resources.get(resource.name, resource.parent.get("namespace")).to_dict()
        assert value_differences(item, mask_secret(read)) == {}
        compared += len(leaf_texts(spec))
    assert compared > 0
    print(f"{kind}: {compared} fields")


def nodes(stand: LiveDeployment) -> dict[str, JSON]:
    return {item["metadata"]["name"]: item for item in stand.shell.json("kubectl get nodes")["items"]}


def test_nodes_are_the_machines_that_gcloud_lists_in_the_groups_of_their_pools(stand: LiveDeployment) -> None:
    instances = {item["name"]: item for item in stand.shell.json(INSTANCES)}
    pools = {pool["name"]: pool for pool in stand.shell.json(POOL.list_command)}
    (cluster,) = stand.shell.json(CLUSTERS.list_command)
    assert set(instances) == set(nodes(stand)) and len(instances) == cluster["currentNodeCount"] == 3
    for name, node in nodes(stand).items():
        machine, labels = instances[name], node["metadata"]["labels"]
        pool = pools[labels["cloud.google.com/gke-nodepool"]]
        assert short_name(machine["machineType"]) == pool["config"]["machineType"]
        assert short_name(machine["machineType"]) == labels["node.kubernetes.io/instance-type"]
        assert short_name(machine["zone"]) == labels["topology.kubernetes.io/zone"]
        assert node["spec"]["providerID"] == f"gce://{PROJECT}/{short_name(machine['zone'])}/{name}"
        assert machine["labels"]["goog-k8s-node-pool-name"] == pool["name"]
        assert machine["labels"]["grpo-wizard"] == stand.deployment_id
        assert name.rpartition("-")[0] in {
            short_name(url).removesuffix("-grp") for url in pool["instanceGroupUrls"]
        }
        at = {row["type"]: row["address"] for row in node["status"]["addresses"]}
        first = machine["networkInterfaces"][0]
        assert (first["networkIP"], first["accessConfigs"][0]["natIP"]) == (
            at["InternalIP"],
            at["ExternalIP"],
        )
    groups = {item["name"]: item for item in stand.shell.json(GROUPS)}
    assert set(groups) == {short_name(url) for url in cluster["instanceGroupUrls"]}
    assert sum(group["targetSize"] for group in groups.values()) == len(instances)


@pytest.mark.heavy
def test_a_group_and_its_manager_list_the_nodes_of_their_pool(stand: LiveDeployment) -> None:
    for group in (item["name"] for item in stand.shell.json(GROUPS)):
        where, begins = f"{group} --zone={ZONE}", f"{group.removesuffix('-grp')}-"
        wanted = {name for name in nodes(stand) if name.startswith(begins)}
        listed = stand.shell.json(f"gcloud compute instance-groups list-instances {where}")
        managed = stand.shell.json(f"gcloud compute instance-groups managed list-instances {where}")
        assert wanted and {short_name(row["instance"]) for row in listed} == wanted
        assert {(row["name"], row["instanceStatus"]) for row in managed} == {(n, "RUNNING") for n in wanted}


def test_a_gpu_node_has_the_pools_labels_taints_and_cards_in_the_pools_networks(
    stand: LiveDeployment,
) -> None:
    pool = next(pool for pool in stand.shell.json(POOL.list_command) if pool["name"] == "gpu-pool")
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
        assert [(short_name(c["network"]), short_name(c["subnetwork"])) for c in cards] == [
            (one["network"], one["subnetwork"]) for one in more
        ]


def test_a_workers_ten_interfaces_have_addresses_in_the_ranges_that_gcloud_lists(
    stand: LiveDeployment,
) -> None:
    subnets = {
        item["name"]: item for item in stand.shell.json(SUBNET.list_command) if not strange(SUBNET, item)
    }
    objects = stand.shell.json(GET_OBJECTS)["items"]
    params = {i["metadata"]["name"]: i["spec"] for i in objects if i["kind"] == OBJECTS["network_params"]}
    pods = stand.shell.json("kubectl get pods -l ray.io/node-type=worker")["items"]
    assert len(pods) == 2
    (cluster,) = stand.shell.json(CLUSTERS.list_command)
    for pod in pods:
        told, node = pod["metadata"]["annotations"], nodes(stand)[pod["spec"]["nodeName"]]
        asked = json.loads(told["networking.gke.io/interfaces"])
        given = json.loads(told["networking.gke.io/pod-ips"])
        assert len(asked) == 10 and [row["network"] for row in asked[1:]] == [r["networkName"] for r in given]
        for row in given:
            subnet = subnets[params[row["networkName"]]["vpcSubnet"]]
            assert short_name(subnet["network"]) == params[row["networkName"]]["vpc"]
            assert ip_address(row["ip"]) in ip_network(subnet["ipCidrRange"])
        own = ip_network(node["spec"]["podCIDR"])
        assert ip_address(pod["status"]["podIP"]) in own
        assert own.subnet_of(ip_network(cluster["clusterIpv4Cidr"]))
        assert pod["status"]["hostIP"] == node["status"]["addresses"][0]["address"]


def test_the_clusters_subnet_holds_its_nodes_and_the_range_of_its_pods(stand: LiveDeployment) -> None:
    (cluster,) = stand.shell.json(CLUSTERS.list_command)
    subnet = next(
        item
        for item in stand.shell.json(SUBNET.list_command)
        if item["selfLink"].endswith(cluster["networkConfig"]["subnetwork"])
    )
    policy = cluster["ipAllocationPolicy"]
    assert subnet["secondaryIpRanges"] == [
        {"rangeName": policy["clusterSecondaryRangeName"], "ipCidrRange": policy["clusterIpv4Cidr"]}
    ]
    inside = ip_network(subnet["ipCidrRange"])
    assert all(ip_address(n["status"]["addresses"][0]["address"]) in inside for n in nodes(stand).values())
