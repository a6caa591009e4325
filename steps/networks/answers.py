"""Questions and answers of step 3, Networks."""

from __future__ import annotations

from grpo_wizard.steps.core import validators
from grpo_wizard.steps.core.answers import StepAnswers, question

_MTU_LUSTRE = 8896  # about 10% faster: https://cloud.google.com/managed-lustre/docs/vpc


class NetworksAnswers(StepAnswers, step="networks"):
    """The VPC of the cluster and the two networks of the GPU nodes."""

    network: str = question(
        label="Network",
        help="The VPC network for the cluster and Lustre.",
        parse=validators.resource_name,
        default="nemo-net",
        env=("NETWORK",),
        choices_from="networks",
    )
    gvnic_prefix: str = question(
        label="gVNIC prefix",
        help="Prefix for the names PREFIX-net, PREFIX-sub and PREFIX-internal.",
        parse=validators.name_prefix,
        default="nemo-gvnic",
        env=("GVNIC_NETWORK_PREFIX",),
    )
    rdma_prefix: str = question(
        label="RDMA prefix",
        help="Prefix for the names PREFIX-net and PREFIX-sub-0 to PREFIX-sub-7.",
        parse=validators.name_prefix,
        default="nemo-rdma",
        env=("RDMA_NETWORK_PREFIX",),
    )
    mtu: int = question(
        label="MTU of the VPC",
        help="8896 makes Lustre about 10% faster; 0 keeps Google's default.",
        parse=validators.integer(0, 8896, unit="bytes"),
        default=_MTU_LUSTRE,
        kind="integer",
        unit="bytes",
        advanced=True,
    )
    narrow_firewall: bool = question(
        label="Narrow gVNIC firewall",
        help="Allow traffic only from the gVNIC subnet, not from all of 192.168.0.0/16.",
        parse=validators.switch,
        default=True,
        kind="switch",
        advanced=True,
    )
    use_existing: bool = question(
        label="Use an existing VPC",
        help="Use the existing network with this name. It will never be changed or deleted.",
        parse=validators.switch,
        default=False,
        kind="switch",
        advanced=True,
    )
    subnetwork: str = question(
        label="Existing subnet",
        help="The cluster's subnet in that VPC. Required for a custom-mode VPC. Empty: the VPC's subnet in the region.",
        parse=validators.optional(validators.resource_name),
        default="",
        advanced=True,
        optional=True,
        choices_from="subnets",
        shown_when=lambda a: bool(a.networks.use_existing),
    )
