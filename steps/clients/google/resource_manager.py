"""The project and its APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.steps.clients.context import CloudContext, call
from grpo_wizard.steps.clients.driver import Driver, Progress, ResourceContext
from grpo_wizard.steps.clients.errors import CloudError, operation_error
from grpo_wizard.steps.clients.serialization import JSON, to_json
from grpo_wizard.steps.core.model import ObservedState

if TYPE_CHECKING:
    from google.cloud.billing_v1 import CloudBillingClient
    from google.cloud.lustre_v1 import LustreClient
    from google.cloud.resourcemanager_v3 import ProjectsClient
    from google.cloud.service_usage_v1 import ServiceUsageClient

_RESOURCE_MANAGER = "google.cloud.resourcemanager_v3"
_SERVICE_USAGE = "google.cloud.service_usage_v1"
_BILLING = "google.cloud.billing_v1"


def projects_client(cloud: CloudContext) -> ProjectsClient:
    return cloud.rest_client("cloudresourcemanager", _RESOURCE_MANAGER, "ProjectsClient")


def service_usage_client(cloud: CloudContext) -> ServiceUsageClient:
    return cloud.rest_client("serviceusage", _SERVICE_USAGE, "ServiceUsageClient")


def billing_client(cloud: CloudContext) -> CloudBillingClient:
    return cloud.rest_client("cloudbilling", _BILLING, "CloudBillingClient")


def fetch_project(cloud: CloudContext, project: str) -> JSON | None:
    """The project as Resource Manager v3 returns it, None if it does not exist or cannot be read."""
    try:
        return to_json(
            call(
                "cloudresourcemanager",
                projects_client(cloud).get_project,
                request={"name": f"projects/{project}"},
            )
        )
    except CloudError as error:
        # Google also answers 403 for projects that do not exist, so that project IDs cannot be probed.
        if error.kind in ("not_found", "denied"):
            return None
        raise


def project_number(cloud: CloudContext, project: str) -> str:
    """The project's number, from Service Usage: it is enabled in every project, the Resource Manager API may not be."""

    def ask() -> str:
        name = f"projects/{project}/services/serviceusage.googleapis.com"
        try:
            service = call("serviceusage", service_usage_client(cloud).get_service, request={"name": name})
        except CloudError as error:
            if error.kind not in ("not_found", "denied"):
                raise
            raise CloudError(
                "not_found",
                f"Project {project} was not found",
                "It does not exist, or you do not have access to it.",
                "Choose another project.",
            ) from error
        return str(service.name).split("/")[1]

    return str(cloud.singleton(f"number of {project}", ask))


class ProjectDriver(Driver):
    """Created and linked to a billing account. Deleted only by `destroy --delete-project`."""

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        project = fetch_project(cloud, context.name)
        if project is None:
            return ObservedState()
        owner = str(project.get("labels", {}).get("grpo-wizard", ""))
        wanted = str(context.spec["billingAccount"])
        if wanted and billing_account(cloud, context.name) != wanted and owner == context.owner_label:
            return ObservedState(
                "creating", owner, str(project["name"]), detail="not linked to a billing account yet"
            )
        state = "ready" if project.get("state") == "ACTIVE" else "deleting"
        return ObservedState(state, owner, str(project["name"]))  # type: ignore[arg-type]

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        from google.cloud import resourcemanager_v3

        labels = {"grpo-wizard": context.owner_label} if context.owner_label else {}
        wanted = resourcemanager_v3.Project(
            project_id=context.name, display_name=context.name.rpartition(":")[2], labels=labels
        )
        started = call(
            "cloudresourcemanager", projects_client(cloud).create_project, request={"project": wanted}
        )
        return str(started.operation.name)

    def progress(self, cloud: CloudContext, context: ResourceContext, operation: str) -> Progress:
        return operation_progress("cloudresourcemanager", projects_client(cloud), operation)

    def advance(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> None:
        account = f"billingAccounts/{context.spec['billingAccount']}"
        call(
            "cloudbilling",
            billing_client(cloud).update_project_billing_info,
            request={
                "name": f"projects/{context.name}",
                "project_billing_info": {"billing_account_name": account},
            },
        )

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        started = call(
            "cloudresourcemanager",
            projects_client(cloud).delete_project,
            request={"name": f"projects/{context.name}"},
        )
        return str(started.operation.name)


def billing_account(cloud: CloudContext, project: str) -> str:
    """The project's billing account, empty when billing is disabled."""
    info = to_json(
        call(
            "cloudbilling",
            billing_client(cloud).get_project_billing_info,
            request={"name": f"projects/{project}"},
        )
    )
    return (
        str(info.get("billingAccountName", "")).removeprefix("billingAccounts/")
        if info.get("billingEnabled")
        else ""
    )


class ApiDriver(Driver):
    """An API that is enabled in the project. It stays enabled after destroy, because other workloads may use it."""

    def _service_path(self, context: ResourceContext) -> str:
        return f"projects/{context.location('project')}/services/{context.name}"

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        service = to_json(
            call(
                "serviceusage",
                service_usage_client(cloud).get_service,
                request={"name": self._service_path(context)},
            )
        )
        return (
            ObservedState("ready", identity=context.name)
            if service.get("state") == "ENABLED"
            else ObservedState()
        )

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        started = call(
            "serviceusage",
            service_usage_client(cloud).enable_service,
            request={"name": self._service_path(context)},
        )
        return str(started.operation.name)

    def progress(self, cloud: CloudContext, context: ResourceContext, operation: str) -> Progress:
        return operation_progress("serviceusage", service_usage_client(cloud), operation)


def operation_progress(service: str, client: LustreClient | ServiceUsageClient, operation: str) -> Progress:
    """The state of a long-running operation (https://google.aip.dev/151). Raises CloudError when it ended with an error."""
    if operation.endswith("DONE_OPERATION"):
        return Progress(True)  # Service Usage's answer when there was nothing to do
    status = call(service, client.transport.operations_client.get_operation, name=operation)
    if status.done and status.HasField("error"):
        raise operation_error(f"{service}.googleapis.com", 400, status.error.message)
    return Progress(bool(status.done))
