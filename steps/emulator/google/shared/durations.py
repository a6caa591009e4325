"""How long operations take at Google, with their spread and source.

Seconds (minimum, typical, maximum). The resource's name selects the value within the spread, so that a
rehearsal is reproducible. Where far longer times were reported, one name in twenty takes that long.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class DurationRange:
    """A triangular distribution of seconds with its source; occasionally up to `rare_max` seconds (0: never)."""

    low: float
    typical: float
    high: float
    source: str
    rare_max: float = 0.0


_RARE_PROBABILITY = 0.05  # inferred from a single report

_NOT_MEASURED = "not measured; order of magnitude of what gcloud users see"
_AICR = "aicr issues 2764, 2065: pool about 4 min after the cluster, up to 35 min"

DURATIONS: dict[str, DurationRange] = {
    "network.insert": DurationRange(10, 20, 60, _NOT_MEASURED),
    "network.patch": DurationRange(5, 8, 15, _NOT_MEASURED),
    "network.delete": DurationRange(15, 30, 60, _NOT_MEASURED),
    "subnet.insert": DurationRange(8, 15, 30, _NOT_MEASURED),
    "subnet.delete": DurationRange(8, 15, 30, _NOT_MEASURED),
    "firewall.insert": DurationRange(4, 8, 15, _NOT_MEASURED),
    "firewall.delete": DurationRange(4, 8, 15, _NOT_MEASURED),
    "address.insert": DurationRange(2, 4, 8, _NOT_MEASURED),
    "address.delete": DurationRange(2, 4, 8, _NOT_MEASURED),
    "reservation.insert": DurationRange(2, 5, 15, _NOT_MEASURED),
    "reservation.delete": DurationRange(2, 5, 15, _NOT_MEASURED),
    "cluster.create": DurationRange(
        420, 547, 900, "tb-gcp issue 589: 9 min 7 s; aicr issue 2764: 26 min", 1560
    ),
    "cluster.update": DurationRange(30, 90, 240, _NOT_MEASURED),
    "cluster.upgrade": DurationRange(420, 900, 1800, _NOT_MEASURED),
    "cluster.delete": DurationRange(180, 240, 420, _NOT_MEASURED),
    "pool.create": DurationRange(40, 70, 120, _NOT_MEASURED),
    "pool.create_nodes": DurationRange(180, 240, 420, _AICR, 2100),
    "pool.resize": DurationRange(120, 200, 400, _AICR),
    "pool.upgrade_node": DurationRange(180, 300, 600, _NOT_MEASURED),
    "pool.update": DurationRange(20, 40, 90, _NOT_MEASURED),
    "pool.delete": DurationRange(60, 120, 300, _NOT_MEASURED),
    "pool.stockout": DurationRange(
        2040, 2105, 2160, "akka/akka-core issue 32992 and cluster-toolkit PR 6278: fails after 35 min 4 s"
    ),
    "lustre.create": DurationRange(1500, 2100, 4800, "magic-modules PR 14878: P99 is 40 to 80 min"),
    "lustre.update": DurationRange(600, 1200, 2400, _NOT_MEASURED),
    "lustre.delete": DurationRange(300, 600, 1500, _NOT_MEASURED),
    "lustre.transfer": DurationRange(120, 300, 900, _NOT_MEASURED),
}


def sample_seconds(what: str, name: str) -> float:
    """Return the duration of `what` for the resource `name`: the same at every call."""
    span, chance = DURATIONS[what], random.Random(f"{what}:{name}")
    took = chance.triangular(span.low, span.high, span.typical)
    return (
        chance.uniform(span.high, span.rare_max)
        if span.rare_max and chance.random() < _RARE_PROBABILITY
        else took
    )
