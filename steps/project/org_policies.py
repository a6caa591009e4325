"""Organisation policies that end a deployment late: each constraint, what it breaks, and how its rules are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grpo_wizard.steps.core.model import Answers, Check, Finding, World

Verdict = Literal["free", "unclear", "forbidden"]
Rules = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Policy:
    """One constraint. `breaks` completes "… is in force: "."""

    constraint: str
    title: str
    breaks: str
    way_out: str


_ASK = "ask an organisation administrator for an exception for this project"
POLICIES = (
    Policy(
        "compute.vmExternalIpAccess",
        "External addresses are allowed",
        "GKE's nodes get external addresses, and none would start",
        f"{_ASK}, or use an existing cluster with private nodes (cluster.use_existing=true)",
    ),
    Policy(
        "compute.restrictVpcPeering",
        "VPC peering is allowed",
        "Lustre is reached through a peering with Google's network, which could not be made",
        _ASK,
    ),
    Policy(
        "compute.requireShieldedVm",
        "Plain VMs are allowed",
        "GKE's nodes start without Secure Boot, and would be refused",
        _ASK,
    ),
    Policy(
        "gcp.resourceLocations",
        "The location is allowed",
        "nothing may be made in this region",
        f"choose an allowed region, or {_ASK}",
    ),
)


def verdict(rules: Rules, wanted: Iterable[str] = ()) -> Verdict:
    """Of a policy in force. `wanted` are the values of a list constraint that would do (exact, or groups `in:…`)."""
    good = set(wanted)
    found: Verdict = "free"
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


def places(region: str, zone: str) -> set[str]:
    """The values of gcp.resourceLocations that hold a zone: https://docs.cloud.google.com/resource-manager/docs/organization-policy/defining-locations, 2026-11."""
    continent = region.partition("-")[0]
    groups = {f"in:{region}-locations", f"in:{zone}-locations", f"in:{continent}-locations"}
    return {region, zone, *groups}


def check_of(policy: Policy) -> Check:
    def run(answers: Answers, world: World) -> Iterable[Finding]:
        place = answers["project"]
        rules = world.ask("org_policy", project=place["project_id"], constraint=policy.constraint)
        wanted = (
            places(place["region"], place["zone"]) if policy.constraint == "gcp.resourceLocations" else ()
        )
        yield _finding(policy, verdict(rules, wanted), rules)

    name = policy.constraint.rpartition(".")[2]
    return Check(f"policy_{name}", policy.title, run, ("project.project_id", "project.region"))


def _finding(policy: Policy, said: Verdict, rules: Rules) -> Finding:
    if said == "free":
        return Finding("pass", f"organisation policy {policy.constraint} forbids nothing here")
    values = [value for rule in rules for value in rule.get("values", {}).get("allowedValues", [])]
    if said == "unclear":
        return Finding(
            "warn",
            f"organisation policy {policy.constraint} allows a list only",
            ", ".join(values[:6]),
            policy.way_out,
        )
    return Finding(
        "block",
        f"organisation policy {policy.constraint} is in force: {policy.breaks}",
        f"constraints/{policy.constraint}" + (f" allows {', '.join(values[:6])}" if values else ""),
        policy.way_out,
    )


CHECKS = tuple(check_of(policy) for policy in POLICIES)
