"""One role for one member in the project's IAM policy. Bindings are only added; existing ones are never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.steps.clients.context import CloudContext, call
from grpo_wizard.steps.clients.driver import Driver, ResourceContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.google.resource_manager import project_number, projects_client
from grpo_wizard.steps.core.model import ObservedState
from grpo_wizard.steps.gcp.naming import workload_pool

if TYPE_CHECKING:
    from google.iam.v1.policy_pb2 import Policy

_MAX_ATTEMPTS = 8


class IamBindingDriver(Driver):
    """Reads, adds and writes the policy with the etag that was read; after a concurrent write it starts over."""

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        member = self._member(cloud, context)
        held = any(
            b.role == context.spec["role"] and member in b.members and not b.condition.expression
            for b in self._policy(cloud, context).bindings
        )
        return (
            ObservedState("ready", identity=f"{context.spec['role']} {member}") if held else ObservedState()
        )

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        for attempt in range(_MAX_ATTEMPTS):
            try:
                self._add(cloud, context)
                return ""
            except CloudError as error:
                if error.status != 409 or attempt == _MAX_ATTEMPTS - 1:
                    raise
        return ""

    def _add(self, cloud: CloudContext, context: ResourceContext) -> None:
        policy, member, role = (
            self._policy(cloud, context),
            self._member(cloud, context),
            context.spec["role"],
        )
        binding = next((b for b in policy.bindings if b.role == role and not b.condition.expression), None)
        if binding is None:
            policy.bindings.add(role=role, members=[member])
        elif member not in binding.members:
            binding.members.append(member)
        policy.version = 3
        call(
            "cloudresourcemanager",
            projects_client(cloud).set_iam_policy,
            request={"resource": f"projects/{context.location('project')}", "policy": policy},
        )

    def _policy(self, cloud: CloudContext, context: ResourceContext) -> Policy:
        request = {
            "resource": f"projects/{context.location('project')}",
            "options": {"requested_policy_version": 3},
        }
        return call("cloudresourcemanager", projects_client(cloud).get_iam_policy, request=request)

    def _member(self, cloud: CloudContext, context: ResourceContext) -> str:
        """The IAM member. `principal://KSA/<namespace>/<name>` is a Kubernetes ServiceAccount; empty is the signed-in account."""
        member = str(context.spec["member"])
        if member.startswith("principal://KSA/"):
            namespace, name = member.removeprefix("principal://KSA/").split("/")
            project = context.location("project")
            return (
                f"principal://iam.googleapis.com/projects/{project_number(cloud, project)}/locations/global/workloadIdentityPools/"
                f"{workload_pool(project)}/subject/ns/{namespace}/sa/{name}"
            )
        if member:
            return member
        kind = "serviceAccount" if cloud.account.endswith("gserviceaccount.com") else "user"
        return cloud.account if cloud.account.startswith("principal") else f"{kind}:{cloud.account}"
