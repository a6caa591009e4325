"""Google's real Python clients with the emulator's endpoints."""

from __future__ import annotations

import time
from typing import Any

from emulator_server import EmulatorServer
from google.cloud import compute_v1, container_v1, lustre_v1
from google.oauth2.credentials import Credentials

PROJECT, REGION, ZONE = "my-project", "us-central1", "us-central1-b"
APIS = (
    "compute.googleapis.com",
    "container.googleapis.com",
    "lustre.googleapis.com",
    "servicenetworking.googleapis.com",
)

_TIMEOUT_S = 120.0  # a busy machine takes long to start a cluster


class GoogleClients:
    """One client of each service as an attribute, created on first use."""

    def __init__(self, server: EmulatorServer) -> None:
        self._server = server
        self._credentials = Credentials(token=server.token)
        self._cache: dict[str, Any] = {}

    def _options(self, prefix: str) -> dict[str, Any]:
        return {
            "credentials": self._credentials,
            "transport": "rest",
            "client_options": {"api_endpoint": self._server.base_url + prefix},
        }

    def compute(self, name: str) -> Any:
        """Return compute_v1's client `name` ("Networks" -> NetworksClient)."""
        if name not in self._cache:
            self._cache[name] = getattr(compute_v1, f"{name}Client")(**self._options(""))
        return self._cache[name]

    @property
    def container(self) -> container_v1.ClusterManagerClient:
        """GKE."""
        return self._cache.setdefault("gke", container_v1.ClusterManagerClient(**self._options("/container")))

    @property
    def lustre(self) -> lustre_v1.LustreClient:
        """Managed Lustre."""
        return self._cache.setdefault("lustre", lustre_v1.LustreClient(**self._options("/lustre")))

    def wait_for_operation(self, operation: Any) -> Any:
        """Wait for a compute operation of an `*_unary` call; return it when done, failed or not."""
        where = operation.region or operation.zone
        if operation.region:
            return self.compute("RegionOperations").wait(
                project=PROJECT, region=where.rsplit("/", 1)[-1], operation=operation.name
            )
        if operation.zone:
            return self.compute("ZoneOperations").wait(
                project=PROJECT, zone=where.rsplit("/", 1)[-1], operation=operation.name
            )
        return self.compute("GlobalOperations").wait(project=PROJECT, operation=operation.name)

    def wait_for_success(self, operation: Any) -> Any:
        """Like `wait_for_operation`; fails if the operation failed."""
        done = self.wait_for_operation(operation)
        assert done.status.name == "DONE" and not done.error.errors, done
        return done

    def wait_for_gke(self, operation: Any, location: str = REGION) -> Any:
        """Poll a GKE operation until it is done."""
        name = f"projects/{PROJECT}/locations/{location}/operations/{operation.name}"
        deadline = time.monotonic() + _TIMEOUT_S
        while (found := self.container.get_operation(name=name)).status.name != "DONE":
            assert time.monotonic() < deadline, (
                f"{operation.name} is {found.status.name} after {_TIMEOUT_S:g} s"
            )
            time.sleep(0.02)
        return found


def network(clients: GoogleClients, name: str, **fields: Any) -> None:
    """Create a network, by default in auto mode."""
    body = compute_v1.Network(name=name, **{"auto_create_subnetworks": True, **fields})
    clients.wait_for_success(clients.compute("Networks").insert_unary(project=PROJECT, network_resource=body))


def link(kind: str, name: str) -> str:
    """Return a global resource's partial link."""
    return f"projects/{PROJECT}/global/{kind}/{name}"


def subnet(clients: GoogleClients, name: str, net: str, cidr: str, region: str = REGION) -> Any:
    """Request a subnet; return the operation."""
    body = compute_v1.Subnetwork(name=name, network=link("networks", net), ip_cidr_range=cidr)
    return clients.compute("Subnetworks").insert_unary(
        project=PROJECT, region=region, subnetwork_resource=body
    )


def firewall(clients: GoogleClients, name: str, net: str, **more: Any) -> Any:
    """Request a rule that allows TCP; return the operation."""
    body = compute_v1.Firewall(
        name=name,
        network=link("networks", net),
        allowed=[compute_v1.Allowed(I_p_protocol="tcp")],
        source_ranges=["192.168.0.0/16"],
        **more,
    )
    return clients.compute("Firewalls").insert_unary(project=PROJECT, firewall_resource=body)


def cluster(name: str = "nemo-cluster", net: str = "nemo-net", **fields: Any) -> container_v1.Cluster:
    """Return the tutorial's cluster with a small first pool."""
    pool = container_v1.NodePool(
        name="default-pool", initial_node_count=1, config=container_v1.NodeConfig(machine_type="n2-highmem-8")
    )
    return container_v1.Cluster(
        **{
            "name": name,
            "network": net,
            "node_pools": [pool],
            "ip_allocation_policy": {"use_ip_aliases": True},
            "network_config": {"datapath_provider": 2, "enable_multi_networking": True},
            "workload_identity_config": {"workload_pool": f"{PROJECT}.svc.id.goog"},
            "addons_config": {
                "ray_operator_config": {"enabled": True},
                "lustre_csi_driver_config": {"enabled": True},
            },
            **fields,
        }
    )


def gpu_pool(
    name: str = "gpu-pool", nodes: int = 0, reservation: str = "nemo-res", **fields: Any
) -> container_v1.NodePool:
    """Return the tutorial's GPU pool without its additional networks."""
    config = {
        "machine_type": "a4-highgpu-8g",
        "accelerators": [{"accelerator_type": "nvidia-b200", "accelerator_count": 8}],
        "reservation_affinity": {
            "consume_reservation_type": 3,
            "key": "compute.googleapis.com/reservation-name",
            "values": [reservation],
        },
    }
    return container_v1.NodePool(
        **{
            "name": name,
            "initial_node_count": nodes,
            "config": config,
            "locations": [ZONE],
            "autoscaling": {"enabled": True, "total_max_node_count": 2},
            **fields,
        }
    )


PARENT = f"projects/{PROJECT}/locations/{REGION}"
CLUSTER = f"{PARENT}/clusters/nemo-cluster"
