"""Organization policies that make a deployment fail late: each constraint, what it breaks, and how its rules are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from grpo_wizard.steps.core.cloud_reader import CloudReader, OrgPolicyRule
from grpo_wizard.steps.core.model import Check, CheckFinding

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

PolicyVerdict = Literal["free", "unclear", "forbidden"]
_RESOURCE_LOCATIONS = "gcp.resourceLocations"
_MAX_VALUES_LISTED = 6


@dataclass(frozen=True, kw_only=True)
class OrgPolicy:
    """One constraint. `impact` is a sentence about what fails while it is enforced."""

    constraint: str
    title: str
    impact: str
    remedy: str


_ASK_ADMINISTRATOR = "Ask an organization administrator for an exception for this project."
POLICIES = (
    OrgPolicy(
        constraint="compute.vmExternalIpAccess",
        title="External IP address policy",
        impact="GKE nodes require external IP addresses, so no node would start.",
        remedy="Ask an organization administrator for an exception for this project, or use an existing cluster with private nodes (cluster.use_existing=true).",
    ),
    OrgPolicy(
        constraint="compute.restrictVpcPeering",
        title="VPC peering policy",
        impact="Lustre requires a peering with Google's network, but the peering could not be created.",
        remedy=_ASK_ADMINISTRATOR,
    ),
    OrgPolicy(
        constraint="compute.requireShieldedVm",
        title="Shielded VM policy",
        impact="GKE nodes start without Secure Boot, so they would be rejected.",
        remedy=_ASK_ADMINISTRATOR,
    ),
    OrgPolicy(
        constraint=_RESOURCE_LOCATIONS,
        title="Resource location policy",
        impact="No resources can be created in this region.",
        remedy="Choose an allowed region, or ask an organization administrator for an exception for this project.",
    ),
)


def evaluate(rules: Sequence[OrgPolicyRule], wanted: Iterable[str] = ()) -> PolicyVerdict:
    """Judge a policy in force. `wanted` are the values of a list constraint that would do (exact, or groups `in:…`)."""
    good = set(wanted)
    verdict: PolicyVerdict = "free"
    for rule in rules:
        if rule.denies or rule.denied_values & good:
            return "forbidden"
        if rule.allowed_values and not rule.allowed_values & good:
            # A group may include a wanted value without naming it; a list of plain names does not.
            grouped = not good or any(":" in value for value in rule.allowed_values)
            verdict = "unclear" if grouped else "forbidden"
    return verdict


def location_values(region: str, zone: str) -> set[str]:
    """The values of gcp.resourceLocations that include a zone: https://docs.cloud.google.com/resource-manager/docs/organization-policy/defining-locations, 2026-11."""
    continent = region.partition("-")[0]
    groups = {f"in:{region}-locations", f"in:{zone}-locations", f"in:{continent}-locations"}
    return {region, zone, *groups}


def policy_check(policy: OrgPolicy) -> Check:
    def run(answers: Answers, reader: CloudReader) -> Iterable[CheckFinding]:
        project = answers.project
        rules = reader.org_policy_rules(project=project.project_id, constraint=policy.constraint)
        wanted = (
            location_values(project.region, project.zone) if policy.constraint == _RESOURCE_LOCATIONS else ()
        )
        yield _policy_finding(policy, evaluate(rules, wanted), rules)

    return Check(
        id=f"policy_{policy.constraint.rpartition('.')[2]}",
        title=policy.title,
        run=run,
        needs=lambda a: (a.project.project_id, a.project.region, a.project.zone),
    )


def _policy_finding(
    policy: OrgPolicy, verdict: PolicyVerdict, rules: Sequence[OrgPolicyRule]
) -> CheckFinding:
    name = f"constraints/{policy.constraint}"
    if verdict == "free":
        return CheckFinding("pass", detail=f"{name} allows everything this deployment needs.")
    values = sorted(value for rule in rules for value in rule.allowed_values)
    listed = ", ".join(values[:_MAX_VALUES_LISTED])
    if verdict == "unclear":
        return CheckFinding("warn", detail=f"{name} allows only {listed}.", fix=policy.remedy)
    allows = f" The policy allows {listed}." if values else ""
    return CheckFinding("block", detail=f"{name} is enforced. {policy.impact}{allows}", fix=policy.remedy)


CHECKS = tuple(policy_check(policy) for policy in POLICIES)
