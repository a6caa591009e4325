"""Organization policies: set, read, and the effective policy of a project. effects.py enforces them.

The emulator's projects belong to no organization: constraints without a policy have Google's defaults (lists
allow all, booleans are off). The drill org-policy sets two, as an administrator above the project would.
https://docs.cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints, 2026-11
"""

from __future__ import annotations

import base64
from typing import Any

from grpo_wizard.steps.emulator.context import JSON, ApiCall, ApiError, Record, ResourceStore, handles
from grpo_wizard.steps.emulator.drills.active import is_active
from grpo_wizard.steps.emulator.google.resourcemanager import projects
from grpo_wizard.steps.emulator.google.shared.ids import utc_timestamp
from grpo_wizard.steps.emulator.google.shared.lists import simple_page

SERVICE = "orgpolicy.googleapis.com"
RESTRICT_VPC_PEERING, REQUIRE_SHIELDED_VM = "compute.restrictVpcPeering", "compute.requireShieldedVm"
VM_EXTERNAL_IP_ACCESS, RESOURCE_LOCATIONS = "compute.vmExternalIpAccess", "gcp.resourceLocations"
_DRILL_CONSTRAINTS = {RESTRICT_VPC_PEERING, REQUIRE_SHIELDED_VM}
_LIST_CONSTRAINTS = {VM_EXTERNAL_IP_ACCESS, RESTRICT_VPC_PEERING, RESOURCE_LOCATIONS}
_BOOLEAN_CONSTRAINTS = {
    REQUIRE_SHIELDED_VM,
    "compute.skipDefaultNetworkCreation",
    "compute.disableNestedVirtualization",
}


def effective_rules(store: ResourceStore, project: str, constraint: str) -> list[JSON]:
    """Return the effective rules of a constraint."""
    if constraint in _DRILL_CONSTRAINTS and is_active("org-policy"):
        return [{"denyAll": True} if constraint in _LIST_CONSTRAINTS else {"enforce": True}]
    record = store.get(SERVICE, f"projects/{project}/policies/{constraint}")
    if record is not None and not record.body["spec"].get("reset") and record.body["spec"].get("rules"):
        return list(record.body["spec"]["rules"])
    return [{"allowAll": True} if constraint in _LIST_CONSTRAINTS else {"enforce": False}]


def is_denied(store: ResourceStore, project: str, constraint: str) -> bool:
    """Return whether a constraint is enforced, or denies everything. Conditions are ignored."""
    return any(
        rule.get("enforce") or rule.get("denyAll") for rule in effective_rules(store, project, constraint)
    )


def is_location_denied(store: ResourceStore, project: str, location: str) -> bool:
    """Return whether gcp.resourceLocations denies a region or zone."""
    for rule in effective_rules(store, project, RESOURCE_LOCATIONS):
        values: JSON = rule.get("values", {})
        allowed, denied = values.get("allowedValues", []), values.get("deniedValues", [])
        out = allowed and not any(_location_matches(value, location) for value in allowed)
        if rule.get("denyAll") or out or any(_location_matches(value, location) for value in denied):
            return True
    return False


def _location_matches(value: str, location: str) -> bool:
    """Match `us-central1`, or a group such as `in:us-locations`; zones match by their region."""
    name = value.removeprefix("is:").removeprefix("in:").removesuffix("-locations")
    name = {"eu": "europe"}.get(name, name)
    return location == name or (value.startswith("in:") and location.startswith(f"{name}-"))


def _project(call: ApiCall, name: str) -> Record:
    return projects.find_project(call.store, name.split("/")[1])


def _key(call: ApiCall, name: str) -> str:
    constraint = name.split("/")[3]
    if constraint not in _LIST_CONSTRAINTS | _BOOLEAN_CONSTRAINTS:
        raise ApiError(404, f"Constraint constraints/{constraint} not found.", "NOT_FOUND")  # text inferred
    return f"projects/{_project(call, name).name}/policies/{constraint}"


def _found(call: ApiCall) -> Record:
    record = call.store.get(SERVICE, _key(call, call.params["name"]))
    if record is None:
        raise ApiError(404, "Requested entity was not found.", "NOT_FOUND")
    return record


