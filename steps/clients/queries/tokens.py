"""Checks of the two tokens with the services that issued them."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.core.model import CheckFinding

if TYPE_CHECKING:
    from requests import Response

_TIMEOUT = 15.0


def _request(cloud: CloudContext, method: str, url: str, token: str, **more: Any) -> Response:
    """Send one request. In a rehearsal it also carries the emulator's own token."""
    import requests

    headers = {"Authorization": f"Bearer {token}"} | more.pop("headers", {})
    if cloud.mode == "rehearsal":
        headers["X-Rehearsal-Token"] = cloud.kube_token
    session = requests.Session()
    session.trust_env = cloud.mode == "real"  # a rehearsal stays on loopback and uses no proxy
    return session.request(method, url, headers=headers, timeout=_TIMEOUT, **more)


def check_hugging_face_token(cloud: CloudContext, model: str) -> CheckFinding:
    """Ask whoami, then the model itself: a gated one answers 403 until its license is accepted."""
    token = cloud.secrets.get("hf_token")
    if token is None:
        gated = model.startswith(("google/gemma", "meta-llama/"))
        why = f"{model} is gated and cannot be downloaded" if gated else "Downloads may be slowed down"
        return CheckFinding(
            "block" if gated else "warn",
            detail=f"{why} without a Hugging Face token.",
            fix="Set HF_TOKEN in the environment.",
        )
    if "hf_token" in cloud.placeholder_secrets:
        detail = (
            f"The rehearsal uses a placeholder for the Hugging Face token. {model} needs a real one later."
        )
        return CheckFinding("warn", detail=detail)
    base = _base_url(cloud, "huggingface", "HF_ENDPOINT", "https://huggingface.co")
    try:
        account = _request(cloud, "GET", f"{base}/api/whoami-v2", token.reveal())
        access = _request(cloud, "GET", f"{base}/api/models/{model}/auth-check", token.reveal())
    except OSError as error:
        detail = f"Hugging Face could not be reached ({type(error).__name__})."
        return CheckFinding("warn", detail=detail)
    return _hugging_face_finding(model, token.masked(), account, access)


def _hugging_face_finding(model: str, token: str, account: Response, access: Response) -> CheckFinding:
    """`account` and `access` are the responses about the token and about the model."""
    if account.status_code == 401:
        return CheckFinding(
            "block",
            detail=f"Hugging Face rejected the token {token}.",
            fix="Create a new one at https://huggingface.co/settings/tokens",
        )
    if access.status_code in (401, 403):
        return CheckFinding(
            "block",
            detail=f"{model} is gated, and this account has not accepted its license.",
            fix=f"Accept it at https://huggingface.co/{model}",
        )
    if access.status_code == 404:
        return CheckFinding("block", detail=f"Hugging Face has no model {model}.", fix="Correct grpo.model.")
    if not (account.ok and access.ok):
        codes = f"HTTP {account.status_code} and {access.status_code}"
        return CheckFinding("warn", detail=f"Hugging Face returned {codes}, so access is unknown.")
    return CheckFinding("pass", detail=f"The Hugging Face token {token} has access to {model}.")


def check_wandb_key(cloud: CloudContext) -> CheckFinding:
    """Ask for the viewer that the key belongs to."""
    key = cloud.secrets.get("wandb_api_key")
    if key is None:
        return CheckFinding(
            "warn" if cloud.mode == "rehearsal" else "block",
            detail="Without a Weights & Biases key, the run would fail before its first step.",
            fix="Set WANDB_API_KEY, or grpo.wandb=false.",
        )
    base = _base_url(cloud, "wandb", "WANDB_BASE_URL", "https://api.wandb.ai")
    basic = "Basic " + base64.b64encode(f"api:{key.reveal()}".encode()).decode()
    try:
        response = _request(
            cloud,
            "POST",
            f"{base}/graphql",
            key.reveal(),
            headers={"Authorization": basic},
            json={"query": "{ viewer { username } }"},
        )
    except OSError as error:
        detail = f"Weights & Biases could not be reached ({type(error).__name__})."
        return CheckFinding("warn", detail=detail)
    viewer = (response.json().get("data") or {}).get("viewer") if response.ok else None
    if not viewer:
        return CheckFinding(
            "block",
            detail=f"Weights & Biases rejected the key {key.masked()}.",
            fix="Copy the key again from https://wandb.ai/authorize",
        )
    return CheckFinding("pass", detail=f"The Weights & Biases key belongs to {viewer['username']}.")


def _base_url(cloud: CloudContext, service: str, variable: str, default: str) -> str:
    """The emulator's address of a service in a rehearsal, else the environment's or its own."""
    if cloud.base_url:
        return cloud.endpoint(service)
    return os.environ.get(variable, default).rstrip("/")
