"""When what exists counts as what is configured: numbers, texts, links, lists, unset values, versions, owner labels."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_wizard.steps.clients.serialization import diff, owner_of, to_json, to_proto, with_owner

URL = "https://www.googleapis.com/compute/v1/projects/p/global/networks/nemo"


@pytest.mark.parametrize(
    "desired,actual,same",
    [
        ("RUNNING", "RUNNING", True),
        ("RUNNING", "ERROR", False),
        (8, "8", True),
        (8, 9, False),
        (True, "true", True),
        (True, False, False),
        (True, None, False),
        (False, None, True),
        (0, None, True),
        ("", False, True),
        (False, "", True),
        (False, 0, True),
        (0, "false", True),
        ("", None, True),
        (None, "", True),
        (None, "set", False),
        ("0", False, True),
        (1, None, False),
        ("projects/p/global/networks/nemo", URL, True),
        (URL, "projects/p/global/networks/nemo", True),
        (URL, URL.replace("www.googleapis.com", "compute.googleapis.com"), True),
        (URL.replace("v1", "beta"), URL, True),
        ("nemo", URL, True),
        (URL, "nemo", True),
        ("other", URL, False),
        ("projects/p/global/networks/nemo", "projects/q/global/networks/nemo", False),
        ("projects/p/regions/us/subnetworks/a", "projects/p/regions/eu/subnetworks/a", False),
        ("10.0.0.0/24", "10.0.1.0/24", False),
    ],
)  # fmt: skip
def test_when_two_values_are_the_same(desired: Any, actual: Any, same: bool) -> None:
    assert (list(diff({"at": desired}, {"at": actual})) == []) == same


@pytest.mark.parametrize(
    "desired,actual,paths",
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": 1, "b": {"c": 2}}, {"a": 2, "b": {"c": 3}}, ["a", "b.c"]),
        ({"a": {"b": 1}}, {}, ["a.b"]),
        ({"a": {"b": 1}}, {"a": "text"}, ["a.b"]),
        ({"a": {}}, {}, []),
        ({"X": {"X": 1}}, {}, ["X.X"]),
        ({"a": ["x", "y"]}, {"a": ["y", "x"]}, []),
        ({"a": ["x"]}, {"a": ["x", "y"]}, ["a"]),
        ({"a": ["x", "x"]}, {"a": ["x"]}, ["a"]),
        ({"a": ["x"]}, {"a": "x"}, ["a"]),
        ({"a": []}, {"a": None}, []),
        ({"a": []}, {"a": ["x"]}, ["a"]),
        ({"a": [{"name": "one", "n": 1}]}, {"a": [{"name": "two", "n": 2}, {"name": "one", "n": 1}]}, []),
        ({"a": [{"name": "one", "n": 1}]}, {"a": [{"name": "one", "n": 2}]}, ["a.one.n"]),
        ({"a": [{"name": "one", "n": 1}]}, {"a": []}, ["a.one.name", "a.one.n"]),
        ({"a": [{"name": "one"}]}, {"a": ["text", {"name": "one"}]}, []),
        ({"a": [{"n": 1}, {"n": 2}]}, {"a": [{"n": 1}, {"n": 3}]}, ["a.1.n"]),
        ({"a": [{"n": 1}]}, {"a": [{"n": 1}, {"n": 2}]}, ["a"]),
        ({"a": [["x"], ["y"]]}, {"a": [["x"], ["z"]]}, ["a.1"]),
        ({"a": [{"name": "one"}, {"n": 1}]}, {"a": [{"name": "one"}, {"n": 1}]}, []),
    ],
)
def test_only_what_is_configured_is_compared_and_each_difference_has_its_path(
    desired: Any, actual: Any, paths: list[str]
) -> None:
    assert [drift.path for drift in diff(desired, actual)] == paths


def test_a_difference_holds_both_values_and_a_list_of_another_length_its_numbers() -> None:
    [drift] = diff({"a": {"b": 1}}, {"a": {"b": 2}})
    assert (drift.desired, drift.actual) == (1, 2)
    [lists] = diff({"a": ["x"]}, {"a": ["y"]})
    assert (lists.desired, lists.actual) == (["x"], ["y"])
    [length] = diff({"a": [{"n": 1}]}, {"a": []})
    assert (length.desired, length.actual) == ("1 items", "0 items")


@pytest.mark.parametrize(
    "desired,actual,same",
    [
        ("1.35", "1.35.2-gke.100", True),
        ("1.35.2-gke.100", "1.35.2-gke.100", True),
        ("1.3", "1.35.2-gke.100", False),
        ("1.34", "1.35.2-gke.100", False),
    ],
)
def test_a_cluster_version_asks_for_the_newest_patch_of_it(desired: str, actual: str, same: bool) -> None:
    assert (list(diff({"initialClusterVersion": desired}, {"initialClusterVersion": actual})) == []) == same
    assert list(diff({"other": "1.35"}, {"other": "1.35.2-gke.100"}))


@pytest.mark.parametrize(
    "body,paths,owner",
    [
        ({"labels": {"grpo-wizard": "gours"}}, ("labels",), "gours"),
        ({"labels": {"other": "gours"}}, ("labels",), ""),
        ({"config": {"resourceLabels": {"grpo-wizard": "gours"}}}, ("config.resourceLabels",), "gours"),
        ({"config": "text"}, ("config.resourceLabels",), ""),
        ({"description": "grpo-wizard gours"}, ("description",), "gours"),
        ({"description": "made by grpo-wizard gours"}, ("description",), ""),
        ({"description": "grpo-wizards"}, ("description",), ""),
        ({"labels": "grpo-wizard gours"}, ("labels",), ""),
        ({"description": "text", "labels": {"grpo-wizard": "gours"}}, ("description", "labels"), "gours"),
        (
            {"description": "grpo-wizard gfirst", "labels": {"grpo-wizard": "gsecond"}},
            ("description", "labels"),
            "gfirst",
        ),
        ({"labels": {"grpo-wizard": ""}}, ("labels",), ""),
        ({}, ("description", "labels"), ""),
    ],
)
def test_where_the_owner_of_a_resource_is_read(body: Any, paths: tuple[str, ...], owner: str) -> None:
    assert owner_of(body, *paths) == owner


@pytest.mark.parametrize("path", ["description", "labels", "config.resourceLabels"])
def test_the_owner_label_is_read_where_it_was_written_and_the_original_is_untouched(path: str) -> None:
    body = {"name": "nemo", "config": {"diskSizeGb": 100}}
    labelled = with_owner(body, "gours12345", path)
    assert owner_of(labelled, path) == "gours12345" and body == {
        "name": "nemo",
        "config": {"diskSizeGb": 100},
    }
    assert labelled["name"] == "nemo" and labelled["config"]["diskSizeGb"] == 100
    assert with_owner(body, "", path) == body


def test_a_spec_with_an_unknown_field_is_never_sent_in_part() -> None:
    from google.cloud.compute_v1 import Network

    sent = to_proto(Network, {"name": "nemo", "autoCreateSubnetworks": False, "mtu": 8896})
    assert to_json(sent) == {"name": "nemo", "autoCreateSubnetworks": False, "mtu": 8896}
    with pytest.raises(Exception, match="no field named"):
        to_proto(Network, {"name": "nemo", "jumbo": True})


def test_enums_are_written_by_name() -> None:
    from google.cloud.container_v1 import NodePool

    assert to_json(NodePool(status=NodePool.Status.RUNNING)) == {"status": "RUNNING"}
