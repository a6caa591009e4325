"""Questions and answers of step 1, Project."""

from __future__ import annotations

from typing import ClassVar

from grpo_wizard.steps.core import validators
from grpo_wizard.steps.core.answers import Field, StepAnswers, question, secret

_project_id = validators.text(
    r"([a-z0-9][-a-z0-9.]*\.[a-z]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]",
    "must be 6 to 30 lowercase letters, digits or hyphens, start with a letter and not end with a hyphen (older IDs may begin with a domain, as in example.com:my-proj)",
)
_region = validators.text(r"[a-z]+-[a-z]+[0-9]+", "must be a region such as us-central1")
_zone = validators.text(r"[a-z]+-[a-z]+[0-9]+-([a-z]|ai[0-9]+[a-z])", "must be a zone such as us-central1-b")
_billing = validators.text(
    r"(billingAccounts/)?[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}",
    "must be a billing account such as 012345-6789AB-CDEF01",
)


class ProjectAnswers(StepAnswers, step="project"):
    """The project, its region and zone, and who may do what."""

    project_id: str = question(
        label="Project",
        help="The Google Cloud project in which all resources are created.",
        parse=_project_id,
        env=("PROJECT_ID",),
        choices_from="projects",
    )
    region: str = question(
        label="Region",
        help="The region for the cluster's control plane and the subnets.",
        parse=_region,
        default="us-central1",
        env=("CONTROL_PLANE_REGION", "REGION"),
    )
    zone: str = question(
        label="Zone",
        help="The zone for the GPU nodes, the Ray head and Lustre.",
        parse=_zone,
        default="us-central1-b",
        env=("NODE_ZONE", "ZONE"),
        choices_from="zones",
    )
    create_project: bool = question(
        label="Create the project",
        help="Create this project first and link it to a billing account.",
        parse=validators.switch,
        default=False,
        kind="switch",
        advanced=True,
    )
    billing_account: str = question(
        label="Billing account",
        help="The billing account to link to the new project.",
        parse=validators.optional(_billing),
        default="",
        advanced=True,
        optional=True,
        shown_when=lambda a: bool(a.project.create_project),
    )
    grant_roles: bool = question(
        label="Grant missing roles",
        help="Grant your account the roles that the permissions check reports as missing. Roles are only added, never removed.",
        parse=validators.switch,
        default=False,
        kind="switch",
        advanced=True,
    )
    member: str = question(
        label="Account to grant roles to",
        help="The account that will get the roles: user:…, serviceAccount:… or principal://…. Empty: your own.",
        parse=validators.optional(
            validators.text(
                r"(user|serviceAccount|group):\S+@\S+|principal(Set)?://\S+",
                "must be user:, serviceAccount: or group: followed by an email address, or principal://…",
            )
        ),
        default="",
        advanced=True,
        optional=True,
        shown_when=lambda a: bool(a.project.grant_roles),
    )
    max_usd: float = question(
        label="Spending limit",
        help="Total in USD for resources with a known price. A warning appears at 80%; at 100%, nothing new is started. 0: no limit.",
        parse=validators.number(0, 100_000_000),
        default=0.0,
        kind="number",
        unit="USD",
        advanced=True,
    )
    ownership_marks: bool = question(
        label="Ownership labels",
        help="Label every new resource with this deployment's ID so that it can be found again.",
        parse=validators.switch,
        default=True,
        kind="switch",
        advanced=True,
    )
    hf_token: ClassVar[Field] = secret(
        label="Hugging Face token",
        help="A token with read access, required for gated models. Stored only in a Kubernetes Secret.",
        env=("HF_TOKEN",),
    )
    wandb_api_key: ClassVar[Field] = secret(
        label="Weights & Biases key",
        help="Required only to log the run to Weights & Biases. Stored only in a Kubernetes Secret.",
        env=("WANDB_API_KEY",),
    )
