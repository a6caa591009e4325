"""Questions and answers of step 1, Project."""

from __future__ import annotations

from typing import ClassVar

from grpo_wizard.steps.core import validators
from grpo_wizard.steps.core.answers import Field, StepAnswers, question, secret

_project_id = validators.text(
    r"([a-z0-9][-a-z0-9.]*\.[a-z]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]",
    "6 to 30 lower-case letters, digits or hyphens, a letter first, no hyphen last (older ids may begin with a domain, as in example.com:my-proj)",
)
_region = validators.text(r"[a-z]+-[a-z]+[0-9]+", "a region such as us-central1")
_zone = validators.text(r"[a-z]+-[a-z]+[0-9]+-([a-z]|ai[0-9]+[a-z])", "a zone such as us-central1-b")
_billing = validators.text(
    r"(billingAccounts/)?[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}",
    "a billing account such as 012345-6789AB-CDEF01",
)


class ProjectAnswers(StepAnswers, step="project"):
    """The project, its region and zone, and who may do what."""

    project_id: str = question(
        label="Project",
        help="The Google Cloud project that everything is made in.",
        parse=_project_id,
        env=("PROJECT_ID",),
        choices_from="projects",
    )
    region: str = question(
        label="Region",
        help="Where the cluster's control plane and the subnets live.",
        parse=_region,
        default="us-central1",
        env=("CONTROL_PLANE_REGION", "REGION"),
    )
    zone: str = question(
        label="Zone",
        help="Where the GPU nodes, the head's node and Lustre live.",
        parse=_zone,
        default="us-central1-b",
        env=("NODE_ZONE", "ZONE"),
        choices_from="zones",
    )
    create_project: bool = question(
        label="Create the project",
        help="Make this project first and link it to a billing account.",
        parse=validators.switch,
        default=False,
        kind="switch",
        advanced=True,
    )
    billing_account: str = question(
        label="Billing account",
        help="Linked to a project that is created here.",
        parse=validators.optional(_billing),
        default="",
        advanced=True,
        optional=True,
        shown_when=lambda a: bool(a.project.create_project),
    )
    grant_roles: bool = question(
        label="Grant missing roles",
        help="Add the roles that the check names to your own account. Adds only, never takes away.",
        parse=validators.switch,
        default=False,
        kind="switch",
        advanced=True,
    )
    member: str = question(
        label="Account for the roles",
        help="Whom the roles are granted to: user:…, serviceAccount:… or principal://… (empty: your own).",
        parse=validators.optional(
            validators.text(
                r"(user|serviceAccount|group):\S+@\S+|principal(Set)?://\S+",
                "user:, serviceAccount: or group: and an address, or principal://…",
            )
        ),
        default="",
        advanced=True,
        optional=True,
        shown_when=lambda a: bool(a.project.grant_roles),
    )
    max_usd: float = question(
        label="Spend at most",
        help="USD in all, of what has a known price: warned at 80 %, and then nothing more is started. 0: no limit.",
        parse=validators.number(0, 100_000_000),
        default=0.0,
        kind="number",
        unit="USD",
        advanced=True,
    )
    ownership_marks: bool = question(
        label="Ownership marks",
        help="Write this deployment's mark on all that it makes, so that it can be found again.",
        parse=validators.switch,
        default=True,
        kind="switch",
        advanced=True,
    )
    hf_token: ClassVar[Field] = secret(
        label="Hugging Face token",
        help="Read access; needed for gated models. Goes into a Kubernetes Secret and nowhere else.",
        env=("HF_TOKEN",),
    )
    wandb_api_key: ClassVar[Field] = secret(
        label="Weights & Biases key",
        help="Only if you want the run logged there. Goes into a Kubernetes Secret and nowhere else.",
        env=("WANDB_API_KEY",),
    )
