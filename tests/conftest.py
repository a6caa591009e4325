"""What all tests share: a rehearsal server of their own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from emulator_server import EmulatorServer, start_emulator, stop_emulator

from grpo_wizard.steps.emulator import process

if TYPE_CHECKING:
    from cli_harness import DeploymentRecord

# A background job and some CI runners start pytest with SIGINT ignored, and every child would inherit that: the
# commands under test are interrupted as in a terminal. (A handler becomes the default disposition at exec.)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The longest first: with two workers, one of them would else wait at the end for a single file.
_SLOW_MODULES = (
    "test_emulator_gcloud_commands", "test_gcloud_reads_applied_resources", "test_job_lifecycle", "test_ray_head_jobs", "test_screens_lifecycle", "test_log_follower", "test_ray_head_process",
    "test_worker_release", "test_foreign_resources", "test_screens_step_answers", "test_permanent_errors", "test_transient_errors",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders files, never the tests within one."""
    rank = {name: number for number, name in enumerate(_SLOW_MODULES)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


@pytest.fixture(autouse=True)
def _no_inherited_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own rehearsal, or home, is not what tests run on."""
    for name in (process.URL_ENV, process.TOKEN_ENV, process.TOKEN_FILE_ENV, "GRPO_WIZARD_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def rehearsal(tmp_path: Path) -> Iterator[EmulatorServer]:
    """A fresh world at speed max, with no Ray."""
    server = start_emulator(tmp_path / "home", ray="none")
    yield server
    stop_emulator(server)


@pytest.fixture(scope="module")
def shared_rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    """One world at speed max for all tests of a module, with no Ray.

    For tests that look more than they change.
    """
    server = start_emulator(tmp_path_factory.mktemp("rehearsal") / "home", ray="none")
    yield server
    stop_emulator(server)


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> DeploymentRecord:
    """The tutorial's deployment up to the RayCluster, made once; tests work on copies of it."""
    from cli_harness import deploy

    return deploy(tmp_path_factory.mktemp("deployed") / "home")
