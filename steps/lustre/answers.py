"""Questions and answers of step 5, Lustre."""

from __future__ import annotations

from grpo_wizard.steps.core import catalog, validators
from grpo_wizard.steps.core.answers import StepAnswers, question

_TIERS = tuple(catalog.load("lustre")["tiers"])
_filesystem = validators.text(
    r"[a-z][a-z0-9]{0,7}", "must be a lowercase letter followed by at most 7 lowercase letters or digits"
)


class LustreAnswers(StepAnswers, step="lustre"):
    """The Lustre instance and how the cluster reaches it."""

    lustre_name: str = question(
        label="Lustre instance",
        help="The name of the instance. Its address range is named NAME-range.",
        parse=validators.text(
            r"[a-z]([-a-z0-9]{0,55}[a-z0-9])?",
            "must contain only lowercase letters, digits and hyphens, start with a letter, not end with a hyphen, and have at most 57 characters",
        ),
        default="nemo-lustre",
        env=("LUSTRE_NAME",),
    )
    capacity_gib: int = question(
        label="Capacity",
        help="In GiB, in the increments that the throughput tier allows. It can be increased later, but not decreased.",
        parse=validators.integer(9000, unit="GiB"),
        default=18000,
        kind="integer",
        unit="GiB",
    )
    per_unit_storage_throughput: int = question(
        label="Throughput per TiB",
        help="In MB/s per TiB. It cannot be changed later.",
        parse=lambda raw: int(validators.choice(_TIERS)(str(raw))),
        default=500,
        kind="choice",
        choices=_TIERS,
        unit="MB/s",
    )
    filesystem: str = question(
        label="File system",
        help="The name of the Lustre file system, at most 8 characters.",
        parse=_filesystem,
        default="lustrefs",
    )
    legacy_port: bool = question(
        label="Legacy port 6988",
        help="Required only for GKE nodes older than 1.33.2-gke.4655000. Applies to both the cluster and the instance.",
        parse=validators.switch,
        default=False,
        kind="switch",
        advanced=True,
    )
    firewall: bool = question(
        label="Firewall rule for Lustre",
        help="Allow traffic on the Lustre port from Lustre's address range.",
        parse=validators.switch,
        default=True,
        kind="switch",
        advanced=True,
    )