@handles("orgpolicy.projects.policies.getEffectivePolicy")
def effective(call: ApiCall) -> JSON:
    """Return the effective policy of a project."""
    _, project, _, constraint = str(call.params["name"]).split("/")
    record = projects.find_project(call.store, project)
    name = f"projects/{record.extra['number']}/policies/{constraint}"
    return {"name": name, "spec": {"rules": effective_rules(call.store, record.name, constraint)}}


@handles("orgpolicy.projects.constraints.list")
def constraints(call: ApiCall) -> JSON:
    """List the known constraints: those of Google's that concern a deployment."""
    project = _project(call, call.params["parent"])
    found: list[JSON] = [
        {
            "name": f"projects/{project.extra['number']}/constraints/{name}",
            "constraintDefault": "ALLOW",
            **({"listConstraint": {}} if name in _LIST_CONSTRAINTS else {"booleanConstraint": {}}),
        }
        for name in sorted(_LIST_CONSTRAINTS | _BOOLEAN_CONSTRAINTS)
    ]
    return simple_page(call, "constraints", found, call.params.get("pageSize") or 1000)


@handles("orgpolicy.projects.policies.list")
def list_(call: ApiCall) -> JSON:
    """List the policies set on a project itself."""
    project = _project(call, call.params["parent"])
    found = [record.body for record in call.store.all(SERVICE, "org_policy", project=project.name)]
    return simple_page(call, "policies", found, call.params.get("pageSize") or 500)


@handles("orgpolicy.projects.policies.get")
def get(call: ApiCall) -> JSON:
    """Return a policy set on a project itself."""
    return _found(call).body


@handles("orgpolicy.projects.policies.create")
def create(call: ApiCall) -> JSON:
    """Create a policy."""
    name = f"{call.params['parent']}/policies/{str(call.body.get('name', '')).rpartition('/')[2]}"
    if call.store.get(SERVICE, _key(call, name)) is not None:
        raise ApiError(409, "Requested entity already exists", "ALREADY_EXISTS")
    return _put_policy(call, name)


@handles("orgpolicy.projects.policies.patch")
def patch(call: ApiCall) -> JSON:
    """Update a policy if its etag is current."""
    old = _found(call)
    asked = call.body.get("spec", {}).get("etag") or call.body.get("etag")
    if asked and asked != old.body["spec"]["etag"]:
        raise ApiError(409, "The resource was changed meanwhile: etag mismatch.", "ABORTED")  # text inferred
    return _put_policy(call, call.params["name"])


def _put_policy(call: ApiCall, name: str) -> JSON:
    project, key = _project(call, name), _key(call, name)
    constraint = key.rpartition("/")[2]
    spec = call.body.get("spec", {})
    for rule in spec.get("rules", []):
        _check(rule, constraint)
    stamp: dict[str, Any] = {"etag": _etag(call.store.next_number()), "updateTime": utc_timestamp(call.store)}
    body = {"name": f"projects/{project.extra['number']}/policies/{constraint}", "spec": {**spec, **stamp}}
    call.store.put(
        Record(SERVICE, "org_policy", constraint, project.name, "global", key, body, kept_by_design=True)
    )
    return body


def _check(rule: JSON, constraint: str) -> None:
    """Reject a rule of the other type of constraint; the text is inferred."""
    of_list = {"allowAll", "denyAll", "values"} & set(rule)
    if bool(of_list) != (constraint in _LIST_CONSTRAINTS):
        kind = "list" if constraint in _LIST_CONSTRAINTS else "boolean"
        text = f"Constraint constraints/{constraint} is a {kind} constraint; the rule is of the other kind."
        raise ApiError(400, text, "INVALID_ARGUMENT")


@handles("orgpolicy.projects.policies.delete")
def delete(call: ApiCall) -> JSON:
    """Delete a policy, which restores the default."""
    call.store.remove(_found(call))
    return {}


def _etag(serial: int) -> str:
    return base64.b64encode(b"\x08" + serial.to_bytes(8, "big")).decode()
