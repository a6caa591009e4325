"""What Compute's collections share: found by key, named when made, deleted when ready and unused."""

from __future__ import annotations

from collections.abc import Callable

from grpo_wizard.steps.emulator.google.compute.operations import start_operation
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    already_exists_error,
    basename,
    check_name,
    in_use_error,
    not_found_error,
    not_ready_error,
)
from grpo_wizard.steps.emulator.server.context import JSON, ApiCall, Record, ResourceStore


def project_of(call: ApiCall) -> str:
    """Id of the project in a call's path."""
    return str(call.params["project"])


def get_resource(world: ResourceStore, key: str) -> Record:
    """The thing with this key (its last part may be the thing's number), or Compute's 404."""
    record = world.get(COMPUTE, key)
    if record is None and basename(key).isdigit():
        parent, number = key.removesuffix(basename(key)), basename(key)
        things = (thing for thing in world.all(COMPUTE) if thing.key.startswith(parent))
        record = next((thing for thing in things if thing.body.get("id") == number), None)
    if record is None:
        raise not_found_error(key)
    return record


def require_ready(record: Record) -> Record:
    """The same record; 400 while its own operation runs."""
    if record.state != "ready":
        raise not_ready_error(record.key)
    return record


def list_in_project(call: ApiCall, kind: str, location: str | None = None) -> list[Record]:
    """Things of a kind in the call's project, of one location or of all."""
    return call.store.all(COMPUTE, kind, project=project_of(call), location=location)


def new_key(call: ApiCall, key_of: Callable[[ApiCall, str], str]) -> str:
    """Key of what an insert asks for. 400 for a name that is none, 409 for one that is taken."""
    key = key_of(call, check_name(call.body.get("name")))
    if call.store.get(COMPUTE, key):
        raise already_exists_error(key)
    return key


def create_record(call: ApiCall, kind: str, location: str, key: str, body: JSON) -> Record:
    """Puts a thing into the world that is still being made."""
    return call.store.put(
        Record(COMPUTE, kind, basename(key), project_of(call), location, key, body, "creating")
    )


def require_unused(noun: str, record: Record, user: str | None) -> None:
    """Compute's refusal to delete what `user` (a key) uses; `noun` is Compute's word for the kind."""
    if user:
        raise in_use_error(noun, record.key, user)


def start_delete(call: ApiCall, record: Record, effect: str) -> JSON:
    """Starts the operation at whose end `effect` removes the thing."""
    record.state = "deleting"
    call.store.put(record)
    return start_operation(call, f"{record.kind}.delete", record, effect)
