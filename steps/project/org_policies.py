"""Organisation policies that end a deployment late: each constraint, what it breaks, and how its rules are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from grpo_wizard.steps.core.model import Check, CheckFinding, CloudReader

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

PolicyVerdict = Literal["free", "unclear", "forbidden"]
PolicyRules = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class OrgPolicy:
    """One constraint. `breaks` completes "… is in force: "."""

    constraint: str
    title: str
    impact: str
    remedy: str


_ASK_ADMINISTRATOR = "ask an organisation administrator for an exception for this project"
POLICIES = (
    OrgPolicy(
        "compute.vmExternalIpAccess",
        "External addresses are allowed",
        "GKE's nodes get external addresses, and none would start",
        f"{_ASK_ADMINISTRATOR}, or use an existing cluster with private nodes (cluster.use_existing=true)",
    ),
    OrgPolicy(
        "compute.restrictVpcPeering",
        "VPC peering is allowed",
        "Lustre is reached through a peering with Google's network, which could not be made",
        _ASK_ADMINISTRATOR,
    ),
    OrgPolicy(
        "compute.requireShieldedVm",
        "Plain VMs are allowed",
        "GKE's nodes start without Secure Boot, and would be refused",
        _ASK_ADMINISTRATOR,
    ),
    OrgPolicy(
        "gcp.resourceLocations",
        "The location is allowed",
        "nothing may be made in this region",
        f"choose an allowed region, or {_ASK_ADMINISTRATOR}",
    ),
)


def evaluate(rules: PolicyRules, wanted: Iterable[str] = ()) -> PolicyVerdict:
    """Of a policy in force. `wanted` are the values of a list constraint that would do (exact, or groups `in:…`)."""
    good = set(wanted)
    found: PolicyVerdict = "free"
    for rule in rules:
        values = rule.get("values", {})
        allowed, denied = set(values.get("allowedValues", [])), set(values.get("deniedValues", []))
        if rule.get("enforce") or rule.get("denyAll") or denied & good:
            return "forbidden"
        if allowed and not allowed & good:
            # A group may hold what is wanted, without saying so; a list of plain names does not.
            grouped = not good or any(":" in value for value in allowed)
            found = "unclear" if grouped else "forbidden"
    return found


def location_values(region: str, zone: str) -> set[str]:
    """The values of gcp.resourceLocations that hold a zone: https://docs.cloud.google.com/resource-manager/docs/organization-policy/defining-locations, 2026-11."""
    continent = region.partition("-")[0]
    groups = {f"in:{region}-locations", f"in:{zone}-locations", f"in:{continent}-locations"}
    return {region, zone, *groups}


def policy_check(policy: OrgPolicy) -> Check:
    def run(answers: Answers, world: CloudReader) -> Iterable[CheckFinding]:
        place = answers.project
        rules = world.ask("org_policy", project=place.project_id, constraint=policy.constraint)
        wanted = (
            location_values(place.region, place.zone) if policy.constraint == "gcp.resourceLocations" else ()
        )
        yield _policy_finding(policy, evaluate(rules, wanted), rules)

    name = policy.constraint.rpartition(".")[2]
    return Check(f"policy_{name}", policy.title, run, ("project.project_id", "project.region"))


def _policy_finding(policy: OrgPolicy, verdict: PolicyVerdict, rules: PolicyRules) -> CheckFinding:
    if verdict == "free":
        return CheckFinding("pass", f"organisation policy {policy.constraint} forbids nothing here")
    values = [value for rule in rules for value in rule.get("values", {}).get("allowedValues", [])]
    if verdict == "unclear":
        return CheckFinding(
            "warn",
            f"organisation policy {policy.constraint} allows a list only",
            ", ".join(values[:6]),
            policy.remedy,
        )
    return CheckFinding(
        "block",
        f"organisation policy {policy.constraint} is in force: {policy.impact}",
        f"constraints/{policy.constraint}" + (f" allows {', '.join(values[:6])}" if values else ""),
        policy.remedy,
    )


CHECKS = tuple(policy_check(policy) for policy in POLICIES)
