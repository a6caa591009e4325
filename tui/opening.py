"""Opening a deployment for a command: which one, in which mode, with which lock."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError, WrongUsage
from grpo_wizard.state.home import Home
from grpo_wizard.state.store import Store

if TYPE_CHECKING:
    from grpo_wizard.state.model import Deployment, Mode
    from grpo_wizard.steps.session import Session


def home_of(args: argparse.Namespace) -> Home:
    return Home.choose(args.home)


def mode_of(args: argparse.Namespace) -> Mode:
    return "rehearsal" if args.rehearse else "real"


def choose(home: Home, args: argparse.Namespace) -> str:
    """The deployment's name: given, or the only one there is of this mode. Raises WrongUsage."""
    if args.deployment:
        return str(args.deployment)
    names = home.deployments()
    if len(names) == 1:
        return names[0]
    if not names:
        raise WrongUsage(
            "There is no deployment yet.",
            f"{home.root} holds none.",
            "Begin with grpo-wizard init, or just grpo-wizard.",
        )
    raise WrongUsage("Several deployments are there.", ", ".join(names) + ".", "Name one with --deployment.")


def load(args: argparse.Namespace) -> tuple[Store, Deployment]:
    """The state of the chosen deployment, of the right mode. Raises WrongUsage and what Store.load raises."""
    home = home_of(args)
    store = Store(home)
    deployment = store.load(choose(home, args))
    if deployment.mode != mode_of(args):
        if deployment.mode == "rehearsal":
            raise WrongUsage(
                "this deployment is a rehearsal; add --rehearse", f"{deployment.name} lives in the rehearsal."
            )
        raise WrongUsage(
            "this deployment is real; leave out --rehearse", f"{deployment.name} lives in Google Cloud."
        )
    return store, deployment


def open_session(args: argparse.Namespace) -> Session:
    """The deployment with its clients. The rehearsal's server is started where it is needed."""
    from grpo_wizard.state.audit import Audit
    from grpo_wizard.steps.clients.connect import open_cloud
    from grpo_wizard.steps.session import Session

    store, deployment = load(args)
    _complete_or_say(deployment)
    audit = Audit(store.home.audit_file(deployment.name))
    cloud = open_cloud(deployment.mode, Path(store.home.root), args.speed, audit.append)
    if deployment.mode == "rehearsal":
        from grpo_wizard.tui.drills import say_running

        say_running(Path(store.home.root))
    return Session.of(store, deployment, cloud)


def _complete_or_say(deployment: Deployment) -> None:
    """The screens save step by step: a command may meet answers that are not all there yet."""
    from grpo_wizard.steps.steps import Refusals, complete

    try:
        complete(deployment.answers)
    except Refusals as refused:
        rules = "\n       ".join(f"{key}: {rule}" for key, rule in refused.by_field.items())
        raise WizardError(
            f"{deployment.name} is not answered yet", rules, "answer the rest in the wizard, or by init --set"
        ) from refused


@contextlib.contextmanager
def locked(args: argparse.Namespace) -> Iterator[Session]:
    """The same, with the deployment's lock held: for commands that write."""
    from grpo_wizard.state.lock import Lock

    home = home_of(args)
    name = choose(home, args)
    Store(home).load(name)  # a missing deployment is said before a lock file is made
    with Lock(home, name, shlex.join(["grpo-wizard", *sys.argv[1:]])):
        yield open_session(args)
