"""Networks, subnets, firewalls and global addresses: four collections of Compute Engine that work alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo_wizard.steps.clients.context import CloudContext, call, get_or_none
from grpo_wizard.steps.clients.driver import Driver, Progress, ResourceContext
from grpo_wizard.steps.clients.errors import CloudError, operation_error
from grpo_wizard.steps.clients.google.gke import container_client
from grpo_wizard.steps.clients.google.service_networking import fetch_connection
from grpo_wizard.steps.clients.serialization import JSON, diff, owner_of, to_proto, with_owner
from grpo_wizard.steps.core.model import ObservedState

_MODULE = "google.cloud.compute_v1"


@dataclass(frozen=True)
class _Collection:
    client: str
    argument: str
    message: str
    regional: bool = False


_COLLECTIONS = {
    "network": _Collection("NetworksClient", "network", "Network"),
    "subnet": _Collection("SubnetworksClient", "subnetwork", "Subnetwork", regional=True),
    "firewall": _Collection("FirewallsClient", "firewall", "Firewall"),
    "address": _Collection("GlobalAddressesClient", "address", "Address"),
}


def compute_client(cloud: CloudContext, client: str) -> Any:
    return cloud.rest_client("compute", _MODULE, client)


class ComputeDriver(Driver):
    """`insert(...).result()` would poll compute.googleapis.com whatever the endpoint says: the unary calls are used, and operations are asked after here."""

    def __init__(self, kind: str) -> None:
        self._collection = _COLLECTIONS[kind]

    def _scope(self, context: ResourceContext) -> JSON:
        place = {"project": context.location("project")}
        return place | {"region": context.location("region")} if self._collection.regional else place

    def _resource_request(self, context: ResourceContext) -> JSON:
        return self._scope(context) | {self._collection.argument: context.name}

    def fetch(self, cloud: CloudContext, context: ResourceContext) -> JSON | None:
        """The thing as Compute returns it, None when it is not there."""
        return get_or_none(
            compute_client(cloud, self._collection.client).get, "compute", self._resource_request(context)
        )

    def read(self, cloud: CloudContext, context: ResourceContext) -> ObservedState:
        live = self.fetch(cloud, context)
        if live is None:
            return ObservedState()
        facts = {"self_link": live.get("selfLink", "")}
        if "prefixLength" in live and "address" in live:
            facts["cidr"] = f"{live['address']}/{live['prefixLength']}"
        return ObservedState(
            "ready",
            owner_of(live, "description", "labels"),
            str(live.get("id", "")),
            tuple(diff(_comparable_spec(context.spec), live)),
            outputs=facts,
        )

    def create(self, cloud: CloudContext, context: ResourceContext) -> str:
        import google.cloud.compute_v1 as types

        body = with_owner(context.spec, context.owner_label, "description")
        if self._collection.argument == "address":
            body = with_owner(body, context.owner_label, "labels")
        request = self._scope(context) | {
            f"{self._collection.argument}_resource": to_proto(getattr(types, self._collection.message), body),
            "request_id": context.request_id,
        }
        return str(
            call("compute", compute_client(cloud, self._collection.client).insert_unary, request=request).name
        )

    def owns(self, cloud: CloudContext, context: ResourceContext) -> bool:
        try:
            return bool(self.create(cloud, context))
        except CloudError as error:
            if error.kind == "exists":
                return False
            raise

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        return str(
            call(
                "compute",
                compute_client(cloud, self._collection.client).delete_unary,
                request=self._resource_request(context),
            ).name
        )

    def progress(self, cloud: CloudContext, context: ResourceContext, operation: str) -> Progress:
        if not self._collection.regional:
            return global_operation_progress(cloud, context.location("project"), operation)
        client = compute_client(cloud, "RegionOperationsClient")
        return _operation_progress(
            call("compute", client.get, request=self._scope(context) | {"operation": operation})
        )


def global_operation_progress(cloud: CloudContext, project: str, operation: str) -> Progress:
    """How far one of Compute's global operations is; raises CloudError when it ended with an error."""
    return _operation_progress(
        call(
            "compute",
            compute_client(cloud, "GlobalOperationsClient").get,
            request={"project": project, "operation": operation},
        )
    )


def remove_peering(cloud: CloudContext, project: str, network: str, name: str) -> str:
    """Takes the peering `name` from our side of the network; the name of Compute's operation."""
    request = {
        "project": project,
        "network": network,
        "networks_remove_peering_request_resource": {"name": name},
    }
    return str(
        call("compute", compute_client(cloud, "NetworksClient").remove_peering_unary, request=request).name
    )


