"""Open the cloud for one deployment: the emulator, or Google Cloud with application default credentials."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from grpo_wizard.state.errors import CommandUsageError
from grpo_wizard.state.secret import Secret
from grpo_wizard.steps.clients.audit import AuditSink
from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.credentials import load_credentials
from grpo_wizard.steps.emulator import process

EMULATOR_ACCOUNT = "rehearsal-user@example.com"
_PLACEHOLDER_TOKEN = "hf_rehearsal_made_up"  # a rehearsal needs a value; it grants no access


def connect_emulator(
    home: Path, speed: str | None, audit: AuditSink, secrets: Mapping[str, Secret]
) -> CloudContext:
    """Connect to this home's emulator (or the one that the environment names), and start it if necessary.

    Google credentials are never read here.
    """
    _bypass_proxy_for_loopback()
    try:
        address = process.start(home, speed)
    except process.EmulatorError as error:
        raise CommandUsageError(str(error)) from error
    time_scale = float("inf") if address.speed == "max" else float(address.speed)
    placeholders = {"hf_token": Secret(_PLACEHOLDER_TOKEN)} if "hf_token" not in secrets else {}
    return CloudContext(
        mode="rehearsal",
        credentials=_refreshable_credentials(address),
        account=EMULATOR_ACCOUNT,
        base_url=address.base_url,
        kube_token=address.token,
        time_scale=time_scale,
        audit=audit,
        secrets={**secrets, **placeholders},
        placeholder_secrets=frozenset(placeholders),
    )


def _refreshable_credentials(address: process.ServerAddress) -> object:
    """Credentials that google-auth refreshes at the emulator's token service, as it refreshes a user's at Google's."""
    from google.oauth2.credentials import Credentials

    token_url = f"{address.base_url}/oauth2/~{address.token}/token"
    return Credentials(
        address.token,
        refresh_token="rehearsal",
        token_uri=token_url,
        client_id="rehearsal",
        client_secret="-",
    )


def _bypass_proxy_for_loopback() -> None:
    """Add loopback to NO_PROXY, which requests and the Kubernetes client both respect.

    Otherwise a rehearsal's requests, and its token, would go to the proxy in HTTP_PROXY.
    """
    names = ("NO_PROXY", "no_proxy")
    given = [part for name in names for part in os.environ.get(name, "").split(",") if part]
    for name in names:
        os.environ[name] = ",".join(dict.fromkeys([*given, "127.0.0.1", "localhost"]))


def connect_gcp(audit: AuditSink, secrets: Mapping[str, Secret]) -> CloudContext:
    """Connect with application default credentials: gcloud's, a service or external account's file, or the metadata server's."""
    credentials, info = load_credentials()
    return CloudContext(
        mode="real",
        credentials=credentials,
        account=info.account,
        audit=audit,
        secrets=dict(secrets),
        credentials_info=info,
    )


def secrets_from_env(environment: Mapping[str, str]) -> dict[str, Secret]:
    """HF_TOKEN and WANDB_API_KEY from the environment, stripped. Raises InvalidSecret."""
    from grpo_wizard.state.secret import parse_secret

    found: dict[str, Secret] = {}
    if environment.get("HF_TOKEN", "").strip():
        found["hf_token"] = parse_secret(environment["HF_TOKEN"])[0]
    if environment.get("WANDB_API_KEY", "").strip():
        found["wandb_api_key"] = parse_secret(environment["WANDB_API_KEY"])[0]
        found["wandb_netrc"] = wandb_netrc(found["wandb_api_key"])
    return found


def wandb_netrc(key: Secret) -> Secret:
    """The netrc file that wandb reads: machine, login, key."""
    return Secret(f"machine api.wandb.ai\n  login user\n  password {key.reveal()}\n")


def open_cloud(mode: str, home: Path, speed: str | None, audit: AuditSink) -> CloudContext:
    """Open the cloud for a deployment's mode, with the secrets of the environment."""
    secrets = secrets_from_env(os.environ)
    return (
        connect_emulator(home, speed, audit, secrets) if mode == "rehearsal" else connect_gcp(audit, secrets)
    )
