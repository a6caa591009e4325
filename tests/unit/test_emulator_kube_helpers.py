"""The small parts of the rehearsal's Kubernetes: patches, quantities, selectors, schemas, wire tables, the
closed shell."""

from __future__ import annotations

import copy
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.steps.emulator.kube.api import (
    kinds,
    patches,
    protobuf,
    quantities,
    schemas,
    selectors,
    server_side_apply,
    status,
    tables,
)
from grpo_wizard.steps.emulator.kube.node import machines, shell
from grpo_wizard.steps.emulator.kube.node.pod_files import PodFiles
from grpo_wizard.steps.emulator.kube.streams import spdy

settings.register_profile("kube", derandomize=True, max_examples=60, deadline=None)
settings.load_profile("kube")

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("abc", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("xyz", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("xyz", min_size=1, max_size=2), JSON_VALUES, max_size=4)


def _without_nulls(value: Any) -> Any:
    return (
        {k: _without_nulls(v) for k, v in value.items() if v is not None}
        if isinstance(value, dict)
        else value
    )


@given(OBJECTS, OBJECTS)
def test_merge_patch_sets_what_it_names_and_leaves_its_target_alone(target: Any, patch: Any) -> None:
    before = copy.deepcopy(target)
    result = patches.merge(target, patch)
    assert target == before
    assert patches.merge(result, patch) == result, "twice is once"
    for key, value in patch.items():
        assert (
            key not in result
            if value is None
            else (not isinstance(value, dict) and result[key] == value) or isinstance(result[key], dict)
        )
    assert patches.merge({}, _without_nulls(target)) == _without_nulls(target)


@given(st.integers(0, 10**6), st.sampled_from(["", "k", "M", "G", "Ki", "Mi", "Gi", "m"]))
def test_quantities_mean_their_units(number: int, unit: str) -> None:
    factor: dict[str, int | Fraction] = {
        "": 1,
        "k": 10**3,
        "M": 10**6,
        "G": 10**9,
        "Ki": 2**10,
        "Mi": 2**20,
        "Gi": 2**30,
        "m": Fraction(1, 1000),
    }
    assert quantities.parse_quantity(f"{number}{unit}") == number * factor[unit]
    memory = quantities.parse_quantity(f"{number}Mi")
    assert quantities.parse_quantity(quantities.format_memory(memory)) == memory


@pytest.mark.parametrize("text", ["", "Gi", "1GB", "1 Gi", "--1", "1e", "ten"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        quantities.parse_quantity(text)


def test_json_patches_test_before_they_write() -> None:
    target = {"a": [1, 2], "b": {"c/d": 1}}
    done = patches.json_patch(
        target,
        [
            {"op": "add", "path": "/a/-", "value": 3},
            {"op": "remove", "path": "/b/c~1d"},
            {"op": "test", "path": "/a/0", "value": 1},
        ],
    )
    assert done == {"a": [1, 2, 3], "b": {}} and target["a"] == [1, 2]
    for broken in (
        {"op": "test", "path": "/a/0", "value": 9},
        {"op": "remove", "path": "/z"},
        {"op": "replace", "path": "/b/z", "value": 1},
    ):
        with pytest.raises(status.StatusError):
            patches.json_patch(target, [broken])


def test_strategic_merge_goes_by_merge_keys_and_directives() -> None:
    node = schemas.schema_of(kinds.POD)
    live = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}}
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [
                {"name": "a", "image": "2"},
                {"name": "b", "$patch": "delete"},
                {"name": "c", "image": "3"},
            ],
        }
    }
    assert patches.strategic(node, live, patch)["spec"]["containers"] == [
        {"name": "c", "image": "3"},
        {"name": "a", "image": "2"},
    ]


