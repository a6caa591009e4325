"""The kubeconfig: the right file, gcloud's own entry, everything else left as it was."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import yaml

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.kubernetes import kubeconfig

NAME = kubeconfig.context_name("my-project", "us-central1", "nemo-cluster", "real")
OTHERS = """\
apiVersion: v1
kind: Config
current-context: other
preferences: {colors: true}
clusters:
- {name: other, cluster: {server: "https://10.0.0.1", insecure-skip-tls-verify: true}}
contexts:
- {name: other, context: {cluster: other, user: me, namespace: mine}}
users:
- name: me
  user: {auth-provider: {name: gcp, config: {expiry: 2026-01-02T03:04:05Z}}}
extensions: [{name: kept, extension: {a: 1}}]
"""


def _write(file: Path, server: str = "https://1.2.3.4") -> None:
    kubeconfig.write(file, NAME, server, "Q0E=", kubeconfig.GCLOUD_PLUGIN)


def test_a_new_file_holds_what_gcloud_writes(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "config"
    _write(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = yaml.safe_load(file.read_text())
    name = "gke_my-project_us-central1_nemo-cluster"
    assert found["current-context"] == name
    assert found["clusters"] == [
        {"name": name, "cluster": {"certificate-authority-data": "Q0E=", "server": "https://1.2.3.4"}}
    ]
    assert found["contexts"] == [{"name": name, "context": {"cluster": name, "user": name}}]
    plugin = found["users"][0]["user"]["exec"]
    assert plugin["command"] == "gke-gcloud-auth-plugin" and plugin["provideClusterInfo"] is True
    assert plugin["apiVersion"] == "client.authentication.k8s.io/v1beta1"
    assert [path.name for path in file.parent.iterdir()] == ["config"]


def test_other_entries_stay_and_the_same_entry_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(OTHERS)
    _write(file, "https://old")
    _write(file)
    before, after = yaml.safe_load(OTHERS), yaml.safe_load(file.read_text())
    for section in ("clusters", "contexts"):
        assert after[section][0] == before[section][0]
        assert [entry["name"] for entry in after[section]] == ["other", NAME]
    assert after["clusters"][1]["cluster"]["server"] == "https://1.2.3.4"
    assert after["users"][0]["user"]["auth-provider"]["config"]["expiry"] == "2026-01-02T03:04:05Z"
    assert (after["extensions"], after["preferences"]) == (before["extensions"], before["preferences"])


def test_the_file_is_the_one_that_gcloud_would_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kubeconfig.path({}) == tmp_path / ".kube" / "config"
    assert kubeconfig.path({"KUBECONFIG": ""}) == tmp_path / ".kube" / "config"
    both = os.pathsep.join(["", str(tmp_path / "a"), str(tmp_path / "b")])
    assert kubeconfig.path({"KUBECONFIG": both}) == tmp_path / "a"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text(OTHERS)
    link = tmp_path / "config"
    link.symlink_to(tmp_path / "real")
    _write(link)
    assert link.is_symlink() and NAME in (tmp_path / "real").read_text()


@pytest.mark.parametrize("text", ["a: [", "- 1", "clusters: {}x", "clusters: 5", "\x00"])
def test_what_is_no_kubeconfig_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(WizardError, match="config"):
        _write(file)
    assert file.read_text() == text and [path.name for path in tmp_path.iterdir()] == ["config"]


def test_kubectls_lock_is_honoured(tmp_path: Path) -> None:
    file = tmp_path / "config"
    (tmp_path / "config.lock").touch()
    with pytest.raises(WizardError, match=r"config\.lock"):
        _write(file)
    assert not file.exists() and (tmp_path / "config.lock").exists()


def test_a_rehearsals_entry_cannot_stand_for_a_real_cluster() -> None:
    assert kubeconfig.context_name("p", "r", "c", "rehearsal") == "rehearsal_gke_p_r_c"
