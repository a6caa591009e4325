"""Drills of Kubernetes, two sorts.

By name for the whole world (`runs`; begun and ended in steps/rehearsal/drills.py): they last until ended, and what they
broke then mends itself as the real thing would.

For one object: an annotation `rehearsal/drill` on a pod or a node makes it fail as the real one does.

Pods: `oom`, `crash`, `evict`, `image`, `mount` (with `:CONTAINER` after oom and crash; default the first
container).
Nodes: `preempt`, `lost`, `repair`. Taking the annotation away ends a drill that repeats itself (oom,
crash, image, mount).
RayClusters: `head:DRILL` or `worker:DRILL` is handed to every pod of that sort that is made from then on.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.drills.active import is_active
from grpo_wizard.steps.emulator.server.context import JSON

ANNOTATION = "rehearsal/drill"
__all__ = ["ANNOTATION", "drill_of", "drill_of_group", "is_active", "target_container"]


def drill_of(obj: JSON) -> str:
    """The drill's word without its argument; empty when there is none."""
    return str((obj["metadata"].get("annotations") or {}).get(ANNOTATION, "")).split(":")[0]


def target_container(obj: JSON) -> str:
    """Which container is meant."""
    word = str((obj["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    return word.split(":")[1] if ":" in word else str(obj["spec"]["containers"][0]["name"])


def drill_of_group(cluster: JSON, what: str) -> str:
    """The drill that new pods of this sort (head or worker) of a RayCluster are born with."""
    word = str((cluster["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    return word.removeprefix(f"{what}:") if word.startswith(f"{what}:") else ""
