"""Cloud Resource Manager v1 (gcloud) and v3 (the Python client): projects and their IAM policies."""

from __future__ import annotations

import random
import re
from typing import Any

from grpo_wizard.steps.emulator.context import (
    JSON,
    ApiCall,
    ApiError,
    Record,
    ResourceStore,
    handles,
    on_event,
)
from grpo_wizard.steps.emulator.google.resourcemanager.iam import IamPolicies
from grpo_wizard.steps.emulator.google.serviceusage.services import add_default_apis as seed_apis
from grpo_wizard.steps.emulator.google.shared import long_running
from grpo_wizard.steps.emulator.google.shared.ids import utc_timestamp
from grpo_wizard.steps.emulator.google.shared.lists import simple_page

SERVICE = "cloudresourcemanager.googleapis.com"
_CREATING_S = 8.0  # inferred: gcloud projects create takes 5 to 15 s
# With a domain prefix in old projects; Google no longer creates such ids.
_ID = re.compile(r"(?:[a-z0-9-]+(?:\.[a-z0-9-]+)+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]")
_PERMISSION_DENIED = "The caller does not have permission"


def find_project(store: ResourceStore, name: str) -> Record:
    """Return the project of an id, a number or `projects/…`.

    At Google, unknown projects and those of others look the same: 403.
    """
    project = store.project_id(name.removeprefix("projects/"))
    record = store.get(SERVICE, f"projects/{project}")
    if record is None:
        raise ApiError(403, _PERMISSION_DENIED, "PERMISSION_DENIED", "forbidden")
    return record


def _v1(record: Record) -> JSON:
    body: JSON = {
        "projectNumber": record.extra["number"],
        "projectId": record.name,
        "lifecycleState": _lifecycle(record),
        "name": record.body["displayName"],
        "createTime": record.body["createTime"],
    }
    return body | ({"labels": record.body["labels"]} if record.body.get("labels") else {})


def _v3(record: Record) -> JSON:
    state = {"DELETE_REQUESTED": "DELETE_REQUESTED"}.get(_lifecycle(record), "ACTIVE")
    return {**record.body, "state": state}


def _lifecycle(record: Record) -> str:
    return "DELETE_REQUESTED" if record.state == "deleting" else "ACTIVE"


def _view(call: ApiCall, record: Record) -> JSON:
    return _v3(record) if call.path.startswith("/v3/") else _v1(record)


@handles("cloudresourcemanager.projects.get")
def get(call: ApiCall) -> JSON:
    """Return one project."""
    return _view(call, find_project(call.store, call.params.get("projectId") or call.params["name"]))


@handles("cloudresourcemanager.projects.list", "cloudresourcemanager.projects.search")
def list_all(call: ApiCall) -> JSON:
    """List the caller's projects; `filter`/`query` are `field:value` terms joined by spaces or AND."""
    text = str(call.params.get("filter") or call.params.get("query") or "")
    records = [r for r in call.store.all(SERVICE, "project") if r.state != "creating" and _matches(r, text)]
    if call.params.get("parent"):
        records = [r for r in records if r.body.get("parent") == call.params["parent"]]
    size = call.params.get("pageSize") or 500
    page = simple_page(call, "projects", [{"name": r.name} for r in records], size)
    shown = {r.name: r for r in records}
    return {**page, "projects": [_view(call, shown[one["name"]]) for one in page["projects"]]}


def _matches(record: Record, text: str) -> bool:
    values = {
        "projectid": record.name,
        "id": record.name,
        "name": record.body["displayName"],
        "displayname": record.body["displayName"],
        "lifecyclestate": _lifecycle(record),
        "state": _lifecycle(record),
        "projectnumber": record.extra["number"],
    }
    for field, value in re.findall(r"([\w.]+)\s*[:=]\s*\"?([^\s\")]+)\"?", text):
        if field.lower().startswith("labels."):
            have = record.body.get("labels", {}).get(field[7:], "")
        elif field.lower() in values:
            have = values[field.lower()]
        else:
            raise ApiError(
                400,
                f"Request contains an invalid argument: unknown field {field} in the filter.",
                "INVALID_ARGUMENT",
            )
        if not re.fullmatch(re.escape(value).replace(r"\*", ".*"), have, re.IGNORECASE):
            return False
    return True


