"""The Lustre file system as the cluster sees it: a PersistentVolume bound to one claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_wizard.steps.core.model import OutputRef

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

PV_NAME, PVC_NAME = "lustre-pv", "lustre-pvc"


def storage_class(answers: Answers) -> str:
    """The name that Google's manifests use; volume and claim must have the same."""
    return f"lustre-rwx-{answers.lustre.per_unit_storage_throughput}mbps-per-tib"


def persistent_volume(answers: Answers, lustre_id: str) -> dict[str, object]:
    project, lustre = answers.project, answers.lustre
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": PV_NAME},
        "spec": {
            "storageClassName": storage_class(answers),
            "capacity": {"storage": f"{lustre.capacity_gib}Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "volumeMode": "Filesystem",
            "claimRef": {"namespace": answers.raycluster.namespace, "name": PVC_NAME},
            "csi": {
                "driver": "lustre.csi.storage.gke.io",
                "volumeHandle": f"{project.project_id}/{project.zone}/{lustre.lustre_name}",
                "volumeAttributes": {"ip": OutputRef(lustre_id, "ip"), "filesystem": lustre.filesystem},
            },
        },
    }


def persistent_volume_claim(answers: Answers) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": PVC_NAME, "namespace": answers.raycluster.namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": storage_class(answers),
            "volumeName": PV_NAME,
            "resources": {"requests": {"storage": f"{answers.lustre.capacity_gib}Gi"}},
        },
    }
