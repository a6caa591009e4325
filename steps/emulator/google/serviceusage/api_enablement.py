"""Whether the API that a call needs is enabled in the project it concerns, refused in Google's words where it
is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from grpo_wizard.steps.emulator.drills.active import runs
from grpo_wizard.steps.emulator.google.serviceusage.apis import PAID, TITLES
from grpo_wizard.steps.emulator.google.shared.self_links import CONTAINER
from grpo_wizard.steps.emulator.server.context import ApiError, Call, World

PROJECTS = "cloudresourcemanager.googleapis.com"
USAGE = "serviceusage.googleapis.com"
# gcloud asks these on its own client's project, where they are enabled: measured, gcloud-wire §3 (it sends no
# X-Goog-User-Project).
_OWN = {
    "cloudresourcemanager.googleapis.com",
    "cloudquotas.googleapis.com",
    "cloudbilling.googleapis.com",
    "orgpolicy.googleapis.com",
}
# Without a quota project these ask on the identity's home project, as a service account's calls do.
_HOME = "my-project"
_FOREIGN = {"huggingface.co", "api.wandb.ai"}
# Old ids begin with a domain, `example.com:my-proj`; any other colon begins a custom method.
_PROJECT = re.compile(r"(?:^|/)projects/((?:[a-z0-9-]+(?:\.[a-z0-9-]+)+:)?[^/:]+)")


def refuse_disabled(call: Call, headers: Mapping[str, str]) -> None:
    """Raises 403 SERVICE_DISABLED where the API is off in the consumer.

    X-Goog-User-Project, else the project that the call names. Also 403 for a quota project that is not there, for none
    where one is needed, and for an API that costs money in a project that nobody pays for.
    """
    quota_project = headers.get("X-Goog-User-Project") or ""
    if quota_project and call.service not in _FOREIGN:
        _refuse_strangers(call, quota_project)
    if call.service in _FOREIGN or call.service == USAGE:
        return
    if call.service in _OWN and not quota_project:
        if "gcloud" in headers.get("User-Agent", ""):
            return
        if runs("no-quota-project"):
            raise _no_quota_project(call.service)
    project = call.world.project_id(quota_project or _named(call) or "")
    if not project:
        return
    _refuse_gone(call, project)
    homes = [project] if quota_project or call.service not in _OWN else [project, _HOME]
    if call.service == PROJECTS and call.world.get(PROJECTS, f"projects/{project}") is None:
        return
    if not any(felt(call.world, home, call.service) for home in homes):
        raise disabled(call.world, project, call.service)
    _refuse_unpaid(call, project)


def _refuse_strangers(call: Call, quota_project: str) -> None:
    """Raises 403 for a quota project that is not there, which looks like one that the caller may not use."""
    if call.world.project_number(quota_project) != "0":
        return
    text = (
        f"Caller does not have required permission to use project {quota_project}. Grant the caller the "
        "roles/serviceusage.serviceUsageConsumer role, or a custom role with the serviceusage.services.use permission, by "
        f"visiting https://console.developers.google.com/iam-admin/iam/project?project={quota_project} and then retry. "
        "Propagation of the new permission may take a few minutes."
    )
    raise _refusal(text, "USER_PROJECT_DENIED", call.service, f"projects/{quota_project}")


def _no_quota_project(service: str) -> ApiError:
    """What a person's Application Default Credentials meet that name no quota project: the consumer is gcloud's own."""
    text = (
        f"Your application is authenticating by using local Application Default Credentials. The {service} API requires a "
        "quota project, which is not set by default. To learn how to set your quota project, see "
        "https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds ."
    )
    return _refusal(text, "SERVICE_DISABLED", service, "projects/764086051850")


def _refuse_unpaid(call: Call, project: str) -> None:
    record = call.world.get(PROJECTS, f"projects/{project}")
    if call.service not in PAID or record is None or record.extra.get("billing"):
        return
    text = (
        f"This API method requires billing to be enabled. Please enable billing on project #{project} by visiting "
        f"https://console.developers.google.com/billing/enable?project={project} then retry. If you enabled billing for "
        "this project recently, wait a few minutes for the action to propagate to our systems and retry."
    )
    raise _refusal(text, "BILLING_DISABLED", call.service, f"projects/{project}")


def _refusal(text: str, reason: str, service: str, consumer: str, **more: str) -> ApiError:
    """403 with Google's ErrorInfo."""
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": service, "consumer": consumer, **more},
    }
    legacy = {"SERVICE_DISABLED": "accessNotConfigured"}.get(reason, "forbidden")
    return ApiError(403, text, "PERMISSION_DENIED", legacy, [info])


def _refuse_gone(call: Call, project: str) -> None:
    """Raises 403 (Compute: 404) for a project that is not there, or marked for deletion."""
    record = call.world.get(PROJECTS, f"projects/{project}")
    if record is not None and record.state != "deleting":
        return
    if call.service == PROJECTS:  # it answers for itself: a deleted project can still be looked at
        return
    if call.service == "compute.googleapis.com" and record is None:
        raise ApiError(404, f"The resource 'projects/{project}' was not found", "NOT_FOUND", "notFound")
    text = f"Permission denied on resource project {project}."
    raise _refusal(text, "CONSUMER_INVALID", call.service, f"projects/{project}")


def _named(call: Call) -> str | None:
    texts = [
        unquote(call.path),
        *(str(value) for value in call.params.values()),
        str(call.body.get("network", "")),
        str(call.body.get("consumerNetwork", "")),
    ]
    return next((found.group(1) for text in texts if (found := _PROJECT.search(text))), None)


def felt(world: World, project: str, service: str) -> bool:
    """Enabled, and long enough ago that calls notice."""
    if service == CONTAINER and runs("api-disabled"):
        return False
    record = world.get(USAGE, f"projects/{project}/services/{service}")
    return (
        record is not None and record.state == "ready" and world.clock.now() >= record.extra.get("felt_at", 0)
    )


def disabled(world: World, project: str, service: str) -> ApiError:
    """Google's SERVICE_DISABLED, as recorded from a real project (the consumer is named by number)."""
    number = world.project_number(project)
    url = f"https://console.developers.google.com/apis/api/{service}/overview?project={number}"
    title = TITLES.get(service, service)
    return _refusal(
        f"{title} has not been used in project {number} before or it is disabled. Enable it by visiting "
        f"{url} then retry. "
        "If you enabled this API recently, wait a few minutes for the action to propagate to our systems "
        "and retry.",
        "SERVICE_DISABLED",
        service,
        f"projects/{number}",
        activationUrl=url,
    )
