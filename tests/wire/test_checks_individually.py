"""Each check by itself: the fault it was made for, the words it says, and the neighbour that it lets through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from check_harness import CheckHarness, answers, blocking_texts, check_harness, get_fault

from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.engine.preflight import CheckResult, inconclusive
from grpo_wizard.steps.gcp.suggestions import Suggestion, suggestions
from grpo_wizard.steps.registry import step

JSON = dict[str, Any]
P, MINE, CALLER = "my-project", "0123456789ab", "user:rehearsal-user@example.com"
LUSTRE = f"projects/{P}/locations/us-central1-b/instances"
DENIED = {
    "error": {
        "code": 403,
        "status": "PERMISSION_DENIED",
        "message": "Required 'compute.reservations.get' permission",
    }
}
BROKEN = {"error": {"code": 500, "status": "INTERNAL", "message": "backend"}}


def policy(project: str, constraint: str, rule: JSON) -> JSON:
    return get_fault(
        "orgpolicy",
        f"/v2/projects/{project}/policies/{constraint}:getEffectivePolicy",
        {"spec": {"rules": [rule]}},
    )


def quotas(path: str, **rows: tuple[float, float]) -> JSON:
    listed = [{"metric": metric, "limit": limit, "usage": used} for metric, (limit, used) in rows.items()]
    return get_fault("compute", path, {"name": path.rpartition("/")[2], "quotas": listed})


def cluster(name: str, status: str, mark: str = "") -> JSON:
    labels = {"resourceLabels": {"grpo-wizard": mark}} if mark else {}
    return {"name": name, "status": status, "nodePools": []} | labels


WORLD = [
    policy("policy-addresses", "compute.vmExternalIpAccess", {"denyAll": True}),
    policy("policy-peering", "compute.restrictVpcPeering", {"denyAll": True}),
    policy("policy-shielded", "compute.requireShieldedVm", {"enforce": True}),
    policy("policy-places", "gcp.resourceLocations", {"values": {"allowedValues": ["europe-west4"]}}),
    get_fault("orgpolicy", "/v2/projects/hidden-policies/*", DENIED, status=403),
    get_fault("compute", "*/projects/owner-hidden/*/reservations/*", DENIED, status=403),
    get_fault("compute", "*/reservations/res-unlucky", BROKEN, status=500),
    get_fault("compute", "*/reservations/res-ending", {
        "name": "res-ending", "status": "READY", "specificReservationRequired": True, "deleteAtTime": "2026-12-24T00:00:00Z",
        "specificReservation": {"count": "4", "instanceProperties": {"machineType": "a4-highgpu-8g"}},
    }),
    get_fault("compute", "*/reservations/res-open", {
        "name": "res-open", "status": "CREATING", "specificReservationRequired": False,
        "specificReservation": {"count": "4", "instanceProperties": {"machineType": "a4-highgpu-8g"}},
    }),
    quotas("/compute/v1/projects/*/regions/us-east4", N2_CPUS=(100, 21), INSTANCES=(10, 8), IN_USE_ADDRESSES=(8, 6), SSD_TOTAL_GB=(500, 300)),
    quotas("/compute/v1/projects/few-gpus", GPUS_ALL_REGIONS=(15, 0), NETWORKS=(50, 47), SUBNETWORKS=(100, 60)),
    get_fault("container", "*/locations/us-east4/clusters", {
        "clusters": [cluster("ours", "RUNNING", MINE), cluster("ours-broken", "ERROR", MINE), cluster("coming", "PROVISIONING"), cluster("going", "STOPPING")]
    }),
    get_fault("lustre", "*/locations/us-central1-b/instances", {
        "instances": [
            {"name": f"{LUSTRE}/stopped", "state": "STOPPED"},
            {"name": f"{LUSTRE}/on-6988", "state": "ACTIVE", "gkeSupportEnabled": True},
            {"name": f"{LUSTRE}/on-988", "state": "ACTIVE"},
        ]
    }),
    get_fault("container", "*/locations/us-central1/clusters", {
        "clusters": [
            cluster("with-6988", "RUNNING") | {"addonsConfig": {"lustreCsiDriverConfig": {"enabled": True, "enableLegacyLustrePort": True}}},
            cluster("with-988", "RUNNING") | {"addonsConfig": {"lustreCsiDriverConfig": {"enabled": True}}},
        ]
    }),
]  # fmt: skip
PROJECTS = (
    "policy-addresses",
    "policy-peering",
    "policy-shielded",
    "policy-places",
    "hidden-policies",
    "few-gpus",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckHarness]:
    with check_harness(tmp_path_factory.mktemp("each") / "home", WORLD) as made:
        made.create_project("poor-project")
        policy_of = {"bindings": [{"role": "roles/owner", "members": ["user:other@example.com"]}]}
        policy_of["bindings"] += [{"role": "roles/container.admin", "members": [CALLER]}]
        made.create("/cloudresourcemanager/v3/projects/poor-project:setIamPolicy", {"policy": policy_of})
        status, _ = made.server.call("POST", "/cloudresourcemanager/v3/projects", {"projectId": "unpaid"})
        assert status == 200
        for project in PROJECTS:
            made.create_project(project)
            made.create_reservation("nemo-res", project=project)
        made.create_reservation("nemo-res", zone="us-east4-b")
        made.create_reservation("res-elsewhere", zone="us-east4-b")
        sku = {"totalCount": "4", "instanceProperties": {"machineType": "a4-highgpu-8g"}}
        window = {"startTime": "2099-01-01T00:00:00Z", "endTime": "2099-02-01T00:00:00Z"}
        future = {"name": "res-future", "specificSkuProperties": sku, "timeWindow": window}
        made.create(f"/compute/v1/projects/{P}/zones/us-central1-b/futureReservations", future)
        base = f"/compute/v1/projects/{P}"
        made.create(f"{base}/global/networks", {"name": "custom", "autoCreateSubnetworks": False})
        made.create(f"{base}/global/networks", {"name": "taken-net", "autoCreateSubnetworks": False})
        for network, name, cidr in (
            ("custom", "inner", "10.0.0.0/20"),
            ("taken-net", "wide", "192.168.0.0/22"),
        ):
            body = {"name": name, "network": f"projects/{P}/global/networks/{network}", "ipCidrRange": cidr}
            made.create(f"{base}/regions/us-central1/subnetworks", body)
        yield made


def of(found: list[CheckResult], id: str) -> list[tuple[str, str]]:
    return [
        (one.finding.level, f"{one.finding.title}; {one.finding.detail}; {one.finding.fix}")
        for one in found
        if one.id == id
    ]


def said(world: CheckHarness, id: str, **changes: Any) -> list[tuple[str, str]]:
    return of(world.check(**changes), id)


@pytest.mark.parametrize(
    ("project", "constraint"),
    [
        ("policy-addresses", "compute.vmExternalIpAccess"),
        ("policy-peering", "compute.restrictVpcPeering"),
        ("policy-shielded", "compute.requireShieldedVm"),
        ("policy-places", "gcp.resourceLocations"),
    ],
)
def test_a_policy_in_force_blocks_and_names_the_constraint(
    world: CheckHarness, project: str, constraint: str
) -> None:
    found = blocking_texts(world.check(project__project_id=project))
    assert set(found) == {f"project.policy_{constraint.rpartition('.')[2]}"}
    assert f"constraints/{constraint}" in next(iter(found.values()))


def test_missing_permissions_name_the_smallest_roles_and_only_those(world: CheckHarness) -> None:
    found = blocking_texts(world.check(project__project_id="poor-project"))
    text = found["project.permissions"]
    for role in ("compute.networkAdmin", "compute.securityAdmin", "lustre.admin", "iam.serviceAccountUser"):
        assert (
            f"add-iam-policy-binding poor-project --member={CALLER} --condition=None --role=roles/{role}"
            in text
        )
    assert "roles/container.admin" not in text  # that one is there
    granted = world.check(project__project_id="poor-project", project__grant_roles=True)
    assert [level for level, _ in of(granted, "project.permissions")] == ["info"]


def test_a_project_that_nobody_pays_for_blocks_and_says_how_to_link_it(world: CheckHarness) -> None:
    found = blocking_texts(world.check(project__project_id="unpaid"))
    assert "gcloud billing projects link unpaid" in found["project.billing"]


def test_what_is_off_yet_is_information_and_not_an_obstacle(world: CheckHarness) -> None:
    """A fresh project has most APIs off: they are looked up again once they are on."""
    found = world.check(project__project_id="unpaid")
    later = inconclusive(found)
    assert len(later) > 10 and {one.finding.level for one in later} == {"info"}
    assert set(blocking_texts(found)) == {"project.billing"}


def test_a_check_that_cannot_run_warns_and_does_not_block(world: CheckHarness) -> None:
    """Policies that may not be read, a reservation whose project may not be looked into, a service with a bad day."""
    hidden = world.check(project__project_id="hidden-policies")
    assert blocking_texts(hidden) == {}
    assert {level for level, _ in of(hidden, "project.policy_requireShieldedVm")} == {"warn"}
    foreign = said(
        world, "quotas.reservation", quotas__reservation="projects/owner-hidden/reservations/theirs"
    )
    assert [level for level, _ in foreign] == ["warn"]
    assert "rehearsal-user@example.com lacks the compute.reservations.get permission there" in foreign[0][1]
    assert "gcloud projects add-iam-policy-binding owner-hidden" in foreign[0][1]
    unlucky = said(world, "quotas.reservation", quotas__reservation="res-unlucky")
    assert [level for level, _ in unlucky] == ["warn"]


def test_stock_out_quota_and_reservation_are_three_messages(world: CheckHarness) -> None:
    reserved = said(world, "quotas.reservation", quotas__gpu_nodes=5)
    quota = said(world, "quotas.gpu_quota", quotas__gpu_nodes=5, quotas__capacity="on_demand")
    stock = said(world, "quotas.capacity", quotas__capacity="on_demand")
    assert "reservation mismatch, not a quota shortage or a stockout" in reserved[0][1]
    assert "quota shortage, not a reservation mismatch or a stockout" in quota[0][1]
    assert "Whether machines are available will be known only once the nodes are requested" in stock[0][1]
    assert [x[0][0] for x in (reserved, quota, stock)] == ["block", "block", "info"]


def test_a_reservation_covers_what_quota_does_not(world: CheckHarness) -> None:
    """With a specific reservation quota is information; without one it stops. Both limits are looked at."""
    assert said(world, "quotas.gpu_quota_all", project__project_id="few-gpus")[0][0] == "info"
    found = blocking_texts(world.check(project__project_id="few-gpus", quotas__capacity="on_demand"))
    assert (
        "quota for GPUs in all regions (GPUS_ALL_REGIONS) is 15, but 16 are needed"
        in found["quotas.gpu_quota_all"]
    )


def test_spot_and_flex_start_count_against_the_preemptible_quota(world: CheckHarness) -> None:
    for capacity in ("spot", "flex_start"):
        assert (
            "quota for NVIDIA_B200 GPUs in us-central1 is 0, but 16 are needed"
            in said(world, "quotas.gpu_quota", quotas__capacity=capacity)[0][1]
        )


def test_quotas_of_the_project_at_their_edge(world: CheckHarness) -> None:
    """Three networks of three left fit; the subnets of an auto-mode VPC and nine more do not."""
    found = said(world, "networks.room", project__project_id="few-gpus")
    assert [level for level, _ in found] == ["block", "pass"]
    assert "SUBNETWORKS quota in the project is" in found[0][1] and "NETWORKS 3 of 3" in found[1][1]


def test_quotas_of_the_region_say_all_that_is_short(world: CheckHarness) -> None:
    east = {"project__region": "us-east4", "project__zone": "us-east4-b"}
    text = blocking_texts(world.check(**east))["cluster.cpu_quota"]
    assert (
        "The remaining N2_CPUS quota in us-east4 is 79 of 100, but this deployment requires 80 for "
        "1 × n2-highmem-80." in text
    )
    assert "INSTANCES" in text and "IN_USE_ADDRESSES" in text and "SSD_TOTAL_GB" in text
    there = said(world, "cluster.cpu_quota", cluster__cluster_name="ours", **east)
    assert "N2_CPUS" not in "".join(text for _, text in there)  # its node runs, and is in the usage


@pytest.mark.parametrize(
    ("name", "level", "words"),
    [
        ("ours", "pass", "exists (RUNNING) and belongs to this deployment"),
        ("ours-broken", "warn", "belongs to this deployment but is in state ERROR"),
        ("coming", "warn", "exists (PROVISIONING) and has no grpo-wizard label"),
        ("going", "warn", "is being deleted"),
        ("nobodys", "pass", "Cluster nobodys does not exist yet"),
    ],
)
def test_a_cluster_of_that_name_whose_and_in_which_state(
    world: CheckHarness, name: str, level: str, words: str
) -> None:
    east = {"project__region": "us-east4", "project__zone": "us-east4-b", "cluster__cluster_name": name}
    found = of(world.check(MINE, **east), "cluster.there")
    assert found[0][0] == level and words in found[0][1]


PORTS = {  # (instance, cluster, the answer) of what is there: level, and what the fix says
    ("on-6988", "none", False): ("block", "Set lustre.legacy_port=true"),
    ("on-988", "none", True): ("block", "Set lustre.legacy_port=false"),
    ("none", "with-6988", False): ("block", "Set lustre.legacy_port=true"),
    ("none", "with-988", True): ("block", "Set lustre.legacy_port=false"),
    ("on-6988", "with-988", False): ("block", "clusters update with-988 --location=us-central1 --enable-legacy-lustre-port"),
    ("on-988", "with-6988", True): ("block", "to a different name"),
    ("on-6988", "with-6988", False): ("warn", "Set lustre.legacy_port=true"),
    ("on-6988", "with-6988", True): ("pass", ""),
    ("on-6988", "none", True): ("pass", ""),
    ("on-988", "with-988", False): ("pass", ""),
    ("none", "none", False): ("pass", ""),
    ("none", "none", True): ("pass", ""),
}  # fmt: skip


@pytest.mark.parametrize("there", PORTS)
def test_a_cluster_and_a_lustre_that_are_there_must_speak_on_one_port(
    world: CheckHarness, there: tuple[str, str, bool]
) -> None:
    level, fix = PORTS[there]
    instance, name, legacy = there
    about = {"lustre__lustre_name": instance, "cluster__cluster_name": name, "lustre__legacy_port": legacy}
    found = [(c.finding.level, c.finding.fix) for c in world.check(**about) if c.id == "lustre.port"]
    assert [one[0] for one in found] == [level] and fix in found[0][1]
    if level == "warn":  # no rule, nothing that does not fit
        assert said(world, "lustre.port", **about, lustre__firewall=False)[0][0] == "pass"


def test_a_lustre_instance_that_is_stopped_and_not_ours_blocks(world: CheckHarness) -> None:
    assert said(world, "lustre.there", lustre__lustre_name="stopped")[0][0] == "block"


@pytest.mark.parametrize(
    ("reservation", "level", "words"),
    [
        ("res-elsewhere", "block", "It is in us-east4-b.; Set project.zone=us-east4-b"),
        ("res-future", "block", "A future reservation with that name exists in"),
        ("res-open", "block", "is CREATING, not READY"),
        ("res-ending", "warn", "will be deleted at 2026-12-24T00:00:00Z"),
        (f"projects/{P}/zones/us-east4-b/reservations/nemo-res", "block", "is in us-east4-b, but the nodes are in us-central1-b"),
    ],
)  # fmt: skip
def test_reservations_in_all_their_states(
    world: CheckHarness, reservation: str, level: str, words: str
) -> None:
    found = said(world, "quotas.reservation", quotas__reservation=reservation)
    assert any(one == level and words in text for one, text in found), found


def test_an_existing_vpc_in_custom_mode_needs_its_subnet_named(world: CheckHarness) -> None:
    about = {"networks__network": "custom", "networks__use_existing": True}
    assert "Its subnets in this region: inner" in blocking_texts(world.check(**about))["networks.there"]
    assert blocking_texts(world.check(**about, networks__subnetwork="inner")) == {}
    assert (
        "has no subnet named other"
        in blocking_texts(world.check(**about, networks__subnetwork="other"))["networks.there"]
    )
    gone = blocking_texts(world.check(networks__network="gone", networks__use_existing=True))
    assert "Network gone does not exist" in gone["networks.there"]


def test_a_subnet_in_the_way_of_ours_blocks(world: CheckHarness) -> None:
    found = blocking_texts(world.check(networks__gvnic_prefix="taken"))
    assert (
        "Subnet wide in network taken-net uses 192.168.0.0/22, which overlaps 192.168.0.0/24"
        in found["networks.ranges"]
    )


def test_an_ai_zone_is_understood_and_what_it_lacks_is_said(world: CheckHarness) -> None:
    """e05."""
    found = world.check(project__zone="us-central1-ai1a")
    assert [
        level for level, text in of(found, "project.place") if "us-central1-ai1a is an AI zone" in text
    ] == ["info"]
    assert "us-central1-ai1a is in us-central1" in of(found, "project.place")[0][1]
    assert "us-central1-ai1a-vpc-roce does not exist" in blocking_texts(found)["networks.profile"]


@pytest.mark.parametrize(
    ("region", "zone", "words"),
    [
        ("us-central1", "us-central1-q", "Zones in us-central1: us-central1-a, us-central1-"),
        ("us-centrall1", "us-centrall1-b", "Similar names: us-central1"),
    ],
)
def test_a_place_that_is_not_there_has_neighbours(
    world: CheckHarness, region: str, zone: str, words: str
) -> None:
    assert words in blocking_texts(world.check(project__region=region, project__zone=zone))["project.zone"]


def test_checkpoints_that_do_not_fit_name_the_size_that_does(world: CheckHarness) -> None:
    """18,000 GiB are 19,327 GB: five checkpoints of 3,865 GB fit, five of 3,866 do not."""
    assert blocking_texts(world.check(grpo__checkpoint_gb=3865)) == {}
    assert (
        "Set lustre.capacity_gib=36000"
        in blocking_texts(world.check(grpo__checkpoint_gb=3866))["lustre.checkpoints"]
    )


def test_candidates_are_the_clouds_own(world: CheckHarness) -> None:
    lives, given = CachedCloudReader(world.cloud()), answers()

    def listed(key: str, over: Answers = given) -> list[Suggestion]:
        name, _, field = key.partition(".")
        return suggestions(step(name).field(field), over, lives)

    assert {P, *PROJECTS} <= {one.value for one in listed("project.project_id")}
    zones = [one.value for one in listed("project.zone")]
    assert zones[0] == "us-central1-b" and "us-east4-b" in zones
    reserved = {one.value: one.title for one in listed("quotas.reservation")}
    assert reserved["nemo-res"] == "4 of 4 a4-highgpu-8g free, READY"
    assert {"custom", "taken-net"} <= {one.value for one in listed("networks.network")}
    custom = given.with_value("networks", "network", "custom")
    assert listed("networks.subnetwork", custom) == [Suggestion("inner", "10.0.0.0/20")]
    assert any(one.title == "release channel default" for one in listed("cluster.version"))
    assert listed("grpo.seed") == [] and listed("project.zone", Answers.from_values({})) == []
