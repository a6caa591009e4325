"""How resources, prices and plans are named in one line, for every front end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def format_hourly_price(known: float, unknown: int = 0) -> str:
    """Format a price per hour. Resources without a known price are counted, never estimated."""
    return f"{known:.2f} USD/h" + (f" + {count_unpriced(unknown)}" if unknown else "")


def count_unpriced(count: int) -> str:
    """`1 resource with no known price`"""
    return f"{count} {'resource' if count == 1 else 'resources'} with no known price"


def resource_label(id: str) -> str:
    """Return `node pool gpu-pool` for `cluster.node_pool.gpu-pool`."""
    kind, _dot, name = id.partition(".")[2].partition(".")
    return f"{kind.replace('_', ' ')} {name}".strip()


def format_plan_counts(rows: Iterable[Mapping[str, object]]) -> str:
    """Return `48 to delete, 1 absent, 9 to keep` for the rows of a plan."""
    counts: dict[str, int] = {}
    for row in rows:
        absent = row["action"] == "delete" and row.get("state") == "absent"
        label = "absent" if absent else f"to {row['action']}"
        counts[label] = counts.get(label, 0) + 1
    ordered = sorted(counts, key=["to keep", "absent"].__contains__)
    return ", ".join(f"{counts[label]} {label}" for label in ordered) or "nothing"
