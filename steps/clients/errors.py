"""Translate SDK and HTTP errors into CloudError: what failed, why, one fix. No other module handles an SDK's exceptions.

Titles are short sentences without a final period, because callers put them into longer lines; fixes are whole sentences.
"""

from __future__ import annotations

import json
import re
from typing import Any

from grpo_wizard.state.errors import WizardError

# The same request may be sent again, once the resource has been read.
_TRANSIENT_STATUS = {408, 429, 500, 502, 503, 504}
_RESERVATION_EXHAUSTED = re.compile(
    r"Reservation does not have enough resources.*?reservation \"([^\"]+)\".*?zone \"([^\"]+)\".*?required (\d+) and short of (\d+)",
    re.DOTALL,
)
_RESERVATION_NOT_FOUND = re.compile(
    r"reservation \"([^\"]+)\" not found for node pool .*? at zone \"([^\"]+)\""
)
_QUOTA_ITEM = re.compile(
    r"resource \"([A-Z0-9_]+)\": request requires '([\d.]+)' and is short '([\d.]+)'.*?quota of '([\d.]+)'",
    re.DOTALL,
)
_QUOTAS = "https://console.cloud.google.com/iam-admin/quotas"
_QUOTA_PAGE = re.compile(re.escape(_QUOTAS) + r"[^\s.]*")
_CONSTRAINT = re.compile(r"[Cc]onstraint '?(constraints/[A-Za-z.]+)")
_ZONE = re.compile(r"[Tt]he zone '(?:projects/[^/']+/zones/)?([a-z0-9-]+)'")
_PROJECT_NUMBER = re.compile(r"(\bproject[ =])\d+\b")
_MACHINE_COUNTS = re.compile(r"Expected (\d+), running (\d+)")


class CloudError(WizardError):
    """A failed request or operation. `kind` classifies it; a `transient` one may be retried once the resource has been read."""

    def __init__(
        self,
        kind: str,
        title: str,
        detail: str = "",
        fix: str = "",
        command: str = "",
        *,
        transient: bool = False,
        status: int = 0,
        service: str = "",
    ) -> None:
        super().__init__(title, detail, fix, command)
        self.kind, self.transient, self.status = kind, transient, status
        self.service = service  # the API that is disabled
        self.operation_ended = False  # the operation is over: polling it again returns the same error


