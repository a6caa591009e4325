"""The server as an HTTPS proxy: CONNECT, its private CA, and hosts that it does not serve."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from pathlib import Path

import pytest
from emulator_server import EmulatorServer

from grpo_wizard.steps.emulator.server.tls import CertificateAuthority

PATH = "/v1/projects/my-project/services/compute.googleapis.com"


def through(server: EmulatorServer, host: str, proxy: str = "", bearer: str = "") -> tuple[int, str]:
    """GET of one path of `host` through the proxy: (status, body)."""
    address, _, port = server.base_url.removeprefix("http://").partition(":")
    context = ssl.create_default_context(cafile=server.address.env["CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"])
    connection = http.client.HTTPSConnection(address, int(port), context=context, timeout=20)
    password = base64.b64encode(f"rehearsal:{proxy}".encode()).decode()
    connection.set_tunnel(host, 443, {"Proxy-Authorization": f"Basic {password}"} if proxy else {})
    connection.request("GET", PATH, headers={"Authorization": f"Bearer {bearer}"} if bearer else {})
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_the_bearer_inside_or_the_proxys_password_opens(shared_rehearsal: EmulatorServer) -> None:
    for secrets in ({"bearer": shared_rehearsal.token}, {"proxy": shared_rehearsal.token}):
        status, body = through(shared_rehearsal, "serviceusage.googleapis.com", **secrets)
        assert status == 200, body
        assert json.loads(body)["name"] == "projects/123456789012/services/compute.googleapis.com"
    assert through(shared_rehearsal, "serviceusage.googleapis.com")[0] == 401
    assert through(shared_rehearsal, "serviceusage.googleapis.com", bearer="wrong")[0] == 401


def test_a_wrong_proxy_password_and_foreign_hosts_are_refused(shared_rehearsal: EmulatorServer) -> None:
    with pytest.raises(OSError, match="407"):
        through(shared_rehearsal, "serviceusage.googleapis.com", proxy="wrong")
    for host in ("example.com", "googleapis.com.example.com", "evilgoogleapis.com"):
        with pytest.raises(OSError, match="403"):
            through(shared_rehearsal, host, proxy=shared_rehearsal.token)


def test_a_service_that_is_not_stood_in_for_is_501(shared_rehearsal: EmulatorServer) -> None:
    assert through(shared_rehearsal, "bigquery.googleapis.com", bearer=shared_rehearsal.token)[0] == 501


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """A TLS handshake in memory. Raises ssl.SSLError where the client does not trust."""
    pipes = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(pipes[0], pipes[1], server_hostname=host),
        server.wrap_bio(pipes[1], pipes[0], server_side=True),
    )
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


def test_the_authority_is_good_for_its_own_hosts_only_and_is_kept(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    client = ssl.create_default_context(cafile=str(authority.ca_file))
    for host in ("compute.googleapis.com", "huggingface.co", "api.wandb.ai", "127.0.0.1"):
        handshake(authority.create_tls_context(), client, host)
    handshake(authority.create_tls_context("127.0.0.1", "kubernetes.default"), client, "127.0.0.1")
    with pytest.raises(ssl.SSLError, match="permitted subtree"):
        handshake(authority.create_tls_context("example.com"), client, "example.com")
    assert CertificateAuthority(tmp_path).pem == authority.pem
    assert (tmp_path / "ca.key").stat().st_mode & 0o077 == 0
