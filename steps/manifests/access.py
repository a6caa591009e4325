"""Access inside the cluster: the token Secret, the head's permission to release its GPU nodes, and the network policy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core.catalog import read_asset
from grpo_wizard.steps.core.model import SecretValue

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

SECRETS_PATH = "/etc/grpo-wizard/secrets"
RELEASE_PATH = "/etc/grpo-wizard/release"


def _metadata(name: str, answers: Answers) -> dict[str, object]:
    return {"name": name, "namespace": answers.raycluster.namespace}


def token_secret_name(answers: Answers) -> str:
    return f"{answers.raycluster.raycluster_name}-tokens"


def service_account_name(answers: Answers) -> str:
    return f"{answers.raycluster.raycluster_name}-release"


def token_secret(answers: Answers) -> dict[str, object]:
    """The token Secret. It is mounted as files, never as environment: NeMo RL v0.5.0 copies os.environ into Ray's runtime_env, which the dashboard shows."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(token_secret_name(answers), answers),
        "type": "Opaque",
        "stringData": {
            "hf_token": SecretValue("hf_token", optional=True),
            "netrc": SecretValue("wandb_netrc", optional=True),
        },
    }


def release_config_map(answers: Answers) -> dict[str, object]:
    """The release sidecar's script and settings. The settings are a file, so that they can change while the head runs."""
    job = answers.grpo
    settings = {
        "AFTER_JOB": job.after_job,
        "RELEASE_MINUTES": f"{job.release_minutes:g}",
        "MAX_HOURS": f"{job.max_hours:g}",
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(service_account_name(answers), answers),
        "data": {"release.py": read_asset("job/release.py"), "settings.json": json.dumps(settings)},
    }


def service_account(answers: Answers) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(service_account_name(answers), answers),
    }


def role(answers: Answers) -> dict[str, Any]:
    """Permission to patch this RayCluster, and no other."""
    rule = {
        "apiGroups": ["ray.io"],
        "resources": ["rayclusters"],
        "verbs": ["get", "patch"],
        "resourceNames": [answers.raycluster.raycluster_name],
    }
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": _metadata(service_account_name(answers), answers),
        "rules": [rule],
    }


def role_binding(answers: Answers) -> dict[str, object]:
    name = service_account_name(answers)
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(name, answers),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": answers.raycluster.namespace}],
    }


def network_policy(answers: Answers) -> dict[str, object]:
    """Ray 2.49 has no authentication of its own, so only pods of this RayCluster may connect to its pods."""
    own_pods = {"matchLabels": {"ray.io/cluster": answers.raycluster.raycluster_name}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(f"{answers.raycluster.raycluster_name}-own-pods-only", answers),
        "spec": {
            "podSelector": own_pods,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": own_pods}]}],
        },
    }
