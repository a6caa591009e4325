"""A private certificate authority for this home, and server certificates issued by it.

The CA is name-constrained: a client that trusts it does so for Google's API hosts, Hugging Face, W&B and
loopback only.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PROXIED_DOMAINS = ("googleapis.com", "huggingface.co", "api.wandb.ai")
# Names of a cluster's API server inside the cluster.
_CLUSTER_HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "cluster.local")
DEFAULT_HOSTS = (
    "*.googleapis.com",
    "googleapis.com",
    "huggingface.co",
    "api.wandb.ai",
    "localhost",
    "127.0.0.1",
)
_CA_LIFETIME = datetime.timedelta(days=3 * 365)
_LEAF_LIFETIME = datetime.timedelta(days=397)  # browsers and Apple's tools reject longer lifetimes
_CHAIN_PREFIX = "chain-"
_RENEW_BEFORE = datetime.timedelta(days=400)


def _subject_name(text: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "grpo-wizard rehearsal"),
            x509.NameAttribute(NameOID.COMMON_NAME, text),
        ]
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that is readable by its owner only, from the start."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)  # an existing file may be readable by others
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


class CertificateAuthority:
    """The CA of a home folder.

    `ca.pem` and `ca.key` (0600) in `folder`, created if missing or close to expiry.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca_file = folder / "ca.pem"
        self._key_file = folder / "ca.key"
        if not self._is_valid():
            self._create()
        for leftover in folder.glob(f"{_CHAIN_PREFIX}*"):  # of a server that was killed while it loaded one
            shutil.rmtree(leftover, ignore_errors=True)
        self.pem = self.ca_file.read_bytes()
        self._certificate = x509.load_pem_x509_certificate(self.pem)
        key = serialization.load_pem_private_key(self._key_file.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    def _is_valid(self) -> bool:
        if not (self.ca_file.exists() and self._key_file.exists()):
            return False
        certificate = x509.load_pem_x509_certificate(self.ca_file.read_bytes())
        return certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC) > _RENEW_BEFORE

    def _create(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        permitted = [x509.DNSName(host) for host in (*PROXIED_DOMAINS, *_CLUSTER_HOSTS)]
        loopback = x509.IPAddress(ipaddress.ip_network("127.0.0.0/8"))
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_subject_name("private CA"))
            .issuer_name(_subject_name("private CA"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + _CA_LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.NameConstraints([*permitted, loopback], None), critical=True)
            .add_extension(_key_usage(ca=True), critical=True)
            .add_extension(identifier, critical=False)
            .sign(key, hashes.SHA256())
        )
        write_private(self._key_file, _private_pem(key))
        self.ca_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def create_tls_context(self, *hosts: str) -> ssl.SSLContext:
        """Return a server TLS context with a fresh certificate for `hosts` (default: all emulated hosts)."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = hosts or DEFAULT_HOSTS
        now = datetime.datetime.now(datetime.UTC)
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_subject_name("rehearsal server"))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + _LEAF_LIFETIME)
            .add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in names]), critical=False
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(authority_key, critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return self._load_context(
            _private_pem(key) + certificate.public_bytes(serialization.Encoding.PEM) + self.pem
        )

    def _load_context(self, chain: bytes) -> ssl.SSLContext:
        """Load a certificate chain; ssl needs a file, so it is written to a private one in the CA's folder."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix=_CHAIN_PREFIX, dir=self.folder) as scratch:
            path = Path(scratch) / "chain.pem"
            write_private(path, chain)
            context.load_cert_chain(path)
        return context


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
