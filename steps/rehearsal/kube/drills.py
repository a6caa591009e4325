"""Drills of Kubernetes, two sorts.

By name for the whole world (`WORLD`, begun and ended in steps/rehearsal/drills.py): they last until ended, and what they broke then mends
itself as the real thing would.

For one object: an annotation `rehearsal/drill` on a pod or a node makes it fail as the real one does.

Pods: `oom`, `crash`, `evict`, `image`, `mount` (with `:CONTAINER` after oom and crash; default the first
container).
Nodes: `preempt`, `lost`, `repair`. Taking the annotation away ends a drill that repeats itself (oom,
crash, image, mount).
RayClusters: `head:DRILL` or `worker:DRILL` is handed to every pod of that sort that is made from then on.
"""

from __future__ import annotations

from grpo_wizard.steps.rehearsal.contract import JSON

ANNOTATION = "rehearsal/drill"
WORLD = {
    "lustre-mount": "no new pod can mount Lustre: the file system does not answer",
    "image-gone": "the Ray image is gone from its registry; nodes that have it keep it",
    "head-lost": "the node that carries the ready Ray head falls silent",
    "worker-preempted": "the first node with a ready worker is taken back, and the zone has no other",
    "pool-maximum": "the GPU pool may have one node less than was asked for",
}
_RUNNING: set[str] = set()


def begin(name: str) -> None:
    """Starts a drill of WORLD."""
    _RUNNING.add(name)


def end(name: str) -> None:
    _RUNNING.discard(name)


def end_all() -> None:
    _RUNNING.clear()


def runs(name: str) -> bool:
    return name in _RUNNING


def of(obj: JSON) -> str:
    """The drill's word without its argument; empty when there is none."""
    return str((obj["metadata"].get("annotations") or {}).get(ANNOTATION, "")).split(":")[0]


def container(obj: JSON) -> str:
    """Which container is meant."""
    word = str((obj["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    return word.split(":")[1] if ":" in word else str(obj["spec"]["containers"][0]["name"])


def of_group(cluster: JSON, what: str) -> str:
    """The drill that new pods of this sort (head or worker) of a RayCluster are born with."""
    word = str((cluster["metadata"].get("annotations") or {}).get(ANNOTATION, ""))
    return word.removeprefix(f"{what}:") if word.startswith(f"{what}:") else ""
