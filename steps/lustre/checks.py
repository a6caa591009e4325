"""Checks of step 5, Lustre."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.cloud_reader import CloudReader, GkeCluster, LustreInstance
from grpo_wizard.steps.core.existing import check_existing
from grpo_wizard.steps.core.model import Check, CheckFinding

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

PORT = "988"
LEGACY_PORT = "6988"  # only for instances that were created with it
_GB_PER_GIB = 1.073741824
_KEPT_CHECKPOINTS = 3  # checkpointing.keep_top_k of NeMo RL's base configuration
_EXTRA_CHECKPOINTS = 2  # the one being written, and the one that is deleted only when that is complete
_MAX_ZONES_LISTED = 8


def nearest_capacities(tier: int, capacity: int) -> list[int]:
    """The valid capacities next to `capacity`, below and above; only itself when it is valid.

    Above the known maximum the API decides.
    """
    row = catalog.load("lustre")["tiers"][str(tier)]
    step = row["step"] if capacity <= row["small_until"] else row["large_step"]
    below = max(capacity // step * step, row["min"])
    above = max(-(-capacity // step) * step, row["min"])
    return sorted({below, above})


def _capacity(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    tier, capacity = answers.lustre.per_unit_storage_throughput, answers.lustre.capacity_gib
    sizes = nearest_capacities(tier, capacity)
    if capacity not in sizes:
        nearest = " or ".join(f"{size:,}" for size in sizes)
        yield CheckFinding(
            "block",
            detail=f"{capacity:,} GiB is not a valid capacity for the {tier} MB/s tier. Nearest valid capacity: {nearest} GiB.",
            fix=f"Set lustre.capacity_gib={sizes[-1]}.",
        )
        return
    yield CheckFinding("pass", detail=f"{capacity:,} GiB is a valid capacity for the {tier} MB/s tier.")
    maximum = catalog.load("lustre")["tiers"][str(tier)]["max"]
    if capacity > maximum:
        yield CheckFinding(
            "warn",
            detail=f"{capacity:,} GiB exceeds the tier's maximum of {maximum:,} GiB as of "
            f"{catalog.load('lustre')['date']}. The API may reject it.",
        )


def _checkpoint_space(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    """The checkpoints that are kept, and those in transit."""
    size, kept = answers.grpo.checkpoint_gb, _KEPT_CHECKPOINTS + _EXTRA_CHECKPOINTS
    available = answers.lustre.capacity_gib * _GB_PER_GIB
    if not size:
        return
    if size * kept > available:
        tier, needed = answers.lustre.per_unit_storage_throughput, math.ceil(size * kept / _GB_PER_GIB)
        yield CheckFinding(
            "block",
            detail=f"{kept} checkpoints of {size:,} GB do not fit in {available:,.0f} GB: {_KEPT_CHECKPOINTS} are "
            "kept, one is being written, and one more is not deleted until writing finishes.",
            fix=f"Set lustre.capacity_gib={nearest_capacities(tier, needed)[-1]}.",
        )
    else:
        yield CheckFinding(
            "pass",
            detail=f"There is room for {int(available // size)} checkpoints of about {size:,} GB; {kept} are needed.",
        )


def _zone_has_lustre(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    zone = answers.project.zone
    zones = reader.lustre_zones(project=answers.project.project_id)
    if zones and zone not in zones:
        yield CheckFinding(
            "block",
            detail=f"Managed Lustre is not available in {zone}. It is available in {', '.join(sorted(zones)[:_MAX_ZONES_LISTED])}.",
            fix="Choose another zone.",
        )
    else:
        yield CheckFinding("pass", detail=f"Managed Lustre is available in {zone}.")


def _existing_instance(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    found = _find_instance(answers, reader)
    if found is None:
        yield CheckFinding("pass", detail=f"Lustre instance {answers.lustre.lustre_name} does not exist yet.")
        return
    yield from check_existing(
        resource=f"Lustre instance {found.name}",
        state=found.state,
        owner_label=found.owner_label,
        setting="lustre.lustre_name",
        answers=answers,
        reader=reader,
    )


def _find_instance(answers: Answers, reader: CloudReader) -> LustreInstance | None:
    project, name = answers.project, answers.lustre.lustre_name
    instances = reader.lustre_instances(project=project.project_id, location=project.zone)
    return next((instance for instance in instances if instance.name == name), None)


def _find_cluster(answers: Answers, reader: CloudReader) -> GkeCluster | None:
    project, name = answers.project, answers.cluster.cluster_name
    clusters = reader.clusters(project=project.project_id, location=project.region)
    return next((cluster for cluster in clusters if cluster.name == name), None)


def _same_port(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    """Cluster and instance must use the same port, and what exists keeps its own: hence one setting for both."""
    legacy = answers.lustre.legacy_port
    instance, cluster = _find_instance(answers, reader), _find_cluster(answers, reader)
    instance_legacy = legacy if instance is None else instance.legacy_port
    cluster_legacy = legacy if cluster is None else cluster.legacy_lustre_port
    if instance_legacy != cluster_legacy:
        yield _port_conflict(answers, instance=instance, cluster=cluster)
    elif instance_legacy != legacy and answers.lustre.firewall:
        yield CheckFinding(
            "warn",
            detail=f"The existing cluster and Lustre instance use port {_port(instance_legacy)}, which the planned "
            "firewall rule does not allow.",
            fix=_set_legacy_port(instance_legacy),
        )
    else:
        yield CheckFinding(
            "pass", detail=f"The cluster and Lustre use the same port, {_port(instance_legacy)}."
        )


def _port_conflict(
    answers: Answers, *, instance: LustreInstance | None, cluster: GkeCluster | None
) -> CheckFinding:
    """At least one of the two exists, and they would not use the same port."""
    legacy = answers.lustre.legacy_port
    instance_port = _port(instance.legacy_port if instance else legacy)
    cluster_port = _port(cluster.legacy_lustre_port if cluster else legacy)
    existing = [what for what, found in (("the instance", instance), ("the cluster", cluster)) if found]
    verb = "exist" if len(existing) > 1 else "exists"
    if instance and cluster:
        fix = _resolve_port_conflict(answers, instance.legacy_port)
    else:
        fix = _set_legacy_port(not legacy)  # the one that exists differs from the answer
    return CheckFinding(
        "block",
        detail=f"Lustre would use port {instance_port} and the cluster would use port {cluster_port}, so no pod could mount it "
        f"({' and '.join(existing)} already {verb}).",
        fix=fix,
    )


def _port(legacy: bool) -> str:
    return LEGACY_PORT if legacy else PORT


def _set_legacy_port(legacy: bool) -> str:
    return f"Set lustre.legacy_port={str(legacy).lower()}."


def _resolve_port_conflict(answers: Answers, legacy_instance: bool) -> str:
    """An instance keeps its port for good; a cluster can get the legacy port later, but not lose it."""
    if not legacy_instance:
        return "Set lustre.lustre_name or cluster.cluster_name to a different name."
    name, region = answers.cluster.cluster_name, answers.project.region
    command = f"gcloud container clusters update {name} --location={region} --enable-legacy-lustre-port"
    return f"Run {command}, or set lustre.lustre_name to a different name."


CHECKS = (
    Check(
        id="size",
        title="Lustre capacity",
        run=_capacity,
        needs=lambda a: (a.lustre.capacity_gib, a.lustre.per_unit_storage_throughput),
    ),
    Check(
        id="checkpoints",
        title="Checkpoint storage",
        run=_checkpoint_space,
        needs=lambda a: (
            a.lustre.capacity_gib,
            a.lustre.per_unit_storage_throughput,
            a.grpo.recipe,
            a.grpo.checkpoint_gb,
        ),
    ),
    Check(id="zone", title="Lustre zone", run=_zone_has_lustre, needs=lambda a: a.project.zone),
    Check(
        id="there",
        title="Existing Lustre instance",
        run=_existing_instance,
        needs=lambda a: (a.lustre.lustre_name, a.project.zone),
    ),
    Check(
        id="port",
        title="Lustre port",
        run=_same_port,
        needs=lambda a: (
            a.lustre.lustre_name,
            a.lustre.legacy_port,
            a.lustre.firewall,
            a.cluster.cluster_name,
            a.project.zone,
            a.project.region,
        ),
    ),
)
