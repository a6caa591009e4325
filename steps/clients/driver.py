"""The interface of every kind of resource: read, create, update, delete. The engine knows no more of a cloud."""

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
    """One resource to work on: its spec with every OutputRef resolved, the owner label, and the outputs on record."""

    resource: Resource
    spec: Mapping[str, Any]
    owner_label: str  # the deployment id to label it with; empty: no label
    deployment_id: str = ""  # set even when labels are turned off
    request_id: str = ""  # the same for every retry of one create
    recorded: Mapping[str, str] = field(default_factory=dict)
    emit: EmitNotice = lambda text: None  # shows a notice to the user

    @property
    def name(self) -> str:
        return self.resource.name

    def location(self, key: str) -> str:
        """Part of where it is: project, location, cluster, namespace …; raises KeyError for an unknown part."""
        return self.resource.parent[key]


@dataclass(frozen=True)
class Progress:
    """The state of a long-running operation. `counter` is the operation's own text, if it has one."""

    done: bool
    counter: str = ""


class Driver:
    """One kind of resource. Methods block (the engine runs them in threads) and raise CloudError.

    `create`, `update` and `delete` return the operation's name, or "" where the API answers at once.
    """

    recreate_on_failure = False  # a failed one is created again without deleting it first
    updatable: frozenset[str] = frozenset()  # spec paths, or their first parts, that can be updated in place

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        raise NotImplementedError

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        raise NotImplementedError

    def progress(self, cloud: CloudContext, context: ResourceContext, operation: str) -> Progress:
        """Poll an operation; raises CloudError when it ended with an error."""
        return Progress(True)

    def advance(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> None:
        """Called while it is being created, for kinds that need a second request (workers, once the head is ready)."""

    def update(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        raise NotImplementedError

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        raise NotImplementedError

    def owns(self, cloud: CloudContext, context: ResourceContext) -> bool:
        """Whether our own create made the existing resource: sent again, the same request id returns the first operation.

        Called only for a create whose end was never seen.
        """
        return False

    def force_delete(self, cloud: CloudContext, context: ResourceContext) -> str | None:
        """Delete by force what has long been in use; returns the operation's name, None if there is no such way."""
        return None

    def can_update(self, path: str) -> bool:
        return any(path == head or path.startswith(head + ".") for head in self.updatable)
