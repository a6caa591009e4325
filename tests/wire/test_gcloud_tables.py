"""What a person sees of a deployment in the real gcloud and kubectl: tables, filters, completion, and nothing after destroy.

`pytest -m heavy tests/wire/test_gcloud_tables.py`; a few of the tables are looked at always, in
test_apply_read_by_gcloud.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gcloud_kinds import KINDS
from gcloud_reads import CREDENTIALS, MISSING, Stand, last, not_shown, standing
from gcloud_tables import ASKED, TABLES, TYPED
from road import DESTROY

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed here: {', '.join(MISSING)}"),
]


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """The deployment; every command of the tests below has been run, side by side."""
    with standing(tmp_path_factory.mktemp("tables") / "home") as it:
        it.shell.ask([CREDENTIALS])
        it.shell.ask([*TABLES, *ASKED])
        yield it


@pytest.mark.parametrize("command", TABLES)
def test_a_table_has_every_column_that_google_fills(stand: Stand, command: str) -> None:
    assert not_shown(stand.shell.text(command), TABLES[command]) == []


@pytest.mark.parametrize("command", ASKED)
def test_a_list_is_filtered_ordered_cut_and_flattened_as_asked(stand: Stand, command: str) -> None:
    assert stand.shell.text(command).split("\n")[:-1] == ASKED[command]


@pytest.mark.parametrize("typed", TYPED)
def test_gcloud_completes_names(stand: Stand, tmp_path: Path, typed: str) -> None:
    """As argcomplete asks a command that is being typed: answers come on file descriptor 8."""
    offered = tmp_path / "offered"
    more = {"_ARGCOMPLETE": "1", "COMP_LINE": typed, "COMP_POINT": str(len(typed)), "IFS": "\013"}
    subprocess.run(
        ["bash", "-c", f"gcloud 8>{offered} 9>/dev/null"],
        env={**stand.shell.environment, **more},
        capture_output=True,
        timeout=60,
    )
    rows = [name.replace("\\", "").strip() for name in offered.read_text("utf-8").split("\013")]
    assert rows == TYPED[typed]


def test_after_destroy_the_lists_are_empty_but_for_what_stays_by_design(tmp_path: Path) -> None:
    with standing(tmp_path / "home") as it:
        ended = it.walk.lines(*DESTROY)[-1]
        assert ended["ok"] and ended["deleted"] > 40
        lists = [kind.lists for kind in KINDS if "--cluster=" not in kind.lists]  # no cluster, no pools
        others = ["gcloud compute instances list", "gcloud compute instance-groups managed list"]
        services = "gcloud services list --enabled"
        it.shell.ask(f"{command} --format=json" for command in (*lists, *others, services))
        assert [command for command in (*lists, *others) if it.shell.json(command) != []] == []
        # APIs stay, and GKE's reservation is free again; operations are a record and stay, too.
        assert it.names("api") <= {last(item["name"]) for item in it.shell.json(services)}
        reservation = "gcloud compute reservations describe nemo-res --zone=us-central1-b"
        assert int(it.shell.json(reservation)["specificReservation"]["inUseCount"]) == 0
        gone = {last(o["targetLink"]) for o in it.shell.json("gcloud container operations list")}
        assert "nemo-cluster" in gone
