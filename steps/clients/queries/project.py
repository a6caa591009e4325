"""Questions about the account, the project, its billing, APIs, permissions and policies, and the two tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from grpo_wizard.steps.clients.context import CloudContext, call
from grpo_wizard.steps.clients.errors import from_response, translate
from grpo_wizard.steps.clients.google.resource_manager import (
    billing_account,
    fetch_project,
    projects_client,
    service_usage_client,
)
from grpo_wizard.steps.clients.queries.base import QueryBase, query
from grpo_wizard.steps.clients.queries.tokens import check_hugging_face_token, check_wandb_key
from grpo_wizard.steps.clients.serialization import JSON
from grpo_wizard.steps.core.cloud_reader import OrgPolicyRule, ProjectListing, ProjectStatus, SignedInAccount
from grpo_wizard.steps.core.model import CheckFinding

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession

_POLICIES = "https://orgpolicy.googleapis.com"


class ProjectQueries(QueryBase):
    """Questions that need no resource of the deployment."""

    @query
    def signed_in_account(self) -> SignedInAccount:
        info = self.cloud.credentials_info
        if info is None:
            return SignedInAccount(account=self.cloud.account, kind=self.cloud.mode)
        return SignedInAccount(
            account=info.account,
            kind=info.source.kind,
            title=info.source.title,
            quota_project=info.quota_project,
            gcloud_account=info.gcloud_account,
        )

    @query
    def projects(self) -> list[ProjectListing]:
        """Every active project that this account may see."""
        listed = call("cloudresourcemanager", projects_client(self.cloud).search_projects, request={})
        return [
            ProjectListing(id=one.project_id, display_name=one.display_name)
            for one in listed
            if one.state.name == "ACTIVE"
        ]

    @query
    def project(self, *, project: str) -> ProjectStatus | None:
        found = fetch_project(self.cloud, project)
        if not found:
            return None
        return ProjectStatus(number=str(found["name"]).rpartition("/")[2], state=found.get("state", ""))

    @query
    def billing_enabled(self, *, project: str) -> bool:
        return bool(billing_account(self.cloud, project))

    @query
    def enabled_apis(self, *, project: str) -> frozenset[str]:
        request = {"parent": f"projects/{project}", "filter": "state:ENABLED", "page_size": 200}
        listed = call("serviceusage", service_usage_client(self.cloud).list_services, request=request)
        return frozenset(service.config.name or service.name.rpartition("/")[2] for service in listed)

    @query
    def granted_permissions(self, *, project: str, wanted: tuple[str, ...]) -> frozenset[str]:
        request = {"resource": f"projects/{project}", "permissions": list(wanted)}
        test = projects_client(self.cloud).test_iam_permissions
        return frozenset(call("cloudresourcemanager", test, request=request).permissions)

    @query
    def org_policy_rules(self, *, project: str, constraint: str) -> list[OrgPolicyRule]:
        """The rules of the policy in force on a project, inherited ones included. A plain request: the SDK is not a dependency."""
        base = self.cloud.endpoint("orgpolicy") or _POLICIES
        url = f"{base}/v2/projects/{quote(project, safe=':')}/policies/{constraint}:getEffectivePolicy"
        try:
            response = _session(self.cloud).get(url, timeout=60)
        except Exception as error:
            raise translate("orgpolicy.googleapis.com", error) from error
        if response.status_code != 200:
            raise from_response("orgpolicy.googleapis.com", response.status_code, response.content)
        return [_policy_rule(rule) for rule in response.json().get("spec", {}).get("rules", [])]

    @query
    def hugging_face_access(self, *, model: str) -> CheckFinding:
        """Whether the token is valid and may read the model. A service that cannot be reached only warns."""
        return check_hugging_face_token(self.cloud, model)

    @query
    def wandb_access(self) -> CheckFinding:
        return check_wandb_key(self.cloud)


def _policy_rule(rule: JSON) -> OrgPolicyRule:
    values = rule.get("values", {})
    return OrgPolicyRule(
        denies=bool(rule.get("enforce") or rule.get("denyAll")),
        allowed_values=frozenset(values.get("allowedValues", [])),
        denied_values=frozenset(values.get("deniedValues", [])),
    )


def _session(cloud: CloudContext) -> AuthorizedSession:
    """One session for all threads: requests' sessions are safe for reads. A rehearsal uses no proxy."""

    def build() -> AuthorizedSession:
        from google.auth.transport.requests import AuthorizedSession

        session = AuthorizedSession(cloud.credentials)
        session.trust_env = cloud.mode == "real"
        return session

    return cloud.singleton("orgpolicy", build)
