"""The project, its APIs and its IAM bindings."""

from __future__ import annotations

from typing import Any

from grpo_wizard.steps.clients.context import CloudContext, call
from grpo_wizard.steps.clients.driver import Driver, Progress, ResourceContext
from grpo_wizard.steps.clients.errors import CloudError, operation_error
from grpo_wizard.steps.clients.serialization import JSON, to_json
from grpo_wizard.steps.core.model import ObservedState

_RESOURCE_MANAGER = "google.cloud.resourcemanager_v3"
_SERVICE_USAGE = "google.cloud.service_usage_v1"
_BILLING = "google.cloud.billing_v1"


def projects_client(cloud: CloudContext) -> Any:
    return cloud.rest_client("cloudresourcemanager", _RESOURCE_MANAGER, "ProjectsClient")


def service_usage_client(cloud: CloudContext) -> Any:
    return cloud.rest_client("serviceusage", _SERVICE_USAGE, "ServiceUsageClient")


def billing_client(cloud: CloudContext) -> Any:
    return cloud.rest_client("cloudbilling", _BILLING, "CloudBillingClient")


def fetch_project(cloud: CloudContext, project: str) -> JSON | None:
    """The project as resource manager v3 returns it, None when it is not there or may not be seen."""
    try:
        return to_json(
            call(
                "cloudresourcemanager",
                projects_client(cloud).get_project,
                request={"name": f"projects/{project}"},
            )
        )
    except CloudError as error:
        # Google answers 403 for projects that do not exist, too: it does not tell strangers which ids are taken.
        if error.kind in ("not_found", "denied"):
            return None
        raise


def project_number(cloud: CloudContext, project: str) -> str:
    """From Service Usage, which is on in every project: resource manager's API may be off where all else was made by hand."""

    def ask() -> str:
        name = f"projects/{project}/services/serviceusage.googleapis.com"
        try:
            seen = call("serviceusage", service_usage_client(cloud).get_service, request={"name": name})
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

    return str(cloud.singleton(f"number of {project}", ask))


class ProjectDriver(Driver):
    """Made, and linked to billing. It goes only when `destroy --delete-project` names it."""

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        seen = fetch_project(cloud, context.name)
        if seen is None:
            return ObservedState()
        mark = str(seen.get("labels", {}).get("grpo-wizard", ""))
        wanted = str(context.spec["billingAccount"])
        if wanted and billing_account(cloud, context.name) != wanted and mark == context.owner_label:
            return ObservedState("creating", mark, str(seen["name"]), detail="not linked to billing yet")
        state = "ready" if seen.get("state") == "ACTIVE" else "deleting"
        return ObservedState(state, mark, str(seen["name"]))  # type: ignore[arg-type]

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
    """The account that pays for a project, empty when none does."""
    seen = to_json(
        call(
            "cloudbilling",
            billing_client(cloud).get_project_billing_info,
            request={"name": f"projects/{project}"},
        )
    )
    return (
        str(seen.get("billingAccountName", "")).removeprefix("billingAccounts/")
        if seen.get("billingEnabled")
        else ""
    )


class ApiDriver(Driver):
    """A service that is switched on in the project. It stays on at destroy: others may need it."""

    def _service_path(self, context: ResourceContext) -> str:
        return f"projects/{context.location('project')}/services/{context.name}"

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        seen = to_json(
            call(
                "serviceusage",
                service_usage_client(cloud).get_service,
                request={"name": self._service_path(context)},
            )
        )
        return (
            ObservedState("ready", identity=context.name)
            if seen.get("state") == "ENABLED"
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


def operation_progress(service: str, client: Any, operation: str) -> Progress:
    """An AIP-151 operation of a client that has an operations client of its own."""
    if operation.endswith("DONE_OPERATION"):
        return Progress(True)  # what serviceusage answers when there was nothing to do
    seen = call(service, client.transport.operations_client.get_operation, name=operation)
    if seen.done and seen.HasField("error"):
        raise operation_error(f"{service}.googleapis.com", 400, seen.error.message)
    return Progress(bool(seen.done))
