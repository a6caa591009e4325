"""Check that the API of a call is enabled in its consumer project, with Google's own errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from grpo_wizard.steps.emulator.context import ApiCall, ApiError, ResourceStore
from grpo_wizard.steps.emulator.drills.active import is_active
from grpo_wizard.steps.emulator.google.serviceusage.apis import BILLABLE_APIS, TITLES
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER

RESOURCE_MANAGER = "cloudresourcemanager.googleapis.com"
SERVICE_USAGE = "serviceusage.googleapis.com"
# gcloud calls these with its own client's project as consumer, where they are enabled: it sends no X-Goog-User-Project
# (measured with gcloud 528).
_GCLOUD_PROJECT_SERVICES = {
    "cloudresourcemanager.googleapis.com",
    "cloudquotas.googleapis.com",
    "cloudbilling.googleapis.com",
    "orgpolicy.googleapis.com",
}
# Without a quota project, the consumer of these is the identity's home project, as with a service account.
_HOME_PROJECT = "my-project"
_NON_GOOGLE_HOSTS = {"huggingface.co", "api.wandb.ai"}
# Old ids start with a domain, `example.com:my-proj`; any other colon starts a custom method.
_PROJECT = re.compile(r"(?:^|/)projects/((?:[a-z0-9-]+(?:\.[a-z0-9-]+)+:)?[^/:]+)")


def require_api_enabled(call: ApiCall, headers: Mapping[str, str]) -> None:
    """Raise 403 SERVICE_DISABLED if the API is disabled in the consumer.

    The consumer is X-Goog-User-Project, otherwise the project that the call names. Also 403 for an unknown or
    missing quota project, and for a billable API in a project without billing.
    """
    quota_project = headers.get("X-Goog-User-Project") or ""
    if quota_project and call.service not in _NON_GOOGLE_HOSTS:
        _check_quota_project(call, quota_project)
    if call.service in _NON_GOOGLE_HOSTS or call.service == SERVICE_USAGE:
        return
    if call.service in _GCLOUD_PROJECT_SERVICES and not quota_project:
        if "gcloud" in headers.get("User-Agent", ""):
            return
        if is_active("no-quota-project"):
            raise _no_quota_project(call.service)
    project = call.store.project_id(quota_project or _project_in_request(call) or "")
    if not project:
        return
    _require_project(call, project)
    homes = (
        [project]
        if quota_project or call.service not in _GCLOUD_PROJECT_SERVICES
        else [project, _HOME_PROJECT]
    )
    if call.service == RESOURCE_MANAGER and call.store.get(RESOURCE_MANAGER, f"projects/{project}") is None:
        return
    if not any(is_api_effective(call.store, home, call.service) for home in homes):
        raise service_disabled_error(call.store, project, call.service)
    _require_billing(call, project)


def _check_quota_project(call: ApiCall, quota_project: str) -> None:
    """Raise 403 for an unknown quota project, which looks like one that the caller may not use."""
    if call.store.project_number(quota_project) != "0":
        return
    text = (
        f"Caller does not have required permission to use project {quota_project}. Grant the caller the "
        "roles/serviceusage.serviceUsageConsumer role, or a custom role with the serviceusage.services.use permission, by "
        f"visiting https://console.developers.google.com/iam-admin/iam/project?project={quota_project} and then retry. "
        "Propagation of the new permission may take a few minutes."
    )
    raise _permission_denied(text, "USER_PROJECT_DENIED", call.service, f"projects/{quota_project}")


def _no_quota_project(service: str) -> ApiError:
    """Return the error of user credentials (ADC) without a quota project: the consumer is gcloud's own project."""
    text = (
        f"Your application is authenticating by using local Application Default Credentials. The {service} API requires a "
        "quota project, which is not set by default. To learn how to set your quota project, see "
        "https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds ."
    )
    return _permission_denied(text, "SERVICE_DISABLED", service, "projects/764086051850")


def _require_billing(call: ApiCall, project: str) -> None:
    record = call.store.get(RESOURCE_MANAGER, f"projects/{project}")
    if call.service not in BILLABLE_APIS or record is None or record.extra.get("billing"):
        return
    text = (
        f"This API method requires billing to be enabled. Please enable billing on project #{project} by visiting "
        f"https://console.developers.google.com/billing/enable?project={project} then retry. If you enabled billing for "
        "this project recently, wait a few minutes for the action to propagate to our systems and retry."
    )
    raise _permission_denied(text, "BILLING_DISABLED", call.service, f"projects/{project}")


def _permission_denied(text: str, reason: str, service: str, consumer: str, **more: str) -> ApiError:
    """Return 403 with Google's ErrorInfo."""
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": service, "consumer": consumer, **more},
    }
    legacy = {"SERVICE_DISABLED": "accessNotConfigured"}.get(reason, "forbidden")
    return ApiError(403, text, "PERMISSION_DENIED", legacy, [info])


def _require_project(call: ApiCall, project: str) -> None:
    """Raise 403 (Compute: 404) for a project that does not exist or is marked for deletion."""
    record = call.store.get(RESOURCE_MANAGER, f"projects/{project}")
    if record is not None and record.state != "deleting":
        return
    if call.service == RESOURCE_MANAGER:  # a deleted project can still be read
        return
    if call.service == "compute.googleapis.com" and record is None:
        raise ApiError(404, f"The resource 'projects/{project}' was not found", "NOT_FOUND", "notFound")
    text = f"Permission denied on resource project {project}."
    raise _permission_denied(text, "CONSUMER_INVALID", call.service, f"projects/{project}")


def _project_in_request(call: ApiCall) -> str | None:
    texts = [
        unquote(call.path),
        *(str(value) for value in call.params.values()),
        str(call.body.get("network", "")),
        str(call.body.get("consumerNetwork", "")),
    ]
    return next((found.group(1) for text in texts if (found := _PROJECT.search(text))), None)


def is_api_effective(store: ResourceStore, project: str, service: str) -> bool:
    """Return whether the API is enabled, and long enough to take effect."""
    if service == CONTAINER and is_active("api-disabled"):
        return False
    record = store.get(SERVICE_USAGE, f"projects/{project}/services/{service}")
    return (
        record is not None and record.state == "ready" and store.clock.now() >= record.extra.get("felt_at", 0)
    )


def service_disabled_error(store: ResourceStore, project: str, service: str) -> ApiError:
    """Return Google's SERVICE_DISABLED, as recorded from a real project (it names the consumer by number)."""
    number = store.project_number(project)
    url = f"https://console.developers.google.com/apis/api/{service}/overview?project={number}"
    title = TITLES.get(service, service)
    return _permission_denied(
        f"{title} has not been used in project {number} before or it is disabled. Enable it by visiting "
        f"{url} then retry. "
        "If you enabled this API recently, wait a few minutes for the action to propagate to our systems "
        "and retry.",
        "SERVICE_DISABLED",
        service,
        f"projects/{number}",
        activationUrl=url,
    )