def from_response(service: str, status: int, content: bytes | str) -> CloudError:
    """The error in an HTTP response of Google or Kubernetes."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    try:
        document = json.loads(text)
    except ValueError:
        document = {}
    body = document.get("error", document) if isinstance(document, dict) else {}
    if not isinstance(body, dict) or "message" not in body:
        # A proxy's HTML page or an empty body: one short line, no dump.
        # For an API group that is not served (no operator, no CRD) Kubernetes answers 404 in plain text.
        missing = status == 404 and service == "kubernetes"
        return CloudError(
            "transient" if status in _TRANSIENT_STATUS else "not_found" if missing else "http",
            f"HTTP {status} from {service}",
            transient=status in _TRANSIENT_STATUS,
            status=status,
        )
    return from_message(_disabled_service(body) or service, status, str(body["message"]), _reason(body))


def _disabled_service(body: dict[str, Any]) -> str:
    """The disabled API that the error names, as `gcloud services enable` takes it; empty for other errors."""
    for detail in body.get("details") or []:
        if isinstance(detail, dict) and detail.get("reason") == "SERVICE_DISABLED":
            return str((detail.get("metadata") or {}).get("service") or "")
    return ""


def _reason(body: dict[str, Any]) -> str:
    for detail in body.get("details") or []:
        if isinstance(detail, dict) and detail.get("reason"):
            return str(detail["reason"])
    errors = body.get("errors") or [{}]
    return str(
        body.get("reason")
        or (errors[0].get("reason") if isinstance(errors[0], dict) else "")
        or body.get("status")
        or ""
    )


def set_project_id(error: CloudError, project: str) -> None:
    """Replace the project number that Google reports for a disabled API by the project ID that the user knows."""
    if error.kind == "api_disabled":
        error.detail = _PROJECT_NUMBER.sub(lambda found: found[1] + project, error.detail)
        if "--project" not in error.command:
            error.command += f" --project={project}"


def from_message(service: str, status: int, message: str, reason: str = "") -> CloudError:
    """Classify an error by its message; the rules run from specific to general."""
    found = (
        _capacity_error(message)
        or _org_policy_error(message)
        or _access_error(service, status, message, reason)
        or _conflict_error(status, message, reason)
    )
    if found is None:
        transient = status in _TRANSIENT_STATUS
        found = CloudError(
            "transient" if transient else "refused",
            f"{service} returned HTTP {status}" if status else f"{service} returned an error",
            message,
            transient=transient,
        )
    found.status = status
    return found


def operation_error(service: str, status: int, message: str, reason: str = "") -> CloudError:
    """The error of a long-running operation that has ended: a transient one needs a new operation, not another poll."""
    found = from_message(service, status, message, reason)
    found.operation_ended = True
    return found


def _capacity_error(message: str) -> CloudError | None:
    """A reservation that is used up, an exceeded quota or a stockout: three causes with three different fixes."""
    reservation = _RESERVATION_EXHAUSTED.search(message)
    if reservation:
        name, zone, _, short = reservation.groups()
        return CloudError(
            "reservation",
            f"Reservation {name} in {zone} is short of {short} machines",
            message,
            "Lower quotas.gpu_nodes, or set quotas.reservation to another reservation.",
        )
    gone = _RESERVATION_NOT_FOUND.search(message)
    if gone:
        return CloudError(
            "reservation",
            f"Reservation {gone[1]} was not found in {gone[2]}",
            message,
            "Set quotas.reservation to an existing reservation.",
        )
    quota = _QUOTA_ITEM.findall(message)
    if quota:
        items = "; ".join(
            f"{name}: {float(need):g} needed, {float(short):g} short, limit {float(limit):g}"
            for name, need, short, limit in quota
        )
        page = _QUOTA_PAGE.search(message)
        return CloudError(
            "quota",
            f"Quota exceeded: {items}",
            message,
            f"Request more quota: {page[0] if page else _QUOTAS}",
        )
    if (
        "Quota exceeded" in message
        or "QUOTA_EXCEEDED" in message
        or re.search(r"Quota '\w+' exceeded", message)
    ):
        return CloudError("quota", "Quota exceeded", message, f"Request more quota: {_QUOTAS}")
    if (
        "STOCKOUT" in message
        or "ZONE_RESOURCE_POOL_EXHAUSTED" in message
        or "does not have enough resources available" in message
    ):
        counts, zone = _MACHINE_COUNTS.search(message), _ZONE.search(message)
        started = f": {counts[2]} of {counts[1]} machines started" if counts else ""
        return CloudError(
            "stockout",
            f"{f'Zone {zone[1]}' if zone else 'The zone'} has no capacity for this machine type{started}",
            message,
            "Run apply again later, or choose another zone or reservation.",
        )
    return None


def _org_policy_error(message: str) -> CloudError | None:
    constraint = _CONSTRAINT.search(message)
    if not constraint:
        return None
    return CloudError(
        "org_policy",
        f"An organization policy forbids this: {constraint[1]}",
        message,
        "Ask an organization administrator for an exception.",
    )


def _access_error(service: str, status: int, message: str, reason: str) -> CloudError | None:
    consumer = _consumer_project_error(service, message, reason)
    if consumer:
        return consumer
    if reason == "SERVICE_DISABLED" or "has not been used in project" in message:
        return CloudError(
            "api_disabled",
            f"The API {service} is not enabled yet",
            message,
            "Enable it, then wait a few minutes.",
            f"gcloud services enable {service}",
            transient=True,
            service=service,
        )
    if status == 401:
        return CloudError(
            "auth",
            "Your sign-in has expired or is missing",
            message,
            "Sign in again.",
            "gcloud auth application-default login",
        )
    if status == 403:
        return CloudError(
            "denied",
            f"{service} denied the request: a permission is missing",
            message,
            "Run `grpo-wizard check` to see which role is missing.",
        )
    return None


def _consumer_project_error(service: str, message: str, reason: str) -> CloudError | None:
    """Errors about the project that is charged for the call, not about what the call asks for."""
    if "requires a quota project" in message:  # its reason is SERVICE_DISABLED, for gcloud's own project
        return CloudError(
            "quota_project",
            "Your credentials have no quota project, and this API requires one",
            message,
            "Set a quota project.",
            "gcloud auth application-default set-quota-project PROJECT",
        )
    if reason == "BILLING_DISABLED":
        return CloudError(
            "billing",
            "Billing is disabled for this project",
            message,
            "Link it to a billing account, then wait a few minutes.",
            "gcloud billing projects link PROJECT --billing-account ACCOUNT",
        )
    return None


def _conflict_error(status: int, message: str, reason: str) -> CloudError | None:
    if status == 404:
        return CloudError("not_found", "Not found", message)
    if status == 409 and (
        reason in ("AlreadyExists", "alreadyExists", "ALREADY_EXISTS") or "lready exists" in message
    ):
        return CloudError("exists", "A resource with this name already exists", message)
    if "Producer services" in message and "still using" in message:
        return CloudError("in_use", "The peering is still in use", message, transient=True)
    if "being used by" in message or reason == "resourceInUseByAnotherResource":
        return CloudError(
            "in_use",
            "Still in use by another resource",
            message,
            "If this persists, delete the resource named above once it is unused, then run the same command again.",
            transient=True,
        )
    # "use UpdateConnection": somebody connected the network between our read and our call; the next read finds that connection.
    busy = (
        "Please wait and try again",
        "incompatible operation",
        "is not ready",
        "being created",
        "use UpdateConnection",
    )
    if any(words in message for words in busy) or reason in ("resourceNotReady", "Conflict", "ABORTED"):
        return CloudError("busy", "Busy with another operation", message, transient=True)
    return None


def translate(service: str, error: BaseException) -> WizardError:
    """Turn an SDK's exception into a WizardError; one that is a WizardError already is returned as it is."""
    if isinstance(error, WizardError):
        return error
    module = type(error).__module__
    if module.startswith("google.auth"):
        return _auth_error(error)
    response = getattr(error, "response", None)
    if module.startswith("google.api_core") and response is not None:
        return from_response(service, int(response.status_code), response.content)
    if module.startswith("google.api_core"):
        return from_message(
            service, int(getattr(error, "code", 0) or 0), str(getattr(error, "message", error)), ""
        )
    if module.startswith("googleapiclient"):
        return from_response(service, int(error.resp.status), error.content)  # type: ignore[attr-defined]
    if module.startswith("kubernetes") and getattr(error, "status", None):
        return from_response("kubernetes", int(error.status), getattr(error, "body", "") or "")  # type: ignore[attr-defined]
    if isinstance(error, OSError) or module.startswith(
        ("requests", "urllib3", "aiohttp", "httplib2", "http.client", "kubernetes")
    ):
        return CloudError(
            "transient",
            f"{service} could not be reached",
            one_line(error),
            "Check your network connection.",
            transient=True,
        )
    return CloudError("refused", f"{service} failed with {type(error).__name__}", one_line(error))


def _auth_error(error: BaseException) -> CloudError:
    text = one_line(error)
    if "reasonable timeframe" in text:
        return CloudError(
            "clock",
            "This computer's clock appears to be wrong",
            text,
            "Set the clock, because Google rejects tokens with a wrong time.",
        )
    if type(error).__name__ == "TransportError":
        return CloudError("transient", "The sign-in service could not be reached", text, transient=True)
    ended = "invalid_grant" in text or "necessary fields need to refresh" in text
    title = "Your sign-in has expired or is missing" if ended else "No valid Google credentials were found"
    fix = "Sign in again." if ended else "Sign in."
    return CloudError("auth", title, text, fix, "gcloud auth application-default login")


def one_line(error: BaseException) -> str:
    """The error's text on one line of at most 300 characters; google-auth raises (text, response), of which the text counts."""
    text = str(error.args[0]) if len(error.args) > 1 and isinstance(error.args[0], str) else str(error)
    return " ".join(text.split())[:300] or type(error).__name__
