"""Cloud Resource Manager v1 (gcloud) and v3 (the Python client): projects and their IAM policies."""

from __future__ import annotations

import random
import re
from typing import Any

from grpo_wizard.steps.emulator.google.resourcemanager.iam import Policies
from grpo_wizard.steps.emulator.google.serviceusage.services import seed as seed_apis
from grpo_wizard.steps.emulator.google.shared import long_running
from grpo_wizard.steps.emulator.google.shared.ids import zulu
from grpo_wizard.steps.emulator.google.shared.lists import paged
from grpo_wizard.steps.emulator.server.context import JSON, ApiError, Call, Record, World, happens, serves

SERVICE = "cloudresourcemanager.googleapis.com"
_CREATING_S = 8.0  # inferred: gcloud projects create takes 5 to 15 s
# With a domain before it in projects of old; Google makes no such ids any more, a world may hold one.
_ID = re.compile(r"(?:[a-z0-9-]+(?:\.[a-z0-9-]+)+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]")
_DENIED = "The caller does not have permission"


def find(world: World, name: str) -> Record:
    """The project of an id, a number or `projects/…`.

    At Google an unknown one and a foreign one look the same: 403.
    """
    project = world.project_id(name.removeprefix("projects/"))
    record = world.get(SERVICE, f"projects/{project}")
    if record is None:
        raise ApiError(403, _DENIED, "PERMISSION_DENIED", "forbidden")
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


def _shown(call: Call, record: Record) -> JSON:
    return _v3(record) if call.path.startswith("/v3/") else _v1(record)


@serves("cloudresourcemanager.projects.get")
def get(call: Call) -> JSON:
    """One project."""
    return _shown(call, find(call.world, call.params.get("projectId") or call.params["name"]))


@serves("cloudresourcemanager.projects.list", "cloudresourcemanager.projects.search")
def list_all(call: Call) -> JSON:
    """All projects of the caller; `filter`/`query` of `field:value` terms joined by spaces or AND."""
    text = str(call.params.get("filter") or call.params.get("query") or "")
    records = [r for r in call.world.all(SERVICE, "project") if r.state != "creating" and _matches(r, text)]
    if call.params.get("parent"):
        records = [r for r in records if r.body.get("parent") == call.params["parent"]]
    size = call.params.get("pageSize") or 500
    page = paged(call, "projects", [{"name": r.name} for r in records], size)
    shown = {r.name: r for r in records}
    return {**page, "projects": [_shown(call, shown[one["name"]]) for one in page["projects"]]}


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


@serves("cloudresourcemanager.projects.create")
def create(call: Call) -> JSON:
    """Creates a project; its id is taken for ever, also from other people."""
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
    if call.world.get(SERVICE, f"projects/{project}") is not None:
        raise ApiError(409, "Requested entity already exists", "ALREADY_EXISTS", "alreadyExists")
    record = add(
        call.world,
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
    response = {"@type": f"type.googleapis.com/{typed}", **_shown(call, record)}
    return long_running.start(
        call, "cp", _CREATING_S, response, {}, project, "project.created", {"project": project}
    )


@happens("project.created")
def created(world: World, project: str) -> None:
    """The project can be used, with a new project's APIs."""
    find(world, project).state = "ready"
    seed_apis(world, project)


@serves("cloudresourcemanager.projects.delete")
def delete(call: Call) -> JSON:
    """Marks a project for deletion: nothing of it is reachable, its id stays taken.

    At Google it goes for good after 30 days; a world lives less long, so it stays marked.
    """
    record = find(call.world, call.params.get("projectId") or call.params["name"])
    if record.state == "deleting":
        raise ApiError(400, "Cannot delete an inactive project.", "FAILED_PRECONDITION", "failedPrecondition")
    record.state, record.kept_by_design = "deleting", True
    if call.path.startswith("/v1/"):
        return {}
    response = {"@type": "type.googleapis.com/google.cloud.resourcemanager.v3.Project", **_v3(record)}
    return long_running.start(call, "dp", 2, response, {}, record.name)


@serves("cloudresourcemanager.projects.undelete")
def undelete(call: Call) -> JSON:
    """Restores a project that is marked for deletion."""
    record = find(call.world, call.params.get("projectId") or call.params["name"])
    record.state, record.kept_by_design = "ready", False
    if call.path.startswith("/v1/"):
        return {}
    response = {"@type": "type.googleapis.com/google.cloud.resourcemanager.v3.Project", **_v3(record)}
    return long_running.start(call, "up", 2, response, {}, record.name)


def add(
    world: World,
    project: str,
    number: str,
    owner: str,
    *,
    name: str,
    labels: Any = None,
    hidden: bool = False,
) -> Record:
    """A project with its owner."""
    body = {
        "name": f"projects/{number}",
        "projectId": project,
        "displayName": name,
        "createTime": zulu(world),
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
        extra={"number": number, "billing": "", "policy": Policies.fresh(f"user:{owner}")},
    )
    return world.put(record)


@serves("cloudresourcemanager.projects.getIamPolicy")
def get_policy(call: Call) -> JSON:
    """The project's policy; conditions only for those who ask for version 3."""
    record = find(call.world, call.params["resource"])
    return Policies.read(
        record.extra["policy"], call.body.get("options", {}).get("requestedPolicyVersion", 1)
    )


@serves("cloudresourcemanager.projects.setIamPolicy")
def set_policy(call: Call) -> JSON:
    """Replaces the policy, if its etag is still the one that was read."""
    record = find(call.world, call.params["resource"])
    old = record.extra["policy"]
    record.extra["policy"] = Policies.replaced(old, call.body.get("policy", {}), call.world.next())
    _bindings(call.world, record, old)
    return Policies.read(record.extra["policy"], 3)


def _bindings(world: World, project: Record, old: JSON) -> None:
    """One row a binding that someone added here; bindings stay after a deployment is gone."""
    before, now = (Policies.pairs(policy) for policy in (old, project.extra["policy"]))
    for role, member in before - now:
        row = world.get(SERVICE, f"{project.key}/iam/{role}/{member}")
        if row is not None:
            world.remove(row)
    for role, member in now - before:
        world.put(
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


@serves("cloudresourcemanager.projects.testIamPermissions")
def test_permissions(call: Call) -> JSON:
    """Those of the permissions asked for that the caller has.

    By role, as far as roles are known here (iam.py).
    """
    record = find(call.world, call.params["resource"])
    wanted = call.body.get("permissions", [])
    Policies.check(wanted)
    held = Policies.held(record.extra["policy"], f"user:{call.caller}", wanted)
    return {"permissions": held} if held else {}
