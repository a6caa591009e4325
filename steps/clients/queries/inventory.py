"""Questions about what exists already: networks and their ranges, clusters, Lustre."""

from __future__ import annotations

from grpo_wizard.steps.clients.context import call
from grpo_wizard.steps.clients.google.gke import container_client
from grpo_wizard.steps.clients.google.lustre import lustre_client
from grpo_wizard.steps.clients.queries.base import QueryBase, query
from grpo_wizard.steps.clients.serialization import JSON, owner_of, to_json
from grpo_wizard.steps.core.cloud_reader import (
    GkeCluster,
    GkeVersions,
    LustreInstance,
    NetworkRange,
    NodePoolStatus,
    Subnet,
    VpcNetwork,
)


class InventoryQueries(QueryBase):
    """Questions about networks, clusters and Lustre instances."""

    @query
    def networks(self, *, project: str) -> list[VpcNetwork]:
        return [_network(body) for body in self._list_compute("NetworksClient", project=project)]

    @query
    def has_network_profile(self, *, project: str, name: str) -> bool:
        found = self._get_compute("NetworkProfilesClient", project=project, network_profile=name)
        return found is not None

    @query
    def subnets(self, *, project: str) -> list[Subnet]:
        """Of every region: a VPC is one address space."""
        pages = self._list_compute_zones("SubnetworksClient", project=project)
        return [_subnet(to_json(subnet)) for _, page in pages for subnet in page.subnetworks]

    @query
    def region_subnets(self, *, project: str, region: str) -> list[Subnet]:
        listed = self._list_compute("SubnetworksClient", project=project, region=region)
        return [_subnet(body) for body in listed]

    @query
    def routes(self, *, project: str) -> list[NetworkRange]:
        listed = self._list_compute("RoutesClient", project=project)
        return [NetworkRange(network=_network_name(body), range=body["destRange"]) for body in listed]

    @query
    def global_addresses(self, *, project: str) -> list[NetworkRange]:
        """Reserved ranges, such as Lustre's."""
        listed = self._list_compute("GlobalAddressesClient", project=project)
        return [
            NetworkRange(
                network=_network_name(body), range=f"{body['address']}/{body.get('prefixLength', 32)}"
            )
            for body in listed
            if "address" in body
        ]

    @query
    def gke_versions(self, *, project: str, location: str) -> GkeVersions:
        request = {"name": f"projects/{project}/locations/{location}"}
        config = call("container", container_client(self.cloud).get_server_config, request=request)
        return GkeVersions(default=config.default_cluster_version, valid=tuple(config.valid_master_versions))

    @query
    def clusters(self, *, project: str, location: str) -> list[GkeCluster]:
        """With their node pools."""
        request = {"parent": f"projects/{project}/locations/{location}"}
        listed = to_json(call("container", container_client(self.cloud).list_clusters, request=request))
        return [_cluster(body) for body in listed.get("clusters", [])]

    @query
    def lustre_zones(self, *, project: str) -> frozenset[str]:
        """Zones that offer Managed Lustre; empty when the service lists none."""
        from google.cloud.location import locations_pb2

        request = locations_pb2.ListLocationsRequest(name=f"projects/{project}")
        listed = call("lustre", lustre_client(self.cloud).list_locations, request=request)
        return frozenset(location.location_id for location in listed.locations)

    @query
    def lustre_instances(self, *, project: str, location: str) -> list[LustreInstance]:
        request = {"parent": f"projects/{project}/locations/{location}"}
        listed = call("lustre", lustre_client(self.cloud).list_instances, request=request)
        return [_lustre_instance(one.name, to_json(one)) for one in listed]


def _network_name(body: JSON) -> str:
    return str(body.get("network", "")).rpartition("/")[2]


def _network(body: JSON) -> VpcNetwork:
    return VpcNetwork(
        name=str(body["name"]),
        auto_mode=bool(body.get("autoCreateSubnetworks")),
        network_profile=str(body.get("networkProfile", "")).rpartition("/")[2],
        owner_label=owner_of(body, "labels", "description"),
    )


def _subnet(body: JSON) -> Subnet:
    secondary = (row["ipCidrRange"] for row in body.get("secondaryIpRanges", []))
    return Subnet(
        name=str(body["name"]), network=_network_name(body), ranges=(str(body["ipCidrRange"]), *secondary)
    )


def _cluster(body: JSON) -> GkeCluster:
    networking, addons = body.get("networkConfig", {}), body.get("addonsConfig", {})
    lustre = addons.get("lustreCsiDriverConfig", {})
    return GkeCluster(
        name=str(body.get("name")),
        status=str(body.get("status")),
        version=str(body.get("currentMasterVersion", "")),
        network=_network_name(body),
        workload_pool=str(body.get("workloadIdentityConfig", {}).get("workloadPool", "")),
        multi_networking=bool(networking.get("enableMultiNetworking")),
        dataplane_v2=networking.get("datapathProvider") == "ADVANCED_DATAPATH",
        ray_operator=bool(addons.get("rayOperatorConfig", {}).get("enabled")),
        lustre_csi_driver=bool(lustre.get("enabled")),
        legacy_lustre_port=bool(lustre.get("enableLegacyLustrePort")),
        owner_label=owner_of(body, "resourceLabels", "description"),
        node_pools=tuple(_node_pool(pool) for pool in body.get("nodePools", [])),
    )


def _node_pool(body: JSON) -> NodePoolStatus:
    return NodePoolStatus(
        name=str(body.get("name")),
        status=str(body.get("status")),
        owner_label=owner_of(body, "config.resourceLabels"),
    )


def _lustre_instance(name: str, body: JSON) -> LustreInstance:
    return LustreInstance(
        name=name.rpartition("/")[2],
        state=str(body.get("state")),
        legacy_port=bool(body.get("gkeSupportEnabled")),
        owner_label=owner_of(body, "labels", "description"),
    )
