"""Checks of step 1, Project."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.cloud_reader import CloudReader
from grpo_wizard.steps.core.model import Check, CheckFinding
from grpo_wizard.steps.gcp.naming import gcloud_command, is_ai_zone, region_of
from grpo_wizard.steps.gcp.projects import project_not_found
from grpo_wizard.steps.project.org_policies import CHECKS as POLICIES
from grpo_wizard.steps.project.permissions import APIS, PERMISSIONS

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def _zone_in_region(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    region, zone = answers.project.region, answers.project.zone
    if region_of(zone) == region:
        yield CheckFinding("pass", detail=f"{zone} is in {region}.")
    else:
        yield CheckFinding(
            "block",
            detail=f"Zone {zone} belongs to region {region_of(zone)}, not {region}.",
            fix=f"Set project.region={region_of(zone)}, or choose a zone in {region}.",
        )
    if is_ai_zone(zone):
        yield CheckFinding(
            "info",
            detail=f"{zone} is an AI zone: it has accelerators but lacks some services. The other checks report what is missing.",
        )


def _zone_exists(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    """Compare with the zones that Compute Engine lists now."""
    project = answers.project
    statuses = {zone.name: zone.status for zone in reader.zones(project=project.project_id)}
    in_region = sorted(zone for zone in statuses if region_of(zone) == project.region)
    if not in_region:
        regions = sorted({region_of(zone) for zone in statuses})
        similar = difflib.get_close_matches(project.region, regions, 3) or regions[:3]
        yield CheckFinding(
            "block",
            detail=f"Region {project.region} does not exist. Similar names: {', '.join(similar)}.",
            fix="Correct project.region.",
        )
    elif project.zone not in statuses:
        yield CheckFinding(
            "block",
            detail=f"Zone {project.zone} does not exist. Zones in {project.region}: {', '.join(in_region)}.",
            fix="Correct project.zone.",
        )
    elif statuses[project.zone] not in ("UP", ""):
        status = statuses[project.zone]
        yield CheckFinding(
            "block", detail=f"Zone {project.zone} is {status}.", fix="Choose a different zone."
        )
    else:
        yield CheckFinding("pass", detail=f"Zone {project.zone} exists and is up.")


def _credentials(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    signed_in = reader.signed_in_account()
    source = f" ({signed_in.title})" if signed_in.title else ""
    yield CheckFinding("pass", detail=f"Signed in as {signed_in.account}{source}.")
    if signed_in.kind == "authorized_user" and not signed_in.quota_project:
        yield CheckFinding(
            "warn",
            detail="Your credentials do not specify a quota project. Some Google APIs reject user credentials without one.",
            fix=f"gcloud auth application-default set-quota-project {answers.project.project_id}",
        )
    other = signed_in.gcloud_account
    if other and "@" in signed_in.account and other != signed_in.account:
        yield CheckFinding(
            "warn",
            detail=f"gcloud is signed in as {other}, but grpo-wizard is using the credentials of {signed_in.account}. "
            "Their permissions may differ.",
            fix="gcloud auth application-default login",
        )


def _project_exists(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    project_id = answers.project.project_id
    found = reader.project(project=project_id)
    if found is None and answers.project.create_project:
        yield CheckFinding("info", detail=f"apply will create project {project_id}.")
    elif found is None:
        yield project_not_found(project_id, reader.signed_in_account().account, reader.mode)
    elif found.state != "ACTIVE":
        yield CheckFinding(
            "block",
            detail=f"Project {project_id} is in state {found.state}.",
            fix="Choose a different project.",
        )
    else:
        yield CheckFinding("pass", detail=f"Project {project_id} (number {found.number}) is active.")


def _billing(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    project = answers.project
    if project.create_project and not project.billing_account:
        yield CheckFinding(
            "block", detail="A new project requires a billing account.", fix="Set project.billing_account."
        )
    elif reader.billing_enabled(project=project.project_id):
        yield CheckFinding("pass", detail=f"Billing is enabled for {project.project_id}.")
    elif not project.create_project:
        yield CheckFinding(
            "block",
            detail=f"Billing is disabled for {project.project_id}, so no billable resources can be created.",
            fix=f"gcloud billing projects link {project.project_id} --billing-account=ACCOUNT",
        )


def _apis(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    enabled = reader.enabled_apis(project=answers.project.project_id)
    missing = [name for name in APIS if name not in enabled]
    if missing:
        yield CheckFinding(
            "info",
            detail=f"apply will enable {len(missing)} API{'' if len(missing) == 1 else 's'}: {', '.join(missing)}.",
        )
    else:
        yield CheckFinding("pass", detail="All required APIs are enabled.")


def _permissions(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    project = answers.project
    granted = reader.granted_permissions(project=project.project_id, wanted=tuple(PERMISSIONS))
    missing = [name for name in PERMISSIONS if name not in granted]
    if not missing:
        yield CheckFinding("pass", detail="All required permissions are granted.")
        return
    member = project.member or _member(reader.signed_in_account().account)
    flags = {"member": member, "condition": "None"}
    commands = [
        gcloud_command("projects add-iam-policy-binding", flags | {"role": role}, project.project_id)
        for role in sorted({PERMISSIONS[name] for name in missing})
    ]
    yield CheckFinding(
        "info" if project.grant_roles else "block",
        detail=f"Missing permissions ({len(missing)}): {', '.join(missing)}.",
        fix="; ".join(commands) + " (or set project.grant_roles=true)",
    )


def _member(account: str) -> str:
    """The account as IAM writes it; one without an address (a workforce pool's) has to be filled in."""
    if "@" not in account:
        return "principal://YOU"
    return f"{'serviceAccount' if account.endswith('.gserviceaccount.com') else 'user'}:{account}"


def _hugging_face(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    yield reader.hugging_face_access(model=answers.grpo.model)


def _weights_and_biases(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
    if answers.grpo.wandb:
        yield reader.wandb_access()


CHECKS = (
    Check(id="identity", title="Signed-in account", run=_credentials),
    Check(
        id="place",
        title="Zone and region",
        run=_zone_in_region,
        needs=lambda a: (a.project.region, a.project.zone),
    ),
    Check(id="zone", title="Zone", run=_zone_exists, needs=lambda a: (a.project.region, a.project.zone)),
    Check(
        id="project",
        title="Project",
        run=_project_exists,
        needs=lambda a: (a.project.project_id, a.project.create_project),
    ),
    Check(
        id="billing",
        title="Billing",
        run=_billing,
        needs=lambda a: (a.project.project_id, a.project.create_project, a.project.billing_account),
    ),
    Check(id="apis", title="APIs", run=_apis, needs=lambda a: a.project.project_id),
    Check(
        id="permissions",
        title="Permissions",
        run=_permissions,
        needs=lambda a: (a.project.project_id, a.project.grant_roles, a.project.member),
    ),
    *POLICIES,
    Check(
        id="hugging_face",
        title="Hugging Face access",
        run=_hugging_face,
        needs=lambda a: (a.project.hf_token, a.grpo.recipe, a.grpo.model),
    ),
    Check(
        id="wandb",
        title="Weights & Biases key",
        run=_weights_and_biases,
        needs=lambda a: (a.project.wandb_api_key, a.grpo.wandb),
    ),
)
