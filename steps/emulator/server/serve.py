"""The server process: world, wire, TLS, socket; its one line; its end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import logging
import os
import secrets
import shlex
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from aiohttp import web

from grpo_wizard.steps.emulator import environment, google
from grpo_wizard.steps.emulator.drills import manager
from grpo_wizard.steps.emulator.drills.catalog import unknown
from grpo_wizard.steps.emulator.google.container.kubernetes_backend import revive
from grpo_wizard.steps.emulator.google.shared.seed import CALLER, seed
from grpo_wizard.steps.emulator.process import Address, RehearsalError, folder, normal_speed
from grpo_wizard.steps.emulator.ray.heads import RayHeads
from grpo_wizard.steps.emulator.server.app import Application, kube_urls
from grpo_wizard.steps.emulator.server.context import KUBES, Heads, House, set_house
from grpo_wizard.steps.emulator.server.dispatch import Dispatcher
from grpo_wizard.steps.emulator.server.proxy import Front
from grpo_wizard.steps.emulator.server.recorder import Recorder, Wire, read_faults
from grpo_wizard.steps.emulator.server.tls import Authority, write_private
from grpo_wizard.steps.emulator.store.gc_tuning import Sweeps
from grpo_wizard.steps.emulator.store.world import FastClock, Store

_log = logging.getLogger(__name__)
_LOOK_S = 1.0  # how often it is looked whether the server is idle


@dataclass(frozen=True)
class Options:
    """What `rehearsal serve` was asked for. `port` 0: a free one. `idle_minutes` 0: never ends by itself."""

    home: Path
    speed: str = "120"
    port: int = 0
    faults: Path | None = None
    record: Path | None = None
    env_file: Path | None = None
    ray: str = "real"
    idle_minutes: float = 30
    check_answers: bool = False
    drills: tuple[str, ...] = ()


def run(options: Options, out: TextIO) -> None:
    """Serves until stopped, idle for too long, or told by a signal.

    Raises RehearsalError where this home has a server already, OSError naming a file that cannot be written or read.
    """
    for path in (options.env_file, options.record):
        _can_be_written(path)
    root = folder(options.home)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(root):
        asyncio.run(_serve(options, root, out))


def _can_be_written(path: Path | None) -> None:
    """Before anything is started; what only writing shows is raised then."""
    if path is not None and not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {path.parent}", str(path))
    if path is not None and path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))


def _say_ready(options: Options, out: TextIO) -> None:
    """For people: programs read the JSON line, and nothing else."""
    if not out.isatty():
        return
    env = options.env_file
    how = (
        f"`. {shlex.quote(str(env.absolute()))}` in another shell lets"
        if env
        else "with --env-file FILE it writes what lets"
    )
    print(
        f"ready: {how} gcloud, kubectl and grpo-wizard --rehearse use it; Ctrl+C ends it",
        file=sys.stderr,
        flush=True,
    )


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    descriptor = os.open(root / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RehearsalError(
            f"A rehearsal server already runs for {root.parent}: `grpo-wizard rehearsal status` shows it."
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


async def _serve(options: Options, root: Path, out: TextIO) -> None:
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    google.load()
    authority = Authority(root)
    token = _token(root / "token")
    if text := unknown(options.drills):
        raise ValueError(text)
    wire = Wire(Recorder(options.record), read_faults(options.faults))
    speed = normal_speed(options.speed)
    world = Store(root / "world.json", FastClock(float("inf") if speed == "max" else float(speed)))
    heads = RayHeads(root, options.ray == "real", speed=world.clock.speed)
    set_house(
        House(
            root,
            token,
            CALLER,
            authority.file,
            authority.server_context,
            wire.middleware,
            wire.recorder.write,
            heads,
        )
    )
    if not world.load():
        seed(world)
    manager.restore(world)
    manager.begin(world, options.drills)
    app = Application(world, wire, Dispatcher(world, CALLER, options.check_answers), token, over.set)
    await revive(world)
    sweeps = Sweeps()
    sweeps.begin()
    runner = web.AppRunner(app.web, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        listener = await _listen(runner, app, authority, token, options.port or _last_port(root))
        base_url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        env = environment.of(base_url, root, token, authority.file)
        address = Address(base_url, os.getpid(), str(root / "token"), speed, kube_urls(world), env)
        app.address = address
        write_private(root / "port", str(listener.sockets[0].getsockname()[1]).encode())
        write_private(root / "address.tmp", json.dumps(asdict(address)).encode())
        (root / "address.tmp").replace(root / "address.json")
        if options.env_file:
            write_private(options.env_file, environment.script(env).encode())
        world.changed()
        print(address.line(), file=out, flush=True)
        _say_ready(options, out)
        await _until(over, wire, options.idle_minutes, sweeps)
        listener.close()
    finally:
        sweeps.end()
        await _end(runner, world, heads, root)


def _last_port(root: Path) -> int:
    """The port that this home's server had, so that what was told of it stays good; negative: only if it is free."""
    with contextlib.suppress(OSError, ValueError):
        return -int((root / "port").read_text())
    return 0


async def _listen(
    runner: web.AppRunner, app: Application, authority: Authority, token: str, port: int
) -> asyncio.Server:
    tls = authority.server_context()
    factory = runner.server
    assert factory is not None
    try:
        return await asyncio.get_running_loop().create_server(
            lambda: Front(factory, tls, token, app.trusted), "127.0.0.1", abs(port), backlog=512
        )
    except OSError as error:
        if port < 0:
            return await _listen(runner, app, authority, token, 0)
        raise RehearsalError(
            f"Port {port} of 127.0.0.1 cannot be used ({error.strerror}): take another with --port, or "
            "none for a free one."
        ) from None


async def _until(over: asyncio.Event, wire: Wire, idle_minutes: float, sweeps: Sweeps) -> None:
    while not over.is_set():
        if idle_minutes and wire.idle() > idle_minutes * 60:
            _log.warning("no request for %g minutes: ending", idle_minutes)
            return
        sweeps.look(wire.idle())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), _LOOK_S)


async def _end(runner: web.AppRunner, world: Store, heads: Heads, root: Path) -> None:
    """Everything that was started here ends; the world is saved first, with its clusters as they are."""
    world.save()
    for kube in list(KUBES.values()):
        with contextlib.suppress(Exception):
            await kube.stop()
    await heads.close()
    await runner.cleanup()
    (root / "address.json").unlink(missing_ok=True)


def _token(path: Path) -> str:
    """The home's token, made at the first start and kept.

    Environments and kubeconfigs written earlier stay good.
    """
    if not path.exists() or not path.read_text().strip():
        write_private(path, secrets.token_urlsafe(32).encode())
    path.chmod(0o600)
    return path.read_text().strip()
