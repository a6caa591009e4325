"""Networks, subnets, firewalls and global addresses: four collections of Compute Engine with the same methods."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.clients.context import CloudContext, call, get_or_none
from grpo_wizard.steps.clients.driver import Driver, Progress, ResourceContext
from grpo_wizard.steps.clients.errors import CloudError, operation_error
from grpo_wizard.steps.clients.google.gke import container_client
from grpo_wizard.steps.clients.google.service_networking import fetch_connection
from grpo_wizard.steps.clients.serialization import JSON, diff, owner_of, to_proto, with_owner
from grpo_wizard.steps.core.model import ObservedState

if TYPE_CHECKING:
    from google.cloud.compute_v1 import Firewall, Operation

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
    """Uses the unary calls and polls operations itself: `insert(...).result()` polls compute.googleapis.com whatever the endpoint is."""

    def __init__(self, kind: str) -> None:
        self._collection = _COLLECTIONS[kind]

    def _scope(self, context: ResourceContext) -> JSON:
        scope = {"project": context.location("project")}
        return scope | {"region": context.location("region")} if self._collection.regional else scope

    def _resource_request(self, context: ResourceContext) -> JSON:
        return self._scope(context) | {self._collection.argument: context.name}

    def fetch(self, cloud: CloudContext, context: ResourceContext) -> JSON | None:
        """The resource as Compute Engine returns it, None if it does not exist."""
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
    """The state of a global operation. Raises CloudError when it ended with an error."""
    return _operation_progress(
        call(
            "compute",
            compute_client(cloud, "GlobalOperationsClient").get,
            request={"project": project, "operation": operation},
        )
    )


def remove_peering(cloud: CloudContext, project: str, network: str, name: str) -> str:
    """Remove a peering from our side of the network; return the name of Compute Engine's operation."""
    request = {
        "project": project,
        "network": network,
        "networks_remove_peering_request_resource": {"name": name},
    }
    return str(
        call("compute", compute_client(cloud, "NetworksClient").remove_peering_unary, request=request).name
    )


def _operation_progress(operation: Operation) -> Progress:
    if operation.status.name != "DONE":
        return Progress(False)
    if operation.error.errors or operation.http_error_status_code:
        first = operation.error.errors[0] if operation.error.errors else None
        raise operation_error(
            "compute.googleapis.com",
            int(operation.http_error_status_code or 0),
            str(first.message if first else operation.http_error_message),
            str(first.code if first else ""),
        )
    return Progress(True)


def _comparable_spec(spec: Mapping[str, object]) -> JSON:
    """The part of a spec that Compute Engine returns: it accepts a range's ipVersion and does not return it."""
    return {key: value for key, value in spec.items() if key != "ipVersion"}


class NetworkDriver(ComputeDriver):
    """Deletes the firewall rules that GKE leaves behind on this network first: a network in use cannot be deleted."""

    def __init__(self) -> None:
        super().__init__("network")

    def delete(self, cloud: CloudContext, context: ResourceContext, observed: ObservedState) -> str:
        gke, others = self._split_firewalls(cloud, context)
        if (gke or others) and _has_clusters(cloud, context):
            gke, others = [], []  # they belong to a cluster that still exists, and are deleted with it
        if others:
            raise CloudError(
                "conflict",
                f"Network {context.name} is used by firewall rules that this deployment did not create",
                ", ".join(others),
                "Delete them or ask their owner to, then run destroy again.",
            )
        for rule in gke:
            context.emit(f"GKE left firewall rule {rule} behind on {context.name}: deleting it")
            call(
                "compute",
                compute_client(cloud, "FirewallsClient").delete_unary,
                request={"project": context.location("project"), "firewall": rule},
            )
        return super().delete(cloud, context, observed)

    def force_delete(self, cloud: CloudContext, context: ResourceContext) -> str | None:
        """Remove a services connection without ranges, which another owner created and which still blocks the deletion."""
        live = fetch_connection(cloud, context.location("project"), context.name)
        if not live or live.get("reservedPeeringRanges") or not live.get("peering"):
            return None
        context.emit(
            f"a peering without ranges still uses {context.name}: removing it from the consumer side"
        )
        return remove_peering(cloud, context.location("project"), context.name, str(live["peering"]))

    def _split_firewalls(self, cloud: CloudContext, context: ResourceContext) -> tuple[list[str], list[str]]:
        """Names of the rules on exactly this network: those that GKE created for our cluster, and all others.

        The whole list is read and filtered here: a server-side filter `network:NAME` matches words, and so also rules of networks
        whose names contain NAME (https://cloud.google.com/sdk/gcloud/reference/topic/filters).
        """
        rules = call(
            "compute",
            compute_client(cloud, "FirewallsClient").list,
            request={"project": context.location("project")},
        )
        network = f"/projects/{context.location('project')}/global/networks/{context.name}"
        cluster = context.resource.parent.get("gke", "")
        here = [rule for rule in rules if rule.network.endswith(network)]
        gke = [rule.name for rule in here if _made_by_gke(rule, cluster)]
        return gke, [rule.name for rule in here if rule.name not in gke]


def _made_by_gke(rule: Firewall, cluster: str) -> bool:
    """Whether GKE created a rule for this cluster: it has GKE's name prefix, the nodes' tag as target, and no description.

    The tag is gke-CLUSTER-HASH-node, with the first 25 characters of a longer name
    (https://cloud.google.com/kubernetes-engine/docs/concepts/firewall-rules). A person's rule has a description or other targets.
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
    """Whether a cluster still uses this network: then GKE's rules there are its own, and not left behind."""
    request = {"parent": f"projects/{context.location('project')}/locations/-"}
    try:
        listed = call("container", container_client(cloud).list_clusters, request=request)
    except CloudError as error:
        if error.kind == "api_disabled":
            return True  # clusters keep running while the API is disabled, so their rules are left alone
        raise
    return any(cluster.network == context.name for cluster in listed.clusters)
