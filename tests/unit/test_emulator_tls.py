"""The emulator's certificates leave no private key outside its home."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from grpo_wizard.steps.emulator.server.tls import CertificateAuthority


def test_a_certificate_chain_is_loaded_without_a_file_outside_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    CertificateAuthority(tmp_path).create_tls_context("127.0.0.1")
    assert {path.name for path in tmp_path.iterdir()} == {"ca.pem", "ca.key"}


def test_a_chain_left_by_a_killed_server_is_removed_at_the_next_start(tmp_path: Path) -> None:
    leftover = tmp_path / "chain-abc"
    leftover.mkdir()
    (leftover / "chain.pem").write_text("a private key")
    CertificateAuthority(tmp_path)
    assert not leftover.exists()
