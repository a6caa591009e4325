"""Step 5, Lustre: what must hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.existing import already, mark_of
from grpo_wizard.steps.core.model import Answers, Check, Finding, World

PORT, LEGACY_PORT = (
    "988",
    "6988",
)  # google-cloud.md §3.1: the legacy one only where an instance was made with it
_GB_A_GIB = 1.073741824
_SPARE = 2  # the checkpoint being written, and the one that goes only when it is whole


def nearest_sizes(tier: int, capacity: int) -> list[int]:
    """The valid capacities next to `capacity`, below and above; only itself when it is valid. Beyond the known maximum the API decides."""
    row = catalog.load("lustre")["tiers"][str(tier)]
    step = row["step"] if capacity <= row["small_until"] else row["large_step"]
    below = max(capacity // step * step, row["min"])
    above = max(-(-capacity // step) * step, row["min"])
    return sorted({below, above})


def _size(answers: Answers, world: World) -> Iterable[Finding]:
    mine = answers["lustre"]
    tier, wanted = mine["per_unit_storage_throughput"], mine["capacity_gib"]
    sizes = nearest_sizes(tier, wanted)
    if wanted not in sizes:
        listed = " or ".join(f"{size:,}" for size in sizes)
        yield Finding(
            "block",
            f"{wanted:,} GiB is no size of the {tier} MB/s tier",
            f"the nearest {'are' if len(sizes) > 1 else 'is'} {listed}",
            f"set lustre.capacity_gib={sizes[-1]}",
        )
        return
    yield Finding("pass", f"{wanted:,} GiB is a size of the {tier} MB/s tier")
    most = catalog.load("lustre")["tiers"][str(tier)]["max"]
    if wanted > most:
        yield Finding(
            "warn",
            f"{wanted:,} GiB is above the tier's known maximum of {most:,}",
            f"as of {catalog.load('lustre')['date']}; the API has the last word",
        )


def _checkpoints_fit(answers: Answers, world: World) -> Iterable[Finding]:
    """What is kept, and two more on the way."""
    job, mine = answers["grpo"], answers["lustre"]
    size, kept = float(job["checkpoint_gb"] or 0), int(job.get("keep_top_k", 3) or 3) + _SPARE
    room = mine["capacity_gib"] * _GB_A_GIB
    if not size:
        return
    if size * kept > room:
        enough = nearest_sizes(mine["per_unit_storage_throughput"], math.ceil(size * kept / _GB_A_GIB))[-1]
        yield Finding(
            "block",
            f"{kept} checkpoints of {size:,.0f} GB do not fit into {room:,.0f} GB",
            f"{kept - _SPARE} are kept, one is being written, one goes only then",
            f"set lustre.capacity_gib={enough}",
        )
    else:
        yield Finding(
            "pass", f"room for {int(room // size)} checkpoints of about {size:,.0f} GB, {kept} are needed"
        )


def _zone_has_lustre(answers: Answers, world: World) -> Iterable[Finding]:
    zone = answers["project"]["zone"]
    zones = world.ask("lustre_zones", project=answers["project"]["project_id"])
    if zones and zone not in zones:
        yield Finding(
            "block",
            f"Managed Lustre is not offered in {zone}",
            f"it is in {', '.join(sorted(zones)[:8])}",
            "choose another zone",
        )
    else:
        yield Finding("pass", f"Managed Lustre is offered in {zone}")


def _there_already(answers: Answers, world: World) -> Iterable[Finding]:
    mine, found = answers["lustre"], _instance(answers, world)
    if found is None:
        yield Finding("pass", f"no Lustre instance {mine['lustre_name']} is there yet")
        return
    what = f"Lustre instance {mine['lustre_name']}"
    yield from already(what, str(found.get("state")), mark_of(found), "lustre.lustre_name", answers, world)


def _instance(answers: Answers, world: World) -> Mapping[str, Any] | None:
    """The instance of the wanted name, as the API lists it."""
    place, name = answers["project"], answers["lustre"]["lustre_name"]
    listed = world.ask("lustre_instances", project=place["project_id"], location=place["zone"])
    return next((one for one in listed if str(one["name"]).rpartition("/")[2] == name), None)


def _one_port(answers: Answers, world: World) -> Iterable[Finding]:
    """What is there already keeps its port, which both need: one switch for both, never one alone (tutorial-defects 12)."""
    wanted, name = bool(answers["lustre"]["legacy_port"]), answers["cluster"]["cluster_name"]
    place, instance = answers["project"], _instance(answers, world)
    clusters = world.ask("clusters", project=place["project_id"], location=place["region"])
    cluster = next((one for one in clusters if one["name"] == name), None)
    of_instance = wanted if instance is None else bool(instance.get("gkeSupportEnabled"))
    csi = (cluster or {}).get("addonsConfig", {}).get("lustreCsiDriverConfig", {})
    of_cluster = wanted if cluster is None else bool(csi.get("enableLegacyLustrePort"))
    if of_instance != of_cluster:
        there = {"the instance": instance, "the cluster": cluster}
        yield Finding(
            "block",
            f"Lustre on port {_port(of_instance)}, the cluster on {_port(of_cluster)}: no pod could mount it",
            "; ".join(f"{what} is there already" for what, one in there.items() if one),
            _both(answers, of_instance)
            if instance and cluster
            else _switch(of_instance if instance else of_cluster),
        )
    elif of_instance != wanted and answers["lustre"]["firewall"]:
        yield Finding(
            "warn",
            f"what is there speaks on port {_port(of_instance)}, which the firewall rule would not admit",
            "cluster and Lustre instance are there already and agree with each other",
            _switch(of_instance),
        )
    else:
        yield Finding("pass", f"cluster and Lustre both speak on port {_port(of_instance)}")


def _port(legacy: bool) -> str:
    return LEGACY_PORT if legacy else PORT


def _switch(legacy: bool) -> str:
    return f"set lustre.legacy_port={str(legacy).lower()}"


def _both(answers: Answers, legacy_instance: bool) -> str:
    """An instance keeps its port for good; a cluster can be given the legacy port later, but not lose it."""
    if not legacy_instance:
        return "set lustre.lustre_name or cluster.cluster_name to another name"
    name, region = answers["cluster"]["cluster_name"], answers["project"]["region"]
    command = f"gcloud container clusters update {name} --location={region} --enable-legacy-lustre-port"
    return f"{command}, or set lustre.lustre_name to another name"


CHECKS = (
    Check("size", "Lustre size", _size, ("lustre.capacity_gib", "lustre.per_unit_storage_throughput")),
    Check(
        "checkpoints",
        "Checkpoints fit",
        _checkpoints_fit,
        ("lustre.capacity_gib", "lustre.per_unit_storage_throughput", "grpo.recipe", "grpo.keep_top_k"),
    ),
    Check("zone", "The zone has Lustre", _zone_has_lustre, ("project.zone",)),
    Check("there", "An instance of that name", _there_already, ("lustre.lustre_name", "project.zone")),
    Check(
        "port",
        "Cluster and Lustre speak on one port",
        _one_port,
        (
            "lustre.lustre_name",
            "lustre.legacy_port",
            "cluster.cluster_name",
            "project.zone",
            "project.region",
        ),
    ),
)
