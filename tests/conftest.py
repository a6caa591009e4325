"""What all tests share: a rehearsal server of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rehearsing import Rehearsal, start_rehearsal, stop_rehearsal

from grpo_wizard.steps.emulator import process

if TYPE_CHECKING:
    from road import Deployed


# The longest first: with two workers, one of them would else wait at the end for a single file.
_LONG = (
    "test_google_gcloud", "test_apply_read_by_gcloud", "test_job_whole", "test_head_jobs", "test_screens_road", "test_follow_real_head", "test_head_life",
    "test_head_release", "test_road_strangers", "test_screens_answers", "test_road_refusals", "test_road_troubles",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders files, never the tests within one."""
    rank = {name: number for number, name in enumerate(_LONG)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


@pytest.fixture(autouse=True)
def _no_strangers_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own rehearsal, or home, is not what tests run on."""
    for name in (process.URL, process.TOKEN, process.TOKEN_FILE, "GRPO_WIZARD_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def rehearsal(tmp_path: Path) -> Iterator[Rehearsal]:
    """A fresh world at speed max, with no Ray."""
    server = start_rehearsal(tmp_path / "home", ray="none")
    yield server
    stop_rehearsal(server)


@pytest.fixture(scope="module")
def shared_rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """One world at speed max for all tests of a module, with no Ray.

    For tests that look more than they change.
    """
    server = start_rehearsal(tmp_path_factory.mktemp("rehearsal") / "home", ray="none")
    yield server
    stop_rehearsal(server)


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    """The tutorial's deployment up to the RayCluster, made once; tests work on copies of it."""
    from road import deploy

    return deploy(tmp_path_factory.mktemp("deployed") / "home")
