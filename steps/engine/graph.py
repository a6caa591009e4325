"""The dependency graph of resources: the order in which they can be created, and what a kept resource depends on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from grpo_wizard.steps.core.model import Resource


def topological_order(resources: Sequence[Resource]) -> list[Resource]:
    """Sort resources so that each follows what it depends on. Raises ValueError for a cycle or an unknown id."""
    by_id = {resource.id: resource for resource in resources}
    ordered: dict[str, Resource] = {}

    def add(resource: Resource, dependents: tuple[str, ...]) -> None:
        if resource.id in dependents:
            raise ValueError(" -> ".join((*dependents, resource.id)))
        if resource.id not in ordered:
            for need in resource.depends_on:
                if need not in by_id:
                    raise ValueError(f"{resource.id} depends on {need}, which does not exist")
                add(by_id[need], (*dependents, resource.id))
            ordered[resource.id] = resource

    for resource in resources:
        add(resource, ())
    return list(ordered.values())


def retained_ids(resources: Sequence[Resource], steps: Collection[str]) -> set[str]:
    """The ids that `destroy --keep STEP` keeps: the Google resources of these steps, and all that they depend on."""
    by_id = {resource.id: resource for resource in resources}
    waiting = [r.id for r in resources if r.step in steps and "cluster" not in r.parent]
    found: set[str] = set()
    while waiting:
        id = waiting.pop()
        if id in by_id and id not in found:
            found.add(id)
            waiting += by_id[id].depends_on
    return found
