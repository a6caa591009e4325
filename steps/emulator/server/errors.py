"""Error responses in the format of each service."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from grpo_wizard.steps.emulator.context import ApiError

JSON = dict[str, Any]
_log = logging.getLogger(__name__)
_STATUS_BY_CODE = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_REASON_BY_CODE = {
    400: "badRequest",
    401: "authError",
    403: "forbidden",
    404: "notFound",
    409: "conflict",
    412: "conditionNotMet",
    429: "rateLimitExceeded",
    500: "backendError",
    501: "notImplemented",
    503: "backendError",
}
_LOGIN_HELP = "See https://developers.google.com/identity/sign-in/web/devconsole-project."


def error_body(service: str, error: ApiError) -> JSON:
    """Return Google's error document; Compute's has the legacy `errors` too.

    Hugging Face and W&B use their own formats.
    """
    if service == "huggingface.co":
        return {"error": error.message}
    if service == "api.wandb.ai":
        return {"errors": [{"message": error.message}]}
    body: JSON = {
        "code": error.code,
        "message": error.message,
        "status": error.status or _STATUS_BY_CODE.get(error.code, "UNKNOWN"),
    }
    if service == "compute.googleapis.com":
        body["errors"] = [
            {
                "message": error.message,
                "domain": "global",
                "reason": error.reason or _REASON_BY_CODE.get(error.code, "unknown"),
            }
        ]
    if error.details:
        body["details"] = error.details
    return {"error": body}


def json_response(body: Any, status: int = 200, *, pretty: bool = False) -> web.Response:
    """Return a JSON response; 204 without a body for None."""
    if body is None:
        return web.Response(status=204)
    raw = msgspec.json.encode(body)
    return web.Response(
        status=status,
        body=msgspec.json.format(raw, indent=2) + b"\n" if pretty else raw,
        content_type="application/json",
        charset="UTF-8",
    )


def wants_pretty(query: Mapping[str, str]) -> bool:
    """Return whether the response is indented, which is Google's default."""
    asked = query.get("prettyPrint", query.get("$prettyPrint", "true"))
    return asked.lower() not in ("false", "0")


def internal_error(method: str, path: str) -> ApiError:
    """Return 500 for the exception being handled, and log its traceback."""
    _log.exception("%s %s", method, path)
    return ApiError(500, "Internal error encountered. See the traceback in the emulator's log.", "INTERNAL")


def error_response(service: str, error: ApiError, *, pretty: bool = False) -> web.Response:
    """Return an ApiError as a response."""
    response = json_response(error_body(service, error), error.code, pretty=pretty)
    if error.code == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="https://accounts.google.com/"'
    if service == "huggingface.co":
        response.headers["X-Error-Message"] = error.message
        if error.reason:
            response.headers["X-Error-Code"] = error.reason
    return response


def unauthenticated_error(has_token: bool, service: str) -> ApiError:
    """Return 401 for a wrong or missing token."""
    reason = "ACCESS_TOKEN_TYPE_UNSUPPORTED" if has_token else "CREDENTIALS_MISSING"
    text = (
        "Request had invalid authentication credentials."
        if has_token
        else "Request is missing required authentication credential."
    )
    detail = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": service},
    }
    return ApiError(
        401,
        f"{text} Expected OAuth 2 access token, login cookie or other valid authentication credential. "
        f"{_LOGIN_HELP}",
        "UNAUTHENTICATED",
        "authError",
        [detail],
    )
