"""What destroy deletes, what it keeps, and who may hold it up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from decision_samples import ID, LATER_ID, OURS, THEIRS, Record, a_record, a_resource, a_session, observed
from http_responder import Responder, error, http_responder
from sample_answers import answers

from grpo_wizard.steps.clients.driver import ResourceContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.google.gke import ClusterDriver
from grpo_wizard.steps.core.events import Event
from grpo_wizard.steps.core.model import ABSENT
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.engine.delete import _blocked_by_foreign, delete_resource, planned_deletion


@dataclass(frozen=True)
class Case:
    """The defaults are a ready resource without label and record."""

    rule: str
    planned: str
    state: str = "ready"
    label: str = ""
    record: Record | None = None
    found_id: str = ID
    retain: bool = False
    data_source: bool = False
    operation: str = ""
    request_id: str = ""


CASES = [
    Case("our label: delete", "delete", label=OURS),
    Case("our recorded create, same identity: delete", "delete", record="created"),
    Case("our label, still being created: delete", "delete", "creating", OURS),
    Case("our label, failed: delete", "delete", "failed", OURS),
    Case("our label, being deleted: delete, and wait for its end", "delete", "deleting", OURS),
    Case("no label, no record: keep", "keep"),
    Case("another deployment's label: keep", "keep", label=THEIRS),
    Case("another deployment's label, in an error: keep", "keep", "failed", THEIRS),
    Case("a namesake created later: keep, though we have a record", "keep", record="created", found_id=LATER_ID),
    Case("adopted: keep", "keep", record="adopted"),
    Case("an intent is no proof: keep", "keep", record="intended"),
    Case("an API or a role: keep", "keep", label=OURS, record="created", retain=True),
    Case("named by the user as existing: keep, even with our label", "keep", label=OURS, record="created", data_source=True),
    Case("gone: nothing to do", "gone", "absent", record="created"),
    Case("never created: nothing to do", "gone", "absent"),
    Case("gone, kept by design: nothing to do", "gone", "absent", retain=True),
    Case("not seen yet, but its create was sent (operation): delete", "delete", "absent", record="intended", operation="operation-1"),
    Case("not seen yet, but its create was sent (request id): delete", "delete", "absent", record="intended", request_id="r-1"),
    Case("not seen, its create was never sent: nothing to do", "gone", "absent", record="intended"),
    Case("gone, though its old operation is on record: nothing to do", "gone", "absent", record="created", operation="operation-1"),
]  # fmt: skip


def _resource(case: Case) -> Any:
    return a_resource(retain_on_destroy=case.retain, data_source=case.data_source)


def _session(home: Path, case: Case) -> Session:
    record = (
        a_record(case.record, identity=ID, operation=case.operation, request_id=case.request_id)
        if case.record
        else None
    )
    return a_session(home, answers(), "http://127.0.0.1:9", *([record] if record else []))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_what_destroy_does_with_a_resource(tmp_path: Path, case: Case) -> None:
    seen = observed(case.state, case.label, case.found_id)
    assert planned_deletion(_session(tmp_path, case), _resource(case), seen) == case.planned


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.planned != "delete"], ids=lambda case: case.rule
)
def test_what_stays_is_named_and_what_is_gone_is_forgotten(tmp_path: Path, case: Case) -> None:
    """Without a request to the cloud: the address in this session refuses every connection."""
    session, events = _session(tmp_path, case), list[Event]()
    before = dict(session.deployment.resources)
    done = asyncio.run(
        delete_resource(
            session, _resource(case), observed(case.state, case.label, case.found_id), events.append
        )
    )
    if case.planned == "gone":
        assert done == "gone" and not session.deployment.resources and not events
    else:
        assert done == "kept" and session.deployment.resources == before
        assert [event.event for event in events] == ["notice"] and "subnet nemo" in events[0].data["detail"]


def test_what_is_ours_is_deleted_and_forgotten_once_the_cloud_no_longer_shows_it(tmp_path: Path) -> None:
    """Through Google's own client: delete, wait for the operation, read again."""
    subnet = a_resource(parent={"project": "my-project", "region": "us-central1"})
    path = "/projects/my-project/regions/us-central1"
    live = {"name": "nemo", "id": ID, "description": f"grpo-wizard {OURS}"}
    responses = {
        f"GET {path}/subnetworks/nemo": [(200, live), error(404, "not found", "notFound")],
        f"DELETE {path}/subnetworks/nemo": (200, {"name": "operation-1"}),
        f"GET {path}/operations/operation-1": [(200, {"status": "RUNNING"}), (200, {"status": "DONE"})],
    }
    events = list[Event]()
    with http_responder(responses) as cloud:
        session = a_session(tmp_path, answers(), cloud.url, a_record("created", identity=ID))
        session.deployment.resources["other"] = a_record("created")
        done = asyncio.run(delete_resource(session, subnet, observed(label=OURS), events.append))
    assert done == "deleted" and list(session.deployment.resources) == ["other"]
    assert session.store.load("nemo").resources.keys() == {"other"}
    assert [line.partition(" ")[0] for line in cloud.writes] == ["DELETE"] and len(cloud.requests) == 5
    assert [(event.event, event.id) for event in events] == [
        ("resource_started", subnet.id),
        ("resource_done", subnet.id),
    ]
    assert [event.data["action"] for event in events] == ["delete", "delete"]
    assert "subnet nemo" in events[0].data["title"] and 0 <= events[1].data["seconds"] < 60


