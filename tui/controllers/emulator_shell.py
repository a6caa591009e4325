"""A shell that loaded the environment file of `grpo-wizard rehearsal serve --env-file`."""

from __future__ import annotations

import os

from grpo_wizard.steps.emulator.process import URL_ENV


def real_in_emulator_shell_warning(mode: str) -> str:
    """Warn about a real deployment in a shell whose gcloud uses a rehearsal; empty otherwise."""
    if mode != "real" or not os.environ.get(URL_ENV):
        return ""
    return (
        f"This shell is configured for the emulator ({URL_ENV} is set), but this deployment is real. "
        "Add --rehearse to use the emulator."
    )
