"""One registration serves every consumer: drivers, plan, state, export and the Run screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from decision_samples import a_session
from sample_answers import answers

from grpo_wizard.steps.clients.driver import Driver
from grpo_wizard.steps.clients.kubernetes.objects import collection_path
from grpo_wizard.steps.clients.registry import FREE_KINDS, KINDS, PROTECTED_KINDS, driver_for
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.deployment.session import resource_from_record
from grpo_wizard.steps.export.script import render_script, section_of
from grpo_wizard.steps.registry import all_resources
from grpo_wizard.tui.viewmodels.lanes import lane_groups, lane_key

# Together these answers want every kind of resource that the wizard knows.
VARIANTS = (
    answers(),
    answers(
        project__create_project=True,
        project__billing_account="012345-678901-ABCDEF",
        project__grant_roles=True,
        raycluster__namespace="training",
    ),
)
RESOURCES = {r.id: r for variant in VARIANTS for r in all_resources(variant)}.values()


def test_the_registered_kinds_are_those_that_the_steps_use() -> None:
    assert {r.kind for r in RESOURCES} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_driver_that_reads_and_creates_and_deletes_what_is_not_retained(kind: str) -> None:
    driver = driver_for(kind)
    retained = all(r.retain_on_destroy for r in RESOURCES if r.kind == kind)
    for method in ("read", "create") if retained else ("read", "create", "delete"):
        assert getattr(type(driver), method) is not getattr(Driver, method)
    assert driver_for(kind) is driver


def test_an_unregistered_kind_has_no_driver() -> None:
    with pytest.raises(KeyError):
        driver_for("bucket")


@pytest.mark.parametrize("kind", [kind for kind, info in KINDS.items() if info.object_kind])
def test_a_kubernetes_kind_is_the_one_of_its_manifests(kind: str) -> None:
    for resource in (r for r in RESOURCES if r.kind == kind):
        assert resource.spec["kind"] == KINDS[kind].object_kind
        assert collection_path(resource.spec).endswith(f"/{KINDS[kind].plural}")


def test_only_kubernetes_kinds_have_manifests() -> None:
    assert {r.kind for r in RESOURCES if "apiVersion" in r.spec} == {
        k for k, i in KINDS.items() if i.object_kind
    }


def test_free_kinds_cost_nothing_and_what_holds_data_is_protected() -> None:
    assert all(r.usd_per_hour == 0 for r in RESOURCES if r.kind in FREE_KINDS)
    assert {"lustre", "pv", "pvc", "cluster", "network"} <= PROTECTED_KINDS
    assert not PROTECTED_KINDS & {"job", "raycluster", "node_pool", "secret"}


def test_the_state_keeps_what_a_later_delete_needs(tmp_path: Path) -> None:
    session = a_session(tmp_path, answers())
    for resource in RESOURCES:
        rebuilt = resource_from_record(session.record(resource))
        assert (rebuilt.id, dict(rebuilt.parent), rebuilt.depends_on) == (
            resource.id,
            dict(resource.parent),
            resource.depends_on,
        )
        for key in KINDS[resource.kind].recorded_keys:
            assert rebuilt.spec[key] == resource.spec[key]
        if KINDS[resource.kind].object_kind:
            assert collection_path(rebuilt.spec) == collection_path(resource.spec)


def test_each_kind_has_a_lane_and_its_own_lane_is_one_of_the_run_screens() -> None:
    keys = {group.key for group in lane_groups()}
    assert {lane_key(r.id) for r in RESOURCES} == keys
    assert {info.lane for info in KINDS.values()} - {""} <= keys


def test_each_resource_is_in_the_exported_script() -> None:
    for variant in VARIANTS:
        script = render_script(variant, "nemo", "g1")
        for resource in all_resources(variant):
            assert _exported_name(resource) in script, resource.id
            assert 0 <= section_of(resource) < 9


def _exported_name(resource: Resource) -> str:
    if resource.kind == "iam_binding":
        return str(resource.spec["role"])
    return str(resource.spec["metadata"]["name"]) if "apiVersion" in resource.spec else resource.name
