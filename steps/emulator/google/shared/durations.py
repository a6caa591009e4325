"""How long things take in the real place, with their spread. What is not measured says so.

Seconds (shortest, usual, longest); a thing's own name decides where in the spread it falls, so that a rehearsal can be
repeated. Where somebody saw far longer, one name in twenty takes that long.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A triangular spread of seconds, and where it comes from; up to `rare` seconds now and then (0: never)."""

    low: float
    usual: float
    high: float
    source: str
    rare: float = 0.0


_RARELY = 0.05  # inferred: one report of many

_GUESS = "not measured; order of magnitude of what gcloud users see"
_AICR = "aicr issues 2764, 2065: pool about 4 min after the cluster, up to 35 min"

SPANS: dict[str, Span] = {
    "network.insert": Span(10, 20, 60, _GUESS),
    "network.patch": Span(5, 8, 15, _GUESS),
    "network.delete": Span(15, 30, 60, _GUESS),
    "subnet.insert": Span(8, 15, 30, _GUESS),
    "subnet.delete": Span(8, 15, 30, _GUESS),
    "firewall.insert": Span(4, 8, 15, _GUESS),
    "firewall.delete": Span(4, 8, 15, _GUESS),
    "address.insert": Span(2, 4, 8, _GUESS),
    "address.delete": Span(2, 4, 8, _GUESS),
    "reservation.insert": Span(2, 5, 15, _GUESS),
    "reservation.delete": Span(2, 5, 15, _GUESS),
    "cluster.create": Span(420, 547, 900, "tb-gcp issue 589: 9 min 7 s; aicr issue 2764: 26 min", 1560),
    "cluster.update": Span(30, 90, 240, _GUESS),
    "cluster.upgrade": Span(420, 900, 1800, _GUESS),
    "cluster.delete": Span(180, 240, 420, _GUESS),
    "pool.create": Span(40, 70, 120, _GUESS),
    "pool.create_nodes": Span(180, 240, 420, _AICR, 2100),
    "pool.resize": Span(120, 200, 400, _AICR),
    "pool.upgrade_node": Span(180, 300, 600, _GUESS),
    "pool.update": Span(20, 40, 90, _GUESS),
    "pool.delete": Span(60, 120, 300, _GUESS),
    "pool.stockout": Span(2040, 2105, 2160, "case a03 and cluster-toolkit PR 6278: final after 35 min 4 s"),
    "lustre.create": Span(1500, 2100, 4800, "magic-modules PR 14878: P99 is 40 to 80 min"),
    "lustre.update": Span(600, 1200, 2400, _GUESS),
    "lustre.delete": Span(300, 600, 1500, _GUESS),
    "lustre.transfer": Span(120, 300, 900, _GUESS),
}


def seconds(what: str, name: str) -> float:
    """Seconds that `what` takes for the thing called `name`: the same at every call."""
    span, chance = SPANS[what], random.Random(f"{what}:{name}")
    took = chance.triangular(span.low, span.high, span.usual)
    return chance.uniform(span.high, span.rare) if span.rare and chance.random() < _RARELY else took
