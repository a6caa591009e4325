"""Step 1, Project: which project, region and zone; the APIs; who may do what; the two tokens."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_wizard.steps.core import validators
from grpo_wizard.steps.core.model import Answers, DurationEstimate, Field, Resource, Step
from grpo_wizard.steps.gcp.naming import gcloud_command
from grpo_wizard.steps.project.checks import CHECKS
from grpo_wizard.steps.project.permissions import APIS, PERMISSIONS

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

FIELDS = (
    Field(
        "project_id",
        "Project",
        "The Google Cloud project that everything is made in.",
        _project_id,
        env=("PROJECT_ID",),
        choices_from="projects",
    ),
    Field(
        "region",
        "Region",
        "Where the cluster's control plane and the subnets live.",
        _region,
        "us-central1",
        env=("CONTROL_PLANE_REGION", "REGION"),
    ),
    Field(
        "zone",
        "Zone",
        "Where the GPU nodes, the head's node and Lustre live.",
        _zone,
        "us-central1-b",
        env=("NODE_ZONE", "ZONE"),
        choices_from="zones",
    ),
    Field(
        "create_project",
        "Create the project",
        "Make this project first and link it to a billing account.",
        validators.switch,
        False,
        kind="switch",
        advanced=True,
    ),
    Field(
        "billing_account",
        "Billing account",
        "Linked to a project that is created here.",
        validators.optional(_billing),
        "",
        advanced=True,
        optional=True,
        shown_when=lambda a: bool(a["project"]["create_project"]),
    ),
    Field(
        "grant_roles",
        "Grant missing roles",
        "Add the roles that the check names to your own account. Adds only, never takes away.",
        validators.switch,
        False,
        kind="switch",
        advanced=True,
    ),
    Field(
        "member",
        "Account for the roles",
        "Whom the roles are granted to: user:…, serviceAccount:… or principal://… (empty: your own).",
        validators.optional(
            validators.text(
                r"(user|serviceAccount|group):\S+@\S+|principal(Set)?://\S+",
                "user:, serviceAccount: or group: and an address, or principal://…",
            )
        ),
        "",
        advanced=True,
        optional=True,
        shown_when=lambda a: bool(a["project"]["grant_roles"]),
    ),
    Field(
        "max_usd",
        "Spend at most",
        "USD in all, of what has a known price: warned at 80 %, and then nothing more is started. 0: no limit.",
        validators.number(0, 100_000_000),
        0.0,
        kind="number",
        unit="USD",
        advanced=True,
    ),
    Field(
        "ownership_marks",
        "Ownership marks",
        "Write this deployment's mark on all that it makes, so that it can be found again.",
        validators.switch,
        True,
        kind="switch",
        advanced=True,
    ),
    Field(
        "hf_token",
        "Hugging Face token",
        "Read access; needed for gated models. Goes into a Kubernetes Secret and nowhere else.",
        validators.optional(str),
        "",
        env=("HF_TOKEN",),
        kind="secret",
        optional=True,
    ),
    Field(
        "wandb_api_key",
        "Weights & Biases key",
        "Only if you want the run logged there. Goes into a Kubernetes Secret and nowhere else.",
        validators.optional(str),
        "",
        env=("WANDB_API_KEY",),
        kind="secret",
        optional=True,
    ),
)


def _resources(answers: Answers) -> Sequence[Resource]:
    mine = answers["project"]
    project = mine["project_id"]
    made = [_new_project(project, mine["billing_account"])] if mine["create_project"] else []
    above = tuple(r.id for r in made)
    apis = [_api_resource(project, name, above) for name in APIS]
    return [*made, *apis, *_role_bindings(answers, tuple(api.id for api in apis))]


def _new_project(project: str, billing_account: str) -> Resource:
    account = billing_account.removeprefix("billingAccounts/")
    link = (
        f" && {gcloud_command(f'billing projects link {project}', {'billing-account': account})}"
        if account
        else ""
    )
    return Resource(
        "project",
        "project",
        project,
        {"projectId": project, "billingAccount": account},
        {"project": project},
        command=gcloud_command("projects create", {}, project) + link,
        retain_on_destroy=True,
        note="stays at destroy unless --delete-project names it",
    )


def _api_resource(project: str, name: str, depends_on: tuple[str, ...]) -> Resource:
    return Resource(
        "project",
        "api",
        name,
        {"state": "ENABLED"},
        {"project": project},
        depends_on,
        gcloud_command("services enable", {"project": project}, name),
        DurationEstimate(2, 60, "seen in rehearsal; minutes to be felt (cases a07)"),
        retain_on_destroy=True,
        note="stays at destroy: others may need it",
    )


def _role_bindings(answers: Answers, depends_on: tuple[str, ...]) -> list[Resource]:
    mine = answers["project"]
    if not mine["grant_roles"]:
        return []
    roles = sorted(set(PERMISSIONS.values()))
    return [
        Resource(
            "project",
            "iam_binding",
            role,
            {"role": role, "member": mine["member"]},
            {"project": mine["project_id"]},
            depends_on,
            gcloud_command(
                "projects add-iam-policy-binding",
                {"member": mine["member"] or "user:YOU", "role": role, "condition": "None"},
                mine["project_id"],
            ),
            retain_on_destroy=True,
            note="stays at destroy: others may need it",
        )
        for role in roles
    ]


STEP = Step("project", "Project", "Which project, and where.", FIELDS, CHECKS, _resources)
