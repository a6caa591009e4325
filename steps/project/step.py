"""Step 1, Project: which project, region and zone; the APIs; who may do what; the two tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_wizard.steps.core.model import DurationEstimate, Resource, Step
from grpo_wizard.steps.gcp.naming import gcloud_command
from grpo_wizard.steps.project.answers import ProjectAnswers
from grpo_wizard.steps.project.checks import CHECKS
from grpo_wizard.steps.project.permissions import APIS, PERMISSIONS

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


def _resources(answers: Answers) -> Sequence[Resource]:
    mine = answers.project
    project = mine.project_id
    made = [_new_project(project, mine.billing_account)] if mine.create_project else []
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
        step="project",
        kind="project",
        name=project,
        spec={"projectId": project, "billingAccount": account},
        parent={"project": project},
        command=gcloud_command("projects create", {}, project) + link,
        retain_on_destroy=True,
        note="stays at destroy unless --delete-project names it",
    )


def _api_resource(project: str, name: str, depends_on: tuple[str, ...]) -> Resource:
    return Resource(
        step="project",
        kind="api",
        name=name,
        spec={"state": "ENABLED"},
        parent={"project": project},
        depends_on=depends_on,
        command=gcloud_command("services enable", {"project": project}, name),
        expected_duration=DurationEstimate(2, 60, "seen in rehearsal; minutes to be felt (cases a07)"),
        retain_on_destroy=True,
        note="stays at destroy: others may need it",
    )


def _role_bindings(answers: Answers, depends_on: tuple[str, ...]) -> list[Resource]:
    mine = answers.project
    if not mine.grant_roles:
        return []
    roles = sorted(set(PERMISSIONS.values()))
    return [
        Resource(
            step="project",
            kind="iam_binding",
            name=role,
            spec={"role": role, "member": mine.member},
            parent={"project": mine.project_id},
            depends_on=depends_on,
            command=gcloud_command(
                "projects add-iam-policy-binding",
                {"member": mine.member or "user:YOU", "role": role, "condition": "None"},
                mine.project_id,
            ),
            retain_on_destroy=True,
            note="stays at destroy: others may need it",
        )
        for role in roles
    ]


STEP = Step(
    answers=ProjectAnswers,
    title="Project",
    purpose="Which project, and where.",
    checks=CHECKS,
    resources=_resources,
)
