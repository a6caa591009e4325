"""Validate access tokens and answer refreshes; drills make either fail.

google-auth sends `POST /token` to oauth2.googleapis.com for a new access token, here to this server with its
token in the path (such requests have no Authorization header).
"""

from __future__ import annotations

import hmac

from aiohttp import web

from grpo_wizard.steps.emulator.context import JSON, server_context
from grpo_wizard.steps.emulator.drills.active import is_active
from grpo_wizard.steps.emulator.drills.refusals import token_rejected

TOKEN_SERVICE = "oauth2.googleapis.com"
_REFRESHED_SUFFIX = ".fresh"  # tells a refreshed token from the initial one
_TOKEN_LIFETIME_S = 3599


def is_valid_token(given: str, token: str) -> bool:
    """Return whether this is the server's token, or a refreshed one."""
    return hmac.compare_digest(given.removesuffix(_REFRESHED_SUFFIX).encode(), token.encode())


def token_fault(service: str, request: web.Request) -> JSON:
    """Return the fault of a request whose token has expired; {} for all others.

    Pods' own tokens are unaffected.
    """
    google = service.endswith(".googleapis.com") and service != TOKEN_SERVICE
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if is_active("expired-credentials") and (google or (service == "kubernetes" and _is_user_token(bearer))):
        return token_rejected(service)
    # gcloud (recognized by Google's host names) refreshes its own tokens; here it has a plain one.
    here = not (request.headers.get("Host") or "").partition(":")[0].endswith(".googleapis.com")
    if is_active("token-expired") and google and here and not bearer.endswith(_REFRESHED_SUFFIX):
        return token_rejected(service)
    return {}


def _is_user_token(bearer: str) -> bool:
    return is_valid_token(bearer, server_context().token)


async def refresh_token(request: web.Request, path: str) -> tuple[int, JSON]:
    """Return (status, body) of a refresh, in the texts of Google's token service."""
    form = await request.post()
    if path != "/token" or form.get("grant_type") != "refresh_token":
        return 400, {"error": "unsupported_grant_type", "error_description": "Invalid grant_type."}
    if is_active("expired-credentials"):
        return 400, {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
    token = {
        "access_token": server_context().token + _REFRESHED_SUFFIX,
        "expires_in": _TOKEN_LIFETIME_S,
        "token_type": "Bearer",
    }
    return 200, token
