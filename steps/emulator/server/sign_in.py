"""Whose token is taken, and what a refresh is answered: drills let either be refused.

google-auth asks `POST /token` of oauth2.googleapis.com for a new access token, here under this server's address with its
token in the path (such requests carry no Authorization).
"""

from __future__ import annotations

import hmac

from aiohttp import web

from grpo_wizard.steps.emulator.drills.active import is_active
from grpo_wizard.steps.emulator.drills.refusals import token_rejected
from grpo_wizard.steps.emulator.server.context import JSON, server_context

TOKEN_SERVICE = "oauth2.googleapis.com"
_REFRESHED_SUFFIX = ".fresh"  # what tells a token that a refresh gave from the one of the start
_TOKEN_LIFETIME_S = 3599


def is_valid_token(given: str, token: str) -> bool:
    """The server's token, or one that a refresh made of it."""
    return hmac.compare_digest(given.removesuffix(_REFRESHED_SUFFIX).encode(), token.encode())


def token_fault(service: str, request: web.Request) -> JSON:
    """`do` of a request whose token counts as run out; {} for all others. Pods' own tokens are not concerned."""
    google = service.endswith(".googleapis.com") and service != TOKEN_SERVICE
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if is_active("expired-credentials") and (google or (service == "kubernetes" and _is_user_token(bearer))):
        return token_rejected(service)
    # gcloud (it comes by Google's host names) renews its tokens by itself, and is given a bare one here.
    here = not (request.headers.get("Host") or "").partition(":")[0].endswith(".googleapis.com")
    if is_active("token-expired") and google and here and not bearer.endswith(_REFRESHED_SUFFIX):
        return token_rejected(service)
    return {}


def _is_user_token(bearer: str) -> bool:
    return is_valid_token(bearer, server_context().token)


async def refresh_token(request: web.Request, path: str) -> tuple[int, JSON]:
    """(status, body) of a refresh, worded as Google's token service does."""
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
