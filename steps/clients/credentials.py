"""Google credentials: which ones google-auth finds, which account they belong to, and why they are rejected.

Each problem has its own message and its own command. Tokens are refreshed by google-auth alone; no credential is stored.
"""

from __future__ import annotations

import configparser
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.clients.errors import CloudError, one_line, translate
from grpo_wizard.steps.core.durations import format_duration

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TOKEN_URL = "https://oauth2.googleapis.com/token"
_LOGIN_COMMAND = "gcloud auth application-default login"
_CREDENTIALS_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_MAX_CLOCK_SKEW = 300.0  # seconds; Google allows a token's times to be off by about five minutes
_TITLES = {
    "authorized_user": "gcloud's application default credentials",
    "service_account": "a service account's key file",
    "impersonated_service_account": "an impersonated service account",
    "external_account": "an external account",
    "external_account_authorized_user": "a workforce identity sign-in",
    "metadata": "this machine's metadata server",
    "rehearsal": "the rehearsal",
}


@dataclass(frozen=True)
class CredentialSource:
    """Where google-auth takes credentials from. `kind` is the file's own `type`, `metadata`, or empty when there are none."""

    kind: str
    path: str = ""
    body: Mapping[str, Any] | None = None

    @property
    def title(self) -> str:
        known = _TITLES.get(self.kind, "credentials")
        audience = str((self.body or {}).get("audience", ""))
        pool = next(
            (
                word
                for key, word in (
                    ("workforcePools", "workforce identity"),
                    ("workloadIdentityPools", "workload identity"),
                )
                if key in audience
            ),
            "",
        )
        return f"{known} ({pool})" if pool else known

    def get(self, key: str) -> str:
        return str((self.body or {}).get(key) or "")

    @property
    def token_url(self) -> str:
        return self.get("token_uri") or self.get("token_url") or _TOKEN_URL


@dataclass(frozen=True)
class CredentialsInfo:
    """Credentials that were found. `account` is as IAM names it; `gcloud_account` is gcloud's own, empty when it is not signed in."""

    account: str
    source: CredentialSource
    quota_project: str = ""
    gcloud_account: str = ""

    def to_json(self) -> dict[str, str]:
        return {
            "account": self.account,
            "kind": self.source.kind,
            "title": self.source.title,
            "quota_project": self.quota_project,
            "gcloud_account": self.gcloud_account,
        }


def load_credentials() -> tuple[object, CredentialsInfo]:
    """Load credentials that hold a token, and the account they belong to. Raises CloudError with a fix."""
    import google.auth
    from google.auth.transport.requests import Request

    source = _find_source(os.environ)
    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
        if not credentials.valid:
            credentials.refresh(Request())
    except Exception as error:
        raise _explain_error(error, source) from error
    if not source.kind:
        source = CredentialSource("metadata")
    account = _account(credentials, source)
    quota = str(getattr(credentials, "quota_project_id", None) or "")
    return credentials, CredentialsInfo(account, source, quota, gcloud_account(os.environ))


def _config_folder(environment: Mapping[str, str]) -> Path:
    """gcloud's configuration folder, found as google-auth finds it."""
    if environment.get("CLOUDSDK_CONFIG"):
        return Path(environment["CLOUDSDK_CONFIG"])
    if os.name == "nt":
        return Path(environment.get("APPDATA", "")) / "gcloud"
    return Path.home() / ".config" / "gcloud"


def _find_source(environment: Mapping[str, str]) -> CredentialSource:
    named = environment.get(_CREDENTIALS_VARIABLE, "")
    path = Path(named) if named else _config_folder(environment) / "application_default_credentials.json"
    try:
        body = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return CredentialSource("missing file" if named else "", str(path))
    except (OSError, ValueError):
        return CredentialSource("unreadable file", str(path))
    kind = str(body.get("type", "")) if isinstance(body, dict) else ""
    return CredentialSource(kind or "unreadable file", str(path), body if isinstance(body, dict) else None)


