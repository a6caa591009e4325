"""`credentials`: adds the cluster to the kubeconfig, like `gcloud container clusters get-credentials`."""

from __future__ import annotations

import argparse
import base64
import os
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.kubernetes import kubeconfig
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.tui.commands._session import open_session

if TYPE_CHECKING:
    from grpo_wizard.steps.clients.context import CloudContext
    from grpo_wizard.steps.clients.kubernetes.api import ClusterEndpoint


def run(args: argparse.Namespace) -> int:
    session = open_session(args)
    file = kubeconfig.path(os.environ)
    name = write_kubeconfig(session, file)
    print(f"Added context {name} to {file} and made it the current context.")
    print(f"Next: kubectl --context={name} get pods --namespace={session.answers.raycluster.namespace}")
    return 0


def write_kubeconfig(session: Session, file: Path) -> str:
    """Write the entry and return its name. gcloud's plugin supplies a real cluster's token; the emulator's is fixed."""
    place, cluster = session.answers.project, session.answers.cluster.cluster_name
    found = _cluster_access(session.cloud, place.project_id, place.region, cluster)
    if found is None:
        raise WizardError(
            f"Cluster {cluster} is not running",
            f"No running cluster with this name was found in {place.project_id}, {place.region}.",
            "Run `grpo-wizard apply` to create it.",
        )
    mode = session.deployment.mode
    name = kubeconfig.context_name(place.project_id, place.region, cluster, mode)
    user = kubeconfig.GCLOUD_PLUGIN if mode == "real" else {"token": session.cloud.kube_token}
    kubeconfig.write(file, name, found.server, base64.b64encode(found.ca_pem).decode(), user)
    return name


def _cluster_access(cloud: CloudContext, project: str, location: str, cluster: str) -> ClusterEndpoint | None:
    """Return None if the cluster does not exist yet, or if GKE's API is disabled."""
    from grpo_wizard.steps.clients.errors import CloudError
    from grpo_wizard.steps.clients.kubernetes.api import cluster_endpoint

    try:
        return cluster_endpoint(cloud, project, location, cluster)
    except CloudError as error:
        if error.kind == "api_disabled":
            return None
        raise
