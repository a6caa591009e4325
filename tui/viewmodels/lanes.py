"""Which things share a lane on the Run screen: fifty lanes would say less than eleven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from grpo_wizard.tui.style.i18n import _


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Group:
    """`short` is how other lanes speak of it; `single` names a lane that holds one thing, with `{name}`."""

    key: str
    short: str
    several: str
    single: str

    def title(self, things: Sequence[_HasId]) -> str:
        """With the name where there is one thing, else with their number."""
        if len(things) == 1:
            return self.single.format(name=things[0].id.split(".", 2)[2])
        return self.several.format(n=len(things))


# step.kind -> lane; a kind that is not named here goes with its step.
_PLACED = {
    "lustre.address": "peering",
    "lustre.peering": "peering",
    "lustre.firewall": "peering",
    "lustre.lustre": "lustre",
    "lustre.pv": "volume",
    "lustre.pvc": "volume",
    "cluster.cluster": "cluster",
    "cluster.node_pool": "pool",
    "raycluster.raycluster": "raycluster",
}
_BY_STEP = {
    "project": "project",
    "networks": "networks",
    "lustre": "peering",
    "cluster": "devices",
    "raycluster": "access",
    "grpo": "job",
}


@cache
def groups() -> tuple[Group, ...]:
    """All lanes, in the order in which they usually come."""
    return (
        Group("project", _("project"), _("{n} APIs and roles"), "{name}"),
        Group("networks", _("networks"), _("{n} networks, subnets, firewall"), "{name}"),
        Group("peering", _("peering"), _("address range, peering"), "{name}"),
        Group("lustre", "Lustre", _("{n} Lustre instances"), "Lustre {name}"),
        Group("cluster", _("cluster"), _("{n} clusters"), _("cluster {name}")),
        Group("pool", _("GPU pool"), _("{n} node pools"), _("GPU pool {name}")),
        Group("devices", _("device networks"), _("{n} device networks, RDMA"), "{name}"),
        Group("volume", "PVC", _("PV, PVC"), "{name}"),
        Group("access", "Secret", _("Secret, roles, policy: {n}"), "{name}"),
        Group("raycluster", "RayCluster", "RayCluster", "RayCluster {name}"),
        Group("job", _("job"), _("GRPO jobs"), _("GRPO job {name}")),
    )


def group_of(id: str) -> str:
    """The lane of a resource."""
    step, _dot, rest = id.partition(".")
    kind = rest.partition(".")[0]
    return _PLACED.get(f"{step}.{kind}") or _BY_STEP.get(step, "project")
