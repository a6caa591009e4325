"""What Compute's collections share: found by key, named when made, deleted when ready and unused."""

from __future__ import annotations

from collections.abc import Callable

from grpo_wizard.steps.emulator.google.compute.operations import start
from grpo_wizard.steps.emulator.google.shared.self_links import (
    COMPUTE,
    check_name,
    exists,
    in_use,
    last,
    missing,
    unready,
)
from grpo_wizard.steps.emulator.server.context import JSON, Call, Record, World


def project_of(call: Call) -> str:
    """Id of the project in a call's path."""
    return str(call.params["project"])


def found(world: World, key: str) -> Record:
    """The thing with this key (its last part may be the thing's number), or Compute's 404."""
    record = world.get(COMPUTE, key)
    if record is None and last(key).isdigit():
        parent, number = key.removesuffix(last(key)), last(key)
        things = (thing for thing in world.all(COMPUTE) if thing.key.startswith(parent))
        record = next((thing for thing in things if thing.body.get("id") == number), None)
    if record is None:
        raise missing(key)
    return record


def ready(record: Record) -> Record:
    """The same record; 400 while its own operation runs."""
    if record.state != "ready":
        raise unready(record.key)
    return record


def of_project(call: Call, kind: str, location: str | None = None) -> list[Record]:
    """Things of a kind in the call's project, of one location or of all."""
    return call.world.all(COMPUTE, kind, project=project_of(call), location=location)


def new_key(call: Call, key_of: Callable[[Call, str], str]) -> str:
    """Key of what an insert asks for. 400 for a name that is none, 409 for one that is taken."""
    key = key_of(call, check_name(call.body.get("name")))
    if call.world.get(COMPUTE, key):
        raise exists(key)
    return key


def begin(call: Call, kind: str, location: str, key: str, body: JSON) -> Record:
    """Puts a thing into the world that is still being made."""
    return call.world.put(Record(COMPUTE, kind, last(key), project_of(call), location, key, body, "creating"))


def refuse_used(noun: str, record: Record, user: str | None) -> None:
    """Compute's refusal to delete what `user` (a key) uses; `noun` is Compute's word for the kind."""
    if user:
        raise in_use(noun, record.key, user)


def take_down(call: Call, record: Record, effect: str) -> JSON:
    """Starts the operation at whose end `effect` removes the thing."""
    record.state = "deleting"
    call.world.put(record)
    return start(call, f"{record.kind}.delete", record, effect)