@pytest.mark.parametrize("flags", [{}, {"retain_on_destroy": True}, {"data_source": True}])
def test_what_stays_is_named_by_kind_and_with_its_reason(tmp_path: Path, flags: dict[str, bool]) -> None:
    pool, events = a_resource("node_pool", note="it is shared", **flags), list[Event]()
    asyncio.run(delete_resource(a_session(tmp_path, answers()), pool, observed(label=THEIRS), events.append))
    [notice] = events
    assert notice.id == pool.id and "node pool nemo" in notice.data["detail"]
    assert ("it is shared" in notice.data["detail"]) == bool(flags)


def _error(kind: str, detail: str) -> CloudError:
    return CloudError(kind, "still used", detail, transient=True)


@pytest.mark.parametrize(
    "error,foreign",
    [
        (_error("in_use", "used by projects/p/global/firewalls/allow-ssh"), True),
        (_error("in_use", "used by projects/p/regions/r/subnetworks/theirs"), True),
        (_error("in_use", "used by projects/p/global/firewalls/gke-nemo-abcd1234-all"), False),
        (_error("in_use", "used by projects/p/global/firewalls/k8s-fw-1"), False),
        (_error("in_use", "used by projects/p/zones/z/instances/node-1"), False),
        (_error("busy", "used by projects/p/global/firewalls/allow-ssh"), False),
    ],
)
def test_only_what_never_goes_by_itself_ends_the_wait_for_a_network(error: CloudError, foreign: bool) -> None:
    assert _blocked_by_foreign(error) == foreign


CLUSTER = "/v1/projects/my-project/locations/us-central1/clusters/nemo"


def _pool(name: str, label: str = "") -> dict[str, Any]:
    return {"name": name, "config": {"resourceLabels": {"grpo-wizard": label} if label else {}}}


def _delete_cluster(home: Path, *pools: dict[str, Any]) -> tuple[Responder, CloudError | None]:
    """Deletes a cluster with these node pools through Google's own client; what it sent, and what stopped it."""
    cluster = a_resource(
        "cluster", step="cluster", parent={"project": "my-project", "location": "us-central1"}
    )
    context = ResourceContext(cluster, {"nodePools": [{"name": "cpu-pool"}]}, OURS, OURS)
    responses = {
        f"GET {CLUSTER}": (200, {"name": "nemo", "status": "RUNNING", "nodePools": list(pools)}),
        f"DELETE {CLUSTER}": (200, {"name": "operation-1"}),
    }
    with http_responder(responses) as server:
        cloud = a_session(home, answers(), server.url).cloud
        try:
            assert ClusterDriver().delete(cloud, context, ABSENT) == "operation-1"
        except CloudError as error:
            return server, error
    return server, None


@pytest.mark.parametrize(
    "pool,deleted",
    [
        (_pool("default-pool"), True),
        (_pool("cpu-pool"), True),
        (_pool("gpu-pool", OURS), True),
        (_pool("theirs", THEIRS), False),
        (_pool("somebodys"), False),
    ],
    ids=["default", "created with the cluster", "our label", "another deployment's", "without a label"],
)
def test_a_cluster_is_deleted_only_when_no_node_pool_of_others_would_go_with_it(
    tmp_path: Path, pool: dict[str, Any], deleted: bool
) -> None:
    server, stopped = _delete_cluster(tmp_path, _pool("default-pool"), pool)
    assert (len(server.writes) == 1) == deleted == (stopped is None)
    if stopped:
        assert stopped.kind == "conflict" and not stopped.transient and pool["name"] in stopped.detail
        assert "cluster nemo" in stopped.title.lower() and "destroy" in stopped.fix


def test_all_node_pools_of_others_are_named(tmp_path: Path) -> None:
    _, stopped = _delete_cluster(tmp_path, _pool("one"), _pool("cpu-pool"), _pool("two", THEIRS))
    assert stopped and "one, two" in stopped.detail and "cpu-pool" not in stopped.detail
