"""Find, start and stop the emulator server.

Standard library only, because every command imports this module. `<home>/rehearsal/` holds `address.json`,
`token`, the state file, the CA and the log.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

JSON = dict[str, Any]
URL_ENV, TOKEN_ENV, TOKEN_FILE_ENV = (
    "GRPO_WIZARD_REHEARSAL_URL",
    "GRPO_WIZARD_REHEARSAL_TOKEN",
    "GRPO_WIZARD_REHEARSAL_TOKEN_FILE",
)
DEFAULT_SPEED = "120"
_START_TIMEOUT_S = 30.0
# Not passed in the server's environment, which other processes of the user can read; requests carry them.
_SECRET_ENV_VARS = ("HF_TOKEN", "WANDB_API_KEY")
_NO_PROXY_OPENER = urllib.request.build_opener(
    urllib.request.ProxyHandler({})
)  # never reach loopback through a proxy


class EmulatorError(Exception):
    """No server can be used. The message says why and how to fix it."""


@dataclass(frozen=True)
class ServerAddress:
    """The address of a running server. `env` holds what gcloud, kubectl and the wizard need to use it."""

    base_url: str
    pid: int
    token_file: str
    speed: str
    kube_urls: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    @property
    def token(self) -> str:
        """The bearer token: from `env` for a server of another home, otherwise from its file."""
        return self.env.get(TOKEN_ENV) or Path(self.token_file).read_text().strip()

    def to_json(self) -> str:
        """Return the line that `rehearsal serve` prints."""
        return json.dumps(asdict(self))


def server_folder(home: Path) -> Path:
    """Return the server's private folder in a home."""
    return home / "rehearsal"


def normalize_speed(speed: float | str) -> str:
    """Return `max`, or a positive number as text (`120`). Raises EmulatorError."""
    if str(speed).lower() in ("max", "inf"):
        return "max"
    try:
        number = float(speed)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise EmulatorError(f"--speed must be `max` or a number greater than 0, not {speed!r}.")
    return f"{number:g}"


def find(home: Path) -> ServerAddress | None:
    """Return the running server: the one named by GRPO_WIZARD_REHEARSAL_URL, otherwise this home's.

    None where no server runs. Raises EmulatorError if the named server does not respond.
    """
    url = os.environ.get(URL_ENV)
    return connect(url, _token_from_env()) if url else find_own(home)


def find_own(home: Path) -> ServerAddress | None:
    """Return this home's running server, whatever the environment names."""
    address = _read_address(server_folder(home) / "address.json")
    if address is None:
        return None
    try:
        answer = send_request(address.base_url, address.token, "GET", "/_rehearsal/status", timeout=5)
    except (OSError, ValueError):
        return None
    if answer["pid"] != address.pid:
        return None
    return ServerAddress(**{**asdict(address), "kube_urls": answer["kube_urls"]})


def last_known(home: Path) -> ServerAddress | None:
    """Return the last known address of the server, without contacting it; the server may have ended.

    Raises EmulatorError if the environment names an address that is not on loopback, or no token.
    """
    url = os.environ.get(URL_ENV)
    if not url:
        return _read_address(server_folder(home) / "address.json")
    _require_loopback(url)
    return ServerAddress(url.rstrip("/"), 0, "", "", env={TOKEN_ENV: _token_from_env()})


def _require_loopback(url: str) -> None:
    if urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"):
        raise EmulatorError(
            f"{URL_ENV} must name a server on 127.0.0.1, not {url}, because a rehearsal never leaves this machine."
        )


def connect(url: str, token: str, speed: float | str | None = None) -> ServerAddress:
    """Connect to a server that is already running.

    Raises EmulatorError if it is not on loopback, does not respond, rejects the token or runs at another
    speed.
    """
    _require_loopback(url)
    try:
        answer = send_request(url, token, "GET", "/_rehearsal/status", timeout=5)
    except urllib.error.HTTPError as error:
        raise EmulatorError(
            f"The emulator at {url} responded with HTTP {error.code}. Set {TOKEN_ENV} to its token."
        ) from None
    except (OSError, ValueError) as error:
        raise EmulatorError(
            f"No emulator is responding at {url} ({error}). Start one with `grpo-wizard rehearsal serve`."
        ) from None
    address = ServerAddress(
        url.rstrip("/"),
        answer["pid"],
        answer["token_file"],
        answer["speed"],
        answer["kube_urls"],
        {**answer["env"], TOKEN_ENV: token},
    )
    return _require_same_speed(address, speed)


