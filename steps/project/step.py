"""Step 1, Project: the project, its region and zone, the APIs, roles, and the two tokens."""

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
    project = answers.project
    project_id = project.project_id
    created = [_new_project(project_id, project.billing_account)] if project.create_project else []
    created_ids = tuple(r.id for r in created)
    apis = [_api_resource(project_id, name, created_ids) for name in APIS]
    return [*created, *apis, *_role_bindings(answers, tuple(api.id for api in apis))]


def _new_project(project_id: str, billing_account: str) -> Resource:
    account = billing_account.removeprefix("billingAccounts/")
    link = (
        f" && {gcloud_command(f'billing projects link {project_id}', {'billing-account': account})}"
        if account
        else ""
    )
    return Resource(
        step="project",
        kind="project",
        name=project_id,
        spec={"projectId": project_id, "billingAccount": account},
        parent={"project": project_id},
        command=gcloud_command("projects create", {}, project_id) + link,
        retain_on_destroy=True,
        note="kept by destroy unless named in --delete-project",
    )


def _api_resource(project_id: str, name: str, depends_on: tuple[str, ...]) -> Resource:
    return Resource(
        step="project",
        kind="api",
        name=name,
        spec={"state": "ENABLED"},
        parent={"project": project_id},
        depends_on=depends_on,
        command=gcloud_command("services enable", {"project": project_id}, name),
        expected_duration=DurationEstimate(
            2, 60, "measured in rehearsal; can take several minutes to take effect"
        ),
        retain_on_destroy=True,
        note="kept by destroy because other workloads may use it",
    )


def _role_bindings(answers: Answers, depends_on: tuple[str, ...]) -> list[Resource]:
    project = answers.project
    if not project.grant_roles:
        return []
    roles = sorted(set(PERMISSIONS.values()))
    return [
        Resource(
            step="project",
            kind="iam_binding",
            name=role,
            spec={"role": role, "member": project.member},
            parent={"project": project.project_id},
            depends_on=depends_on,
            command=gcloud_command(
                "projects add-iam-policy-binding",
                {"member": project.member or "user:YOU", "role": role, "condition": "None"},
                project.project_id,
            ),
            retain_on_destroy=True,
            note="kept by destroy because other workloads may use it",
        )
        for role in roles
    ]


STEP = Step(
    answers=ProjectAnswers,
    title="Project",
    purpose="The Google Cloud project, region and zone.",
    checks=CHECKS,
    resources=_resources,
)