def gcloud_account(environment: Mapping[str, str]) -> str:
    """The account that gcloud is signed in as, from its configuration files; empty when it is not signed in."""
    if environment.get("CLOUDSDK_CORE_ACCOUNT"):
        return environment["CLOUDSDK_CORE_ACCOUNT"]
    folder = _config_folder(environment)
    try:
        active = (
            environment.get("CLOUDSDK_ACTIVE_CONFIG_NAME") or (folder / "active_config").read_text().strip()
        )
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(folder / "configurations" / f"config_{active}", "utf-8")
    except (OSError, configparser.Error):
        return ""
    return parser.get("core", "account", fallback="")


def _account(credentials: Credentials, source: CredentialSource) -> str:
    """The account in the credentials; a user's file seldom has one, then Google is asked whose token it is."""
    for name in ("service_account_email", "account", "signer_email"):
        value = getattr(credentials, name, "")
        if value and value != "default":
            return str(value)
    return _token_email(str(credentials.token), source) or source.title


def _token_email(token: str, source: CredentialSource) -> str:
    import requests

    try:
        url = source.token_url.rpartition("/")[0] + "/tokeninfo"
        answer = requests.post(url, data={"access_token": token}, timeout=10)
        return str(answer.json().get("email", "")) if answer.ok else ""
    except (OSError, ValueError):
        return ""


def _explain_error(error: Exception, source: CredentialSource) -> CloudError:
    text = one_line(error)
    if (file_error := _explain_file_error(source, text)) is not None:
        return file_error
    if type(error).__name__ == "TransportError" and source.kind:
        return CloudError(
            "transient",
            "The sign-in service could not be reached",
            text,
            "Check your network connection.",
            transient=True,
        )
    grant = "invalid_grant" in text or "reasonable timeframe" in text or "invalid_request" in text
    if grant and (clock_error := _explain_clock_error(text, source)) is not None:
        return clock_error
    known = {
        "authorized_user": _explain_user_error,
        "external_account_authorized_user": _explain_user_error,
        "service_account": _explain_service_account_error,
        "impersonated_service_account": _explain_impersonation_error,
        "external_account": _explain_external_account_error,
        "": _explain_metadata_error,
    }.get(source.kind)
    if known is None:
        found = translate("google.auth", error)
        return found if isinstance(found, CloudError) else CloudError("auth", found.title, found.detail)
    return known(text, source)


def _auth_error(title: str, detail: str, fix: str, command: str = _LOGIN_COMMAND) -> CloudError:
    return CloudError("auth", title, detail, fix, command)


def _explain_file_error(source: CredentialSource, text: str) -> CloudError | None:
    """Why the credentials file cannot be used; None when the file is fine."""
    if source.kind == "missing file":
        return _auth_error(
            "The credentials file does not exist",
            source.path,
            f"Correct or unset {_CREDENTIALS_VARIABLE}.",
            f"unset {_CREDENTIALS_VARIABLE}",
        )
    if source.kind == "unreadable file":
        named = bool(os.environ.get(_CREDENTIALS_VARIABLE))
        fix = f"Correct {_CREDENTIALS_VARIABLE}." if named else "Sign in again to re-create it."
        return _auth_error("The credentials file does not contain credentials", source.path, fix)
    if not source.kind and ("credentials were not found" in text or "automatically determine" in text):
        return _auth_error(
            "No Google credentials were found",
            "There is no credentials file, and this machine has no service account.",
            "Sign in.",
        )
    return None


def clock_offset(url: str) -> float | None:
    """Seconds by which this computer's clock is ahead of the server's `Date` header; None without an answer."""
    import requests

    try:
        answer = requests.head(url, timeout=10)
        return time.time() - parsedate_to_datetime(answer.headers["Date"]).timestamp()
    except (OSError, KeyError, ValueError, TypeError):
        return None


