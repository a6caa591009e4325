"""Step 1, Project: which project, region and zone; the APIs; who may do what; the two tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import parse
from .naming import gcloud, region_of
from .step import Answers, Check, Field, Finding, Resource, Step, Usual, World

# The tutorial enables the first three only (tutorial-defects 11); serviceusage is on in every project.
APIS = (
    "container.googleapis.com",
    "storage.googleapis.com",
    "compute.googleapis.com",
    "lustre.googleapis.com",
    "servicenetworking.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "cloudquotas.googleapis.com",
    "cloudbilling.googleapis.com",
)

# Smallest role that gives each permission that the wizard uses (google-cloud.md §3.8, read 2026-06).
PERMISSIONS = {
    "compute.networks.create": "roles/compute.networkAdmin",
    "compute.subnetworks.create": "roles/compute.networkAdmin",
    "compute.globalAddresses.createInternal": "roles/compute.networkAdmin",
    "servicenetworking.services.addPeering": "roles/compute.networkAdmin",
    "compute.firewalls.create": "roles/compute.securityAdmin",
    "container.clusters.create": "roles/container.admin",
    "container.clusters.getCredentials": "roles/container.admin",
    "iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser",
    "lustre.instances.create": "roles/lustre.admin",
    "serviceusage.services.enable": "roles/serviceusage.serviceUsageAdmin",
    "cloudquotas.quotas.get": "roles/cloudquotas.viewer",
    "compute.reservations.get": "roles/compute.viewer",
}

_project_id = parse.text(
    r"([a-z0-9][-a-z0-9.]*\.[a-z]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]",
    "6 to 30 lower-case letters, digits or hyphens, a letter first, no hyphen last (older ids may begin with a domain, as in example.com:my-proj)",
)
_region = parse.text(r"[a-z]+-[a-z]+[0-9]+", "a region such as us-central1")
_zone = parse.text(r"[a-z]+-[a-z]+[0-9]+-([a-z]|ai[0-9]+[a-z])", "a zone such as us-central1-b")
_billing = parse.text(
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
    ),
    Field(
        "create_project",
        "Create the project",
        "Make this project first and link it to a billing account.",
        parse.switch,
        False,
        kind="switch",
        advanced=True,
    ),
    Field(
        "billing_account",
        "Billing account",
        "Linked to a project that is created here.",
        parse.optional(_billing),
        "",
        advanced=True,
        optional=True,
        shown_when=lambda a: bool(a["project"]["create_project"]),
    ),
    Field(
        "grant_roles",
        "Grant missing roles",
        "Add the roles that the check names to your own account. Adds only, never takes away.",
        parse.switch,
        False,
        kind="switch",
        advanced=True,
    ),
    Field(
        "member",
        "Account for the roles",
        "Whom the roles are granted to: user:…, serviceAccount:… or principal://… (empty: your own).",
        parse.optional(
            parse.text(
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
        "ownership_marks",
        "Ownership marks",
        "Write this deployment's mark on all that it makes, so that it can be found again.",
        parse.switch,
        True,
        kind="switch",
        advanced=True,
    ),
    Field(
        "hf_token",
        "Hugging Face token",
        "Read access; needed for gated models. Goes into a Kubernetes Secret and nowhere else.",
        parse.optional(str),
        "",
        env=("HF_TOKEN",),
        kind="secret",
        optional=True,
    ),
    Field(
        "wandb_api_key",
        "Weights & Biases key",
        "Only if you want the run logged there. Goes into a Kubernetes Secret and nowhere else.",
        parse.optional(str),
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
    apis = [_api(project, name, above) for name in APIS]
    return [*made, *apis, *_bindings(answers, tuple(api.id for api in apis))]


def _new_project(project: str, billing_account: str) -> Resource:
    account = billing_account.removeprefix("billingAccounts/")
    link = (
        f" && {gcloud(f'billing projects link {project}', {'billing-account': account})}" if account else ""
    )
    return Resource(
        "project",
        "project",
        project,
        {"projectId": project, "billingAccount": account},
        {"project": project},
        command=gcloud("projects create", {}, project) + link,
        kept=True,
        note="stays at destroy unless --delete-project names it",
    )


def _api(project: str, name: str, needs: tuple[str, ...]) -> Resource:
    return Resource(
        "project",
        "api",
        name,
        {"state": "ENABLED"},
        {"project": project},
        needs,
        gcloud("services enable", {"project": project}, name),
        Usual(2, 60, "seen in rehearsal; minutes to be felt (cases a07)"),
        kept=True,
        note="stays at destroy: others may need it",
    )


def _bindings(answers: Answers, needs: tuple[str, ...]) -> list[Resource]:
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
            needs,
            gcloud(
                "projects add-iam-policy-binding",
                {"member": mine["member"] or "user:YOU", "role": role, "condition": "None"},
                mine["project_id"],
            ),
            kept=True,
            note="stays at destroy: others may need it",
        )
        for role in roles
    ]


def _place(answers: Answers, world: World) -> Iterable[Finding]:
    region, zone = answers["project"]["region"], answers["project"]["zone"]
    if region_of(zone) != region:
        yield Finding(
            "block",
            f"zone {zone} is not in region {region}",
            f"it belongs to {region_of(zone)}",
            f"set project.region={region_of(zone)} or choose a zone of {region}",
        )
    else:
        yield Finding("pass", f"{zone} is in {region}")


def _identity(answers: Answers, world: World) -> Iterable[Finding]:
    yield Finding("pass", f"signed in as {world.ask('identity')}")


def _project_exists(answers: Answers, world: World) -> Iterable[Finding]:
    mine = answers["project"]
    seen = world.ask("project", project=mine["project_id"])
    if seen is None and mine["create_project"]:
        yield Finding("info", f"project {mine['project_id']} will be created")
    elif seen is None:
        yield Finding(
            "block",
            f"project {mine['project_id']} was not found",
            "or you may not see it",
            "choose another project, or set project.create_project=true",
        )
    elif seen["state"] != "ACTIVE":
        yield Finding(
            "block", f"project {mine['project_id']} is {seen['state']}", "", "choose another project"
        )
    else:
        yield Finding("pass", f"project {mine['project_id']} ({seen['number']}) is active")


def _billing_on(answers: Answers, world: World) -> Iterable[Finding]:
    mine = answers["project"]
    if mine["create_project"] and not mine["billing_account"]:
        yield Finding("block", "a new project needs a billing account", "", "set project.billing_account")
        return
    if world.ask("billing", project=mine["project_id"]):
        yield Finding("pass", "billing is on")
    elif not mine["create_project"]:
        yield Finding(
            "block",
            f"billing is off for {mine['project_id']}",
            "nothing can be created",
            f"gcloud billing projects link {mine['project_id']} --billing-account=ACCOUNT",
        )


def _apis_on(answers: Answers, world: World) -> Iterable[Finding]:
    enabled = set(world.ask("enabled_apis", project=answers["project"]["project_id"]))
    missing = [name for name in APIS if name not in enabled]
    if missing:
        yield Finding("info", f"{len(missing)} APIs will be enabled", ", ".join(missing))
    else:
        yield Finding("pass", "all APIs are enabled")


def _permissions(answers: Answers, world: World) -> Iterable[Finding]:
    mine = answers["project"]
    held = set(world.ask("permissions", project=mine["project_id"], wanted=tuple(PERMISSIONS)))
    lacking = [name for name in PERMISSIONS if name not in held]
    if not lacking:
        yield Finding("pass", "all permissions are there")
        return
    roles = sorted({PERMISSIONS[name] for name in lacking})
    lines = [
        gcloud("projects add-iam-policy-binding", {"member": "user:YOU", "role": role}, mine["project_id"])
        for role in roles
    ]
    yield Finding(
        "info" if mine["grant_roles"] else "block",
        f"{len(lacking)} permissions are missing",
        ", ".join(lacking),
        "; ".join(lines) + " (or set project.grant_roles=true)",
    )


def _hugging_face(answers: Answers, world: World) -> Iterable[Finding]:
    model = answers["grpo"]["model"]
    answer = world.ask("hugging_face", model=model)
    yield Finding(answer["level"], answer["title"], answer["detail"], answer["fix"])


def _weights_and_biases(answers: Answers, world: World) -> Iterable[Finding]:
    if answers["grpo"]["wandb"]:
        answer = world.ask("wandb")
        yield Finding(answer["level"], answer["title"], answer["detail"], answer["fix"])


CHECKS = (
    Check("identity", "Who is signed in", _identity),
    Check("place", "Zone and region belong together", _place, ("project.region", "project.zone")),
    Check(
        "project", "The project is there", _project_exists, ("project.project_id", "project.create_project")
    ),
    Check("billing", "Billing is on", _billing_on, ("project.project_id", "project.billing_account")),
    Check("apis", "APIs", _apis_on, ("project.project_id",)),
    Check("permissions", "Permissions", _permissions, ("project.project_id", "project.grant_roles")),
    Check("hugging_face", "Hugging Face token and model", _hugging_face, ("project.hf_token", "grpo.recipe")),
    Check("wandb", "Weights & Biases key", _weights_and_biases, ("project.wandb_api_key", "grpo.wandb")),
)

STEP = Step("project", "Project", "Which project, and where.", FIELDS, CHECKS, _resources)
