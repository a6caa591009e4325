"""Step 5, Lustre: the address range and peering, the firewall rule, the instance, and the volume that connects it to the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core.model import DurationEstimate, OutputRef, Resource, Step
from grpo_wizard.steps.gcp.naming import api_id, gcloud_command, network_path, resource_id
from grpo_wizard.steps.lustre.answers import LustreAnswers
from grpo_wizard.steps.lustre.checks import CHECKS, LEGACY_PORT, PORT
from grpo_wizard.steps.manifests.storage import PV_NAME, PVC_NAME, persistent_volume, persistent_volume_claim

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def _address_range(answers: Answers, name: str, network: str) -> Resource:
    project_id = answers.project.project_id
    spec = {
        "name": name,
        "network": network_path(project_id, network),
        "purpose": "VPC_PEERING",
        "addressType": "INTERNAL",
        "ipVersion": "IPV4",
        "prefixLength": 20,
    }
    return Resource(
        step="lustre",
        kind="address",
        name=name,
        spec=spec,
        parent={"project": project_id},
        depends_on=(resource_id("networks", "network", network),),
        command=gcloud_command(
            "compute addresses create",
            {"global": True, "purpose": "VPC_PEERING", "prefix-length": 20, "network": network},
            name,
        ),
        adopt_paths=("network", "purpose", "prefixLength"),
    )


def _peering(answers: Answers, name: str, network: str) -> Resource:
    flags = {"service": "servicenetworking.googleapis.com", "ranges": name, "network": network}
    return Resource(
        step="lustre",
        kind="peering",
        name=network,
        spec={"network": network, "reservedPeeringRanges": [name]},
        parent={"project": answers.project.project_id, "network": network},
        depends_on=(resource_id("lustre", "address", name), api_id("servicenetworking")),
        command=gcloud_command("services vpc-peerings connect", flags),
        expected_duration=DurationEstimate(60, 300, "an estimate; Google publishes no figure"),
    )


def _firewall(answers: Answers, network: str, address: str) -> Resource:
    lustre, project_id = answers.lustre, answers.project.project_id
    ports = [PORT, LEGACY_PORT] if lustre.legacy_port else [PORT]
    name = f"{lustre.lustre_name}-lnet"
    spec = {
        "name": name,
        "network": network_path(project_id, network),
        "direction": "INGRESS",
        "sourceRanges": [OutputRef(address, "cidr")],
        "allowed": [{"IPProtocol": "tcp", "ports": ports}],
    }
    flags = {
        "network": network,
        "action": "ALLOW",
        "rules": ",".join(f"tcp:{port}" for port in ports),
        "source-ranges": "${LUSTRE_RANGE}",
    }
    command = gcloud_command("compute firewall-rules create", flags, name).replace(
        "'${LUSTRE_RANGE}'", '"${LUSTRE_RANGE}"'
    )
    return Resource(
        step="lustre",
        kind="firewall",
        name=name,
        spec=spec,
        parent={"project": project_id},
        depends_on=(address,),
        command=command,
        adopt_paths=("network", "direction", "allowed"),
    )


def _instance(answers: Answers, network: str, depends_on: tuple[str, ...]) -> Resource:
    lustre, project = answers.lustre, answers.project
    spec: dict[str, Any] = {
        "capacityGib": str(lustre.capacity_gib),
        "filesystem": lustre.filesystem,
        "network": network_path(project.project_id, network),
        "perUnitStorageThroughput": str(lustre.per_unit_storage_throughput),
    }
    spec |= {"gkeSupportEnabled": True} if lustre.legacy_port else {}
    flags = {
        "per-unit-storage-throughput": lustre.per_unit_storage_throughput,
        "capacity-gib": lustre.capacity_gib,
        "filesystem": lustre.filesystem,
        "location": project.zone,
        "network": spec["network"],
        "gke-support-enabled": lustre.legacy_port,
    }
    return Resource(
        step="lustre",
        kind="lustre",
        name=lustre.lustre_name,
        spec=spec,
        parent={"project": project.project_id, "location": project.zone},
        depends_on=depends_on,
        command=gcloud_command("lustre instances create", flags, lustre.lustre_name),
        expected_duration=DurationEstimate(
            2400,
            4800,
            "P99 of 40 to 80 minutes: https://github.com/GoogleCloudPlatform/magic-modules/pull/14878",
        ),
        usd_per_hour=None,
        adopt_paths=("network", "filesystem", "perUnitStorageThroughput"),
    )


def _resources(answers: Answers) -> Sequence[Resource]:
    lustre, project, network = answers.lustre, answers.project, answers.networks.network
    address = _address_range(answers, f"{lustre.lustre_name}-range", network)
    peering = _peering(answers, address.name, network)
    instance = _instance(answers, network, (peering.id, api_id("lustre")))
    cluster = resource_id("cluster", "cluster", answers.cluster.cluster_name)
    parent = {
        "project": project.project_id,
        "location": project.region,
        "cluster": answers.cluster.cluster_name,
    }
    volume = Resource(
        step="lustre",
        kind="pv",
        name=PV_NAME,
        spec=persistent_volume(answers, instance.id),
        parent=parent,
        depends_on=(cluster, instance.id),
        command="kubectl apply -f lustre-pv.yaml",
    )
    namespace = answers.raycluster.namespace
    claim_dependencies = (
        (volume.id,)
        if namespace == "default"
        else (volume.id, resource_id("raycluster", "namespace", namespace))
    )
    claim = Resource(
        step="lustre",
        kind="pvc",
        name=PVC_NAME,
        spec=persistent_volume_claim(answers),
        parent=parent | {"namespace": namespace},
        depends_on=claim_dependencies,
        command="kubectl apply -f lustre-pvc.yaml",
    )
    rule = [_firewall(answers, network, address.id)] if lustre.firewall else []
    return [address, peering, *rule, instance, volume, claim]


STEP = Step(
    answers=LustreAnswers,
    title="Lustre",
    purpose="The shared file system for the model, data and checkpoints.",
    checks=CHECKS,
    resources=_resources,
)
