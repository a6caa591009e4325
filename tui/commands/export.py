"""`export`: writes the deployment as a bash script of gcloud and kubectl commands, or as an answer file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from grpo_wizard.state.errors import CommandUsageError
from grpo_wizard.tui.commands._output import write_data
from grpo_wizard.tui.commands._session import load_deployment, require_complete


def run(args: argparse.Namespace) -> int:
    _, deployment = load_deployment(args)
    answers = require_complete(deployment)
    if args.answers:
        from grpo_wizard.steps.export.answers import answers_toml

        return _write_output(answers_toml(answers), args.out, 0o644)
    from grpo_wizard.steps.export.script import render_script

    return _write_output(render_script(answers, deployment.name, deployment.lineage), args.out, 0o755)


def _write_output(text: str, out: str | None, mode: int) -> int:
    """Write to the file, or to stdout if there is none."""
    if out is None:
        write_data(text)
        return 0
    try:
        Path(out).write_text(text, "utf-8")
        Path(out).chmod(mode)
    except OSError as error:
        raise CommandUsageError(f"Cannot write {out}", error.strerror or str(error)) from error
    print(f"Wrote {out}", file=sys.stderr)
    return 0