def test_apply_keeps_fields_of_others_and_drops_its_own_when_left_out() -> None:
    node = schemas.schema_of(kinds.POD)

    def pod(*names: str) -> Any:
        return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": n, "image": n} for n in names]}}

    live = {**pod("a", "b"), "metadata": {"name": "p", "managedFields": []}}
    one = server_side_apply.apply(node, live, pod("a", "b", "c"), "one", False, "t")
    two = server_side_apply.apply(node, one, pod("a"), "one", False, "t")
    assert [c["name"] for c in two["spec"]["containers"]] == ["a"]


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from("123"), max_size=3))
def test_selectors_as_text_and_as_objects_agree(labels: dict[str, str]) -> None:
    obj = {"metadata": {"labels": labels}}
    for text, expression in (
        ("a=1", {"key": "a", "operator": "In", "values": ["1"]}),
        ("a!=1", {"key": "a", "operator": "NotIn", "values": ["1"]}),
        ("b in (1,2)", {"key": "b", "operator": "In", "values": ["1", "2"]}),
        ("!c", {"key": "c", "operator": "DoesNotExist"}),
        ("c", {"key": "c", "operator": "Exists"}),
    ):
        assert selectors.build_selector(text, "")(obj) == selectors.matches_labels(
            {"matchExpressions": [expression]}, labels
        )


def test_the_header_dictionary_is_the_one_of_spdy_3() -> None:
    assert (len(spdy.DICTIONARY), zlib.adler32(spdy.DICTIONARY)) == (1423, 0xE3C6A7C2)


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def test_a_protobuf_secret_is_read_as_json() -> None:
    entry = _field(1, b"token") + _field(2, b"made-up")
    secret = _field(1, _field(1, b"hf") + _field(3, b"")) + _field(2, entry) + _field(3, b"Opaque")
    body = b"k8s\x00" + _field(1, _field(1, b"v1") + _field(2, b"Secret")) + _field(2, secret)
    assert protobuf.decode(body) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "hf"},
        "data": {"token": "bWFkZS11cA=="},
        "type": "Opaque",
    }
    for broken in (b"", b"{}", body[:20], b"k8s\x00" + _field(1, _field(1, b"v9") + _field(2, b"Nothing"))):
        with pytest.raises(ValueError):
            protobuf.decode(broken)


@given(st.binary(max_size=40))
def test_broken_protobuf_is_refused_and_nothing_else_happens(noise: bytes) -> None:
    try:
        assert isinstance(protobuf.decode(b"k8s\x00" + noise), dict)
    except ValueError:
        pass


@pytest.mark.parametrize(
    "seconds, text",
    [
        (5, "5s"),
        (119, "119s"),
        (125, "2m5s"),
        (900, "15m"),
        (3600 * 5 + 60, "5h1m"),
        (3600 * 20, "20h"),
        (86400 * 3, "3d"),
    ],
)
def test_ages_are_shortened_as_kubectl_shortens_them(seconds: int, text: str) -> None:
    assert (
        tables.format_age("2026-11-30T00:00:00Z", tables.parse_seconds("2026-11-30T00:00:00Z") + seconds)
        == text
    )


def test_the_tutorials_requests_fit_the_machines_they_are_meant_for() -> None:
    for machine, cpu, memory in (
        ("a4-highgpu-8g", 206, "2400Gi"),
        ("n2-highmem-80", 64, "500G"),
        ("a3-ultragpu-8g", 206, "2400Gi"),
    ):
        _, free = machines.node_resources({"config": {"machineType": machine}})
        amounts = machines.parse_amounts(free)
        assert amounts["cpu"] >= cpu and amounts["memory"] >= quantities.parse_quantity(memory)


@given(st.lists(st.sampled_from(["..", ".", "a", "b", "~", "", "etc", "link"]), max_size=6))
def test_no_path_leaves_the_mounts(tmp_path_factory: Any, parts: list[str]) -> None:
    root = Path(tmp_path_factory.getbasetemp()) / "podfiles"
    (root / "mount" / "a").mkdir(parents=True, exist_ok=True)
    (root / "outside").write_text("secret")
    link = root / "mount" / "link"
    if not link.is_symlink():
        link.symlink_to(root)
    files = PodFiles({"/data": root / "mount"})
    result = shell.run(files, ["cat", "/data/" + "/".join([*parts, "outside"])])
    assert b"secret" not in result.stdout
