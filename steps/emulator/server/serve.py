"""Run the server process: state, TLS, socket, the ready line, shutdown."""

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

from grpo_wizard.steps.emulator import environment
from grpo_wizard.steps.emulator.context import (
    CLUSTERS,
    RayHeadManager,
    ServerContext,
    set_server_context,
)
from grpo_wizard.steps.emulator.drills import manager
from grpo_wizard.steps.emulator.drills.catalog import unknown_drill_error
from grpo_wizard.steps.emulator.google.container.kubernetes_backend import restart_clusters
from grpo_wizard.steps.emulator.google.initial_state import CALLER, create_initial_state
from grpo_wizard.steps.emulator.process import EmulatorError, ServerAddress, normalize_speed, server_folder
from grpo_wizard.steps.emulator.ray.heads import LocalRayHeadManager
from grpo_wizard.steps.emulator.server.app import Application, kube_urls
from grpo_wizard.steps.emulator.server.dispatch import Dispatcher
from grpo_wizard.steps.emulator.server.handlers import load_handlers
from grpo_wizard.steps.emulator.server.proxy import ProxyProtocol
from grpo_wizard.steps.emulator.server.recorder import Recorder, RecorderMiddleware, read_faults
from grpo_wizard.steps.emulator.server.tls import CertificateAuthority, write_private
from grpo_wizard.steps.emulator.store.gc_tuning import GcTuning
from grpo_wizard.steps.emulator.store.persistent_store import PersistentStore, ScaledClock

_log = logging.getLogger(__name__)
_IDLE_CHECK_S = 1.0  # how often the idle time is checked


@dataclass(frozen=True)
class ServerOptions:
    """Options of `rehearsal serve`.

    `port` 0 picks a free port; `idle_minutes` 0 disables the idle timeout.
    """

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


def run_server(options: ServerOptions, out: TextIO) -> None:
    """Serve until stopped, idle for too long, or terminated by a signal.

    Raises EmulatorError if this home already has a server, OSError naming a file that cannot be read or
    written.
    """
    for path in (options.env_file, options.record):
        _require_writable(path)
    root = server_folder(options.home)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _exclusive_lock(root):
        asyncio.run(_serve(options, root, out))


def _require_writable(path: Path | None) -> None:
    """Check a file's folder before anything starts; other errors are raised when the file is written."""
    if path is not None and not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"the folder {path.parent} does not exist", str(path))
    if path is not None and path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))


def _print_ready(options: ServerOptions, out: TextIO) -> None:
    """Print how to use the server, on a terminal only: programs read the JSON line and nothing else."""
    if not out.isatty():
        return
    env = options.env_file
    how = (
        f"run `. {shlex.quote(str(env.absolute()))}` in another shell to use the emulator with"
        if env
        else "restart it with --env-file FILE to use the emulator with"
    )
    print(
        f"Ready: {how} gcloud, kubectl and grpo-wizard --rehearse. Press Ctrl+C to stop it.",
        file=sys.stderr,
        flush=True,
    )


@contextlib.contextmanager
def _exclusive_lock(root: Path) -> Iterator[None]:
    descriptor = os.open(root / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise EmulatorError(
            f"An emulator is already running for {root.parent}. To check it, run `grpo-wizard rehearsal status`."
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


async def _serve(options: ServerOptions, root: Path, out: TextIO) -> None:
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    load_handlers()
    authority = CertificateAuthority(root)
    token = _load_or_create_token(root / "token")
    if text := unknown_drill_error(options.drills):
        raise ValueError(text)
    wire = RecorderMiddleware(Recorder(options.record), read_faults(options.faults))
    speed = normalize_speed(options.speed)
    store = PersistentStore(
        root / "world.json", ScaledClock(float("inf") if speed == "max" else float(speed))
    )
    heads = LocalRayHeadManager(root, options.ray == "real", speed=store.clock.speed)
    set_server_context(
        ServerContext(
            root,
            token,
            CALLER,
            authority.ca_file,
            authority.create_tls_context,
            wire.build,
            wire.recorder.write,
            wire.match_fault,
            heads,
        )
    )
    if not store.load():
        create_initial_state(store)
    manager.restore(store)
    manager.begin(store, options.drills)
    app = Application(store, wire, Dispatcher(store, CALLER, options.check_answers), token, over.set)
    await restart_clusters(store)
    sweeps = GcTuning()
    sweeps.start()
    runner = web.AppRunner(app.web_app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        listener = await _listen(runner, app, authority, token, options.port or _last_port(root))
        base_url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        env = environment.client_environment(base_url, root, token, authority.ca_file)
        address = ServerAddress(base_url, os.getpid(), str(root / "token"), speed, kube_urls(store), env)
        app.address = address
        write_private(root / "port", str(listener.sockets[0].getsockname()[1]).encode())
        write_private(root / "address.tmp", json.dumps(asdict(address)).encode())
        (root / "address.tmp").replace(root / "address.json")
        if options.env_file:
            write_private(options.env_file, environment.export_script(env).encode())
        store.mark_dirty()
        print(address.to_json(), file=out, flush=True)
        _print_ready(options, out)
        await _run_until_stopped(over, wire, options.idle_minutes, sweeps)
        listener.close()
    finally:
        sweeps.stop()
        await _shut_down(runner, store, heads, root)


def _last_port(root: Path) -> int:
    """The port that this home's server had before, negated (= only if it is free), so that addresses given out stay valid."""
    with contextlib.suppress(OSError, ValueError):
        return -int((root / "port").read_text())
    return 0


async def _listen(
    runner: web.AppRunner, app: Application, authority: CertificateAuthority, token: str, port: int
) -> asyncio.Server:
    tls = authority.create_tls_context()
    factory = runner.server
    assert factory is not None
    try:
        return await asyncio.get_running_loop().create_server(
            lambda: ProxyProtocol(factory, tls, token, app.authenticated), "127.0.0.1", abs(port), backlog=512
        )
    except OSError as error:
        if port < 0:
            return await _listen(runner, app, authority, token, 0)
        raise EmulatorError(
            f"Port {port} on 127.0.0.1 cannot be used ({error.strerror}). Choose another with --port, or "
            "omit --port to use a free one."
        ) from None


async def _run_until_stopped(
    stopped: asyncio.Event, wire: RecorderMiddleware, idle_minutes: float, gc_tuning: GcTuning
) -> None:
    while not stopped.is_set():
        if idle_minutes and wire.idle_seconds() > idle_minutes * 60:
            _log.warning("no request for %g minutes: shutting down", idle_minutes)
            return
        gc_tuning.collect_if_idle(wire.idle_seconds())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), _IDLE_CHECK_S)


async def _shut_down(
    runner: web.AppRunner, store: PersistentStore, heads: RayHeadManager, root: Path
) -> None:
    """Save the state, then stop everything that was started here."""
    store.save()
    for kube in list(CLUSTERS.values()):
        with contextlib.suppress(Exception):
            await kube.stop()
    await heads.close()
    await runner.cleanup()
    (root / "address.json").unlink(missing_ok=True)


def _load_or_create_token(path: Path) -> str:
    """Return the home's token; create it at the first start.

    It is kept, so that environments and kubeconfigs written earlier stay valid.
    """
    if not path.exists() or not path.read_text().strip():
        write_private(path, secrets.token_urlsafe(32).encode())
    path.chmod(0o600)
    return path.read_text().strip()
