"""`destroy`: takes down what this deployment made, and nothing else."""

from __future__ import annotations

import argparse
import asyncio

from grpo_wizard.state.errors import WizardError, WrongUsage
from grpo_wizard.steps.engine import undo
from grpo_wizard.steps.session import Session
from grpo_wizard.tui.commands.apply import play
from grpo_wizard.tui.opening import choose, home_of, locked


def run(args: argparse.Namespace) -> int:
    name = choose(home_of(args), args)
    if args.confirm != name:
        raise WrongUsage(
            "destroy wants the deployment's name",
            "" if args.confirm is None else f"{args.confirm} is not {name}",
            "",
            f"grpo-wizard destroy --confirm {name}",
        )
    with locked(args) as session:
        _may_delete_project(session, args.delete_project)
        ok = asyncio.run(
            play(
                session,
                undo(session, keep=_kept(args.keep), delete_project=args.delete_project or ""),
                args.json,
            )
        )
    return 0 if ok else 1


def _kept(steps: list[str]) -> set[str]:
    """Lustre lives in its network: keeping it keeps that and its peering too."""
    return {"lustre"} if "lustre" in steps else set()


def _may_delete_project(session: Session, project: str | None) -> None:
    if project is None:
        return
    mine = session.answers["project"]
    record = session.deployment.resources.get(f"project.project.{project}")
    if project != mine["project_id"] or record is None or record.origin != "created":
        raise WizardError(
            f"project {project} was not created by this deployment",
            "only such a project is deleted",
            "leave out --delete-project",
        )
