"""One role for one member in the project's policy. Adding only; what others hold is never touched."""

from __future__ import annotations

from typing import Any

from grpo_wizard.steps.clients.context import Cloud, call
from grpo_wizard.steps.clients.driver import Driver, Task
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.google.resource_manager import project_number, projects
from grpo_wizard.steps.core.model import Sight
from grpo_wizard.steps.gcp.naming import workload_pool

_TRIES = 8


class IamBindingDriver(Driver):
    """Read, add, write with the etag that was read; somebody else's write in between means: read again."""

    def look(self, cloud: Cloud, task: Task) -> Sight:
        member = self._member(cloud, task)
        held = any(
            b.role == task.spec["role"] and member in b.members and not b.condition.expression
            for b in self._policy(cloud, task).bindings
        )
        return Sight("ready", identity=f"{task.spec['role']} {member}") if held else Sight()

    def create(self, cloud: Cloud, task: Task) -> str:
        for attempt in range(_TRIES):
            try:
                self._add(cloud, task)
                return ""
            except CloudError as error:
                if error.status != 409 or attempt == _TRIES - 1:
                    raise
        return ""

    def _add(self, cloud: Cloud, task: Task) -> None:
        policy, member, role = self._policy(cloud, task), self._member(cloud, task), task.spec["role"]
        binding = next((b for b in policy.bindings if b.role == role and not b.condition.expression), None)
        if binding is None:
            policy.bindings.add(role=role, members=[member])
        elif member not in binding.members:
            binding.members.append(member)
        policy.version = 3
        call(
            "cloudresourcemanager",
            projects(cloud).set_iam_policy,
            request={"resource": f"projects/{task.at('project')}", "policy": policy},
        )

    def _policy(self, cloud: Cloud, task: Task) -> Any:
        request = {"resource": f"projects/{task.at('project')}", "options": {"requested_policy_version": 3}}
        return call("cloudresourcemanager", projects(cloud).get_iam_policy, request=request)

    def _member(self, cloud: Cloud, task: Task) -> str:
        """`principal://KSA/<namespace>/<name>` stands for a Kubernetes ServiceAccount; empty for who is signed in."""
        member = str(task.spec["member"])
        if member.startswith("principal://KSA/"):
            namespace, name = member.removeprefix("principal://KSA/").split("/")
            project = task.at("project")
            return (
                f"principal://iam.googleapis.com/projects/{project_number(cloud, project)}/locations/global/workloadIdentityPools/"
                f"{workload_pool(project)}/subject/ns/{namespace}/sa/{name}"
            )
        if member:
            return member
        kind = "serviceAccount" if cloud.identity.endswith("gserviceaccount.com") else "user"
        return cloud.identity if cloud.identity.startswith("principal") else f"{kind}:{cloud.identity}"
