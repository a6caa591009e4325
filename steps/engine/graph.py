"""The dependency graph of resources: the order in which they can be created, and what a kept resource depends on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from grpo_wizard.steps.core.model import Resource


def topological_order(resources: Sequence[Resource]) -> list[Resource]:
    """So that everything stands behind what it needs. Raises ValueError for a circle or for a need that is nowhere."""
    by_id = {resource.id: resource for resource in resources}
    placed: dict[str, Resource] = {}

    def place(resource: Resource, above: tuple[str, ...]) -> None:
        if resource.id in above:
            raise ValueError(" -> ".join((*above, resource.id)))
        if resource.id not in placed:
            for need in resource.depends_on:
                if need not in by_id:
                    raise ValueError(f"{resource.id} needs {need}, which is no resource")
                place(by_id[need], (*above, resource.id))
            placed[resource.id] = resource

    for resource in resources:
        place(resource, ())
    return list(placed.values())


def retained_ids(resources: Sequence[Resource], steps: Collection[str]) -> set[str]:
    """What `destroy --keep STEP` leaves: the Google resources of these steps, and all that they need."""
    by_id = {resource.id: resource for resource in resources}
    waiting = [r.id for r in resources if r.step in steps and "cluster" not in r.parent]
    found: set[str] = set()
    while waiting:
        id = waiting.pop()
        if id in by_id and id not in found:
            found.add(id)
            waiting += by_id[id].depends_on
    return found
