"""Options of a run become arguments for another process, and come back as the same options."""

from __future__ import annotations

import pytest

from grpo_wizard.steps.engine.options import ApplyOptions, DestroyOptions
from grpo_wizard.tui.commands import apply, destroy
from grpo_wizard.tui.commands._parser import parse
from grpo_wizard.tui.controllers.detach import run_args


@pytest.mark.parametrize(
    "options",
    [
        ApplyOptions(),
        ApplyOptions(adopt=True, skip_checks=True),
        ApplyOptions(replace=("lustre.lustre.nemo", "cluster.cluster.nemo-cluster")),
        ApplyOptions(until="networks", max_usd=12.5, max_usd_per_hour=0.0),
    ],
)
def test_apply_options_come_back_from_their_arguments(options: ApplyOptions) -> None:
    args = parse(run_args(options, "nemo"))
    assert (args.command, args.yes) == ("apply", True) and apply.options_from(args) == options


@pytest.mark.parametrize(
    "options", [DestroyOptions(), DestroyOptions(frozenset({"lustre"})), DestroyOptions(delete_project="p-1")]
)
def test_destroy_options_come_back_from_their_arguments(options: DestroyOptions) -> None:
    args = parse(run_args(options, "nemo"))
    assert (args.command, args.confirm) == ("destroy", "nemo") and destroy.options_from(args) == options
