"""What drills do to calls of Google's APIs, in Google's own texts with the caller's resource names.

Drills that change quotas, reservations, policies or instances are implemented next to those, below google/.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError
from grpo_wizard.steps.emulator.drills.active import is_active
from grpo_wizard.steps.emulator.google.orgpolicy import effects
from grpo_wizard.steps.emulator.server.errors import error_body


def apply_faults(call: ApiCall) -> None:
    """Make the operation that this call starts fail where a drill or a policy requires it.

    A fault file takes precedence.
    """
    if call.operation_error is None and is_active("stock-out"):
        call.operation_error = _stock_out(call)
    if call.operation_error is None:
        call.operation_error = effects.operation_failure(call)


def _stock_out(call: ApiCall) -> JSON | None:
    """Text from NVIDIA/aicr issue 2764 and akka/akka-core issue 32992."""
    if call.method_id not in effects.NODE_CREATING_METHODS:
        return None
    asked = call.body.get("nodePool", {})
    count = int(asked.get("initialNodeCount") or call.body.get("nodeCount") or 0) or 1
    zone, project = effects.pool_location(call, asked)
    return {
        "code": 8,
        "message": "Google Compute Engine: Not all instances running in IGM after 35m4.033429035s. "
        f"Expected {count}, running 0, transitioning {count}. Current errors: [GCE_STOCKOUT]: Instance creation failed: "
        f"The zone 'projects/{project}/zones/{zone}' does not have enough resources available to fulfill the request. "
        "'(resource type:compute)'.",
    }


def token_rejected(service: str) -> JSON:
    """Return the fault of a rejected token, in the texts of Google and Kubernetes.

    Source: hashicorp/terraform-provider-google issue 8521.
    """
    if service == "kubernetes":
        body: JSON = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Unauthorized",
            "reason": "Unauthorized",
            "code": 401,
        }
        return {"status": 401, "body": body}
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "ACCESS_TOKEN_EXPIRED",
        "domain": "googleapis.com",
        "metadata": {"service": service},
    }
    text = (
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
        "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project."
    )
    error = ApiError(401, text, "UNAUTHENTICATED", "authError", [info])
    return {"status": 401, "body": error_body(service, error)}
