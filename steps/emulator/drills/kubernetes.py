"""Kubernetes drills, of two sorts.

Drills by name affect the whole emulator (`is_active`; manager.py starts and ends them). When one ends, what
it broke recovers as the real system would.

An annotation `rehearsal/drill` on one pod or node makes that object fail. Pods: `oom`, `crash`, `evict`,
`image`, `mount` (with `:CONTAINER` after oom and crash; default: the first container). Nodes: `preempt`,
`lost`, `repair`. Removing the annotation ends a drill that repeats itself (oom, crash, image, mount). On
RayClusters, `head:DRILL` or `worker:DRILL` is passed on to every pod of that type created afterwards.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON
from grpo_wizard.steps.emulator.drills.active import is_active

ANNOTATION = "rehearsal/drill"
__all__ = ["ANNOTATION", "drill_of", "drill_of_group", "is_active", "target_container"]


def drill_of(obj: JSON) -> str:
    """Return the drill's name without its argument; empty where the object has none."""
    return str((obj["metadata"].get("annotations") or {}).get(ANNOTATION, "")).split(":")[0]


def target_container(obj: JSON) -> str:
    """Return the container that a drill affects."""
    word = str((obj["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    return word.split(":")[1] if ":" in word else str(obj["spec"]["containers"][0]["name"])


def drill_of_group(cluster: JSON, what: str) -> str:
    """Return the drill that a RayCluster passes on to new pods of this type (head or worker)."""
    word = str((cluster["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    return word.removeprefix(f"{what}:") if word.startswith(f"{what}:") else ""
