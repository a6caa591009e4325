"""`destroy`: deletes what this deployment created, and nothing else."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from grpo_wizard.state.errors import CommandUsageError, WizardError
from grpo_wizard.state.model import Deployment
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.core import events
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.destroy import destroy
from grpo_wizard.steps.engine.options import DestroyOptions
from grpo_wizard.tui.commands._events import EventRenderer
from grpo_wizard.tui.commands._session import (
    choose_deployment,
    deployment_lock,
    home_of,
    load_deployment,
    session_of,
)
from grpo_wizard.tui.commands.apply import record_and_render


def run(args: argparse.Namespace) -> int:
    name = choose_deployment(home_of(args), args)
    if args.confirm != name:
        raise CommandUsageError(
            "destroy requires the deployment's name as confirmation",
            ""
            if args.confirm is None
            else f"--confirm is {args.confirm}, but the deployment is named {name}.",
            "Pass the name with --confirm.",
            f"grpo-wizard destroy --confirm {name}",
        )
    with deployment_lock(args):
        store, deployment = load_deployment(args)
        if was_never_applied(store, deployment):
            return _archive_untouched(store, deployment, args.json)
        session = session_of(args, store, deployment)
        _check_project_deletable(session, args.delete_project)
        ok = asyncio.run(
            record_and_render(session, destroy(session, options_from(args)), args.json, args.home or "")
        )
    return 0 if ok else 1


def options_from(args: argparse.Namespace) -> DestroyOptions:
    """What the command line asks destroy to keep, and to delete beyond its own."""
    return DestroyOptions(keep=frozenset(args.keep), delete_project=args.delete_project or "")


def was_never_applied(store: StateStore, deployment: Deployment) -> bool:
    """Return whether nothing was ever created or adopted: state, journal and audit log are written before any request."""
    traces = (store.home.audit_file(deployment.name), store.home.journal_file(deployment.name))
    return not deployment.resources and deployment.job is None and not any(map(Path.exists, traces))


def _archive_untouched(store: StateStore, deployment: Deployment, as_json: bool) -> int:
    """Remove a deployment that created nothing, without contacting the cloud. Its state is archived."""
    archived = store.archive(deployment.name)
    renderer = EventRenderer(deployment.mode, deployment.name, as_json)
    renderer.show(
        events.notice(
            "This deployment never created anything, so it was removed without contacting the cloud. "
            f"Its settings are saved in {archived[0]}"
        )
    )
    renderer.show(events.summary(failed=[], next_command="nothing left"))
    return 0


def _check_project_deletable(session: Session, project: str | None) -> None:
    if project is None:
        return
    answers = session.answers.project
    record = session.deployment.resources.get(f"project.project.{project}")
    if project != answers.project_id or record is None or record.origin != "created":
        raise WizardError(
            f"Project {project} was not created by this deployment",
            "destroy deletes a project only if the deployment created it.",
            "Omit --delete-project.",
        )
