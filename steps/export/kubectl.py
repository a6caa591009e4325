"""Kubernetes objects as kubectl commands.

Manifests are here-documents, the Secret is created from private files, the job is submitted over HTTP.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_wizard.steps.clients.serialization import OWNER_LABEL_KEY, with_owner
from grpo_wizard.steps.core.catalog import read_asset
from grpo_wizard.steps.core.model import OutputRef, Resource
from grpo_wizard.steps.export.bash import assignment, here_document, placeholders, to_yaml
from grpo_wizard.steps.export.gcloud import ExportContext

# Outputs of other resources, and the shell variable that holds each.
_OUTPUT_VARIABLES = {"ip": "LUSTRE_IP", "cidr": "LUSTRE_RANGE"}


def get_credentials() -> list[str]:
    return ['gcloud container clusters get-credentials "${CLUSTER}" --location="${REGION}"']


def apply_objects(resources: Sequence[Resource], context: ExportContext) -> list[str]:
    """Apply several objects from one here-document; sed fills in the values that only the cloud knows."""
    text = "---\n".join(to_yaml(_manifest(r, context)) for r in resources)
    names = placeholders(text)
    if not names:
        return here_document(text, "k apply -f - <<")
    edits = " ".join(f'-e "s|@{name}@|${{{name}}}|"' for name in names)
    return here_document(text, f"sed {edits} << | k apply -f -")


def _manifest(resource: Resource, context: ExportContext) -> dict[str, Any]:
    plain: dict[str, Any] = _with_placeholders(resource.spec)
    return with_owner(plain, context.owner_label, "metadata.labels")


def _with_placeholders(value: object) -> Any:
    """Replace each output reference in a spec by `@VARIABLE@`."""
    if isinstance(value, Mapping):
        return {key: _with_placeholders(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_placeholders(item) for item in value]
    return f"@{_OUTPUT_VARIABLES[value.key]}@" if isinstance(value, OutputRef) else value


def wait_for_lustre() -> list[str]:
    """Wait for the instance and read its address."""
    return read_asset("export/lustre.sh").splitlines()


def wait_for_claim(resource: Resource) -> list[str]:
    wait = "k wait --for=jsonpath='{.status.phase}'=Bound --timeout=10m --namespace=\"${NAMESPACE}\""
    return [f"{wait} pvc/{shlex.quote(resource.name)}"]


def create_secret(resource: Resource, context: ExportContext) -> list[str]:
    """Create the Secret from those of the two tokens that are set in the environment."""
    rows = [assignment("TOKENS", resource.name), *read_asset("export/secret.sh").splitlines()]
    label = f'k label secret "${{TOKENS}}" --namespace="${{NAMESPACE}}" "{OWNER_LABEL_KEY}=${{MARK}}"'
    return rows + ([label] if context.owner_label else [])


def create_raycluster(resource: Resource, context: ExportContext) -> list[str]:
    """Create it without workers first, so that no GPU node is requested before the head is ready."""
    manifest = _manifest(resource, context)
    group = manifest["spec"]["workerGroupSpecs"][0]
    without_workers = manifest | {"spec": manifest["spec"] | {"workerGroupSpecs": [{**group, "replicas": 0}]}}
    return [
        *here_document(to_yaml(without_workers), "k apply -f - <<"),
        *read_asset("export/raycluster.sh").splitlines(),
    ]


def submit_job(resource: Resource, context: ExportContext) -> list[str]:
    """Submit through a forwarded port to Ray's Jobs API, with the metadata by which grpo-wizard recognizes its jobs."""
    from grpo_wizard.steps.clients.ray.job_driver import OWNER_KEY, PARAMETERS_KEY, parameters_hash

    entrypoint = str(resource.spec["entrypoint"])
    metadata = {
        OWNER_KEY: context.deployment_id,
        PARAMETERS_KEY: parameters_hash(entrypoint),
        "name": resource.name,
    }
    body = json.dumps({"entrypoint": entrypoint, "metadata": metadata}, indent=1, ensure_ascii=False)
    send = "ray /api/jobs/ --header 'Content-Type: application/json' --data-binary @- <<"
    return [*read_asset("export/job.sh").splitlines(), *here_document(body, send, "JSON"), "echo"]
