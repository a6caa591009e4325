"""What apply does with a resource: state, owner label, record, drift and flags decide. One row, one rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from decision_samples import ID, LATER_ID, OURS, THEIRS, Record, a_deployment, a_record, a_resource, observed

from grpo_wizard.steps.core.model import Drift, ObservedState, Resource
from grpo_wizard.steps.engine.plan import Decision, decide, foreign_drift, make_plan, ownership_of


@dataclass(frozen=True)
class Case:
    """The defaults are a ready subnet with an identity, without label, record, drift or flags."""

    rule: str
    action: str
    ownership: str
    state: str = "ready"
    label: str = ""
    record: Record | None = None
    recorded_id: str = ID
    found_id: str = ID
    drift: tuple[str, ...] = ()
    kind: str = "subnet"
    replace: bool = False  # --replace names it
    retain: bool = False  # stays at destroy: an API, a role
    data_source: bool = False  # the user named it as existing
    adopt_paths: tuple[str, ...] | None = None
    note: tuple[str, ...] = ()  # parts of the line that the plan shows

    @property
    def resource(self) -> Resource:
        return a_resource(
            self.kind,
            retain_on_destroy=self.retain,
            data_source=self.data_source,
            adopt_paths=self.adopt_paths,
            note="about it",
        )

    @property
    def observed(self) -> ObservedState:
        detail = "quota is short" if self.state == "failed" else ""
        return observed(self.state, self.label, self.found_id, self.drift, detail)

    def decide(self) -> Decision:
        resource = self.resource
        record = a_record(self.record, resource, identity=self.recorded_id) if self.record else None
        return decide(resource, self.observed, record, OURS, {resource.id} if self.replace else ())


MISSING = [
    Case("nothing exists: create", "create", "none", "absent", note=("about it",)),
    Case("ours was deleted behind our back: create again", "create", "none", "absent", record="created"),
    Case("adopted, and gone since: create", "create", "none", "absent", record="adopted"),
    Case(
        "a create that was cut short and left nothing: create", "create", "none", "absent", record="intended"
    ),
    Case("ours is being deleted: create once it is gone", "create", "created", "deleting", OURS),
    Case(
        "adopted and being deleted: create once it is gone", "create", "adopted", "deleting", record="adopted"
    ),
    Case("a role that is missing: create", "create", "none", "absent", kind="iam_binding", retain=True),
]
OURS_BY_LABEL_OR_RECORD = [
    Case("our label: keep", "keep", "created", label=OURS, note=("about it",)),
    Case("our label without a record (lost state file): keep", "keep", "created", label=OURS, record=None),
    Case(
        "our label though recorded as intended only (killed apply): keep",
        "keep",
        "created",
        label=OURS,
        record="intended",
    ),
    Case(
        "no label, but our recorded create and the same identity: keep", "keep", "created", record="created"
    ),
    Case(
        "no label, our record, the API has no identity: keep",
        "keep",
        "created",
        record="created",
        found_id="",
    ),
    Case(
        "no label, our record from before identities: keep",
        "keep",
        "created",
        record="created",
        recorded_id="",
    ),
    Case("ours and still being created: keep and wait", "keep", "created", "creating", OURS),
    Case(
        "ours, being created, with drift: keep, drift is judged when it is ready",
        "keep",
        "created",
        "creating",
        OURS,
        drift=("mtu",),
    ),
]
OURS_WITH_DRIFT = [
    Case("drift that can be updated: change", "change", "created", label=OURS, kind="node_pool", drift=("autoscaling.maxNodeCount",), note=("autoscaling.maxNodeCount",)),
    Case("drift that cannot be updated, no data in it: replace", "replace", "created", label=OURS, kind="node_pool", drift=("config.machineType",), note=("config.machineType",)),
    Case("one of two differences cannot be updated: replace, which names it", "replace", "created", label=OURS, kind="node_pool", drift=("autoscaling.maxNodeCount", "config.machineType"), note=("config.machineType",)),
    Case("the job runs with other parameters: conflict", "conflict", "created", label=OURS, kind="job", drift=("entrypoint",), note=("grpo-wizard stop",)),
    Case("the Lustre instance grows: change", "change", "created", label=OURS, kind="lustre", drift=("capacityGib",)),
    *(
        Case(f"{kind} with drift that cannot be updated: conflict, never replaced unasked", "conflict", "created", label=OURS, kind=kind, drift=("somewhere",), note=("--replace networks.", "somewhere"))
        for kind in ("cluster", "lustre", "network", "subnet", "address", "peering", "project")
    ),
    *(
        Case(f"{kind} with drift that cannot be updated, --replace names it: replace", "replace", "created", label=OURS, kind=kind, drift=("somewhere",), replace=True)
        for kind in ("cluster", "lustre", "subnet")
    ),
    *(
        Case(f"a {kind.upper()} is updated where that works", "change", "created", label=OURS, kind=kind, drift=("spec.capacity",))
        for kind in ("pv", "pvc")
    ),
    *(
        Case(f"a {kind.upper()} holds data: conflict where it cannot be updated", "conflict", "created", label=OURS, kind=kind, drift=("kind",), note=("--replace",))
        for kind in ("pv", "pvc")
    ),
]  # fmt: skip
OURS_AND_FAILED = [
    Case("our node pool failed: replace", "replace", "created", "failed", OURS, kind="node_pool", note=("quota is short",)),
    Case("our cluster failed: conflict, it may hold work", "conflict", "created", "failed", OURS, kind="cluster", note=("quota is short", "--replace")),
    Case("our cluster failed, --replace names it: replace", "replace", "created", "failed", OURS, kind="cluster", replace=True),
    Case("our Lustre instance failed: conflict", "conflict", "created", "failed", OURS, kind="lustre", note=("--replace",)),
    Case("the job failed: create the next attempt", "create", "created", "failed", OURS, kind="job", note=("quota is short",)),
]  # fmt: skip
FOREIGN = [
    Case("no label, no record: adopt is offered", "adopt", "none"),
    Case("another deployment's label: adopt is offered, its owner named", "adopt", "none", label=THEIRS, note=(THEIRS,)),
    Case("another's label does not count as ours, whatever our record says of an adoption", "keep", "adopted", label=THEIRS, record="adopted"),
    Case("ours was replaced by a namesake: not ours, though we have a record", "adopt", "none", record="created", found_id=LATER_ID),
    Case("a namesake that does not fit: conflict", "conflict", "none", record="created", found_id=LATER_ID, drift=("mtu",)),
    Case("an intent of ours is no proof: adopt is offered", "adopt", "none", record="intended"),
    Case("adopted before: keep", "keep", "adopted", record="adopted"),
    Case("adopted before, and does not fit any more: conflict, never changed", "conflict", "adopted", record="adopted", drift=("mtu",), note=("mtu",)),
    Case("adopted before, --replace does not reach it", "conflict", "adopted", record="adopted", drift=("mtu",), replace=True),
    Case("another's that does not fit: conflict, the difference named", "conflict", "none", drift=("mtu",), note=("mtu",)),
    Case("another's that does not fit, --replace does not reach it", "conflict", "none", label=THEIRS, drift=("mtu",), replace=True, note=(THEIRS,)),
    Case("another's that failed: conflict", "conflict", "none", "failed", note=("in an error state", "quota is short")),
    Case("another's that is being deleted: conflict", "conflict", "none", "deleting", THEIRS, note=(THEIRS, "being deleted")),
    Case("another's that is being created: adopt is offered", "adopt", "none", "creating", THEIRS),
    Case("differs only where it does not matter: adopt is offered", "adopt", "none", drift=("description",), adopt_paths=("network", "ipCidrRange")),
    Case("differs below a path that matters: conflict", "conflict", "none", drift=("network.name",), adopt_paths=("network",)),
    Case("differs in a name that only begins alike: adopt is offered", "adopt", "none", drift=("networkTier",), adopt_paths=("network",)),
    Case("nothing matters: adopt is offered", "adopt", "none", drift=("anything",), adopt_paths=()),
]  # fmt: skip
KEPT_BY_DESIGN = [
    Case("an API that is enabled: keep, whoever enabled it", "keep", "none", kind="api", retain=True, note=("already",)),
    Case("a role that we bound: keep", "keep", "created", kind="iam_binding", retain=True, record="created", note=("about it",)),
    Case("kept by design but not ready, and not ours: adopt is offered", "adopt", "none", "creating", kind="project", retain=True),
]  # fmt: skip
NAMED_BY_THE_USER = [
    Case("named as existing, ready and fitting: keep", "keep", "none", data_source=True),
    Case("named as existing and differs where it does not matter: keep", "keep", "none", data_source=True, drift=("mtu",), adopt_paths=("network",)),
    Case("named as existing and does not fit: conflict", "conflict", "none", data_source=True, drift=("mtu",), note=("mtu",)),
    Case("named as existing and does not fit: --replace does not reach it", "conflict", "none", data_source=True, drift=("mtu",), replace=True),
    Case("named as existing and missing: conflict, never created", "conflict", "none", "absent", data_source=True),
    Case("named as existing and failed: conflict", "conflict", "none", "failed", data_source=True, note=("in an error state", "quota is short")),
    Case("named as existing and being created: conflict", "conflict", "none", "creating", data_source=True, note=("being created",)),
    Case("named as existing, with our label: used, never changed", "conflict", "created", label=OURS, data_source=True, drift=("mtu",)),
]  # fmt: skip
CASES = [
    *MISSING,
    *OURS_BY_LABEL_OR_RECORD,
    *OURS_WITH_DRIFT,
    *OURS_AND_FAILED,
    *FOREIGN,
    *KEPT_BY_DESIGN,
    *NAMED_BY_THE_USER,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_what_apply_does_with_a_resource(case: Case) -> None:
    decision = case.decide()
    assert (decision.action, decision.ownership) == (case.action, case.ownership)
    assert (decision.resource, decision.observed) == (case.resource, case.observed)
    assert decision.note and "absent" not in decision.note, "a note explains; `absent` is a word of the code"
    assert [part for part in case.note if part not in decision.note] == [], decision.note


def test_the_note_names_three_differences_at_most() -> None:
    paths = ("a1", "b2", "c3", "d4")
    for resource, label in (
        (a_resource(), ""),
        (a_resource(data_source=True), ""),
        (a_resource("cluster"), OURS),
        (a_resource("lustre", spec={}), OURS),
    ):
        note = decide(resource, observed(label=label, drift=paths), None, OURS).note
        assert [path for path in paths if path in note] == ["a1", "b2", "c3"], note
    changes = decide(
        a_resource("pvc"), observed(label=OURS, drift=tuple(f"spec.{path}" for path in paths)), None, OURS
    )
    assert changes.action == "change" and "spec.c3" in changes.note and "spec.d4" not in changes.note


def test_a_failed_resource_without_a_reason_leaves_no_loose_end() -> None:
    for resource, label in (
        (a_resource(), ""),
        (a_resource(data_source=True), ""),
        (a_resource("cluster"), OURS),
    ):
        decision = decide(resource, observed("failed", label), None, OURS)
        assert decision.action == "conflict" and ": ;" not in decision.note
        assert not decision.note.endswith((":", ": ")), decision.note


@pytest.mark.parametrize(
    "state,label,origin,recorded_id,found_id,expected",
    [
        ("absent", OURS, "created", ID, ID, "none"),
        ("ready", OURS, None, ID, ID, "created"),
        ("failed", OURS, None, ID, ID, "created"),
        ("ready", THEIRS, None, ID, ID, "none"),
        ("ready", THEIRS, "intended", ID, ID, "none"),
        ("ready", "", None, ID, ID, "none"),
        ("ready", "", "intended", ID, ID, "none"),
        ("ready", "", "created", ID, ID, "created"),
        ("ready", "", "created", ID, LATER_ID, "none"),
        ("ready", "", "created", "", LATER_ID, "created"),
        ("ready", "", "created", ID, "", "created"),
        ("ready", "", "adopted", ID, LATER_ID, "adopted"),
        ("ready", OURS, "adopted", ID, ID, "created"),
    ],
)  # fmt: skip
def test_whose_a_resource_is(
    state: str, label: str, origin: Record | None, recorded_id: str, found_id: str, expected: str
) -> None:
    record = a_record(origin, identity=recorded_id) if origin else None
    assert ownership_of(observed(state, label, found_id), record, OURS) == expected


@pytest.mark.parametrize(
    "adopt_paths,matters",
    [
        (None, ["network", "network.name", "networkTier", "mtu"]),
        (("network",), ["network", "network.name"]),
        (("mtu", "networkTier"), ["networkTier", "mtu"]),
        ((), []),
    ],
)
def test_what_matters_of_somebody_elses_resource(
    adopt_paths: tuple[str, ...] | None, matters: list[str]
) -> None:
    seen = observed(drift=("network", "network.name", "networkTier", "mtu"))
    assert [drift.path for drift in foreign_drift(a_resource(adopt_paths=adopt_paths), seen)] == matters


def _actions(
    resources: list[Resource],
    seen: dict[str, ObservedState],
    orphans: list[Resource] | None = None,
    **records: Any,
) -> dict[str, str]:
    plan = make_plan(resources, orphans or [], seen, a_deployment(**records))
    return {decision.resource.id: decision.action for decision in plan}


def test_a_resource_that_was_not_observed_is_missing() -> None:
    assert _actions([a_resource()], {}) == {"networks.subnet.nemo": "create"}


def test_the_plan_uses_the_records_of_the_state_file() -> None:
    record = a_record("created", identity=ID)
    assert _actions([a_resource()], {"networks.subnet.nemo": observed()}, subnet=record) == {
        "networks.subnet.nemo": "keep"
    }
    assert _actions([a_resource()], {"networks.subnet.nemo": observed()}) == {"networks.subnet.nemo": "adopt"}


def test_the_plan_replaces_only_what_replace_names() -> None:
    resources = [a_resource("cluster", name) for name in ("one", "two")]
    seen = {resource.id: observed(label=OURS, drift=("somewhere",)) for resource in resources}
    plan = make_plan(resources, [], seen, a_deployment(), {"networks.cluster.two"})
    assert [decision.action for decision in plan] == ["conflict", "replace"]


@pytest.mark.parametrize(
    "seen,record,retain,planned",
    [
        (observed(label=OURS), None, False, True),
        (observed(), a_record("created", identity=ID), False, True),
        (observed(identity=LATER_ID), a_record("created", identity=ID), False, False),
        (observed(label=THEIRS), a_record("intended"), False, False),
        (observed(), a_record("adopted"), False, False),
        (observed(label=OURS), None, True, False),
        (observed("absent"), a_record("created"), False, False),
        (None, a_record("created"), False, False),
    ],
    ids=["our label", "our record", "a namesake", "another's", "adopted", "kept by design", "gone", "not observed"],
)  # fmt: skip
def test_apply_deletes_what_is_ours_and_no_longer_configured(
    seen: ObservedState | None, record: Any, retain: bool, planned: bool
) -> None:
    orphan = a_resource(retain_on_destroy=retain)
    found = _actions([], {orphan.id: seen} if seen else {}, [orphan], **({"it": record} if record else {}))
    assert found == ({orphan.id: "delete"} if planned else {})


def test_a_deletion_carries_what_was_observed_and_why() -> None:
    orphan, seen = a_resource(note="about it"), observed(label=OURS)
    assert make_plan([], [orphan], {orphan.id: seen}, a_deployment()) == [
        Decision(orphan, "delete", seen, "created", "about it")
    ]


def test_the_note_names_another_owner_only_where_there_is_one() -> None:
    notes = {label: decide(a_resource(), observed(label=label), None, OURS).note for label in ("", THEIRS)}
    assert THEIRS in notes[THEIRS] and "another deployment" not in notes[""] and "()" not in notes[""]
    adopted = decide(a_resource(), observed(), a_record("adopted"), OURS).note
    assert adopted.lower() == adopted.lower().strip() and adopted not in ("", *notes.values())


def test_apis_are_enabled_only_for_what_will_be_created() -> None:
    api, subnet = a_resource("api", "compute.googleapis.com", "project", retain_on_destroy=True), a_resource()
    for state, label, enabled in (
        ("absent", "", "create"),
        ("ready", OURS, "keep"),
        ("ready", THEIRS, "keep"),
    ):
        seen = {api.id: observed("absent"), subnet.id: observed(state, label)}
        assert _actions([api, subnet], seen)[api.id] == enabled, state
    drifted = {api.id: observed("absent"), subnet.id: observed(label=OURS, drift=("mtu",))}
    assert _actions([api, subnet], drifted)[api.id] == "keep", "a conflict creates nothing"
    assert _actions([api], {api.id: observed("absent")}) == {api.id: "create"}, "APIs alone are enabled"


def test_the_api_is_enabled_for_a_change_and_for_a_replacement() -> None:
    api, pool = a_resource("api", "container.googleapis.com", "project"), a_resource("node_pool")
    for path, action in (("autoscaling.maxNodeCount", "change"), ("config.machineType", "replace")):
        seen = {api.id: observed("absent"), pool.id: observed(label=OURS, drift=(path,))}
        assert _actions([api, pool], seen) == {api.id: "create", pool.id: action}


def test_only_an_api_that_is_off_is_left_off() -> None:
    api = a_resource("api", "compute.googleapis.com", "project", retain_on_destroy=True)
    plan = make_plan(
        [api, a_resource()], [], {api.id: observed(), a_resource().id: observed(label=OURS)}, a_deployment()
    )
    assert [(d.action, d.observed.state) for d in plan] == [("keep", "ready"), ("keep", "ready")]
    off = make_plan([api, a_resource()], [], {a_resource().id: observed(label=OURS)}, a_deployment())
    assert off[0].action == "keep" and off[0].note and off[0].note != plan[0].note


def test_a_difference_reads_as_a_line() -> None:
    assert str(Drift("mtu", 8896, 1460)) == "mtu is 1460, expected 8896"


def test_a_resource_that_is_still_being_created_is_said_to_be() -> None:
    resource = a_resource(note="about it")
    notes = [decide(resource, observed(state, OURS), None, OURS).note for state in ("creating", "ready")]
    assert notes[0] != notes[1] == "about it"