def start(
    home: Path,
    speed: float | str | None = None,
    *,
    ray: str = "real",
    faults: Path | None = None,
    record: Path | None = None,
    port: int = 0,
    idle_minutes: float = 30,
    check_answers: bool = False,
    drills: Sequence[str] = (),
) -> ServerAddress:
    """Return this home's server; start it as a detached process if it is not running.

    The server accepts requests when this returns. Concurrent calls start one server.
    """
    if os.environ.get(URL_ENV):
        return connect(os.environ[URL_ENV], _token_from_env(), speed)
    server_folder(home).mkdir(mode=0o700, parents=True, exist_ok=True)
    with _file_lock(server_folder(home) / "start.lock"):
        running = find_own(home)
        if running is not None:
            return _require_same_speed(running, speed)
        options = [
            "--home",
            str(home.absolute()),
            "--speed",
            normalize_speed(speed or DEFAULT_SPEED),
            "--ray",
            ray,
            "--port",
            str(port),
            "--idle",
            f"{idle_minutes:g}",
        ]
        for name, path in (("--faults", faults), ("--record", record)):
            options += [name, str(path.absolute())] if path else []
        for name in drills:
            options += ["--drill", name]
        return _spawn(home, [*options, "--check-answers"] if check_answers else options)


def _spawn(home: Path, options: list[str]) -> ServerAddress:
    log = server_folder(home) / "server.log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "grpo_wizard.steps.emulator", "serve", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=out,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name not in _SECRET_ENV_VARS},
        )
    until = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < until:
        address = find_own(home)
        if address is not None:
            return address
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise EmulatorError(f"The emulator did not start. The last line of {log} is: {_tail(log)}")


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "(empty)"


def status(home: Path) -> JSON:
    """Return `{"running": false}`, or the server's own status with its base_url."""
    address = find(home)
    if address is None:
        return {"running": False}
    return {
        "running": True,
        "base_url": address.base_url,
        **send_request(address.base_url, address.token, "GET", "/_rehearsal/status"),
    }


def stop(home: Path, wait_s: float = 20.0) -> bool:
    """Stop this home's server and everything it started. Returns False where none was running."""
    address = find_own(home)
    if address is None:
        return False
    started = [address.pid, *_supervisor_pids(home)]
    send_request(address.base_url, address.token, "POST", "/_rehearsal/stop")
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        if not any(_is_alive(pid) for pid in started):
            return True
        time.sleep(0.05)
    raise EmulatorError(
        f"The emulator (process {address.pid}) is still running after {wait_s:g} s. See its log: "
        f"{server_folder(home) / 'server.log'}."
    )


def _supervisor_pids(home: Path) -> list[int]:
    """Return the supervisors of its heads and sidecars, from their pid files."""
    pids = []
    for note in (server_folder(home) / "heads").glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            pids.append(int(json.loads(note.read_text())["pid"]))
    return pids


def list_resources(address: ServerAddress) -> list[JSON]:
    """Return the rows of `/_rehearsal/world`."""
    rows: list[JSON] = send_request(address.base_url, address.token, "GET", "/_rehearsal/world")["resources"]
    return rows


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError, OSError):
        os.waitpid(pid, os.WNOHANG)  # reap our own child, which would otherwise look alive
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _require_same_speed(address: ServerAddress, speed: float | str | None) -> ServerAddress:
    if speed is not None and normalize_speed(speed) != address.speed:
        raise EmulatorError(
            f"The emulator at {address.base_url} is running at speed {address.speed}, not "
            f"{normalize_speed(speed)}. Omit --speed, "
            "or stop the emulator first with `grpo-wizard rehearsal stop`."
        )
    return address


def _token_from_env() -> str:
    if os.environ.get(TOKEN_ENV):
        return os.environ[TOKEN_ENV]
    path = os.environ.get(TOKEN_FILE_ENV)
    if path and Path(path).is_file():
        return Path(path).read_text().strip()
    raise EmulatorError(f"{URL_ENV} is set, but the token is not. Set {TOKEN_ENV} or {TOKEN_FILE_ENV}.")


def _read_address(path: Path) -> ServerAddress | None:
    try:
        return ServerAddress(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def send_request(base_url: str, token: str, method: str, path: str, timeout: float = 30) -> JSON:
    request = urllib.request.Request(
        base_url.rstrip("/") + path, method=method, headers={"Authorization": f"Bearer {token}"}
    )
    with _NO_PROXY_OPENER.open(request, timeout=timeout) as response:
        answer: JSON = json.load(response)
    return answer


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock, which the kernel releases when the process ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
