"""Opens the deployment that a command works on, in the right mode and under its lock."""

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
    """Return --deployment, or the only deployment's name. Raise CommandUsageError."""
    if args.deployment:
        return str(args.deployment)
    names = home.deployments()
    if len(names) == 1:
        return names[0]
    if not names:
        raise CommandUsageError(
            "No deployment found",
            f"{home.root} does not contain any deployments.",
            "Create one with `grpo-wizard init`, or run `grpo-wizard` without a command.",
        )
    raise CommandUsageError(
        "Several deployments found", f"{', '.join(names)}.", "Choose one with --deployment."
    )


def load_deployment(args: argparse.Namespace) -> tuple[StateStore, Deployment]:
    """Load the chosen deployment's state. Raise CommandUsageError if it is of the other mode, and what the store raises."""
    home = home_of(args)
    store = StateStore(home)
    deployment = store.load(choose_deployment(home, args))
    if deployment.mode != mode_of(args):
        raise wrong_mode_error(deployment)
    warn_real_in_emulator_shell(deployment.mode)
    return store, deployment


def wrong_mode_error(deployment: Deployment) -> CommandUsageError:
    """Return the error for a deployment of the other mode: how to use it, and how to name another one."""
    name = deployment.name
    if deployment.mode == "rehearsal":
        return CommandUsageError(
            f"{name} is a rehearsal",
            "Without --rehearse, commands use Google Cloud.",
            "Add --rehearse, or choose a real deployment with --deployment NAME.",
        )
    return CommandUsageError(
        f"{name} is a real deployment",
        "With --rehearse, commands use the emulator.",
        "Omit --rehearse, or choose a rehearsal with --deployment NAME --rehearse.",
    )


def warn_real_in_emulator_shell(mode: str) -> None:
    """Print that warning to stderr."""
    if text := real_in_emulator_shell_warning(mode):
        print(f"Warning: {text}", file=sys.stderr)


def open_session(args: argparse.Namespace) -> Session:
    """Open the deployment with its clients. Start the emulator if necessary."""
    return session_of(args, *load_deployment(args))


def session_of(args: argparse.Namespace, store: StateStore, deployment: Deployment) -> Session:
    """Open a deployment that is already loaded."""
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
    """Return the complete answers. Raise WizardError if the wizard was left before the last step."""
    from grpo_wizard.steps.registry import ValidationErrors, validate

    try:
        return validate(deployment.answers)
    except ValidationErrors as errors:
        rules = "\n       ".join(f"{key}: {rule}" for key, rule in errors.by_field.items())
        raise WizardError(
            f"The settings for {deployment.name} are incomplete",
            rules,
            "Complete them in the wizard, or with `init --set`.",
        ) from errors


@contextlib.contextmanager
def locked_session(args: argparse.Namespace) -> Iterator[Session]:
    """Open the deployment and hold its lock, for commands that write."""
    with deployment_lock(args):
        yield open_session(args)


@contextlib.contextmanager
def deployment_lock(args: argparse.Namespace) -> Iterator[None]:
    """Hold the deployment's lock."""
    from grpo_wizard.state.lock import Lock

    home = home_of(args)
    name = choose_deployment(home, args)
    StateStore(home).load(name)  # raises for a missing deployment before a lock file is created
    with Lock(home, name, shlex.join(["grpo-wizard", *sys.argv[1:]])):
        yield
