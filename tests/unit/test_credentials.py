"""Who am I: google-auth's own code against a token service on loopback; every trouble has its message and its command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from token_service import GRANTED, TokenService, token_service

from grpo_wizard.steps.clients import credentials
from grpo_wizard.steps.clients.errors import CloudError

JSON = dict[str, Any]
TOKENINFO = (200, {"email": "user@example.com", "expires_in": "3599"})
FRAME = (
    "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
    "Check your iat and exp values in the JWT claim."
)


def refusal(description: str, error: str = "invalid_grant", **more: str) -> tuple[int, JSON]:
    return 400, {"error": error, "error_description": description, **more}


@pytest.fixture(scope="module")
def key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem.decode()


@pytest.fixture
def signed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[JSON], Path]:
    """Writes a credentials file and makes it the one that google-auth finds; nothing of the developer's is seen."""
    for name in [n for n in os.environ if n.startswith(("GOOGLE_", "CLOUDSDK_", "GCE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    (tmp_path / "gcloud").mkdir()

    def write(body: JSON) -> Path:
        path = tmp_path / "credentials.json"
        path.write_text(json.dumps(body))
        if body.get("type") == "authorized_user":  # google-auth asks Google for these, whatever the file says
            monkeypatch.setattr("google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", body["token_uri"])
        if body.get("type") == "external_account":  # and for these which project they are of
            here = body["token_url"].removesuffix("sts")
            monkeypatch.setattr("google.auth.external_account._CLOUD_RESOURCE_MANAGER", here)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        return path

    return write


def user(service: TokenService, **more: str) -> JSON:
    return {
        "type": "authorized_user",
        "client_id": "id",
        "client_secret": "made-up",
        "refresh_token": "made-up",
        "token_uri": f"{service.url}/token",
        **more,
    }


def account(service: TokenService, key: str) -> JSON:
    return {
        "type": "service_account",
        "project_id": "my-project",
        "private_key_id": "1",
        "private_key": key,
        "client_email": "run@my-project.iam.gserviceaccount.com",
        "token_uri": f"{service.url}/token",
    }


def external(
    service: TokenService, subject: Path, pool: str = "workloadIdentityPools/p", **more: Any
) -> JSON:
    return {
        "type": "external_account",
        "audience": f"//iam.googleapis.com/projects/123456789012/locations/global/{pool}/providers/x",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{service.url}/sts",
        "credential_source": {"file": str(subject)},
        **more,
    }


def trouble() -> CloudError:
    with pytest.raises(CloudError) as caught:
        credentials.load_credentials()
    assert caught.value.title and caught.value.fix and caught.value.command
    return caught.value


def test_gclouds_own_credentials_are_found_and_their_owner_is_asked_for(
    signed_in: Callable[[JSON], Path],
) -> None:
    with token_service({"/token": (200, GRANTED), "/tokeninfo": TOKENINFO}) as service:
        signed_in(user(service))
        found, who = credentials.load_credentials()
    assert found.token == GRANTED["access_token"]
    assert (who.account, who.source.kind, who.quota_project) == ("user@example.com", "authorized_user", "")


def test_a_quota_project_and_gclouds_own_account_are_known(
    signed_in: Callable[[JSON], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "gcloud"
    (folder / "configurations").mkdir()
    (folder / "active_config").write_text("work\n")
    (folder / "configurations" / "config_work").write_text("[core]\naccount = other@example.com\n")
    with token_service({"/token": (200, GRANTED), "/tokeninfo": TOKENINFO}) as service:
        signed_in(user(service, quota_project_id="billed-here"))
        who = credentials.load_credentials()[1]
    assert who.to_json()["quota_project"] == "billed-here"
    assert who.to_json()["gcloud_account"] == "other@example.com"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (refusal("Token has been expired or revoked."), "Your sign-in has expired or was revoked"),
        (
            refusal("reauth related error (invalid_rapt)", error_subtype="invalid_rapt"),
            "Your organization's session length requires you to sign in again",
        ),
    ],
)
def test_an_expired_sign_in_says_so(
    signed_in: Callable[[JSON], Path], said: tuple[int, JSON], title: str
) -> None:
    with token_service({"/token": said}) as service:
        signed_in(user(service))
        found = trouble()
    assert found.title == title and found.command == "gcloud auth application-default login"


def test_a_service_accounts_key_file_speaks_for_its_account(
    signed_in: Callable[[JSON], Path], key: str
) -> None:
    with token_service({"/token": (200, GRANTED)}) as service:
        signed_in(account(service, key))
        who = credentials.load_credentials()[1]
    assert (who.account, who.source.kind) == ("run@my-project.iam.gserviceaccount.com", "service_account")


@pytest.mark.parametrize(
    ("said", "title", "command"),
    [
        (refusal("Invalid JWT Signature."), "is not valid", "gcloud iam service-accounts keys create"),
        (
            refusal("Invalid grant: account not found"),
            "does not exist",
            "gcloud iam service-accounts list --project=my-project",
        ),
    ],
)
def test_a_deleted_key_and_a_deleted_account_are_two_messages(
    signed_in: Callable[[JSON], Path], key: str, said: tuple[int, JSON], title: str, command: str
) -> None:
    with token_service({"/token": said}) as service:
        signed_in(account(service, key))
        found = trouble()
    assert title in found.title and found.command.startswith(command)


@pytest.mark.parametrize("words", [FRAME, "Invalid JWT."])
def test_a_wrong_clock_is_measured_and_named_and_asked_about_once(
    signed_in: Callable[[JSON], Path], key: str, words: str
) -> None:
    """f07: by Google's own text, and by the Date header where the text does not say it."""
    with token_service({"/token": refusal(words)}, date=time.time() - 2 * 3600 - 200) as service:
        signed_in(account(service, key))
        found = trouble()
    assert (found.kind, found.title) == ("clock", "This computer's clock appears to be wrong")
    assert "It is 2 h 03 m ahead of Google's" in found.detail and "key" not in found.title
    assert service.requests.count("POST /token") == 1


def test_the_right_time_and_a_bad_key_are_no_clock_trouble(
    signed_in: Callable[[JSON], Path], key: str
) -> None:
    with token_service({"/token": refusal("Invalid JWT Signature.")}) as service:
        signed_in(account(service, key))
        assert trouble().kind == "auth"


@pytest.mark.parametrize(
    ("pool", "title"),
    [
        ("workloadIdentityPools/p", "an external account (workload identity)"),
        ("workforcePools/p", "an external account (workforce identity)"),
    ],
)
def test_external_accounts_are_found_and_named(
    signed_in: Callable[[JSON], Path], tmp_path: Path, pool: str, title: str
) -> None:
    subject = tmp_path / "subject"
    subject.write_text("a.b.c")
    granted = GRANTED | {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
    with token_service({"/sts": (200, granted), "/tokeninfo": (400, {})}) as service:
        signed_in(external(service, subject, pool))
        who = credentials.load_credentials()[1]
    assert (who.source.title, who.account) == (title, title)


def test_an_external_accounts_expired_token_missing_token_and_wrong_account_are_three_messages(
    signed_in: Callable[[JSON], Path], tmp_path: Path
) -> None:
    subject = tmp_path / "subject"
    granted = GRANTED | {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
    target = "run@my-project.iam.gserviceaccount.com"
    with token_service({"/sts": refusal("The given credential is expired: ID token expired.")}) as service:
        signed_in(external(service, subject))
        missing = trouble()
        subject.write_text("a.b.c")
        expired = trouble()
        service.answers["/sts"] = (200, granted)
        denied = {"error": {"code": 403, "message": "Permission 'iam.serviceAccounts.getAccessToken' denied"}}
        path = f"/v1/projects/-/serviceAccounts/{target}:generateAccessToken"
        service.answers[path] = (403, denied)
        signed_in(external(service, subject, service_account_impersonation_url=f"{service.url}{path}"))
        wrong = trouble()
    assert "does not exist" in missing.title and str(subject) in missing.detail
    assert "has expired or was rejected" in expired.title
    assert f"not have permission to impersonate service account {target}" in wrong.title
    assert wrong.command.startswith(f"gcloud iam service-accounts add-iam-policy-binding {target}")


def test_no_credentials_a_missing_file_and_a_file_of_something_else_are_three_messages(
    signed_in: Callable[[JSON], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = trouble()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "gone.json"))
    gone = trouble()
    signed_in({"hello": "there"})
    other = trouble()
    assert nothing.title == "No Google credentials were found"
    assert (gone.title, gone.command) == (
        "The credentials file does not exist",
        "unset GOOGLE_APPLICATION_CREDENTIALS",
    )
    assert other.title == "The credentials file does not contain credentials"


def test_a_sign_in_service_that_cannot_be_reached_is_no_wrong_password(
    signed_in: Callable[[JSON], Path],
) -> None:
    with token_service({}) as service:
        signed_in(user(service))
    with pytest.raises(CloudError) as caught:
        credentials.load_credentials()
    assert caught.value.kind == "transient" and "could not be reached" in caught.value.title


_SHOW = """
import json, sys
from grpo_wizard.steps.clients import credentials
from grpo_wizard.steps.clients.errors import CloudError
try:
    print(json.dumps(credentials.load_credentials()[1].to_json()))
except CloudError as error:
    print(json.dumps(error.to_json()))
"""


@pytest.mark.parametrize("has_account", [True, False])
def test_the_metadata_server_is_the_last_resort(tmp_path: Path, has_account: bool) -> None:
    """In a process of its own: google-auth reads the server's address when it is imported."""
    base = "/computeMetadata/v1"
    home = f"{base}/instance/service-accounts/default"
    answers: dict[str, tuple[int, Any]] = {"/": (200, "computeMetadata/"), base: (200, "")}
    answers[f"{base}/project/project-id"] = (200, "my-project")
    answers[f"{base}/universe/universe-domain"] = (200, "googleapis.com")
    if has_account:
        info = {
            "email": "vm@my-project.iam.gserviceaccount.com",
            "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
        }
        answers[home] = (200, info)
        for name in ("default", info["email"]):
            answers[f"{base}/instance/service-accounts/{name}/token"] = (200, GRANTED)
    with token_service(answers) as service:
        address = service.url.removeprefix("http://")
        environment = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("GOOGLE_", "CLOUDSDK_", "GCE_", "NO_GCE"))
        }
        environment |= {
            "GCE_METADATA_HOST": address,
            "GCE_METADATA_IP": address,
            "CLOUDSDK_CONFIG": str(tmp_path),
        }
        done = subprocess.run(
            [sys.executable, "-c", _SHOW], capture_output=True, text=True, env=environment, timeout=120
        )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    if has_account:
        assert (shown["account"], shown["kind"]) == ("vm@my-project.iam.gserviceaccount.com", "metadata")
    else:
        assert shown["title"] == "This machine has no usable service account"
        assert shown["command"].startswith("gcloud compute instances set-service-account")
