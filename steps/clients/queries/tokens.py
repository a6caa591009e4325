"""The two tokens, asked of the services that gave them: is it known, and does it open what is needed?"""

from __future__ import annotations

import base64
import os
from typing import Any

from grpo_wizard.steps.clients.context import CloudContext

_TIMEOUT = 15.0


def _result(level: str, title: str, detail: str = "", fix: str = "") -> dict[str, str]:
    return {"level": level, "title": title, "detail": detail, "fix": fix}


def _request(cloud: CloudContext, method: str, url: str, token: str, **more: Any) -> Any:
    """One request. In a rehearsal the server's own token travels beside the service's."""
    import requests

    headers = {"Authorization": f"Bearer {token}"} | more.pop("headers", {})
    if cloud.mode == "rehearsal":
        headers["X-Rehearsal-Token"] = cloud.kube_token
    session = requests.Session()
    session.trust_env = (
        cloud.mode == "real"
    )  # a rehearsal opens no connection beyond loopback, no proxy either
    return session.request(method, url, headers=headers, timeout=_TIMEOUT, **more)


def check_hugging_face_token(cloud: CloudContext, model: str) -> dict[str, str]:
    """whoami, then the model itself: a gated one answers 403 until its licence is accepted."""
    token = cloud.secrets.get("hf_token")
    base = (
        cloud.endpoint("huggingface")
        if cloud.base_url
        else os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    )
    gated = model.startswith(("google/gemma", "meta-llama/"))
    made_up = "hf_token" in cloud.placeholder_secrets
    if token is None:
        return _result(
            "block" if gated else "warn",
            "Hugging Face token missing",
            f"{model} is gated" if gated else "downloads may be slowed",
            "set HF_TOKEN in the environment",
        )
    if made_up:
        return _result(
            "warn",
            "no Hugging Face token was given: the rehearsal uses a made-up one",
            f"{model} needs a real one later",
        )
    try:
        known = _request(cloud, "GET", f"{base}/api/whoami-v2", token.reveal())
        allowed = _request(cloud, "GET", f"{base}/api/models/{model}/auth-check", token.reveal())
    except OSError as error:
        return _result("warn", "Hugging Face could not be asked", type(error).__name__)
    if known.status_code == 401:
        return _result(
            "block",
            "Hugging Face does not know this token",
            token.masked(),
            "make a new one at https://huggingface.co/settings/tokens",
        )
    if allowed.status_code in (401, 403):
        return _result(
            "block",
            f"{model} is gated and its licence is not accepted yet",
            "",
            f"accept it at https://huggingface.co/{model}",
        )
    if allowed.status_code == 404:
        return _result("block", f"Hugging Face has no model {model}", "", "correct grpo.model")
    if not (known.ok and allowed.ok):
        return _result(
            "warn",
            "Hugging Face could not be asked",
            f"it answered {known.status_code} and {allowed.status_code}",
        )
    return _result("pass", f"Hugging Face token {token.masked()} opens {model}")


def check_wandb_key(cloud: CloudContext) -> dict[str, str]:
    """The viewer that the key belongs to."""
    key = cloud.secrets.get("wandb_api_key")
    base = (
        cloud.endpoint("wandb")
        if cloud.base_url
        else os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").rstrip("/")
    )
    if key is None:
        level = "warn" if cloud.mode == "rehearsal" else "block"
        return _result(
            level,
            "Weights & Biases key missing",
            "the run would end before its first step",
            "set WANDB_API_KEY, or grpo.wandb=false",
        )
    basic = "Basic " + base64.b64encode(f"api:{key.reveal()}".encode()).decode()
    try:
        answer = _request(
            cloud,
            "POST",
            f"{base}/graphql",
            key.reveal(),
            headers={"Authorization": basic},
            json={"query": "{ viewer { username } }"},
        )
    except OSError as error:
        return _result("warn", "Weights & Biases could not be asked", type(error).__name__)
    viewer = (answer.json().get("data") or {}).get("viewer") if answer.ok else None
    if not viewer:
        return _result(
            "block",
            "Weights & Biases does not know this key",
            key.masked(),
            "copy it again from https://wandb.ai/authorize",
        )
    return _result("pass", f"Weights & Biases knows you as {viewer['username']}")
