"""Opening a deployment for a command: which one, in which mode, with which lock."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import CommandUsageError, WizardError
from grpo_wizard.state.home import Home
from grpo_wizard.state.store import StateStore
from grpo_wizard.tui.controllers.emulator_shell import real_in_emulator_shell_warning

if TYPE_CHECKING:
    from grpo_wizard.state.model import Deployment, Mode
    from grpo_wizard.steps.answers import Answers
    from grpo_wizard.steps.deployment.session import Session


def home_of(args: argparse.Namespace) -> Home:
    return Home.choose(args.home)


def mode_of(args: argparse.Namespace) -> Mode:
    return "rehearsal" if args.rehearse else "real"


def choose_deployment(home: Home, args: argparse.Namespace) -> str:
    """The deployment's name: given, or the only one there is of this mode. Raises WrongUsage."""
    if args.deployment:
        return str(args.deployment)
    names = home.deployments()
    if len(names) == 1:
        return names[0]
    if not names:
        raise CommandUsageError(
            "There is no deployment yet.",
            f"{home.root} holds none.",
            "Begin with grpo-wizard init, or just grpo-wizard.",
        )
    raise CommandUsageError(
        "Several deployments are there.", ", ".join(names) + ".", "Name one with --deployment."
    )


def load_deployment(args: argparse.Namespace) -> tuple[StateStore, Deployment]:
    """The state of the chosen deployment, of the right mode. Raises WrongUsage and what Store.load raises."""
    home = home_of(args)
    store = StateStore(home)
    deployment = store.load(choose_deployment(home, args))
    if deployment.mode != mode_of(args):
        raise wrong_mode_error(deployment)
    warn_real_in_emulator_shell(deployment.mode)
    return store, deployment


def wrong_mode_error(deployment: Deployment) -> CommandUsageError:
    """It is the other kind than was asked for: how to get to it, and how to get what was asked for."""
    name = deployment.name
    if deployment.mode == "rehearsal":
        return CommandUsageError(
            "this deployment is a rehearsal; add --rehearse",
            f"{name} lives in the rehearsal.",
            "add --rehearse; for a real deployment name another one: --deployment NAME",
        )
    return CommandUsageError(
        "this deployment is real; leave out --rehearse",
        f"{name} lives in Google Cloud.",
        "leave out --rehearse; for a rehearsal name another one: --deployment NAME --rehearse",
    )


def warn_real_in_emulator_shell(mode: str) -> None:
    """The same, on stderr."""
    if text := real_in_emulator_shell_warning(mode):
        print(f"note: {text}", file=sys.stderr)


def open_session(args: argparse.Namespace) -> Session:
    """The deployment with its clients. The rehearsal's server is started where it is needed."""
    return session_of(args, *load_deployment(args))


def session_of(args: argparse.Namespace, store: StateStore, deployment: Deployment) -> Session:
    """The same of one that is loaded."""
    from grpo_wizard.state.audit import AuditLog
    from grpo_wizard.steps.clients.connect import open_cloud
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.steps.registry import WORKFLOW

    require_complete(deployment)
    audit = AuditLog(store.home.audit_file(deployment.name))
    cloud = open_cloud(deployment.mode, Path(store.home.root), args.speed, audit.append)
    if deployment.mode == "rehearsal":
        from grpo_wizard.tui.controllers.drills import warn_active_drills

        warn_active_drills(Path(store.home.root))
    return Session.from_deployment(store, deployment, cloud, WORKFLOW)


def require_complete(deployment: Deployment) -> Answers:
    """The screens save step by step: a command may meet answers that are not all there yet. Raises WizardError."""
    from grpo_wizard.steps.registry import ValidationErrors, validate

    try:
        return validate(deployment.answers)
    except ValidationErrors as refused:
        rules = "\n       ".join(f"{key}: {rule}" for key, rule in refused.by_field.items())
        raise WizardError(
            f"{deployment.name} is not answered yet", rules, "answer the rest in the wizard, or by init --set"
        ) from refused


@contextlib.contextmanager
def locked_session(args: argparse.Namespace) -> Iterator[Session]:
    """The same, with the deployment's lock held: for commands that write."""
    with deployment_lock(args):
        yield open_session(args)


@contextlib.contextmanager
def deployment_lock(args: argparse.Namespace) -> Iterator[None]:
    """The deployment's lock alone."""
    from grpo_wizard.state.lock import Lock

    home = home_of(args)
    name = choose_deployment(home, args)
    StateStore(home).load(name)  # a missing deployment is said before a lock file is made
    with Lock(home, name, shlex.join(["grpo-wizard", *sys.argv[1:]])):
        yield