def _explain_clock_error(text: str, source: CredentialSource) -> CloudError | None:
    offset = clock_offset(source.token_url)
    wrong = offset is not None and abs(offset) > _MAX_CLOCK_SKEW
    if not wrong and "reasonable timeframe" not in text:
        return None
    reason = (
        f"It is {format_duration(abs(offset))} {'ahead of' if offset > 0 else 'behind'} Google's"
        if wrong and offset is not None
        else "Google rejects tokens with a wrong time"
    )
    command = "sudo sntp -sS time.apple.com" if sys.platform == "darwin" else "sudo timedatectl set-ntp true"
    return CloudError(
        "clock", "This computer's clock appears to be wrong", f"{reason} ({text}).", "Set the clock.", command
    )


def _explain_user_error(text: str, source: CredentialSource) -> CloudError:
    if "rapt" in text or "eauthentication" in text:
        return _auth_error(
            "Your organization's session length requires you to sign in again", text, "Sign in again."
        )
    if "invalid_grant" in text:
        return _auth_error("Your sign-in has expired or was revoked", text, "Sign in again.")
    return _auth_error(f"Google rejected {source.title}", text, "Sign in again.")


def _explain_service_account_error(text: str, source: CredentialSource) -> CloudError:
    account = source.get("client_email")
    if "account not found" in text.lower() or "invalid_client" in text:
        return _auth_error(
            f"Service account {account} does not exist",
            text,
            f"Set {_CREDENTIALS_VARIABLE} to another key file.",
            f"gcloud iam service-accounts list --project={source.get('project_id')}",
        )
    if "signature" in text.lower() or "invalid_grant" in text:
        return _auth_error(
            f"The key of service account {account} is not valid",
            text,
            "Create a new key.",
            f"gcloud iam service-accounts keys create key.json --iam-account={account}",
        )
    return _auth_error(
        f"Google rejected service account {account}",
        text,
        f"Set {_CREDENTIALS_VARIABLE} to another key file.",
    )


def _explain_impersonation_error(text: str, source: CredentialSource) -> CloudError:
    target = source.get("service_account_impersonation_url").rpartition("/")[2].partition(":")[0]
    if "invalid_grant" in text:
        return _explain_user_error(text, source)
    return _auth_error(
        f"You do not have permission to impersonate service account {target}",
        text,
        "Ask its owner to grant you access.",
        f"gcloud iam service-accounts add-iam-policy-binding {target} "
        "--member=user:YOU --role=roles/iam.serviceAccountTokenCreator",
    )


def _explain_external_account_error(text: str, source: CredentialSource) -> CloudError:
    if "impersonat" in text.lower() or "getAccessToken" in text or "iamcredentials" in text:
        target = source.get("service_account_impersonation_url").rpartition("/")[2].partition(":")[0]
        return _auth_error(
            f"Your credentials do not have permission to impersonate service account {target}",
            text,
            "Ask its owner to grant access to your identity pool.",
            f"gcloud iam service-accounts add-iam-policy-binding {target} "
            "--member=principalSet://… --role=roles/iam.workloadIdentityUser",
        )
    token_source = (source.body or {}).get("credential_source", {})
    command = token_source.get("executable", {}).get("command", "")
    where = str(token_source.get("file") or token_source.get("url") or command)
    if "was not found" in text or "No such file" in text:
        return _auth_error(
            f"The token of {source.title} does not exist",
            where,
            "Ask your identity provider for a token.",
            _LOGIN_COMMAND,
        )
    if "workforce" in source.title:
        command = "gcloud auth application-default login --login-config=LOGIN_CONFIG"
        return _auth_error(
            f"The token of {source.title} has expired or was rejected", text, "Sign in again.", command
        )
    return _auth_error(
        f"The token of {source.title} has expired or was rejected",
        f"{where}: {text}",
        "Ask your identity provider for a new token.",
        f"gcloud iam workload-identity-pools providers describe {source.get('audience').rpartition('/')[2]} "
        "--location=global --workload-identity-pool=POOL",
    )


def _explain_metadata_error(text: str, source: CredentialSource) -> CloudError:
    return _auth_error(
        "This machine has no usable service account",
        text,
        "Attach one, or sign in with your own account.",
        "gcloud compute instances set-service-account NAME --zone=ZONE --service-account=ACCOUNT --scopes=cloud-platform",
    )
