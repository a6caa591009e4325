"""`init`: validates settings, reports all errors at once, and saves complete settings only."""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_wizard.state.audit import AuditLog
from grpo_wizard.state.errors import CommandUsageError, InvalidName, StateUnreadable, WizardError
from grpo_wizard.state.home import valid_name
from grpo_wizard.state.lock import Lock
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.registry import ValidationErrors, fields, validate
from grpo_wizard.tui.commands._output import deployment_flags
from grpo_wizard.tui.commands._session import home_of, mode_of, warn_real_in_emulator_shell, wrong_mode_error
from grpo_wizard.tui.controllers.prefill import as_utf8, from_environment

if TYPE_CHECKING:
    from grpo_wizard.state.model import Deployment
    from grpo_wizard.steps.answers import Answers
    from grpo_wizard.steps.engine.recovery import RecoveryCandidate

RawAnswers = dict[str, dict[str, Any]]


def run(args: argparse.Namespace) -> int:
    if args.keys:
        return print_keys()
    home = home_of(args)
    store = StateStore(home)
    given = _read_answers(args)
    name = _choose_name(args, given, store)
    known = home.has_state(name)
    before = _load_existing(args, store, name)
    if before is not None and before.mode != mode_of(args):
        raise wrong_mode_error(before)
    warn_real_in_emulator_shell(mode_of(args))
    answers = validate_answers(_merge(before.answers if before else {}, given))
    with Lock(home, name, "grpo-wizard init"):
        if args.take_over:
            _recover(args, store, name, before, answers)
        elif before is None:
            store.create(name, mode_of(args), answers.to_values())
        else:
            before.answers = answers.to_values()
            store.save(before)
    print(f"{'Updated' if known else 'Created'} deployment {name}: {store.home.state_file(name)}")
    print(f"Next: grpo-wizard check{_flags(args, name)}")
    return 0


def _load_existing(args: argparse.Namespace, store: StateStore, name: str) -> Deployment | None:
    """Load the deployment. With --take-over, an unreadable state without a backup counts as missing."""
    try:
        return store.load(name) if store.home.has_state(name) else None
    except StateUnreadable as error:
        if args.take_over and error.backup is None:
            return None
        raise


def _recover(
    args: argparse.Namespace, store: StateStore, name: str, before: Deployment | None, answers: Answers
) -> None:
    """Create the deployment with the ID in the labels of its resources. A state that records created resources is never replaced."""
    if before is not None and any(record.origin == "created" for record in before.resources.values()):
        raise WizardError(
            f"The state of {name} has not been lost",
            "It records resources that this deployment created.",
            "Continue with the existing state.",
            f"grpo-wizard status{_flags(args, name)}",
        )
    found = _find_recovery_candidate(args, store, name, answers)
    if store.home.has_state(name):
        store.archive(name)
    store.create(name, mode_of(args), answers.to_values(), found.deployment_id)
    count = f"{found.count} resource" + ("" if found.count == 1 else "s")
    AuditLog(store.home.audit_file(name)).append(
        "", "TAKE-OVER", "", found.deployment_id, f"{found.count} resources"
    )
    print(f"Recovered {count} labelled grpo-wizard={found.deployment_id}.")


def _find_recovery_candidate(
    args: argparse.Namespace, store: StateStore, name: str, answers: Answers
) -> RecoveryCandidate:
    """Read the project. Raise WizardError unless all existing resources carry the label of the same deployment."""
    import asyncio

    from grpo_wizard.state.model import Deployment
    from grpo_wizard.steps.clients.audit import discard
    from grpo_wizard.steps.clients.connect import open_cloud
    from grpo_wizard.steps.deployment.session import Session
    from grpo_wizard.steps.engine.apply import plan
    from grpo_wizard.steps.engine.options import ApplyOptions
    from grpo_wizard.steps.engine.recovery import foreign_owners, recovery_candidate
    from grpo_wizard.steps.registry import WORKFLOW

    nobody = Deployment(lineage="nobody", mode=mode_of(args), name=name, answers=answers.to_values())
    cloud = open_cloud(nobody.mode, Path(store.home.root), args.speed, discard)
    decisions = asyncio.run(plan(Session.from_deployment(store, nobody, cloud, WORKFLOW), ApplyOptions()))
    found = recovery_candidate(decisions)
    if found is None:
        owners = ", ".join(
            f"{count} {f'labelled grpo-wizard={owner}' if owner else 'without a label'}"
            for owner, count in foreign_owners(decisions).items()
        )
        raise WizardError(
            "No deployment to recover",
            f"The resources with these names do not all belong to the same deployment: {owners}."
            if owners
            else "No resources with these names exist.",
            "Run init without --take-over. `apply --adopt` uses existing resources that match.",
        )
    return found


