"""Step 5, Lustre: the private range and peering, the firewall, the instance, and the volume that binds it to the cluster."""

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
    project = answers.project.project_id
    spec = {
        "name": name,
        "network": network_path(project, network),
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
        parent={"project": project},
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
        expected_duration=DurationEstimate(60, 300, "minutes; not measured (google-cloud.md §5)"),
    )


def _firewall(answers: Answers, network: str, address: str) -> Resource:
    mine, project = answers.lustre, answers.project.project_id
    ports = [PORT, LEGACY_PORT] if mine.legacy_port else [PORT]
    name = f"{mine.lustre_name}-lnet"
    spec = {
        "name": name,
        "network": network_path(project, network),
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
        parent={"project": project},
        depends_on=(address,),
        command=command,
        adopt_paths=("network", "direction", "allowed"),
    )


def _instance(answers: Answers, network: str, depends_on: tuple[str, ...]) -> Resource:
    mine, place = answers.lustre, answers.project
    spec: dict[str, Any] = {
        "capacityGib": str(mine.capacity_gib),
        "filesystem": mine.filesystem,
        "network": network_path(place.project_id, network),
        "perUnitStorageThroughput": str(mine.per_unit_storage_throughput),
    }
    spec |= {"gkeSupportEnabled": True} if mine.legacy_port else {}
    flags = {
        "per-unit-storage-throughput": mine.per_unit_storage_throughput,
        "capacity-gib": mine.capacity_gib,
        "filesystem": mine.filesystem,
        "location": place.zone,
        "network": spec["network"],
        "gke-support-enabled": mine.legacy_port,
    }
    return Resource(
        step="lustre",
        kind="lustre",
        name=mine.lustre_name,
        spec=spec,
        parent={"project": place.project_id, "location": place.zone},
        depends_on=depends_on,
        command=gcloud_command("lustre instances create", flags, mine.lustre_name),
        expected_duration=DurationEstimate(
            2400, 4800, "P99 of create is 40 to 80 minutes (google-cloud.md §5)"
        ),
        usd_per_hour=None,
        adopt_paths=("network", "filesystem", "perUnitStorageThroughput"),
    )


def _resources(answers: Answers) -> Sequence[Resource]:
    mine, place, network = answers.lustre, answers.project, answers.networks.network
    address = _address_range(answers, f"{mine.lustre_name}-range", network)
    peering = _peering(answers, address.name, network)
    instance = _instance(answers, network, (peering.id, api_id("lustre")))
    cluster = resource_id("cluster", "cluster", answers.cluster.cluster_name)
    where = {
        "project": place.project_id,
        "location": place.region,
        "cluster": answers.cluster.cluster_name,
    }
    volume = Resource(
        step="lustre",
        kind="pv",
        name=PV_NAME,
        spec=persistent_volume(answers, instance.id),
        parent=where,
        depends_on=(cluster, instance.id),
        command="kubectl apply -f lustre-pv.yaml",
    )
    namespace = answers.raycluster.namespace
    above = (
        (volume.id,)
        if namespace == "default"
        else (volume.id, resource_id("raycluster", "namespace", namespace))
    )
    claim = Resource(
        step="lustre",
        kind="pvc",
        name=PVC_NAME,
        spec=persistent_volume_claim(answers),
        parent=where | {"namespace": namespace},
        depends_on=above,
        command="kubectl apply -f lustre-pvc.yaml",
    )
    rule = [_firewall(answers, network, address.id)] if mine.firewall else []
    return [address, peering, *rule, instance, volume, claim]


STEP = Step(
    answers=LustreAnswers,
    title="Lustre",
    purpose="The shared file system for model, data and checkpoints.",
    checks=CHECKS,
    resources=_resources,
)
