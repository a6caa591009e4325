"""Write a cluster's kubeconfig entry as `gcloud container clusters get-credentials` does (gcloud 528)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grpo_wizard.state.atomic import replace
from grpo_wizard.state.errors import WizardError

JSON = dict[str, Any]
_HINT = (
    "Install gke-gcloud-auth-plugin for use with kubectl by following "
    "https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl#install_plugin"
)
_REPAIR_HINT = "Fix the file, or set KUBECONFIG to another one."
GCLOUD_PLUGIN: JSON = {
    "exec": {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "gke-gcloud-auth-plugin",
        "installHint": _HINT,
        "provideClusterInfo": True,
    }
}


def context_name(project: str, location: str, cluster: str, mode: str) -> str:
    """gcloud's name for the context. A rehearsal's has a prefix, so that it never replaces a real cluster's."""
    name = f"gke_{project}_{location}_{cluster}"
    return name if mode == "real" else f"rehearsal_{name}"


def path(environment: Mapping[str, str]) -> Path:
    """The file that gcloud and kubectl write: the first in KUBECONFIG, else ~/.kube/config."""
    for part in environment.get("KUBECONFIG", "").split(os.pathsep):
        if part:
            return Path(part).absolute()
    return Path.home() / ".kube" / "config"


def merge(
    existing: Mapping[str, object], name: str, server: str, ca: str, user: Mapping[str, object]
) -> JSON:
    """Add this cluster, user and context to `existing` and make the context current. `ca`: base64, as GKE returns it."""
    entries: dict[str, JSON] = {
        "clusters": {"cluster": {"certificate-authority-data": ca, "server": server}},
        "contexts": {"context": {"cluster": name, "user": name}},
        "users": {"user": dict(user)},
    }
    merged: JSON = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        **existing,
        "current-context": name,
    }
    for section, entry in entries.items():
        others = [item for item in merged.get(section) or [] if item.get("name") != name]
        merged[section] = [*others, {"name": name, **entry}]
    return merged


def read(file: Path) -> JSON:
    """Read a kubeconfig, empty when the file does not exist. Raises WizardError when it is not a kubeconfig."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Keeps dates as strings."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        found = yaml.load(file.read_text("utf-8"), Loader) if file.exists() else {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise WizardError(f"{file} cannot be read", str(error), _REPAIR_HINT) from error
    sections = ("clusters", "contexts", "users")
    if not isinstance(found or {}, dict) or any(
        not isinstance((found or {}).get(s) or [], list) for s in sections
    ):
        raise WizardError(f"{file} is not a kubeconfig", "", _REPAIR_HINT)
    return found or {}


def write(file: Path, name: str, server: str, ca: str, user: Mapping[str, object]) -> None:
    """Write the entry into the file (0600) atomically; all other entries stay. Raises WizardError."""
    import yaml

    target = file.resolve()  # a symbolic link stays one
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _file_lock(target):
            text = yaml.safe_dump(merge(read(target), name, server, ca, user), sort_keys=False)
            replace(target, text.encode(), None)
    except OSError as error:
        raise WizardError(f"{file} cannot be written", error.strerror or str(error)) from error


@contextlib.contextmanager
def _file_lock(file: Path) -> Iterator[None]:
    """kubectl's own lock: a file beside it that only one process can create."""
    lock = file.with_name(file.name + ".lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError as error:
        raise WizardError(
            f"{file} is being written by another process",
            f"The lock file {lock} exists.",
            "Wait a moment. If no process writes the file, delete the lock file.",
        ) from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
