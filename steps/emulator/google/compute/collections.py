"""Operations common to Compute's collections: look up by key, validate names, create, delete."""

from __future__ import annotations

from collections.abc import Callable

from grpo_wizard.steps.emulator.context import JSON, ApiCall, Record, ResourceStore
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


def project_of(call: ApiCall) -> str:
    """Return the project id of a call's path."""
    return str(call.params["project"])


def get_resource(store: ResourceStore, key: str) -> Record:
    """Return the resource with this key, whose last part may be its numeric id. Raises Compute's 404."""
    record = store.get(COMPUTE, key)
    if record is None and basename(key).isdigit():
        parent, number = key.removesuffix(basename(key)), basename(key)
        resources = (resource for resource in store.all(COMPUTE) if resource.key.startswith(parent))
        record = next((resource for resource in resources if resource.body.get("id") == number), None)
    if record is None:
        raise not_found_error(key)
    return record


def require_ready(record: Record) -> Record:
    """Return the record. Raises 400 while its own operation runs."""
    if record.state != "ready":
        raise not_ready_error(record.key)
    return record


def list_in_project(call: ApiCall, kind: str, location: str | None = None) -> list[Record]:
    """List the resources of a kind in the call's project, in one location or in all."""
    return call.store.all(COMPUTE, kind, project=project_of(call), location=location)


def new_key(call: ApiCall, key_of: Callable[[ApiCall, str], str]) -> str:
    """Return the key of a new resource. Raises 400 for an invalid name, 409 for one in use."""
    key = key_of(call, check_name(call.body.get("name")))
    if call.store.get(COMPUTE, key):
        raise already_exists_error(key)
    return key


def create_record(call: ApiCall, kind: str, location: str, key: str, body: JSON) -> Record:
    """Store a resource that is still being created."""
    return call.store.put(
        Record(COMPUTE, kind, basename(key), project_of(call), location, key, body, "creating")
    )


def require_unused(noun: str, record: Record, user: str | None) -> None:
    """Raise Compute's error if `user` (a key) uses the resource; `noun` is Compute's name of the kind."""
    if user:
        raise in_use_error(noun, record.key, user)


def start_delete(call: ApiCall, record: Record, effect: str) -> JSON:
    """Start the operation whose `effect` removes the resource."""
    record.state = "deleting"
    call.store.put(record)
    return start_operation(call, f"{record.kind}.delete", record, effect)
