"""What every kind of resource can do: be looked at, made, changed, taken away. The engine knows nothing else of a cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core.model import ObservedState, Resource

if TYPE_CHECKING:
    from grpo_wizard.steps.clients.context import CloudContext

EmitNotice = Callable[[str], None]


@dataclass(frozen=True)
class ResourceContext:
    """One resource to work on: its spec with every Fact filled in, our mark, and what is remembered of it."""

    resource: Resource
    spec: Mapping[str, Any]
    owner_label: str  # lineage to write on it; empty: none
    deployment_id: str = ""  # whose deployment this is, marks or not
    request_id: str = ""  # the same for every try of one create
    recorded: Mapping[str, str] = field(default_factory=dict)
    emit: EmitNotice = lambda text: None  # a notice for the user

    @property
    def name(self) -> str:
        return self.resource.name

    def location(self, key: str) -> str:
        """Where it is: project, location, cluster, namespace …"""
        return self.resource.parent[key]


@dataclass(frozen=True)
class Progress:
    """A long-running operation just now. `counter` is the operation's own, where it has one."""

    done: bool
    counter: str = ""


class Driver:
    """One kind of resource. Methods are plain and blocking (the engine runs them in threads) and raise CloudError.

    `create`, `change` and `delete` return the operation's name, or "" where the API answers at once.
    """

    recreate_on_failure = False  # one that ended badly is simply made again
    updatable: frozenset[str] = frozenset()  # spec paths (or their heads) that can be changed in place

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        raise NotImplementedError

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        raise NotImplementedError

    def progress(self, cloud: CloudContext, context: ResourceContext, operation: str) -> Progress:
        """Asks after an operation; raises CloudError when it ended with an error."""
        return Progress(True)

    def advance(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> None:
        """Called while the thing is still being made; some need a hand on the way (workers are raised when the head is ready)."""

    def update(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        raise NotImplementedError

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        raise NotImplementedError

    def owns(self, cloud: CloudContext, context: ResourceContext) -> bool:
        """Whether our own create made what is there: the same request id, sent again, is answered with the first one's operation.

        Only asked where a create was begun and its end was not seen.
        """
        return False

    def force_delete(self, cloud: CloudContext, context: ResourceContext) -> str | None:
        """A harder way to delete what stays in use for long; the operation's name, None where there is none."""
        return None

    def can_update(self, path: str) -> bool:
        return any(path == head or path.startswith(head + ".") for head in self.updatable)
