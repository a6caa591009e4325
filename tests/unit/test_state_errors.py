"""The family of errors: every one has a title and a way on, and goes into JSON."""

import shlex
from pathlib import Path

import pytest

from grpo_wizard.state import errors

FILE = Path("/home/a user/state.json")
ALL = [
    errors.HomeUnusable(FILE.parent, "Permission denied"),
    errors.StateMissing("a", FILE),
    errors.StateExists("a", FILE),
    errors.StateUnreadable(FILE, "it is empty", None, None),
    errors.StateUnreadable(FILE, "it is empty", Path("/c"), FILE.with_name("state.json.bak")),
    errors.StateNewer(FILE, 9),
    errors.StateNotSaved(FILE, "No space left on device", "2026-01-31T09:30:00Z"),
    errors.StateInvalid("nan is not finite."),
    errors.StateChanged(FILE, 1, 2),
    errors.LockHeld("a", 12, "host", "now", "apply"),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_every_state_error_says_what_why_and_how_to_go_on(error: errors.WizardError) -> None:
    assert error.title and error.detail and error.fix
    assert error.exit_code == 1
    assert error.to_json() == {
        "title": error.title,
        "detail": error.detail,
        "fix": error.fix,
        "command": error.command,
    }
    assert not error.title.endswith(".") and error.detail.endswith(".") and error.fix.endswith(".")
    assert str(error) == f"{error.title}. {error.detail} {error.fix}"
    shlex.split(error.command)


def test_commands_quote_paths_with_blanks() -> None:
    assert shlex.split(ALL[4].command) == ["cp", str(FILE) + ".bak", str(FILE)]


def test_wrong_usage_ends_with_2() -> None:
    assert errors.CommandUsageError("No such option.").exit_code == 2
