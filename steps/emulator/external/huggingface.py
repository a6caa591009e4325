"""Hugging Face as far as the wizard uses it: the token's account, a model's card, access to a model. No downloads.

Every token that starts with `hf_` (or the emulator's own) is valid. `hf_…invalid…` is rejected and
`hf_…no-access…` has no access to gated models, so that both can be rehearsed.
"""

from __future__ import annotations

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, handles, server_context

# Owners whose models are assumed to exist, and name prefixes of gated models (their model cards, 2026-11).
_OWNERS = {
    "allenai",
    "deepseek-ai",
    "google",
    "huggingfacetb",
    "meta-llama",
    "microsoft",
    "mistralai",
    "nvidia",
    "openai",
    "qwen",
    "unsloth",
}
_GATED = ("meta-llama/", "google/gemma", "mistralai/")
_UNGATED_SHORT = {"gpt2", "bert-base-uncased"}


def _token(call: ApiCall) -> str | None:
    """Return the caller's token. Raises 401 for an invalid one."""
    token = call.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    if not token:
        return None
    if (not token.startswith("hf_") and token != server_context().token) or "invalid" in token:
        raise ApiError(401, "Invalid credentials in Authorization header", "UNAUTHENTICATED")
    return token


@handles("huggingface.whoami")
def whoami(call: ApiCall) -> JSON:
    """Return the account of a token."""
    if _token(call) is None:
        raise ApiError(401, "Invalid username or password.", "UNAUTHENTICATED")
    created = "2026-01-01T00:00:00.000Z"
    return {
        "type": "user",
        "id": "rehearsal",
        "name": "rehearsal-user",
        "fullname": "Rehearsal User",
        "isPro": False,
        "canPay": False,
        "orgs": [],
        "auth": {
            "type": "access_token",
            "accessToken": {"displayName": "rehearsal", "role": "read", "createdAt": created},
        },
    }


def _model(call: ApiCall) -> str:
    owner, model = call.params.get("owner"), call.params["model"]
    name = f"{owner}/{model}" if owner else str(model)
    if (owner or "").lower() not in _OWNERS and name not in _UNGATED_SHORT:
        anonymous = (
            _token(call) is None
        )  # Hugging Face does not reveal to others whether a repository is private or missing
        raise ApiError(
            401 if anonymous else 404,
            "Invalid username or password." if anonymous else "Repository not found",
            reason="RepoNotFound",
        )
    return name


@handles("huggingface.models.get")
def model(call: ApiCall) -> JSON:
    """Return a model's card, also of a gated model."""
    name = _model(call)
    _token(call)
    return {
        "id": name,
        "modelId": name,
        "private": False,
        "disabled": False,
        "gated": "manual" if name.startswith(_GATED) else False,
        "pipeline_tag": "text-generation",
        "library_name": "transformers",
        "tags": ["transformers", "text-generation"],
        "siblings": [],
    }


@handles("huggingface.models.authCheck")
def auth_check(call: ApiCall) -> JSON:
    """Return whether the caller may read a model's files.

    200, 401 GatedRepo without a token, 403 GatedRepo without access.
    """
    name, token = _model(call), _token(call)
    if name.startswith(_GATED) and token is None:
        raise ApiError(
            401,
            f"Access to model {name} is restricted. You must have access to it and be authenticated to "
            "access it. Please log in.",
            reason="GatedRepo",
        )
    if name.startswith(_GATED) and "no-access" in (token or ""):
        raise ApiError(
            403,
            f"Access to model {name} is restricted and you are not in the authorized list. Visit "
            f"https://huggingface.co/{name} "
            "to ask for access.",
            reason="GatedRepo",
        )
    return {}