def _flags(args: argparse.Namespace, name: str) -> str:
    return deployment_flags(args.rehearse, name, args.home or "")


def print_keys() -> int:
    """Print every setting with its default and description. Defaults in parentheses depend on other settings."""
    for step, field in fields():
        if field.kind != "secret":
            default = (
                "(computed)"
                if callable(field.default)
                else "(required)"
                if field.default is None
                else field.default
            )
            print(f"{step.name}.{field.name} = {default}\n    {field.help}")
    return 0


def _read_answers(args: argparse.Namespace) -> RawAnswers:
    """Read the files in order, then the environment, then --set. The last value wins."""
    given: RawAnswers = {}
    for path in args.answers:
        given = _merge(given, _from_file(path))
    if args.from_env:
        given = _merge(given, from_environment(os.environ))
    for item in args.set:
        given = _merge(given, _parse_set_option(item))
    return given


def _from_file(path: str) -> RawAnswers:
    try:
        document = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandUsageError(f"Cannot read {path}", str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise CommandUsageError(f"{path} is not valid TOML", str(error)) from error
    for key, value in document.items():
        if not isinstance(value, dict):
            raise CommandUsageError(
                f"Unknown key {key} in {path}",
                "Put each step's settings in their own table, such as [networks].",
                "List all keys.",
                "grpo-wizard init --keys",
            )
    return document


def _parse_set_option(item: str) -> RawAnswers:
    key, equals, value = item.partition("=")
    step, dot, field = key.partition(".")
    if not (equals and dot and step and field):
        raise CommandUsageError(
            f"Invalid --set {item}", "--set takes STEP.FIELD=VALUE.", "Example: --set networks.network=my-net"
        )
    return {step: {field: as_utf8(value)}}


def _merge(
    below: Mapping[str, Mapping[str, object]], above: Mapping[str, Mapping[str, object]]
) -> RawAnswers:
    merged: RawAnswers = {step: dict(values) for step, values in below.items()}
    for step, values in above.items():
        merged.setdefault(step, {}).update(values)
    return merged


def validate_answers(given: RawAnswers) -> Answers:
    """Return complete answers. Raise one error that names every invalid field; unknown keys are wrong usage."""
    try:
        return validate(given)
    except ValidationErrors as errors:
        rules = [f"{key}: {rule}" for key, rule in errors.by_field.items()]
        if errors.unknown_keys:
            raise CommandUsageError(
                f"Unknown {'keys' if len(errors.unknown_keys) > 1 else 'key'} {', '.join(errors.unknown_keys)}",
                "\n       ".join(
                    [
                        f"No step has {'these fields' if len(errors.unknown_keys) > 1 else 'this field'}.",
                        *rules,
                    ]
                ),
                "List all keys.",
                "grpo-wizard init --keys",
            ) from errors
        raise WizardError(
            f"Invalid {'settings' if len(rules) > 1 else 'setting'}; nothing was saved",
            "\n       ".join(rules),
            f"Correct {'them' if len(rules) > 1 else 'it'} and re-run init.",
        ) from errors


def _choose_name(args: argparse.Namespace, given: RawAnswers, store: StateStore) -> str:
    """Return --deployment, else the only deployment if no cluster is named, else the cluster's name."""
    if args.deployment:
        return valid_name(args.deployment)
    if "cluster_name" in given.get("cluster", {}) and not _is_valid_name(given["cluster"]["cluster_name"]):
        validate_answers(given)  # reports it with all other errors
    names = store.home.deployments()
    cluster = given.get("cluster", {}).get("cluster_name")
    if cluster is None and len(names) == 1:
        return names[0]
    return valid_name(str(cluster)) if cluster else valid_name("nemo-cluster")


def _is_valid_name(value: object) -> bool:
    try:
        return bool(valid_name(str(value)))
    except InvalidName:
        return False
