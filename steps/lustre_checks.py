"""Step 5, Lustre: what must hold."""

from __future__ import annotations

import math
from collections.abc import Iterable

from . import catalogue
from .already import already, mark_of
from .step import Answers, Check, Finding, World

_GB_A_GIB = 1.073741824
_SPARE = 2  # the checkpoint being written, and the one that goes only when it is whole


def nearest_sizes(tier: int, capacity: int) -> list[int]:
    """The valid capacities next to `capacity`, below and above; only itself when it is valid. Beyond the known maximum the API decides."""
    row = catalogue.load("lustre")["tiers"][str(tier)]
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
    most = catalogue.load("lustre")["tiers"][str(tier)]["max"]
    if wanted > most:
        yield Finding(
            "warn",
            f"{wanted:,} GiB is above the tier's known maximum of {most:,}",
            f"as of {catalogue.load('lustre')['date']}; the API has the last word",
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
    mine, place = answers["lustre"], answers["project"]
    listed = world.ask("lustre_instances", project=place["project_id"], location=place["zone"])
    by_name = {str(one["name"]).rpartition("/")[2]: one for one in listed}
    found = by_name.get(mine["lustre_name"])
    if found is None:
        yield Finding("pass", f"no Lustre instance {mine['lustre_name']} is there yet")
        return
    what = f"Lustre instance {mine['lustre_name']}"
    yield from already(what, str(found.get("state")), mark_of(found), "lustre.lustre_name", answers, world)


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
)
