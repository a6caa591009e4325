"""What checks and pickers may read from the cloud: typed questions and typed answers. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grpo_wizard.steps.core.model import CheckFinding


@dataclass(frozen=True, kw_only=True)
class SignedInAccount:
    """Whose credentials are used. `kind` is the type of the credentials, `gcloud_account` whom gcloud is signed in as."""

    account: str
    kind: str
    title: str = ""
    quota_project: str = ""
    gcloud_account: str = ""


@dataclass(frozen=True, kw_only=True)
class ProjectStatus:
    number: str
    state: str


@dataclass(frozen=True, kw_only=True)
class ProjectListing:
    id: str
    display_name: str


@dataclass(frozen=True, kw_only=True)
class OrgPolicyRule:
    """One rule of an organization policy in force. `denies` is set by `enforce` and `denyAll`."""

    denies: bool = False
    allowed_values: frozenset[str] = frozenset()
    denied_values: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ZoneStatus:
    name: str
    status: str


@dataclass(frozen=True, kw_only=True)
class QuotaUsage:
    limit: float
    usage: float

    @property
    def left(self) -> float:
        return self.limit - self.usage


@dataclass(frozen=True, kw_only=True)
class ReservationStatus:
    """A Compute Engine reservation. `assured` counts the machines that Google keeps, `share_type` is LOCAL unless shared."""

    name: str
    status: str
    machine_type: str
    count: int
    assured: int
    in_use: int
    targeted_by_name: bool
    share_type: str
    shared_with: frozenset[str]
    placement_policies: frozenset[str]
    delete_at: str

    @property
    def free(self) -> int:
        return self.assured - self.in_use


@dataclass(frozen=True, kw_only=True)
class ReservationBlock:
    """A block or sub-block of a reservation."""

    count: int
    in_use: int

    @property
    def free(self) -> int:
        return self.count - self.in_use


@dataclass(frozen=True, kw_only=True)
class VpcNetwork:
    """`network_profile` is the profile's bare name, empty for an ordinary VPC."""

    name: str
    auto_mode: bool
    network_profile: str
    owner_label: str


@dataclass(frozen=True, kw_only=True)
class Subnet:
    """`ranges` are its primary range and then its secondary ones."""

    name: str
    network: str
    ranges: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NetworkRange:
    """An address range that a route or a reserved address takes in a network."""

    network: str
    range: str


@dataclass(frozen=True, kw_only=True)
class NodePoolStatus:
    name: str
    status: str
    owner_label: str


@dataclass(frozen=True, kw_only=True)
class GkeCluster:
    """A GKE cluster as far as a run depends on it."""

    name: str
    status: str
    version: str
    network: str
    workload_pool: str
    multi_networking: bool
    dataplane_v2: bool
    ray_operator: bool
    lustre_csi_driver: bool
    legacy_lustre_port: bool
    owner_label: str
    node_pools: tuple[NodePoolStatus, ...]

    def node_pool(self, name: str) -> NodePoolStatus | None:
        return next((pool for pool in self.node_pools if pool.name == name), None)


@dataclass(frozen=True, kw_only=True)
class GkeVersions:
    """Control plane versions that a location serves, the newest first."""

    default: str
    valid: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LustreInstance:
    name: str
    state: str
    legacy_port: bool
    owner_label: str


class CloudReader(Protocol):
    """Questions about the cloud. Each distinct one is sent once and shared; each may raise WizardError.

    None, an empty sequence or False: what was asked for does not exist.
    """

    mode: str
    deployment_id: str

    def observed(self, on_read: Callable[[str], None]) -> CloudReader:
        """The same reader, which also tells `on_read` the project of every question that only an existing project answers."""
        ...

    def signed_in_account(self) -> SignedInAccount: ...
    def projects(self) -> Sequence[ProjectListing]: ...
    def project(self, *, project: str) -> ProjectStatus | None: ...
    def billing_enabled(self, *, project: str) -> bool: ...
    def enabled_apis(self, *, project: str) -> frozenset[str]: ...
    def granted_permissions(self, *, project: str, wanted: tuple[str, ...]) -> frozenset[str]: ...
    def org_policy_rules(self, *, project: str, constraint: str) -> Sequence[OrgPolicyRule]: ...
    def hugging_face_access(self, *, model: str) -> CheckFinding: ...
    def wandb_access(self) -> CheckFinding: ...

    def zones(self, *, project: str) -> Sequence[ZoneStatus]: ...
    def has_machine_type(self, *, project: str, zone: str, name: str) -> bool: ...
    def machine_type_zones(self, *, project: str, name: str) -> Sequence[str]: ...
    def has_accelerator(self, *, project: str, zone: str, name: str) -> bool: ...
    def reservation(self, *, project: str, zone: str, name: str) -> ReservationStatus | None: ...
    def reservations(self, *, project: str, zone: str) -> Sequence[ReservationStatus]: ...
    def reservation_zones(self, *, project: str, name: str) -> Sequence[str]: ...
    def future_reservation_zones(self, *, project: str, name: str) -> Sequence[str]: ...
    def reservation_block(
        self, *, project: str, zone: str, name: str, block: str
    ) -> ReservationBlock | None: ...
    def reservation_sub_block(
        self, *, project: str, zone: str, name: str, block: str, sub_block: str
    ) -> ReservationBlock | None: ...
    def quotas(self, *, project: str) -> Mapping[str, QuotaUsage]: ...
    def region_quotas(self, *, project: str, region: str) -> Mapping[str, QuotaUsage]: ...
    def gpu_quota(self, *, project: str, region: str, family: str, quota: str) -> int | None: ...

    def networks(self, *, project: str) -> Sequence[VpcNetwork]: ...
    def has_network_profile(self, *, project: str, name: str) -> bool: ...
    def subnets(self, *, project: str) -> Sequence[Subnet]: ...
    def region_subnets(self, *, project: str, region: str) -> Sequence[Subnet]: ...
    def routes(self, *, project: str) -> Sequence[NetworkRange]: ...
    def global_addresses(self, *, project: str) -> Sequence[NetworkRange]: ...
    def gke_versions(self, *, project: str, location: str) -> GkeVersions: ...
    def clusters(self, *, project: str, location: str) -> Sequence[GkeCluster]: ...
    def lustre_zones(self, *, project: str) -> frozenset[str]: ...
    def lustre_instances(self, *, project: str, location: str) -> Sequence[LustreInstance]: ...
