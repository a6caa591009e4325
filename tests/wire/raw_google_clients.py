"""Google's own Python clients with the emulator's endpoints."""

from __future__ import annotations

from typing import Any

from google.api_core.client_options import ClientOptions
from google.auth.credentials import Credentials


class Token(Credentials):  # type: ignore[misc]
    """Sends the emulator's token; never refreshes it."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    def refresh(self, request: object) -> None:
        """Do nothing: the token does not expire."""


def client(kind: Any, base_url: str, token: str, prefix: str = "") -> Any:
    """Return a google-cloud client over REST; `prefix` is the service's in the server's base URL (`lustre`)."""
    endpoint = f"{base_url}/{prefix}" if prefix else base_url
    return kind(
        credentials=Token(token), transport="rest", client_options=ClientOptions(api_endpoint=endpoint)
    )


def discovery_client(service: str, version: str, base_url: str, token: str) -> Any:
    """Return a googleapiclient service built from its packaged document."""
    import google_auth_httplib2
    import httplib2
    from googleapiclient.discovery import build

    http = google_auth_httplib2.AuthorizedHttp(Token(token), http=httplib2.Http(proxy_info=None))
    options = {"api_endpoint": f"{base_url}/{service}/"}
    return build(service, version, http=http, static_discovery=True, client_options=options)
