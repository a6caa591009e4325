"""What hangs on what: the order of creation, and what stays with `destroy --keep`."""

from __future__ import annotations

import pytest
from decision_samples import a_resource
from sample_answers import answers

from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.engine.graph import retained_ids, topological_order
from grpo_wizard.steps.registry import all_resources


def _node(name: str, *depends_on: str, step: str = "networks", **changed: object) -> Resource:
    return a_resource(
        "subnet", name, step, depends_on=tuple(f"networks.subnet.{other}" for other in depends_on), **changed
    )


def test_everything_comes_after_what_it_depends_on() -> None:
    chain = [_node("c", "b", "a"), _node("b", "a"), _node("a"), _node("d", "c")]
    assert [resource.name for resource in topological_order(chain)] == ["a", "b", "c", "d"]


def test_what_depends_on_nothing_keeps_its_order() -> None:
    assert [r.name for r in topological_order([_node("b"), _node("a"), _node("c")])] == ["b", "a", "c"]


def test_a_cycle_is_named() -> None:
    with pytest.raises(ValueError, match=r"networks.subnet.a -> networks.subnet.b -> networks.subnet.a"):
        topological_order([_node("a", "b"), _node("b", "a")])


def test_a_dependency_that_is_not_a_resource_is_named() -> None:
    with pytest.raises(ValueError, match=r"networks.subnet.a .*networks.subnet.gone"):
        topological_order([_node("a", "gone")])


def test_keeping_a_step_keeps_all_that_it_depends_on() -> None:
    resources = [
        _node("net"),
        _node("range", "net"),
        _node("disk", "range", step="lustre"),
        _node("other", "net"),
    ]
    assert retained_ids(resources, ["lustre"]) == {
        "lustre.subnet.disk",
        "networks.subnet.range",
        "networks.subnet.net",
    }
    assert retained_ids(resources, []) == set()


def test_what_lives_in_the_cluster_is_not_kept_with_its_step() -> None:
    resources = [_node("disk", step="lustre"), _node("volume", step="lustre", parent={"cluster": "nemo"})]
    assert retained_ids(resources, ["lustre"]) == {"lustre.subnet.disk"}


def test_a_dependency_outside_the_list_is_ignored_when_keeping() -> None:
    assert retained_ids([_node("disk", "gone", step="lustre")], ["lustre"]) == {"lustre.subnet.disk"}


def test_keep_lustre_of_the_tutorial_keeps_the_instance_and_its_network_and_no_cluster() -> None:
    kept = retained_ids(all_resources(answers()), ["lustre"])
    kinds = {id.split(".")[1] for id in kept}
    assert {"lustre", "network", "address", "peering"} <= kinds
    assert not kinds & {"cluster", "node_pool", "raycluster", "job", "pv", "pvc"}
