"""Observing: every resource is looked at, many at a time. What the cloud says counts, never the file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.clients.driver import Task, Tell
from grpo_wizard.steps.clients.registry import driver
from grpo_wizard.steps.core.model import ABSENT, Fact, Resource, Sight
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine import backoff
from grpo_wizard.steps.project.checks import no_project

if TYPE_CHECKING:
    from grpo_wizard.steps.clients.errors import CloudError

_AT_ONCE = 12
_NO_ANSWER = 2.0  # seconds at least before a new try of what had no answer at all
_LOOKS = 3  # tries of one reading before the last: 7 s in real life


def resolve(value: Any, facts: Mapping[str, Mapping[str, str]]) -> Any:
    """A spec with its Facts filled in. What is not known yet is left out, so that it is not compared either."""
    if isinstance(value, Mapping):
        filled = {key: resolve(item, facts) for key, item in value.items()}
        return {key: item for key, item in filled.items() if item is not None or value[key] is None}
    if isinstance(value, list):
        items = [resolve(item, facts) for item in value]
        return (
            [item for item in items if item is not None] or None
            if any(isinstance(item, Fact) for item in value)
            else items
        )
    if isinstance(value, Fact):
        return facts.get(value.id, {}).get(value.key)
    return value


def facts_in(value: Any) -> set[str]:
    """Ids of the resources that a spec takes Facts from."""
    if isinstance(value, Mapping):
        return set().union(*map(facts_in, value.values())) if value else set()
    if isinstance(value, list):
        return set().union(*map(facts_in, value)) if value else set()
    return {value.id} if isinstance(value, Fact) else set()


def task_for(
    session: Session,
    resource: Resource,
    facts: Mapping[str, Mapping[str, str]],
    tell: Tell = lambda text: None,
) -> Task:
    record = session.deployment.resources.get(resource.id)
    return Task(
        resource,
        resolve(resource.spec, facts),
        session.mark,
        session.deployment.lineage,
        record.request_id if record else "",
        dict(record.facts) if record else {},
        tell,
    )


async def look(session: Session, resource: Resource, facts: Mapping[str, Mapping[str, str]]) -> Sight:
    return await asyncio.to_thread(
        driver(resource.kind).look, session.cloud, task_for(session, resource, facts)
    )


async def survey(session: Session, resources: Iterable[Resource], strict: bool = False) -> dict[str, Sight]:
    """What is there of each, by id. An API that is off shows nothing; any other error is raised.

    `strict`, for taking down: what was made behind an API that is off is not gone, and costs on; raises CloudError.
    """
    from grpo_wizard.steps.clients.errors import CloudError

    listed = list(resources)
    gate = asyncio.Semaphore(_AT_ONCE)
    seen: dict[str, Sight] = {}

    async def one(resource: Resource) -> None:
        async with gate:
            try:
                seen[resource.id] = await _look_again(
                    session, resource, {id: sight.facts for id, sight in seen.items()}
                )
            except CloudError as error:
                if error.kind != "api_disabled" and not (resource.kind == "job" and error.transient):
                    await _for_want_of_a_project(session, resource, error)
                    raise
                # A head that does not answer must not keep anybody from looking at the rest, or from taking it down.
                seen[resource.id] = (
                    _unseen(session, resource, error, strict)
                    if error.kind == "api_disabled"
                    else Sight(detail=f"cannot be asked: {error.title}")
                )

    await asyncio.gather(*(one(r) for r in listed if r.kind == "project"))
    seen |= _nothing_in_a_project_to_come(listed, seen)
    rest = [r for r in listed if r.id not in seen]
    await asyncio.gather(*(one(r) for r in rest if not facts_in(r.spec)))
    await asyncio.gather(*(one(r) for r in rest if facts_in(r.spec)))
    return seen


def _unseen(session: Session, resource: Resource, error: CloudError, strict: bool) -> Sight:
    """Behind an API that is off: nothing, unless something was made there. Raises CloudError where that must be known."""
    from grpo_wizard.steps.clients.errors import CloudError, in_project

    if resource.id not in session.deployment.resources:
        return ABSENT
    if "project" in resource.where:
        in_project(error, resource.where["project"])
    title = error.title.replace("is not enabled yet", "is off")
    if strict:
        raise CloudError(
            "api_disabled",
            f"{title}: what this deployment made there cannot be seen",
            f"{resource.kind} {resource.name} may stand, and cost, all the same",
            "enable it, then run the same command again",
            error.command,
        )
    return Sight(detail=f"cannot be seen: {title}; it may stand, and cost, all the same")


async def _for_want_of_a_project(session: Session, resource: Resource, error: CloudError) -> None:
    """Raises that the project is not there where that is why; services name all sorts of things then."""
    from grpo_wizard.steps.clients.errors import CloudError
    from grpo_wizard.steps.clients.google.resource_manager import fetch_project

    project = resource.where.get("project", "")
    if error.kind not in ("denied", "not_found") or not project:
        return
    cloud = session.cloud
    if await asyncio.to_thread(fetch_project, cloud, project) is None:
        seen = no_project(project, cloud.identity, cloud.mode)
        raise CloudError("not_found", seen.title, seen.detail, seen.fix) from error


async def _look_again(session: Session, resource: Resource, facts: Mapping[str, Mapping[str, str]]) -> Sight:
    """Reading does no harm: what fails for the moment is asked again, a few times."""
    from grpo_wizard.steps.clients.errors import CloudError

    for wait in backoff.tries(session.cloud.pace)[:_LOOKS]:
        try:
            return await look(session, resource, facts)
        except CloudError as error:
            if not error.transient or error.kind == "api_disabled":
                raise
            # A rehearsal that was killed needs seconds to stand again, at any speed; a head may well be nowhere.
            gone = not error.status and resource.kind != "job"
            await asyncio.sleep(max(wait, _NO_ANSWER) if gone else wait)
    try:
        return await look(session, resource, facts)
    except CloudError as error:
        if error.transient and not error.status and session.cloud.mode == "rehearsal":
            error.fix = "the rehearsal does not answer: run the same command again, which starts it where it is not running"
        raise


def _nothing_in_a_project_to_come(
    resources: Iterable[Resource], seen: Mapping[str, Sight]
) -> dict[str, Sight]:
    """Google refuses questions about a project that is not there, as if a permission were missing."""
    listed = list(resources)
    missing = {r.name for r in listed if r.kind == "project" and seen[r.id].state == "absent"}
    return {r.id: ABSENT for r in listed if r.kind != "project" and r.where.get("project") in missing}
