"""Opening the outside for one deployment: the rehearsal's server, or Google Cloud with application default credentials."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import CommandUsageError
from grpo_wizard.state.secret import Secret
from grpo_wizard.steps.clients.audit import AuditSink
from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.credentials import load_credentials
from grpo_wizard.steps.emulator import process

EMULATOR_ACCOUNT = "rehearsal-user@example.com"
_PLACEHOLDER_TOKEN = "hf_rehearsal_made_up"  # a rehearsal needs some text; it opens nothing


def connect_emulator(
    home: Path, speed: str | None, audit: AuditSink, secrets: Mapping[str, Secret]
) -> CloudContext:
    """Joins the rehearsal server of this home (or the one that the environment names); starts it when there is none.

    Google credentials are never looked at here.
    """
    _bypass_proxy_for_loopback()
    try:
        address = process.start(home, speed)
    except process.EmulatorError as error:
        raise CommandUsageError(str(error)) from error
    pace = float("inf") if address.speed == "max" else float(address.speed)
    made_up = {"hf_token": Secret(_PLACEHOLDER_TOKEN)} if "hf_token" not in secrets else {}
    return CloudContext(
        "rehearsal",
        _refreshable_credentials(address),
        EMULATOR_ACCOUNT,
        address.base_url,
        address.token,
        pace,
        audit,
        {**secrets, **made_up},
        placeholder_secrets=frozenset(made_up),
    )


def _refreshable_credentials(address: process.ServerAddress) -> Any:
    """Credentials that google-auth renews at the rehearsal's own token service, as it renews a user's at Google's."""
    from google.oauth2.credentials import Credentials

    where = f"{address.base_url}/oauth2/~{address.token}/token"
    return Credentials(
        address.token, refresh_token="rehearsal", token_uri=where, client_id="rehearsal", client_secret="-"
    )


def _bypass_proxy_for_loopback() -> None:
    """HTTP_PROXY is read by requests and by the Kubernetes client, each in its own way; both heed NO_PROXY.

    A rehearsal's requests, and its token, would else go to that proxy.
    """
    names = ("NO_PROXY", "no_proxy")
    given = [part for name in names for part in os.environ.get(name, "").split(",") if part]
    for name in names:
        os.environ[name] = ",".join(dict.fromkeys([*given, "127.0.0.1", "localhost"]))


def connect_gcp(audit: AuditSink, secrets: Mapping[str, Secret]) -> CloudContext:
    """Application default credentials: gcloud's, a service account's file, an external account's file, or the metadata server's."""
    credentials, who = load_credentials()
    return CloudContext("real", credentials, who.account, "", "", 1.0, audit, dict(secrets), who)


def secrets_from_env(environment: Mapping[str, str]) -> dict[str, Secret]:
    """HF_TOKEN and WANDB_API_KEY of the environment, cleaned. Raises SecretRefused for one that cannot be right."""
    from grpo_wizard.state.secret import parse_secret

    found: dict[str, Secret] = {}
    if environment.get("HF_TOKEN", "").strip():
        found["hf_token"] = parse_secret(environment["HF_TOKEN"])[0]
    if environment.get("WANDB_API_KEY", "").strip():
        found["wandb_api_key"] = parse_secret(environment["WANDB_API_KEY"])[0]
        found["wandb_netrc"] = wandb_netrc(found["wandb_api_key"])
    return found


def wandb_netrc(key: Secret) -> Secret:
    """The whole file that wandb reads: machine, login, key."""
    return Secret(f"machine api.wandb.ai\n  login user\n  password {key.reveal()}\n")


def open_cloud(mode: str, home: Path, speed: str | None, audit: AuditSink) -> CloudContext:
    secrets = secrets_from_env(os.environ)
    return (
        connect_emulator(home, speed, audit, secrets) if mode == "rehearsal" else connect_gcp(audit, secrets)
    )
