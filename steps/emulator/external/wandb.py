"""W&B as far as the wizard uses it: the API key's user (`viewer`).

A key that contains `invalid` is rejected.
"""

from __future__ import annotations

import base64
import re

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, handles


def _key(call: ApiCall) -> str:
    kind, _, value = call.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value).decode().partition(":")[2]
    except ValueError:
        raise ApiError(401, "user is not logged in", "UNAUTHENTICATED") from None


@handles("wandb.graphql")
def graphql(call: ApiCall) -> JSON:
    """Answer `{ viewer { … } }`; other queries are not supported."""
    if not re.search(r"\bviewer\b", str(call.body.get("query", ""))):
        raise ApiError(501, "The emulator answers only W&B's viewer query.", "UNIMPLEMENTED")
    key = _key(call)
    if "invalid" in key:
        raise ApiError(401, "user is not logged in", "UNAUTHENTICATED")
    if not key:
        return {"data": {"viewer": None}}
    return {
        "data": {
            "viewer": {
                "id": "VXNlcjox",
                "username": "rehearsal-user",
                "entity": "rehearsal-user",
                "email": "rehearsal-user@example.com",
                "name": "Rehearsal User",
                "admin": False,
                "flags": "{}",
                "teams": {"edges": []},
            }
        }
    }
