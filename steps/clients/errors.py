"""SDK and HTTP errors become one family here: what happened, why, the one fix. Nowhere else looks at an SDK's exception."""

from __future__ import annotations

import json
import re
from typing import Any

from grpo_wizard.state.errors import WizardError

# Whether the same request may be sent again, once the cloud has been looked at.
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
    """An answer that is not a success. `kind` names the sort; `transient` ones may be tried again after a look."""

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
        self.operation_ended = False  # an operation has ended with this: asking after it again says the same


def from_response(service: str, status: int, content: bytes | str) -> CloudError:
    """An HTTP answer of Google's or Kubernetes' that is an error."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    try:
        document = json.loads(text)
    except ValueError:
        document = {}
    body = document.get("error", document) if isinstance(document, dict) else {}
    if not isinstance(body, dict) or "message" not in body:
        # A proxy's HTML page or nothing at all: one short line, no dump.
        # Of an API group that is not served (no operator, no CRD) Kubernetes says so in plain text.
        missing = status == 404 and service == "kubernetes"
        return CloudError(
            "transient" if status in _TRANSIENT_STATUS else "not_found" if missing else "http",
            f"HTTP {status} from {service}",
            transient=status in _TRANSIENT_STATUS,
            status=status,
        )
    return from_message(_disabled_service(body) or service, status, str(body["message"]), _reason(body))


def _disabled_service(body: dict[str, Any]) -> str:
    """Of an API that is off Google names the service itself: that name is what `services enable` takes."""
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
    """Google names the project of an API that is off by its number; its owner knows it by its id."""
    if error.kind == "api_disabled":
        error.detail = _PROJECT_NUMBER.sub(lambda found: found[1] + project, error.detail)
        if "--project" not in error.command:
            error.command += f" --project={project}"


def from_message(service: str, status: int, message: str, reason: str = "") -> CloudError:
    """Sorts an error by what it says; the order of the rules is from the particular to the general."""
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
            f"{service} answered {status or 'an error'}",
            message,
            transient=transient,
        )
    found.status = status
    return found


def operation_error(service: str, status: int, message: str, reason: str = "") -> CloudError:
    """What a long-running operation ended with. One that may pass with time is to be started anew, not asked after again."""
    found = from_message(service, status, message, reason)
    found.operation_ended = True
    return found


def _capacity_error(message: str) -> CloudError | None:
    """Reservation, quota and stock-out are three different things and three different fixes."""
    reservation = _RESERVATION_EXHAUSTED.search(message)
    if reservation:
        name, zone, _, short = reservation.groups()
        return CloudError(
            "reservation",
            f"reservation {name} in {zone} is short of {short} machines",
            message,
            "lower quotas.gpu_nodes, or name another reservation",
        )
    gone = _RESERVATION_NOT_FOUND.search(message)
    if gone:
        return CloudError(
            "reservation",
            f"reservation {gone[1]} was not found in {gone[2]}",
            message,
            "name one that is there as quotas.reservation",
        )
    quota = _QUOTA_ITEM.findall(message)
    if quota:
        items = "; ".join(
            f"{name}: {float(need):g} needed, {float(short):g} short, limit {float(limit):g}"
            for name, need, short, limit in quota
        )
        page = _QUOTA_PAGE.search(message)
        return CloudError(
            "quota", f"quota is short: {items}", message, f"ask for more at {page[0] if page else _QUOTAS}"
        )
    if (
        "Quota exceeded" in message
        or "QUOTA_EXCEEDED" in message
        or re.search(r"Quota '\w+' exceeded", message)
    ):
        return CloudError("quota", "quota is short", message, f"ask for more at {_QUOTAS}")
    if (
        "STOCKOUT" in message
        or "ZONE_RESOURCE_POOL_EXHAUSTED" in message
        or "does not have enough resources available" in message
    ):
        counts, zone = _MACHINE_COUNTS.search(message), _ZONE.search(message)
        seen = f": {counts[2]} of {counts[1]} machines came" if counts else ""
        return CloudError(
            "stockout",
            f"{f'zone {zone[1]}' if zone else 'the zone'} has no machines of this type left{seen}",
            message,
            "run apply again later, or choose another zone or reservation",
        )
    return None


def _org_policy_error(message: str) -> CloudError | None:
    constraint = _CONSTRAINT.search(message)
    if not constraint:
        return None
    return CloudError(
        "org_policy",
        f"an organisation policy forbids this: {constraint[1]}",
        message,
        "ask an organisation administrator for an exception",
    )


def _access_error(service: str, status: int, message: str, reason: str) -> CloudError | None:
    consumer = _consumer_project_error(service, message, reason)
    if consumer:
        return consumer
    if reason == "SERVICE_DISABLED" or "has not been used in project" in message:
        return CloudError(
            "api_disabled",
            f"the API of {service} is not enabled yet",
            message,
            "enable it, then wait a few minutes",
            f"gcloud services enable {service}",
            transient=True,
            service=service,
        )
    if status == 401:
        return CloudError(
            "auth",
            "the sign-in has expired or is missing",
            message,
            "sign in again",
            "gcloud auth application-default login",
        )
    if status == 403:
        return CloudError(
            "denied",
            f"{service} refused: a permission is missing",
            message,
            "run `grpo-wizard check`: it names the role",
        )
    return None


def _consumer_project_error(service: str, message: str, reason: str) -> CloudError | None:
    """Refusals that concern the project on which calls are counted, not what they ask for."""
    if "requires a quota project" in message:  # its reason is SERVICE_DISABLED: of gcloud's own project
        return CloudError(
            "quota_project",
            "your credentials name no quota project, and Google wants one",
            message,
            "name one",
            "gcloud auth application-default set-quota-project PROJECT",
        )
    if reason == "BILLING_DISABLED":
        return CloudError(
            "billing",
            "nobody pays for the project, and Google refuses what costs money",
            message,
            "link it to a billing account, then wait a few minutes",
            "gcloud billing projects link PROJECT --billing-account ACCOUNT",
        )
    return None


def _conflict_error(status: int, message: str, reason: str) -> CloudError | None:
    if status == 404:
        return CloudError("not_found", "not found", message)
    if status == 409 and (
        reason in ("AlreadyExists", "alreadyExists", "ALREADY_EXISTS") or "lready exists" in message
    ):
        return CloudError("exists", "something of that name is there already", message)
    if "Producer services" in message and "still using" in message:
        return CloudError("in_use", "the peering is still in use", message, transient=True)
    if "being used by" in message or reason == "resourceInUseByAnotherResource":
        return CloudError(
            "in_use",
            "it is still used by something else",
            message,
            "if it stays so, somebody else made what is named: once nobody needs it, remove it and run the same command again",
            transient=True,
        )
    # The last: another connected the network between our look and our call; the next look finds its connection.
    busy = (
        "Please wait and try again",
        "incompatible operation",
        "is not ready",
        "being created",
        "use UpdateConnection",
    )
    if any(words in message for words in busy) or reason in ("resourceNotReady", "Conflict", "ABORTED"):
        return CloudError("busy", "it is busy with another operation", message, transient=True)
    return None


def translate(service: str, error: BaseException) -> WizardError:
    """Whatever an SDK raised, as one of ours. A WizardError passes through."""
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
            "see whether the network is up",
            transient=True,
        )
    return CloudError("refused", f"{service}: {type(error).__name__}", one_line(error))


def _auth_error(error: BaseException) -> CloudError:
    text = one_line(error)
    if "reasonable timeframe" in text:
        return CloudError(
            "clock",
            "this computer's clock looks wrong",
            text,
            "set the clock: Google refuses tokens from another time",
        )
    if type(error).__name__ == "TransportError":
        return CloudError("transient", "the sign-in service could not be reached", text, transient=True)
    ended = "invalid_grant" in text or "necessary fields need to refresh" in text
    title = "the sign-in has expired or is missing" if ended else "no valid Google credentials"
    fix = "sign in again" if ended else "sign in"
    return CloudError("auth", title, text, fix, "gcloud auth application-default login")


def one_line(error: BaseException) -> str:
    """Its text in one line of at most 300 characters; of google-auth's (text, answer) the text."""
    text = str(error.args[0]) if len(error.args) > 1 and isinstance(error.args[0], str) else str(error)
    return " ".join(text.split())[:300] or type(error).__name__