@handles("cloudresourcemanager.projects.create")
def create(call: ApiCall) -> JSON:
    """Create a project; its id stays in use forever, also for others."""
    project = call.body.get("projectId", "")
    if not _ID.fullmatch(project):
        raise ApiError(
            400,
            "field [project_id] has issue [project_id must be at least 6 characters and at most 30, "
            "start with a letter, and "
            "hold only lowercase letters, digits and hyphens]",
            "INVALID_ARGUMENT",
            "badRequest",
        )
    if call.store.get(SERVICE, f"projects/{project}") is not None:
        raise ApiError(409, "Requested entity already exists", "ALREADY_EXISTS", "alreadyExists")
    record = add_project(
        call.store,
        project,
        str(random.Random(f"number:{project}").randrange(10**11, 10**12)),
        call.caller,
        name=call.body.get("displayName") or call.body.get("name") or project,
        labels=call.body.get("labels"),
    )
    record.state = "creating"
    typed = (
        "google.cloudresourcemanager.v1.Project"
        if call.path.startswith("/v1/")
        else "google.cloud.resourcemanager.v3.Project"
    )
    response = {"@type": f"type.googleapis.com/{typed}", **_view(call, record)}
    return long_running.start_operation(
        call, "cp", _CREATING_S, response, {}, project, "project.created", {"project": project}
    )


@on_event("project.created")
def on_created(store: ResourceStore, project: str) -> None:
    """Make the project usable, with a new project's APIs."""
    find_project(store, project).state = "ready"
    seed_apis(store, project)


@handles("cloudresourcemanager.projects.delete")
def delete(call: ApiCall) -> JSON:
    """Mark a project for deletion: it becomes unreachable, and its id stays in use.

    Google deletes it after 30 days; here it stays marked.
    """
    record = find_project(call.store, call.params.get("projectId") or call.params["name"])
    if record.state == "deleting":
        raise ApiError(400, "Cannot delete an inactive project.", "FAILED_PRECONDITION", "failedPrecondition")
    record.state, record.kept_by_design = "deleting", True
    if call.path.startswith("/v1/"):
        return {}
    response = {"@type": "type.googleapis.com/google.cloud.resourcemanager.v3.Project", **_v3(record)}
    return long_running.start_operation(call, "dp", 2, response, {}, record.name)


@handles("cloudresourcemanager.projects.undelete")
def undelete(call: ApiCall) -> JSON:
    """Restore a project that is marked for deletion."""
    record = find_project(call.store, call.params.get("projectId") or call.params["name"])
    record.state, record.kept_by_design = "ready", False
    if call.path.startswith("/v1/"):
        return {}
    response = {"@type": "type.googleapis.com/google.cloud.resourcemanager.v3.Project", **_v3(record)}
    return long_running.start_operation(call, "up", 2, response, {}, record.name)


def add_project(
    store: ResourceStore,
    project: str,
    number: str,
    owner: str,
    *,
    name: str,
    labels: Any = None,
    hidden: bool = False,
) -> Record:
    """Add a project with its owner."""
    body = {
        "name": f"projects/{number}",
        "projectId": project,
        "displayName": name,
        "createTime": utc_timestamp(store),
        "etag": "BwZAAAAAAAA=",
    }
    body |= {"labels": labels} if labels else {}
    record = Record(
        SERVICE,
        "project",
        project,
        project,
        "global",
        f"projects/{project}",
        body,
        hidden=hidden,
        extra={"number": number, "billing": "", "policy": IamPolicies.initial(f"user:{owner}")},
    )
    return store.put(record)


@handles("cloudresourcemanager.projects.getIamPolicy")
def get_policy(call: ApiCall) -> JSON:
    """Return the project's policy; with conditions only for requests of version 3."""
    record = find_project(call.store, call.params["resource"])
    return IamPolicies.for_version(
        record.extra["policy"], call.body.get("options", {}).get("requestedPolicyVersion", 1)
    )


@handles("cloudresourcemanager.projects.setIamPolicy")
def set_policy(call: ApiCall) -> JSON:
    """Replace the policy if its etag is current."""
    record = find_project(call.store, call.params["resource"])
    old = record.extra["policy"]
    record.extra["policy"] = IamPolicies.replace(old, call.body.get("policy", {}), call.store.next_number())
    _sync_binding_records(call.store, record, old)
    return IamPolicies.for_version(record.extra["policy"], 3)


def _sync_binding_records(store: ResourceStore, project: Record, old: JSON) -> None:
    """Keep one row per binding that was added here; bindings stay after a deployment is destroyed."""
    before, now = (IamPolicies.role_members(policy) for policy in (old, project.extra["policy"]))
    for role, member in before - now:
        row = store.get(SERVICE, f"{project.key}/iam/{role}/{member}")
        if row is not None:
            store.remove(row)
    for role, member in now - before:
        store.put(
            Record(
                SERVICE,
                "iam_binding",
                f"{role} {member}",
                project.name,
                "global",
                f"{project.key}/iam/{role}/{member}",
                {"role": role, "member": member},
                kept_by_design=True,
            )
        )


@handles("cloudresourcemanager.projects.testIamPermissions")
def test_permissions(call: ApiCall) -> JSON:
    """Return those of the requested permissions that the caller has.

    By role, as far as roles are known here (iam.py).
    """
    record = find_project(call.store, call.params["resource"])
    wanted = call.body.get("permissions", [])
    IamPolicies.check_permissions(wanted)
    held = IamPolicies.granted(record.extra["policy"], f"user:{call.caller}", wanted)
    return {"permissions": held} if held else {}
