"""Finding, starting and stopping the rehearsal server. Standard library only: the command line imports this
at once.

Where it lives: `<home>/rehearsal/` holds `address.json`, `token`, the world's file, the CA and the log.
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
# The server is sent them where it needs them; a process's environment can be read.
_SECRET_ENV_VARS = ("HF_TOKEN", "WANDB_API_KEY")
_NO_PROXY_OPENER = urllib.request.build_opener(
    urllib.request.ProxyHandler({})
)  # loopback is never asked through a proxy


class EmulatorError(Exception):
    """One sentence that says why there is no server to talk to, and what helps."""


@dataclass(frozen=True)
class ServerAddress:
    """A running server. `env` is what gcloud, kubectl and the wizard need to use it."""

    base_url: str
    pid: int
    token_file: str
    speed: str
    kube_urls: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    @property
    def token(self) -> str:
        """The bearer token: of the environment where the server is another's, else of its file."""
        return self.env.get(TOKEN_ENV) or Path(self.token_file).read_text().strip()

    def to_json(self) -> str:
        """The one JSON line of `rehearsal serve`."""
        return json.dumps(asdict(self))


def server_folder(home: Path) -> Path:
    """The server's private folder under a home."""
    return home / "rehearsal"


def normalize_speed(speed: float | str) -> str:
    """`max`, or a positive number as text (`120`). Raises RehearsalError."""
    if str(speed).lower() in ("max", "inf"):
        return "max"
    try:
        number = float(speed)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise EmulatorError(f"The speed must be `max` or a number above 0, not {speed!r}.")
    return f"{number:g}"


def find(home: Path) -> ServerAddress | None:
    """The running server: GRPO_WIZARD_REHEARSAL_URL's, else this home's.

    None where there is none. Raises RehearsalError if the named one is not there.
    """
    url = os.environ.get(URL_ENV)
    return connect(url, _token_from_env()) if url else find_own(home)


def find_own(home: Path) -> ServerAddress | None:
    """This home's own running server, whatever the environment names."""
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
    """Where the server was last, by the environment or by what it wrote; it is not asked, and may be gone.

    Raises RehearsalError where the environment names a place that is not on loopback, or no token.
    """
    url = os.environ.get(URL_ENV)
    if not url:
        return _read_address(server_folder(home) / "address.json")
    _require_loopback(url)
    return ServerAddress(url.rstrip("/"), 0, "", "", env={TOKEN_ENV: _token_from_env()})


def _require_loopback(url: str) -> None:
    if urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"):
        raise EmulatorError(
            f"{URL_ENV} must name a server on 127.0.0.1, not {url}: a rehearsal goes no further."
        )


def connect(url: str, token: str, speed: float | str | None = None) -> ServerAddress:
    """A server that somebody else started.

    Raises RehearsalError where it is not on loopback, does not answer, refuses the token or runs at another speed.
    """
    _require_loopback(url)
    try:
        answer = send_request(url, token, "GET", "/_rehearsal/status", timeout=5)
    except urllib.error.HTTPError as error:
        raise EmulatorError(
            f"The rehearsal at {url} answers {error.code}: set {TOKEN_ENV} to its token."
        ) from None
    except (OSError, ValueError) as error:
        raise EmulatorError(
            f"No rehearsal answers at {url} ({error}): start one with `grpo-wizard rehearsal serve`."
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
    """This home's server: the one that runs, else a new detached process that answers when this returns.

    Two at once start one.
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
    raise EmulatorError(f"The rehearsal server did not start; the end of {log}: {_tail(log)}")


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "(empty)"


def status(home: Path) -> JSON:
    """What runs: `{"running": false}`, or the server's own account with its base_url."""
    address = find(home)
    if address is None:
        return {"running": False}
    return {
        "running": True,
        "base_url": address.base_url,
        **send_request(address.base_url, address.token, "GET", "/_rehearsal/status"),
    }


def stop(home: Path, wait_s: float = 20.0) -> bool:
    """Ends this home's server and everything it started. False where none ran."""
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
        f"The rehearsal server (process {address.pid}) has not ended after {wait_s:g} s; its log is "
        f"{server_folder(home) / 'server.log'}."
    )


def _supervisor_pids(home: Path) -> list[int]:
    """The processes that guard its heads and sidecars: each notes itself beside what it guards."""
    pids = []
    for note in (server_folder(home) / "heads").glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            pids.append(int(json.loads(note.read_text())["pid"]))
    return pids


def list_resources(address: ServerAddress) -> list[JSON]:
    """The rows of `/_rehearsal/world`."""
    rows: list[JSON] = send_request(address.base_url, address.token, "GET", "/_rehearsal/world")["resources"]
    return rows


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError, OSError):
        os.waitpid(pid, os.WNOHANG)  # our own child that ended would else look alive
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
            f"The rehearsal at {address.base_url} runs at speed {address.speed}, not "
            f"{normalize_speed(speed)}: leave out --speed, "
            "or stop it first with `grpo-wizard rehearsal stop`."
        )
    return address


def _token_from_env() -> str:
    if os.environ.get(TOKEN_ENV):
        return os.environ[TOKEN_ENV]
    path = os.environ.get(TOKEN_FILE_ENV)
    if path and Path(path).is_file():
        return Path(path).read_text().strip()
    raise EmulatorError(f"{URL_ENV} is set, but neither {TOKEN_ENV} nor {TOKEN_FILE_ENV} says the token.")


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
    """Held by the process, so it cannot go stale."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