def _operation_progress(seen: Any) -> Progress:
    if seen.status.name != "DONE":
        return Progress(False)
    if seen.error.errors or seen.http_error_status_code:
        first = seen.error.errors[0] if seen.error.errors else None
        raise operation_error(
            "compute.googleapis.com",
            int(seen.http_error_status_code or 0),
            str(first.message if first else seen.http_error_message),
            str(first.code if first else ""),
        )
    return Progress(True)


def _comparable_spec(spec: Mapping[str, Any]) -> JSON:
    """What Compute says again when it is asked: a range's IP version it takes and keeps to itself."""
    return {key: value for key, value in spec.items() if key != "ipVersion"}


class NetworkDriver(ComputeDriver):
    """A network cannot go while firewall rules use it, and GKE leaves its own behind: those are taken away first, on this network only."""

    def __init__(self) -> None:
        super().__init__("network")

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        gke, others = self._split_firewalls(cloud, context)
        if (gke or others) and _has_clusters(cloud, context):
            gke, others = [], []  # of a cluster that lives here: they go with it
        if others:
            raise CloudError(
                "conflict",
                f"network {context.name} is used by firewall rules that this deployment did not make",
                ", ".join(others),
                "delete them, or let their owner do so, then run destroy again",
            )
        for rule in gke:
            context.emit(f"firewall rule {rule} was left behind by GKE on {context.name}: deleting it")
            call(
                "compute",
                compute_client(cloud, "FirewallsClient").delete_unary,
                request={"project": context.location("project"), "firewall": rule},
            )
        return super().delete(cloud, context, observed)

    def force_delete(self, cloud: CloudContext, context: ResourceContext) -> str | None:
        """A services connection that others made on it and left empty: it serves nobody, and is cut from our side."""
        live = fetch_connection(cloud, context.location("project"), context.name)
        if not live or live.get("reservedPeeringRanges") or not live.get("peering"):
            return None
        context.emit(f"a peering without ranges holds {context.name}: removing it from this side")
        return remove_peering(cloud, context.location("project"), context.name, str(live["peering"]))

    def _split_firewalls(self, cloud: CloudContext, context: ResourceContext) -> tuple[list[str], list[str]]:
        """Names of the rules on exactly this network: those that GKE made for our own cluster, and all others.

        The whole list is read and compared here: a server-side filter matches words, and would name rules of other networks too
        (gcloud-wire.md §6).
        """
        rules = call(
            "compute",
            compute_client(cloud, "FirewallsClient").list,
            request={"project": context.location("project")},
        )
        mine = f"/projects/{context.location('project')}/global/networks/{context.name}"
        cluster = context.resource.parent.get("gke", "")
        here = [rule for rule in rules if rule.network.endswith(mine)]
        gke = [rule.name for rule in here if _made_by_gke(rule, cluster)]
        return gke, [rule.name for rule in here if rule.name not in gke]


def _made_by_gke(rule: Any, cluster: str) -> bool:
    """Whether a rule is one of those that GKE makes for this cluster: named by it, bound to its nodes' tag, described by nobody.

    The tag is gke-CLUSTER-HASH-node, of a long name its first 25 characters (GKE's page on firewall rules it makes, 2026; the
    cut as Terraform's module for GKE has it). A person's own rule has a description or other targets.
    """
    tag = re.compile(rf"gke-{re.escape(cluster[:25])}-[0-9a-f]{{8}}-node")
    described = bool(rule.description) and not rule.description.startswith('{"kubernetes.io/')
    return bool(
        cluster
        and rule.name.startswith(("gke-", "k8s-"))
        and not described
        and rule.target_tags
        and all(tag.fullmatch(target) for target in rule.target_tags)
    )


def _has_clusters(cloud: CloudContext, context: ResourceContext) -> bool:
    """Whether a cluster still lives on this network: GKE's rules there are its own, and not left behind."""
    request = {"parent": f"projects/{context.location('project')}/locations/-"}
    try:
        listed = call("container", container_client(cloud).list_clusters, request=request)
    except CloudError as error:
        if error.kind == "api_disabled":
            return True  # a cluster lives on while the API is off: its rules are not touched unseen
        raise
    return any(cluster.network == context.name for cluster in listed.clusters)
