"""Step 5, Lustre: what must hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.existing import check_existing, owner_label_of
from grpo_wizard.steps.core.model import Check, CheckFinding, CloudReader

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

PORT, LEGACY_PORT = (
    "988",
    "6988",
)  # google-cloud.md §3.1: the legacy one only where an instance was made with it
_GB_PER_GIB = 1.073741824
_KEPT_CHECKPOINTS = 3  # checkpointing.keep_top_k of NeMo RL's base configuration
_EXTRA_CHECKPOINTS = 2  # the checkpoint being written, and the one that goes only when it is whole


def nearest_capacities(tier: int, capacity: int) -> list[int]:
    """The valid capacities next to `capacity`, below and above; only itself when it is valid. Beyond the known maximum the API decides."""
    row = catalog.load("lustre")["tiers"][str(tier)]
    step = row["step"] if capacity <= row["small_until"] else row["large_step"]
    below = max(capacity // step * step, row["min"])
    above = max(-(-capacity // step) * step, row["min"])
    return sorted({below, above})


def _capacity(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    mine = answers.lustre
    tier, wanted = mine.per_unit_storage_throughput, mine.capacity_gib
    sizes = nearest_capacities(tier, wanted)
    if wanted not in sizes:
        listed = " or ".join(f"{size:,}" for size in sizes)
        yield CheckFinding(
            "block",
            f"{wanted:,} GiB is no size of the {tier} MB/s tier",
            f"the nearest {'are' if len(sizes) > 1 else 'is'} {listed}",
            f"set lustre.capacity_gib={sizes[-1]}",
        )
        return
    yield CheckFinding("pass", f"{wanted:,} GiB is a size of the {tier} MB/s tier")
    most = catalog.load("lustre")["tiers"][str(tier)]["max"]
    if wanted > most:
        yield CheckFinding(
            "warn",
            f"{wanted:,} GiB is above the tier's known maximum of {most:,}",
            f"as of {catalog.load('lustre')['date']}; the API has the last word",
        )


def _checkpoint_space(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    """What is kept, and two more on the way."""
    job, mine = answers.grpo, answers.lustre
    size, kept = float(job.checkpoint_gb or 0), _KEPT_CHECKPOINTS + _EXTRA_CHECKPOINTS
    room = mine.capacity_gib * _GB_PER_GIB
    if not size:
        return
    if size * kept > room:
        enough = nearest_capacities(mine.per_unit_storage_throughput, math.ceil(size * kept / _GB_PER_GIB))[
            -1
        ]
        yield CheckFinding(
            "block",
            f"{kept} checkpoints of {size:,.0f} GB do not fit into {room:,.0f} GB",
            f"{kept - _EXTRA_CHECKPOINTS} are kept, one is being written, one goes only then",
            f"set lustre.capacity_gib={enough}",
        )
    else:
        yield CheckFinding(
            "pass", f"room for {int(room // size)} checkpoints of about {size:,.0f} GB, {kept} are needed"
        )


def _zone_has_lustre(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    zone = answers.project.zone
    zones = world.ask("lustre_zones", project=answers.project.project_id)
    if zones and zone not in zones:
        yield CheckFinding(
            "block",
            f"Managed Lustre is not offered in {zone}",
            f"it is in {', '.join(sorted(zones)[:8])}",
            "choose another zone",
        )
    else:
        yield CheckFinding("pass", f"Managed Lustre is offered in {zone}")


def _existing_instance(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    mine, found = answers.lustre, _find_instance(answers, world)
    if found is None:
        yield CheckFinding("pass", f"no Lustre instance {mine.lustre_name} is there yet")
        return
    what = f"Lustre instance {mine.lustre_name}"
    yield from check_existing(
        what, str(found.get("state")), owner_label_of(found), "lustre.lustre_name", answers, world
    )


def _find_instance(answers: Answers, world: CloudReader) -> Mapping[str, Any] | None:
    """The instance of the wanted name, as the API lists it."""
    place, name = answers.project, answers.lustre.lustre_name
    listed = world.ask("lustre_instances", project=place.project_id, location=place.zone)
    return next((one for one in listed if str(one["name"]).rpartition("/")[2] == name), None)


def _same_port(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    """What is there already keeps its port, which both need: one switch for both, never one alone (tutorial-defects 12)."""
    wanted, name = bool(answers.lustre.legacy_port), answers.cluster.cluster_name
    place, instance = answers.project, _find_instance(answers, world)
    clusters = world.ask("clusters", project=place.project_id, location=place.region)
    cluster = next((one for one in clusters if one["name"] == name), None)
    of_instance = wanted if instance is None else bool(instance.get("gkeSupportEnabled"))
    csi = (cluster or {}).get("addonsConfig", {}).get("lustreCsiDriverConfig", {})
    of_cluster = wanted if cluster is None else bool(csi.get("enableLegacyLustrePort"))
    if of_instance != of_cluster:
        there = {"the instance": instance, "the cluster": cluster}
        yield CheckFinding(
            "block",
            f"Lustre on port {_port(of_instance)}, the cluster on {_port(of_cluster)}: no pod could mount it",
            "; ".join(f"{what} is there already" for what, one in there.items() if one),
            _resolve_port_conflict(answers, of_instance)
            if instance and cluster
            else _set_legacy_port(of_instance if instance else of_cluster),
        )
    elif of_instance != wanted and answers.lustre.firewall:
        yield CheckFinding(
            "warn",
            f"what is there speaks on port {_port(of_instance)}, which the firewall rule would not admit",
            "cluster and Lustre instance are there already and agree with each other",
            _set_legacy_port(of_instance),
        )
    else:
        yield CheckFinding("pass", f"cluster and Lustre both speak on port {_port(of_instance)}")


def _port(legacy: bool) -> str:
    return LEGACY_PORT if legacy else PORT


def _set_legacy_port(legacy: bool) -> str:
    return f"set lustre.legacy_port={str(legacy).lower()}"


def _resolve_port_conflict(answers: Answers, legacy_instance: bool) -> str:
    """An instance keeps its port for good; a cluster can be given the legacy port later, but not lose it."""
    if not legacy_instance:
        return "set lustre.lustre_name or cluster.cluster_name to another name"
    name, region = answers.cluster.cluster_name, answers.project.region
    command = f"gcloud container clusters update {name} --location={region} --enable-legacy-lustre-port"
    return f"{command}, or set lustre.lustre_name to another name"


CHECKS = (
    Check("size", "Lustre size", _capacity, ("lustre.capacity_gib", "lustre.per_unit_storage_throughput")),
    Check(
        "checkpoints",
        "Checkpoints fit",
        _checkpoint_space,
        ("lustre.capacity_gib", "lustre.per_unit_storage_throughput", "grpo.recipe", "grpo.keep_top_k"),
    ),
    Check("zone", "The zone has Lustre", _zone_has_lustre, ("project.zone",)),
    Check("there", "An instance of that name", _existing_instance, ("lustre.lustre_name", "project.zone")),
    Check(
        "port",
        "Cluster and Lustre speak on one port",
        _same_port,
        (
            "lustre.lustre_name",
            "lustre.legacy_port",
            "cluster.cluster_name",
            "project.zone",
            "project.region",
        ),
    ),
)
