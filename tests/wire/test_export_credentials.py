"""`credentials`, and the real kubectl with what it wrote."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cli_harness import CliHarness, clean_environment, cli_harness

NAME = "rehearsal_gke_my-project_us-central1_nemo-cluster"
BESIDE = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliHarness]:
    """A world in which the cluster stands."""
    with cli_harness(tmp_path_factory.mktemp("credentials") / "home") as walk:
        walk.init()
        done = walk.run("apply", "--yes", "--until", "cluster")
        assert done.returncode == 0, done.stdout + done.stderr
        yield walk


def kubectl(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The real one, with this kubeconfig and nothing else."""
    tool = shutil.which("kubectl", path=BESIDE)
    if tool is None:
        pytest.skip("kubectl is not installed here")
    environment = clean_environment(KUBECONFIG=str(config), HOME=str(config.parent))
    return subprocess.run([tool, *words], capture_output=True, text=True, timeout=60, env=environment)


def test_kubectl_works_with_the_entry_and_other_entries_stay(cluster: CliHarness, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("apiVersion: v1\nkind: Config\nusers: [{name: me, user: {token: mine}}]\n")
    done = cluster.run("credentials", KUBECONFIG=str(config))
    assert done.returncode == 0, done.stderr
    assert NAME in done.stdout and stat.S_IMODE(config.stat().st_mode) == 0o600
    found = yaml.safe_load(config.read_text())
    assert found["current-context"] == NAME
    assert [user["name"] for user in found["users"]] == ["me", NAME]
    seen = kubectl(config, "get", "daemonsets", "--namespace=kube-system", "--output=json")
    assert seen.returncode == 0, seen.stderr
    assert "nccl-rdma-installer" in [item["metadata"]["name"] for item in json.loads(seen.stdout)["items"]]


def test_without_kubeconfig_it_is_the_users_own_file(cluster: CliHarness, tmp_path: Path) -> None:
    done = cluster.run("credentials", KUBECONFIG="", HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert NAME in (tmp_path / ".kube" / "config").read_text()


def test_with_no_cluster_nothing_is_written(tmp_path: Path) -> None:
    with cli_harness(tmp_path / "home") as walk:
        walk.init()
        done = walk.run("credentials", KUBECONFIG=str(tmp_path / "config"))
    assert done.returncode == 1 and "nemo-cluster is not running" in done.stderr
    assert not (tmp_path / "config").exists()
