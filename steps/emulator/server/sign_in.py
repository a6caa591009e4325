"""Whose token is taken, and what a refresh is answered: drills let either be refused.

google-auth asks `POST /token` of oauth2.googleapis.com for a new access token, here under this server's address with its
token in the path (such requests carry no Authorization).
"""

from __future__ import annotations

import hmac

from aiohttp import web

from grpo_wizard.steps.emulator.drills.active import runs
from grpo_wizard.steps.emulator.drills.refusals import unauthenticated
from grpo_wizard.steps.emulator.server.context import JSON, house

SERVICE = "oauth2.googleapis.com"
_FRESH = ".fresh"  # what tells a token that a refresh gave from the one of the start
_SECONDS = 3599


def accepted(given: str, token: str) -> bool:
    """The server's token, or one that a refresh made of it."""
    return hmac.compare_digest(given.removesuffix(_FRESH).encode(), token.encode())


def refusal(service: str, request: web.Request) -> JSON:
    """`do` of a request whose token counts as run out; {} for all others. Pods' own tokens are not concerned."""
    google = service.endswith(".googleapis.com") and service != SERVICE
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if runs("expired-credentials") and (google or (service == "kubernetes" and _own(bearer))):
        return unauthenticated(service)
    # gcloud (it comes by Google's host names) renews its tokens by itself, and is given a bare one here.
    here = not (request.headers.get("Host") or "").partition(":")[0].endswith(".googleapis.com")
    if runs("token-expired") and google and here and not bearer.endswith(_FRESH):
        return unauthenticated(service)
    return {}


def _own(bearer: str) -> bool:
    return accepted(bearer, house().token)


async def renew(request: web.Request, path: str) -> tuple[int, JSON]:
    """(status, body) of a refresh, worded as Google's token service does."""
    form = await request.post()
    if path != "/token" or form.get("grant_type") != "refresh_token":
        return 400, {"error": "unsupported_grant_type", "error_description": "Invalid grant_type."}
    if runs("expired-credentials"):
        return 400, {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
    token = {"access_token": house().token + _FRESH, "expires_in": _SECONDS, "token_type": "Bearer"}
    return 200, token
