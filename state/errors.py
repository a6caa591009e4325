"""The errors that users see: a title, a detail, one fix and, if there is one, the command for it.

Titles are short sentences without a final period, because callers put them into longer lines; details and fixes are whole
sentences. SDK exceptions are translated in `steps/clients` only.
"""

import shlex
from pathlib import Path


def end_with_period(text: str) -> str:
    """Add a period, unless the text already ends a sentence or a clause."""
    return text if not text or text[-1] in ".!?:" else text + "."


class WizardError(Exception):
    """An error for the user: what failed, why, one fix, and the command for it.

    `exit_code` is the exit code of a headless command: 1 rejected or failed, 2 wrong usage.
    """

    exit_code: int = 1

    def __init__(self, title: str, detail: str = "", fix: str = "", command: str = "") -> None:
        super().__init__(title, detail, fix, command)
        self.title = title
        self.detail = detail
        self.fix = fix
        self.command = command

    def __str__(self) -> str:
        parts = [part for part in (self.title, self.detail, self.fix) if part]
        return " ".join([*(end_with_period(part) for part in parts[:-1]), *parts[-1:]])

    def to_json(self) -> dict[str, str]:
        """The four texts, for JSON."""
        return {"title": self.title, "detail": self.detail, "fix": self.fix, "command": self.command}


class CommandUsageError(WizardError):
    """The command line is wrong: unknown key, unreadable file, wrong mode, no terminal."""

    exit_code = 2


class InvalidInput(WizardError):
    """A value from the user is not allowed. The detail is one sentence that states what is allowed."""


class InvalidName(InvalidInput):
    """The name is not a valid deployment name."""


class InvalidSecret(InvalidInput):
    """The token is malformed. The text never contains the token."""


class StateError(WizardError):
    """The saved state cannot be read, written or locked."""


class HomeUnusable(StateError):
    """The home folder cannot be created or used."""

    def __init__(self, root: Path, reason: str) -> None:
        super().__init__(
            "The home folder cannot be used",
            f"{root}: {reason}.",
            "Choose another folder with --home or GRPO_WIZARD_HOME.",
        )
        self.root = root


class StateMissing(StateError):
    """This home folder has no deployment of this name."""

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(
            f"Deployment {name} does not exist",
            f"{file} does not exist.",
            "Create it with init, or choose another with --deployment.",
            "grpo-wizard init",
        )
        self.name = name
        self.file = file


class StateExists(StateError):
    """A deployment of this name already exists."""

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(
            f"Deployment {name} already exists",
            f"Its state is in {file}.",
            "Continue with it, or choose another name.",
            f"grpo-wizard status --deployment {name}",
        )
        self.name = name
        self.file = file


class StateUnreadable(StateError):
    """The state file is empty, truncated, damaged or missing. This never counts as "nothing deployed".

    `file` is left unchanged; `copy` holds the same bytes (None if there was nothing to copy);
    `backup` is the last good state before it (None if that cannot be read either).
    """

    def __init__(self, file: Path, reason: str, copy: Path | None, backup: Path | None) -> None:
        kept = f" A copy is kept as {copy}." if copy else ""
        if backup:
            fix, command = f"Restore the last good state from {backup.name}.", _shell("cp", backup, file)
        else:
            fix = (
                "Recover it with the same answers: resources are found by their ownership labels, and the damaged "
                "file is kept beside the new one."
            )
            command = _shell("grpo-wizard", "init", "--take-over", "--deployment", file.parent.name)
        super().__init__(
            "The state file cannot be read",
            f"{file}: {reason}.{kept} Resources may still exist and be billed.",
            fix,
            command,
        )
        self.file = file
        self.reason = reason
        self.copy = copy
        self.backup = backup


class StateNewer(StateError):
    """The state was written by a newer release, with fields that this one does not know."""

    def __init__(self, file: Path, version: int, tool: str = "") -> None:
        super().__init__(
            f"The state is at version {version}, which is newer than this release supports",
            f"{file} was written by {tool or 'a newer grpo-wizard'}. The file is unchanged.",
            "Upgrade grpo-wizard.",
            "pip install --upgrade grpo-wizard",
        )
        self.file = file
        self.version = version


class StateNotSaved(StateError):
    """The new state could not be written (disk full, quota, read-only). The old one is intact, byte for byte."""

    def __init__(self, file: Path, reason: str, since: str = "") -> None:
        lost = f" Changes since {since} are not saved." if since else ""
        super().__init__(
            "The state could not be saved",
            f"{file}: {reason}.{lost}",
            "Free disk space or grant write access, then run the command again.",
            _shell("df", "-h", file.parent),
        )
        self.file = file
        self.reason = reason
        self.since = since


class StateInvalid(StateError):
    """A value that must not be saved: a number that is not finite, invalid Unicode, a secret."""

    def __init__(self, reason: str) -> None:
        super().__init__("A value cannot be written to the state", reason, "Correct the value.")
        self.reason = reason


class StateChanged(StateError):
    """Another process saved the state in the meantime; saving now would undo its changes."""

    def __init__(self, file: Path, loaded: int, found: int) -> None:
        super().__init__(
            "The state was changed by another process",
            f"{file} is at serial {found}; this process read {loaded}.",
            "Run the same command again.",
        )
        self.file = file
        self.loaded = loaded
        self.found = found


class LockHeld(StateError):
    """Another process has locked this deployment: pid, host, since (UTC, ISO 8601) and `owner_command`.

    Unknown parts are "" and 0.
    """

    def __init__(self, name: str, pid: int, host: str, since: str, command: str) -> None:
        owner = f"{command or 'A process'} (pid {pid} on {host or 'an unknown host'})"
        super().__init__(
            f"Another process is working on {name}",
            f"{owner} has held the lock since {since or 'just now'}."
            if pid
            else "The lock's owner is unknown.",
            f"Wait for it to finish, or stop process {pid} on that host."
            if pid
            else "Wait for it to finish.",
        )
        self.pid = pid
        self.host = host
        self.since = since
        self.owner_command = command


def _shell(*words: object) -> str:
    return shlex.join(str(word) for word in words)
