"""The one family of errors: a title, a detail, one fix and, where there is one, the command that does it.

The whole product raises these. SDK exceptions are translated in `steps/clients` only.
"""

import shlex
from pathlib import Path


class WizardError(Exception):
    """Something the user is told about: what happened, why, the one fix, and the command that does it.

    `exit_code` is what a headless command ends with: 1 refused or failed, 2 wrong usage.
    """

    exit_code: int = 1

    def __init__(self, title: str, detail: str = "", fix: str = "", command: str = "") -> None:
        super().__init__(title, detail, fix, command)
        self.title = title
        self.detail = detail
        self.fix = fix
        self.command = command

    def __str__(self) -> str:
        return " ".join(part for part in (self.title, self.detail, self.fix) if part)

    def to_json(self) -> dict[str, str]:
        """The four texts, for JSON."""
        return {"title": self.title, "detail": self.detail, "fix": self.fix, "command": self.command}


class CommandUsageError(WizardError):
    """The command was called wrongly: unknown key, unreadable file, wrong mode, no terminal."""

    exit_code = 2


class InvalidInput(WizardError):
    """A value that the user gave breaks a rule. The detail is one sentence that says what is allowed."""


class InvalidName(InvalidInput):
    """Not a deployment's name."""


class InvalidSecret(InvalidInput):
    """A token that cannot be right. The text never holds the token."""


class StateError(WizardError):
    """What is remembered cannot be read, written or locked."""


class HomeUnusable(StateError):
    """The home folder cannot be made or used."""

    def __init__(self, root: Path, reason: str) -> None:
        super().__init__(
            "The home folder cannot be used.",
            f"{root}: {reason}.",
            "Name another folder with --home or GRPO_WIZARD_HOME.",
        )
        self.root = root


class StateMissing(StateError):
    """There is no deployment of this name in this home folder."""

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(
            f"There is no deployment {name}.",
            f"{file} does not exist.",
            "Begin one with init, or name another.",
            "grpo-wizard init",
        )
        self.name = name
        self.file = file


class StateExists(StateError):
    """`create` met a deployment of the same name."""

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(
            f"The deployment {name} is there already.",
            f"Its state is in {file}.",
            "Go on with it, or choose another name.",
            f"grpo-wizard status --deployment {name}",
        )
        self.name = name
        self.file = file


class StateUnreadable(StateError):
    """The state file is empty, cut short, damaged or gone. It is never taken for "nothing deployed".

    `file` stays as it is; `copy` holds its bytes too (None if there was nothing to copy);
    `backup` is the last good state before it (None if that cannot be read either).
    """

    def __init__(self, file: Path, reason: str, copy: Path | None, backup: Path | None) -> None:
        kept = f" A copy is kept as {copy}." if copy else ""
        if backup:
            fix, command = f"Restore the last good state from {backup.name}.", _shell("cp", backup, file)
        else:
            fix = (
                "Take it over with the same answers: what bears our mark is found by looking at the cloud, "
                "and the file is moved aside."
            )
            command = _shell("grpo-wizard", "init", "--take-over", "--deployment", file.parent.name)
        super().__init__(
            "The state file cannot be read.",
            f"{file}: {reason}.{kept} Resources may still be there and cost money.",
            fix,
            command,
        )
        self.file = file
        self.reason = reason
        self.copy = copy
        self.backup = backup


class StateNewer(StateError):
    """The state was written by a newer release, whose fields this one does not know."""

    def __init__(self, file: Path, version: int, tool: str = "") -> None:
        super().__init__(
            f"The state is of version {version}, newer than this release knows.",
            f"{file} was written by {tool or 'a newer grpo-wizard'}. It was left as it is.",
            "Upgrade grpo-wizard.",
            "pip install --upgrade grpo-wizard",
        )
        self.file = file
        self.version = version


class StateNotSaved(StateError):
    """The disk refused the new state (full, quota, read-only). The old one is intact, byte for byte."""

    def __init__(self, file: Path, reason: str, since: str = "") -> None:
        lost = f" What happened since {since} is not saved." if since else ""
        super().__init__(
            "The state could not be saved.",
            f"{file}: {reason}.{lost}",
            "Make room or give write access, then run the command again.",
            _shell("df", "-h", file.parent),
        )
        self.file = file
        self.reason = reason
        self.since = since


class StateInvalid(StateError):
    """A value that must not be remembered: a number that is not finite, broken text, a secret."""

    def __init__(self, reason: str) -> None:
        super().__init__("A value cannot be written to the state.", reason, "Correct the value.")
        self.reason = reason


class StateChanged(StateError):
    """Another process saved in between, so that saving now would undo its work."""

    def __init__(self, file: Path, loaded: int, found: int) -> None:
        super().__init__(
            "The state was changed by another process.",
            f"{file} is at serial {found}; this process read {loaded}.",
            "Run the same command again.",
        )
        self.file = file
        self.loaded = loaded
        self.found = found


class LockHeld(StateError):
    """Another process works on this deployment: pid, host, since (UTC, ISO 8601) and `holder_command`.

    Parts that are not known are "" and 0.
    """

    def __init__(self, name: str, pid: int, host: str, since: str, command: str) -> None:
        who = f"{command or 'A process'} (pid {pid} on {host or 'an unknown host'})"
        super().__init__(
            f"Another process works on {name}.",
            f"{who} has held it since {since or 'just now'}.",
            f"Wait for it, or end process {pid} there." if pid else "Wait for it.",
        )
        self.pid = pid
        self.host = host
        self.since = since
        self.owner_command = command


def _shell(*words: object) -> str:
    return shlex.join(str(word) for word in words)
