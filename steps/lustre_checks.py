"""Step 5, Lustre: what must hold."""

from __future__ import annotations

from collections.abc import Iterable

from . import catalogue
from .step import Answers, Check, Finding, World


def nearest_sizes(tier: int, capacity: int) -> list[int]:
    """The valid capacities next to `capacity`, below and above; only itself when it is valid. Beyond the known maximum the API decides."""
    row = catalogue.load("lustre")["tiers"][str(tier)]
    step = row["step"] if capacity <= row["small_until"] else row["large_step"]
    below = max(capacity // step * step, row["min"])
    above = max(-(-capacity // step) * step, row["min"])
    return sorted({below, above})


def _size(answers: Answers, world: World) -> Iterable[Finding]:
    mine = answers["lustre"]
    sizes = nearest_sizes(mine["per_unit_storage_throughput"], mine["capacity_gib"])
    if mine["capacity_gib"] in sizes:
        yield Finding(
            "pass",
            f"{mine['capacity_gib']:,} GiB is a size of the {mine['per_unit_storage_throughput']} MB/s tier",
        )
    else:
        listed = " or ".join(f"{size:,}" for size in sizes)
        yield Finding(
            "block",
            f"{mine['capacity_gib']:,} GiB is no size of the {mine['per_unit_storage_throughput']} MB/s tier",
            f"the nearest are {listed}",
            f"set lustre.capacity_gib={sizes[-1]}",
        )


def _checkpoints_fit(answers: Answers, world: World) -> Iterable[Finding]:
    size = answers["grpo"]["checkpoint_gb"]
    kept, room = 3 + 2, answers["lustre"]["capacity_gib"] * 1.0737
    if not size:
        return
    if size * kept > room:
        yield Finding(
            "warn",
            f"{kept} checkpoints of {size} GB do not fit",
            f"{room:,.0f} GB in all",
            "raise lustre.capacity_gib",
        )
    else:
        yield Finding("pass", f"room for {int(room // size)} checkpoints of about {size} GB")


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


CHECKS = (
    Check("size", "Lustre size", _size, ("lustre.capacity_gib", "lustre.per_unit_storage_throughput")),
    Check("checkpoints", "Checkpoints fit", _checkpoints_fit, ("lustre.capacity_gib", "grpo.recipe")),
    Check("zone", "The zone has Lustre", _zone_has_lustre, ("project.zone",)),
)
