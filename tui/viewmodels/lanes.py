"""Grouping of resources into lanes of the Run screen: eleven lanes instead of fifty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from grpo_wizard.steps.clients.registry import KINDS
from grpo_wizard.tui.style.i18n import _


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class LaneGroup:
    """A lane.

    `short_title`: what other lanes call it; `plural_title`: its title with `{n}` resources; `singular_title`: its
    title with a single resource, with `{name}`.
    """

    key: str
    short_title: str
    plural_title: str
    singular_title: str

    def title(self, resources: Sequence[_HasId]) -> str:
        """Title with the name of a single resource, or with the number of several."""
        if len(resources) == 1:
            return self.singular_title.format(name=resources[0].id.split(".", 2)[2])
        return self.plural_title.format(n=len(resources))


# Kinds without a lane of their own (clients/registry.py) share that of their step.
_LANE_BY_STEP = {
    "project": "project",
    "networks": "networks",
    "lustre": "peering",
    "cluster": "devices",
    "raycluster": "access",
    "grpo": "job",
}


@cache
def lane_groups() -> tuple[LaneGroup, ...]:
    """All lanes, in the usual order of creation."""
    return (
        LaneGroup("project", _("project"), _("{n} APIs and roles"), "{name}"),
        LaneGroup("networks", _("networks"), _("{n} network resources"), "{name}"),
        LaneGroup("peering", _("peering"), _("address range and peering"), "{name}"),
        LaneGroup("lustre", "Lustre", _("{n} Lustre instances"), "Lustre {name}"),
        LaneGroup("cluster", _("cluster"), _("{n} clusters"), _("cluster {name}")),
        LaneGroup("pool", _("GPU pool"), _("{n} node pools"), _("GPU pool {name}")),
        LaneGroup("devices", _("device networks"), _("{n} device network resources"), "{name}"),
        LaneGroup("volume", "PVC", _("PV and PVC"), "{name}"),
        LaneGroup("access", "Secret", _("{n} Secrets, roles and policies"), "{name}"),
        LaneGroup("raycluster", "RayCluster", "RayCluster", "RayCluster {name}"),
        LaneGroup("job", _("job"), _("GRPO jobs"), _("GRPO job {name}")),
    )


def lane_key(id: str) -> str:
    """The key of the lane of a resource, by its id."""
    step, _dot, rest = id.partition(".")
    kind = rest.partition(".")[0]
    own = KINDS[kind].lane if kind in KINDS else ""
    return own or _LANE_BY_STEP.get(step, "project")
