"""The project, its APIs and its IAM bindings."""

from __future__ import annotations

from typing import Any

from grpo_wizard.steps.clients.context import Cloud, call
from grpo_wizard.steps.clients.driver import Driver, Progress, Task
from grpo_wizard.steps.clients.errors import CloudError, outcome
from grpo_wizard.steps.clients.serialization import JSON, document
from grpo_wizard.steps.core.model import Sight

_RESOURCE_MANAGER = "google.cloud.resourcemanager_v3"
_SERVICE_USAGE = "google.cloud.service_usage_v1"
_BILLING = "google.cloud.billing_v1"


def projects(cloud: Cloud) -> Any:
    return cloud.rest("cloudresourcemanager", _RESOURCE_MANAGER, "ProjectsClient")


def service_usage(cloud: Cloud) -> Any:
    return cloud.rest("serviceusage", _SERVICE_USAGE, "ServiceUsageClient")


def billing(cloud: Cloud) -> Any:
    return cloud.rest("cloudbilling", _BILLING, "CloudBillingClient")


def fetch_project(cloud: Cloud, project: str) -> JSON | None:
    """The project as resource manager v3 returns it, None when it is not there or may not be seen."""
    try:
        return document(
            call("cloudresourcemanager", projects(cloud).get_project, request={"name": f"projects/{project}"})
        )
    except CloudError as error:
        # Google answers 403 for projects that do not exist, too: it does not tell strangers which ids are taken.
        if error.kind in ("not_found", "denied"):
            return None
        raise


def project_number(cloud: Cloud, project: str) -> str:
    """From Service Usage, which is on in every project: resource manager's API may be off where all else was made by hand."""

    def ask() -> str:
        name = f"projects/{project}/services/serviceusage.googleapis.com"
        try:
            seen = call("serviceusage", service_usage(cloud).get_service, request={"name": name})
        except CloudError as error:
            if error.kind not in ("not_found", "denied"):
                raise
            raise CloudError(
                "not_found",
                f"project {project} was not found",
                "or you may not see it",
                "choose another project",
            ) from error
        return str(seen.name).split("/")[1]

    return str(cloud.once(f"number of {project}", ask))


class ProjectDriver(Driver):
    """Made, and linked to billing. It goes only when `destroy --delete-project` names it."""

    def look(self, cloud: Cloud, task: Task) -> Sight:
        seen = fetch_project(cloud, task.name)
        if seen is None:
            return Sight()
        mark = str(seen.get("labels", {}).get("grpo-wizard", ""))
        wanted = str(task.spec["billingAccount"])
        if wanted and billing_account(cloud, task.name) != wanted and mark == task.mark:
            return Sight("creating", mark, str(seen["name"]), detail="not linked to billing yet")
        state = "ready" if seen.get("state") == "ACTIVE" else "deleting"
        return Sight(state, mark, str(seen["name"]))  # type: ignore[arg-type]

    def create(self, cloud: Cloud, task: Task) -> str:
        from google.cloud import resourcemanager_v3

        labels = {"grpo-wizard": task.mark} if task.mark else {}
        wanted = resourcemanager_v3.Project(
            project_id=task.name, display_name=task.name.rpartition(":")[2], labels=labels
        )
        started = call("cloudresourcemanager", projects(cloud).create_project, request={"project": wanted})
        return str(started.operation.name)

    def progress(self, cloud: Cloud, task: Task, operation: str) -> Progress:
        return long_running("cloudresourcemanager", projects(cloud), operation)

    def nudge(self, cloud: Cloud, task: Task, sight: Sight) -> None:
        account = f"billingAccounts/{task.spec['billingAccount']}"
        call(
            "cloudbilling",
            billing(cloud).update_project_billing_info,
            request={
                "name": f"projects/{task.name}",
                "project_billing_info": {"billing_account_name": account},
            },
        )

    def delete(self, cloud: Cloud, task: Task, sight: Sight) -> str:
        started = call(
            "cloudresourcemanager", projects(cloud).delete_project, request={"name": f"projects/{task.name}"}
        )
        return str(started.operation.name)


def billing_account(cloud: Cloud, project: str) -> str:
    """The account that pays for a project, empty when none does."""
    seen = document(
        call("cloudbilling", billing(cloud).get_project_billing_info, request={"name": f"projects/{project}"})
    )
    return (
        str(seen.get("billingAccountName", "")).removeprefix("billingAccounts/")
        if seen.get("billingEnabled")
        else ""
    )


class ApiDriver(Driver):
    """A service that is switched on in the project. It stays on at destroy: others may need it."""

    def _name(self, task: Task) -> str:
        return f"projects/{task.at('project')}/services/{task.name}"

    def look(self, cloud: Cloud, task: Task) -> Sight:
        seen = document(
            call("serviceusage", service_usage(cloud).get_service, request={"name": self._name(task)})
        )
        return Sight("ready", identity=task.name) if seen.get("state") == "ENABLED" else Sight()

    def create(self, cloud: Cloud, task: Task) -> str:
        started = call(
            "serviceusage", service_usage(cloud).enable_service, request={"name": self._name(task)}
        )
        return str(started.operation.name)

    def progress(self, cloud: Cloud, task: Task, operation: str) -> Progress:
        return long_running("serviceusage", service_usage(cloud), operation)


def long_running(service: str, client: Any, operation: str) -> Progress:
    """An AIP-151 operation of a client that has an operations client of its own."""
    if operation.endswith("DONE_OPERATION"):
        return Progress(True)  # what serviceusage answers when there was nothing to do
    seen = call(service, client.transport.operations_client.get_operation, name=operation)
    if seen.done and seen.HasField("error"):
        raise outcome(f"{service}.googleapis.com", 400, seen.error.message)
    return Progress(bool(seen.done))
