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
URL, TOKEN, TOKEN_FILE = (
    "GRPO_WIZARD_REHEARSAL_URL",
    "GRPO_WIZARD_REHEARSAL_TOKEN",
    "GRPO_WIZARD_REHEARSAL_TOKEN_FILE",
)
DEFAULT_SPEED = "120"
_START_S = 30.0
# The server is sent them where it needs them; a process's environment can be read.
_SECRETS = ("HF_TOKEN", "WANDB_API_KEY")
_OPENER = urllib.request.build_opener(
    urllib.request.ProxyHandler({})
)  # loopback is never asked through a proxy


class RehearsalError(Exception):
    """One sentence that says why there is no server to talk to, and what helps."""


@dataclass(frozen=True)
class Address:
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
        return self.env.get(TOKEN) or Path(self.token_file).read_text().strip()

    def line(self) -> str:
        """The one JSON line of `rehearsal serve`."""
        return json.dumps(asdict(self))


def folder(home: Path) -> Path:
    """The server's private folder under a home."""
    return home / "rehearsal"


def normal_speed(speed: float | str) -> str:
    """`max`, or a positive number as text (`120`). Raises RehearsalError."""
    if str(speed).lower() in ("max", "inf"):
        return "max"
    try:
        number = float(speed)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise RehearsalError(f"The speed must be `max` or a number above 0, not {speed!r}.")
    return f"{number:g}"


def find(home: Path) -> Address | None:
    """The running server: GRPO_WIZARD_REHEARSAL_URL's, else this home's.

    None where there is none. Raises RehearsalError if the named one is not there.
    """
    url = os.environ.get(URL)
    return join(url, _token_of_environment()) if url else own(home)


def own(home: Path) -> Address | None:
    """This home's own running server, whatever the environment names."""
    address = _read(folder(home) / "address.json")
    if address is None:
        return None
    try:
        answer = ask(address.base_url, address.token, "GET", "/_rehearsal/status", timeout=5)
    except (OSError, ValueError):
        return None
    if answer["pid"] != address.pid:
        return None
    return Address(**{**asdict(address), "kube_urls": answer["kube_urls"]})


def known(home: Path) -> Address | None:
    """Where the server was last, by the environment or by what it wrote; it is not asked, and may be gone.

    Raises RehearsalError where the environment names a place that is not on loopback, or no token.
    """
    url = os.environ.get(URL)
    if not url:
        return _read(folder(home) / "address.json")
    _on_loopback(url)
    return Address(url.rstrip("/"), 0, "", "", env={TOKEN: _token_of_environment()})


def _on_loopback(url: str) -> None:
    if urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"):
        raise RehearsalError(
            f"{URL} must name a server on 127.0.0.1, not {url}: a rehearsal goes no further."
        )


def join(url: str, token: str, speed: float | str | None = None) -> Address:
    """A server that somebody else started.

    Raises RehearsalError where it is not on loopback, does not answer, refuses the token or runs at another speed.
    """
    _on_loopback(url)
    try:
        answer = ask(url, token, "GET", "/_rehearsal/status", timeout=5)
    except urllib.error.HTTPError as error:
        raise RehearsalError(
            f"The rehearsal at {url} answers {error.code}: set {TOKEN} to its token."
        ) from None
    except (OSError, ValueError) as error:
        raise RehearsalError(
            f"No rehearsal answers at {url} ({error}): start one with `grpo-wizard rehearsal serve`."
        ) from None
    address = Address(
        url.rstrip("/"),
        answer["pid"],
        answer["token_file"],
        answer["speed"],
        answer["kube_urls"],
        {**answer["env"], TOKEN: token},
    )
    return _same_speed(address, speed)


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
) -> Address:
    """This home's server: the one that runs, else a new detached process that answers when this returns.

    Two at once start one.
    """
    if os.environ.get(URL):
        return join(os.environ[URL], _token_of_environment(), speed)
    folder(home).mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(folder(home) / "start.lock"):
        running = own(home)
        if running is not None:
            return _same_speed(running, speed)
        options = [
            "--home",
            str(home.absolute()),
            "--speed",
            normal_speed(speed or DEFAULT_SPEED),
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


def _spawn(home: Path, options: list[str]) -> Address:
    log = folder(home) / "server.log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "grpo_wizard.steps.emulator", "serve", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=out,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name not in _SECRETS},
        )
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        address = own(home)
        if address is not None:
            return address
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RehearsalError(f"The rehearsal server did not start; the end of {log}: {_tail(log)}")


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
        **ask(address.base_url, address.token, "GET", "/_rehearsal/status"),
    }


def stop(home: Path, wait_s: float = 20.0) -> bool:
    """Ends this home's server and everything it started. False where none ran."""
    address = own(home)
    if address is None:
        return False
    started = [address.pid, *_below(home)]
    ask(address.base_url, address.token, "POST", "/_rehearsal/stop")
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        if not any(_alive(pid) for pid in started):
            return True
        time.sleep(0.05)
    raise RehearsalError(
        f"The rehearsal server (process {address.pid}) has not ended after {wait_s:g} s; its log is "
        f"{folder(home) / 'server.log'}."
    )


def _below(home: Path) -> list[int]:
    """The processes that guard its heads and sidecars: each notes itself beside what it guards."""
    pids = []
    for note in (folder(home) / "heads").glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            pids.append(int(json.loads(note.read_text())["pid"]))
    return pids


def world(address: Address) -> list[JSON]:
    """The rows of `/_rehearsal/world`."""
    rows: list[JSON] = ask(address.base_url, address.token, "GET", "/_rehearsal/world")["resources"]
    return rows


def _alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError, OSError):
        os.waitpid(pid, os.WNOHANG)  # our own child that ended would else look alive
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _same_speed(address: Address, speed: float | str | None) -> Address:
    if speed is not None and normal_speed(speed) != address.speed:
        raise RehearsalError(
            f"The rehearsal at {address.base_url} runs at speed {address.speed}, not "
            f"{normal_speed(speed)}: leave out --speed, "
            "or stop it first with `grpo-wizard rehearsal stop`."
        )
    return address


def _token_of_environment() -> str:
    if os.environ.get(TOKEN):
        return os.environ[TOKEN]
    path = os.environ.get(TOKEN_FILE)
    if path and Path(path).is_file():
        return Path(path).read_text().strip()
    raise RehearsalError(f"{URL} is set, but neither {TOKEN} nor {TOKEN_FILE} says the token.")


def _read(path: Path) -> Address | None:
    try:
        return Address(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def ask(base_url: str, token: str, method: str, path: str, timeout: float = 30) -> JSON:
    request = urllib.request.Request(
        base_url.rstrip("/") + path, method=method, headers={"Authorization": f"Bearer {token}"}
    )
    with _OPENER.open(request, timeout=timeout) as response:
        answer: JSON = json.load(response)
    return answer


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by the process, so it cannot go stale."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
