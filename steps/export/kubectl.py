"""What lives in the cluster as kubectl commands.

Manifests are here-documents, the Secret is made from private files, the job goes over HTTP.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_wizard.steps.clients.serialization import MARK_KEY, marked
from grpo_wizard.steps.core.catalog import asset
from grpo_wizard.steps.core.model import Fact, Resource
from grpo_wizard.steps.export.bash import assignment, here_document, placeholders, yaml
from grpo_wizard.steps.export.gcloud import Context

# Facts by their key, and the shell variable that holds them.
_VARIABLES = {"ip": "LUSTRE_IP", "cidr": "LUSTRE_RANGE"}
PLAIN = {
    "namespace",
    "daemonset",
    "network_params",
    "device_network",
    "pv",
    "pvc",
    "configmap",
    "service_account",
    "role",
    "role_binding",
    "network_policy",
}


def credentials() -> list[str]:
    return ['gcloud container clusters get-credentials "${CLUSTER}" --location="${REGION}"']


def objects(resources: Sequence[Resource], context: Context) -> list[str]:
    """Several objects in one here-document; what only the cloud knows is put in by sed."""
    text = "---\n".join(yaml(_manifest(r, context)) for r in resources)
    names = placeholders(text)
    if not names:
        return here_document(text, "k apply -f - <<")
    edits = " ".join(f'-e "s|@{name}@|${{{name}}}|"' for name in names)
    return here_document(text, f"sed {edits} << | k apply -f -")


def _manifest(resource: Resource, context: Context) -> dict[str, Any]:
    plain: dict[str, Any] = _named(resource.spec)
    return marked(plain, context.mark, "metadata.labels")


def _named(value: Any) -> Any:
    """A spec with `@VARIABLE@` where only the cloud knows the value."""
    if isinstance(value, Mapping):
        return {key: _named(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_named(item) for item in value]
    return f"@{_VARIABLES[value.key]}@" if isinstance(value, Fact) else value


def lustre_ready() -> list[str]:
    """Waits for the instance and takes its address."""
    return asset("export/lustre.sh").splitlines()


def claim_bound(resource: Resource) -> list[str]:
    wait = "k wait --for=jsonpath='{.status.phase}'=Bound --timeout=10m --namespace=\"${NAMESPACE}\""
    return [f"{wait} pvc/{shlex.quote(resource.name)}"]


def secret(resource: Resource, context: Context) -> list[str]:
    """The two tokens of the environment, as far as they are there."""
    rows = [assignment("TOKENS", resource.name), *asset("export/secret.sh").splitlines()]
    label = f'k label secret "${{TOKENS}}" --namespace="${{NAMESPACE}}" "{MARK_KEY}=${{MARK}}"'
    return rows + ([label] if context.mark else [])


def raycluster(resource: Resource, context: Context) -> list[str]:
    """With no workers first: no GPU node is asked for before the head is ready."""
    made = _manifest(resource, context)
    group = made["spec"]["workerGroupSpecs"][0]
    alone = made | {"spec": made["spec"] | {"workerGroupSpecs": [{**group, "replicas": 0}]}}
    return [*here_document(yaml(alone), "k apply -f - <<"), *asset("export/raycluster.sh").splitlines()]


def job(resource: Resource, context: Context) -> list[str]:
    """Through a forwarded port to Ray's Jobs API, with the metadata by which the wizard knows its own."""
    from grpo_wizard.steps.clients.ray.job_driver import MARK, PARAMETERS, parameters

    entrypoint = str(resource.spec["entrypoint"])
    metadata = {MARK: context.lineage, PARAMETERS: parameters(entrypoint), "name": resource.name}
    body = json.dumps({"entrypoint": entrypoint, "metadata": metadata}, indent=1, ensure_ascii=False)
    send = "ray /api/jobs/ --header 'Content-Type: application/json' --data-binary @- <<"
    return [*asset("export/job.sh").splitlines(), *here_document(body, send, "JSON"), "echo"]
