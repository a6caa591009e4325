"""Step 1, Project: what must hold."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.model import Check, CheckFinding, CloudReader
from grpo_wizard.steps.gcp.naming import gcloud_command, is_ai_zone, region_of
from grpo_wizard.steps.gcp.projects import project_not_found
from grpo_wizard.steps.project.org_policies import CHECKS as POLICIES
from grpo_wizard.steps.project.permissions import APIS, PERMISSIONS

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def _zone_in_region(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    region, zone = answers.project.region, answers.project.zone
    if region_of(zone) != region:
        yield CheckFinding(
            "block",
            f"zone {zone} is not in region {region}",
            f"it belongs to {region_of(zone)}",
            f"set project.region={region_of(zone)} or choose a zone of {region}",
        )
    else:
        yield CheckFinding("pass", f"{zone} is in {region}")
    if is_ai_zone(zone):
        yield CheckFinding(
            "info",
            f"{zone} is an AI zone",
            "it has accelerators and few other services: the other checks say what is missing there",
        )


def _zone_exists(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    """By the region's own list, as Compute has it now."""
    place = answers.project
    listed = {str(row["name"]): row.get("status", "") for row in world.ask("zones", project=place.project_id)}
    siblings = sorted(zone for zone in listed if region_of(zone) == place.region)
    if not siblings:
        regions = sorted({region_of(zone) for zone in listed})
        near = ", ".join(difflib.get_close_matches(place.region, regions, 3) or regions[:3])
        yield CheckFinding(
            "block", f"there is no region {place.region}", f"near it: {near}", "correct project.region"
        )
    elif place.zone not in listed:
        yield CheckFinding(
            "block",
            f"there is no zone {place.zone}",
            f"{place.region} has {', '.join(siblings)}",
            "correct project.zone",
        )
    elif listed[place.zone] not in ("UP", ""):
        yield CheckFinding("block", f"zone {place.zone} is {listed[place.zone]}", "", "choose another zone")
    else:
        yield CheckFinding("pass", f"zone {place.zone} is there")


def _credentials(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    who = world.ask("who")
    account, kind = who["account"], who["kind"]
    yield CheckFinding("pass", f"signed in as {account}", who.get("title", ""))
    if kind == "authorized_user" and not who["quota_project"]:
        yield CheckFinding(
            "warn",
            "your credentials name no quota project",
            "some of Google's APIs refuse a person's credentials without one",
            f"gcloud auth application-default set-quota-project {answers.project.project_id}",
        )
    other = who.get("gcloud_account", "")
    if other and "@" in account and other != account:
        yield CheckFinding(
            "warn",
            f"gcloud is signed in as {other}, the wizard's credentials are {account}'s",
            "what the one may do the other may not",
            "gcloud auth application-default login",
        )


def _project_exists(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    mine = answers.project
    seen = world.ask("project", project=mine.project_id)
    if seen is None and mine.create_project:
        yield CheckFinding("info", f"project {mine.project_id} will be created")
    elif seen is None:
        yield project_not_found(mine.project_id, world.ask("identity"), world.mode)
    elif seen["state"] != "ACTIVE":
        yield CheckFinding(
            "block", f"project {mine.project_id} is {seen['state']}", "", "choose another project"
        )
    else:
        yield CheckFinding("pass", f"project {mine.project_id} ({seen['number']}) is active")


def _billing(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    mine = answers.project
    if mine.create_project and not mine.billing_account:
        yield CheckFinding(
            "block", "a new project needs a billing account", "", "set project.billing_account"
        )
        return
    if world.ask("billing", project=mine.project_id):
        yield CheckFinding("pass", "billing is on")
    elif not mine.create_project:
        yield CheckFinding(
            "block",
            f"billing is off for {mine.project_id}",
            "nothing can be created",
            f"gcloud billing projects link {mine.project_id} --billing-account=ACCOUNT",
        )


def _apis(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    enabled = set(world.ask("enabled_apis", project=answers.project.project_id))
    missing = [name for name in APIS if name not in enabled]
    if missing:
        yield CheckFinding("info", f"{len(missing)} APIs will be enabled", ", ".join(missing))
    else:
        yield CheckFinding("pass", "all APIs are enabled")


def _permissions(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    mine = answers.project
    held = set(world.ask("permissions", project=mine.project_id, wanted=tuple(PERMISSIONS)))
    lacking = [name for name in PERMISSIONS if name not in held]
    if not lacking:
        yield CheckFinding("pass", "all permissions are there")
        return
    member = mine.member or _member(world.ask("identity"))
    flags = {"member": member, "condition": "None"}
    lines = [
        gcloud_command("projects add-iam-policy-binding", flags | {"role": role}, mine.project_id)
        for role in sorted({PERMISSIONS[name] for name in lacking})
    ]
    yield CheckFinding(
        "info" if mine.grant_roles else "block",
        f"{len(lacking)} permissions are missing",
        ", ".join(lacking),
        "; ".join(lines) + " (or set project.grant_roles=true)",
    )


def _member(identity: str) -> str:
    """As IAM writes it; an identity without an address (a workforce pool's) has to be filled in."""
    if "@" not in identity:
        return "principal://YOU"
    return f"{'serviceAccount' if identity.endswith('.gserviceaccount.com') else 'user'}:{identity}"


def _hugging_face(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    model = answers.grpo.model
    answer = world.ask("hugging_face", model=model)
    yield CheckFinding(answer["level"], answer["title"], answer["detail"], answer["fix"])


def _weights_and_biases(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
    if answers.grpo.wandb:
        answer = world.ask("wandb")
        yield CheckFinding(answer["level"], answer["title"], answer["detail"], answer["fix"])


CHECKS = (
    Check("identity", "Who is signed in", _credentials),
    Check("place", "Zone and region belong together", _zone_in_region, ("project.region", "project.zone")),
    Check("zone", "The zone is there", _zone_exists, ("project.region", "project.zone")),
    Check(
        "project", "The project is there", _project_exists, ("project.project_id", "project.create_project")
    ),
    Check("billing", "Billing is on", _billing, ("project.project_id", "project.billing_account")),
    Check("apis", "APIs", _apis, ("project.project_id",)),
    Check("permissions", "Permissions", _permissions, ("project.project_id", "project.grant_roles")),
    *POLICIES,
    Check("hugging_face", "Hugging Face token and model", _hugging_face, ("project.hf_token", "grpo.recipe")),
    Check("wandb", "Weights & Biases key", _weights_and_biases, ("project.wandb_api_key", "grpo.wandb")),
)
