"""Whether the API that a call needs is enabled in the project it concerns, refused in Google's words where it
is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from ..contract import ApiError, Call, World
from ..drilled import runs
from .apis import TITLES
from .links import CONTAINER

PROJECTS = "cloudresourcemanager.googleapis.com"
USAGE = "serviceusage.googleapis.com"
# gcloud asks these on its own client's project, where they are enabled: measured, gcloud-wire §3 (it sends no
# X-Goog-User-Project).
_OWN = {
    "cloudresourcemanager.googleapis.com",
    "cloudquotas.googleapis.com",
    "cloudbilling.googleapis.com",
}
# Without a quota project these ask on the identity's home project, as a service account's calls do.
_HOME = "my-project"
_NO_GATE = {USAGE, "huggingface.co", "api.wandb.ai"}
# Old ids begin with a domain, `example.com:my-proj`; any other colon begins a custom method.
_PROJECT = re.compile(r"(?:^|/)projects/((?:[a-z0-9-]+(?:\.[a-z0-9-]+)+:)?[^/:]+)")


def refuse_disabled(call: Call, headers: Mapping[str, str]) -> None:
    """Raises 403 SERVICE_DISABLED where the API is off in the consumer.

    X-Goog-User-Project, else the project that the call names.
    """
    if call.service in _NO_GATE:
        return
    quota_project = headers.get("X-Goog-User-Project") or ""
    if call.service in _OWN and not quota_project and "gcloud" in headers.get("User-Agent", ""):
        return
    project = call.world.project_id(quota_project or _named(call) or "")
    if not project:
        return
    _refuse_gone(call, project)
    homes = [project] if quota_project or call.service not in _OWN else [project, _HOME]
    if call.service == PROJECTS and call.world.get(PROJECTS, f"projects/{project}") is None:
        return
    if not any(felt(call.world, home, call.service) for home in homes):
        raise disabled(call.world, project, call.service)


def _refuse_gone(call: Call, project: str) -> None:
    """Raises 403 (Compute: 404) for a project that is not there, or marked for deletion."""
    record = call.world.get(PROJECTS, f"projects/{project}")
    if record is not None and record.state != "deleting":
        return
    if call.service == PROJECTS:  # it answers for itself: a deleted project can still be looked at
        return
    if call.service == "compute.googleapis.com" and record is None:
        raise ApiError(404, f"The resource 'projects/{project}' was not found", "NOT_FOUND", "notFound")
    metadata = {"service": call.service, "consumer": f"projects/{project}"}
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "CONSUMER_INVALID",
        "domain": "googleapis.com",
        "metadata": metadata,
    }
    text = f"Permission denied on resource project {project}."
    raise ApiError(403, text, "PERMISSION_DENIED", "forbidden", [info])


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
    metadata = {"service": service, "consumer": f"projects/{number}", "activationUrl": url}
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "SERVICE_DISABLED",
        "domain": "googleapis.com",
        "metadata": metadata,
    }
    return ApiError(
        403,
        f"{title} has not been used in project {number} before or it is disabled. Enable it by visiting "
        f"{url} then retry. "
        "If you enabled this API recently, wait a few minutes for the action to propagate to our systems "
        "and retry.",
        "PERMISSION_DENIED",
        "accessNotConfigured",
        [info],
    )
