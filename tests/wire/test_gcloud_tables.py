"""What a person sees of a deployment in the real gcloud and kubectl: tables, filters, completion, and nothing after destroy.

`pytest -m heavy tests/wire/test_gcloud_tables.py`; a few of the tables are looked at always, in
test_gcloud_reads_applied_resources.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import DESTROY
from gcloud_deployment import CREDENTIALS, MISSING, LiveDeployment, live_deployment, missing_rows, short_name
from gcloud_expected_tables import COMPLETIONS, QUERIES, TABLES
from gcloud_resource_kinds import KINDS

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed here: {', '.join(MISSING)}"),
]


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDeployment]:
    """The deployment; every command of the tests below has been run, side by side."""
    with live_deployment(tmp_path_factory.mktemp("tables") / "home") as it:
        it.shell.run_all([CREDENTIALS])
        it.shell.run_all([*TABLES, *QUERIES])
        yield it


@pytest.mark.parametrize("command", TABLES)
def test_a_table_has_every_column_that_google_fills(stand: LiveDeployment, command: str) -> None:
    assert missing_rows(stand.shell.text(command), TABLES[command]) == []


@pytest.mark.parametrize("command", QUERIES)
def test_a_list_is_filtered_ordered_cut_and_flattened_as_asked(stand: LiveDeployment, command: str) -> None:
    assert stand.shell.text(command).split("\n")[:-1] == QUERIES[command]


@pytest.mark.parametrize("typed", COMPLETIONS)
def test_gcloud_completes_names(stand: LiveDeployment, tmp_path: Path, typed: str) -> None:
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
    assert rows == COMPLETIONS[typed]


def test_after_destroy_the_lists_are_empty_but_for_what_stays_by_design(tmp_path: Path) -> None:
    with live_deployment(tmp_path / "home") as it:
        ended = it.harness.events(*DESTROY)[-1]
        assert ended["ok"] and ended["deleted"] > 40
        lists = [
            kind.list_command for kind in KINDS if "--cluster=" not in kind.list_command
        ]  # no cluster, no pools
        others = ["gcloud compute instances list", "gcloud compute instance-groups managed list"]
        services = "gcloud services list --enabled"
        it.shell.run_all(f"{command} --format=json" for command in (*lists, *others, services))
        assert [command for command in (*lists, *others) if it.shell.json(command) != []] == []
        # APIs stay, and GKE's reservation is free again; operations are a record and stay, too.
        assert it.names("api") <= {short_name(item["name"]) for item in it.shell.json(services)}
        reservation = "gcloud compute reservations describe nemo-res --zone=us-central1-b"
        assert int(it.shell.json(reservation)["specificReservation"]["inUseCount"]) == 0
        gone = {short_name(o["targetLink"]) for o in it.shell.json("gcloud container operations list")}
        assert "nemo-cluster" in gone
