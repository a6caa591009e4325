"""A shell that `grpo-wizard rehearsal env` pointed at the emulator."""

from __future__ import annotations

import os

from grpo_wizard.steps.emulator.process import URL_ENV


def real_in_emulator_shell_warning(mode: str) -> str:
    """Warn about a real deployment in a shell whose gcloud uses a rehearsal; empty otherwise."""
    if mode != "real" or not os.environ.get(URL_ENV):
        return ""
    return f"this shell points at a rehearsal ({URL_ENV}); this is a real deployment: add --rehearse for the rehearsal"
