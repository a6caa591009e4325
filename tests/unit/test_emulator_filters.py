"""The emulator's filters, links, versions and durations."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.steps.emulator.context import ApiError
from grpo_wizard.steps.emulator.google.compute.reservations import parse_reservation as parse_reservation
from grpo_wizard.steps.emulator.google.container.versions import resolve_version, version_key
from grpo_wizard.steps.emulator.google.shared.durations import DURATIONS, sample_seconds
from grpo_wizard.steps.emulator.google.shared.filters import parse_filter
from grpo_wizard.steps.emulator.google.shared.self_links import relative_name

_NAMES = st.from_regex(r"[a-z][-a-z0-9]{0,20}", fullmatch=True)
_PROFILE = settings(derandomize=True, max_examples=150)


@_PROFILE
@given(st.text(max_size=40))
def test_any_text_is_a_filter_or_refused_with_400(text: str) -> None:
    try:
        parse_filter(text)({"name": "x"})
    except ApiError as refusal:
        assert refusal.code == 400


@_PROFILE
@given(_NAMES, _NAMES)
def test_gclouds_regex_finds_a_network_by_its_own_name_as_a_word(wanted: str, other: str) -> None:
    test = parse_filter(f'network eq ".*\\b{re.escape(wanted)}\\b.*"')
    link = "https://www.googleapis.com/compute/v1/projects/p1/global/networks/"
    assert test({"network": link + wanted}) or wanted.endswith("-")
    assert test({"network": link + other}) == bool(re.search(rf"\b{re.escape(wanted)}\b", link + other))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a = 1 b = 2", True),
        ("a = 1 AND b = 3", False),
        ("a = 2 OR b = 2", True),
        ("NOT a = 1", False),
        ("-a = 1", False),
        ("(a = 1) (NOT (b = 3))", True),
        ("labels.team:*", True),
        ("labels.other:*", False),
        ("labels.team = rl", True),
        ("a > 0 b <= 2", True),
        ("a > 10", False),
        ('on = true name = "n*"', True),
        ("name ne n.*", False),
        ("list:two", True),
    ],
)
def test_filters_mean_what_compute_says(text: str, kept: bool) -> None:
    item = {"a": 1, "b": "2", "labels": {"team": "rl"}, "on": True, "name": "net", "list": ["one", "two"]}
    assert parse_filter(text)(item) is kept


@pytest.mark.parametrize("text", ["a", "a =", "= a", "(a = 1", "a = 1 OR", "a eq [", "a = 1)", '"'])
def test_a_broken_filter_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match="Invalid list filter expression"):
        parse_filter(text)


@_PROFILE
@given(
    st.sampled_from(
        ["https://compute.googleapis.com/compute/v1/", "http://127.0.0.1:8080/compute/beta/", ""]
    ),
    _NAMES,
)
def test_a_link_of_any_host_has_the_same_tail(prefix: str, name: str) -> None:
    path = f"projects/my-project/global/networks/{name}"
    assert relative_name(prefix + path) == path
    assert relative_name(f"global/networks/{name}", "my-project") == path
    assert relative_name(name) is None


@_PROFILE
@given(_NAMES, _NAMES)
def test_a_reservation_value_names_project_reservation_and_block(project: str, name: str) -> None:
    own = ("projects/me/zones/z/reservations/" + name, "", "")
    assert parse_reservation("me", "z", name) == own
    theirs = f"projects/{project}/reservations/{name}/reservationBlocks/b/reservationSubBlocks/s"
    assert parse_reservation("me", "z", theirs) == (
        f"projects/{project}/zones/z/reservations/{name}",
        "b",
        "s",
    )


def test_versions_are_chosen_newest_first_and_within_the_channel() -> None:
    assert resolve_version("latest", "RAPID") == resolve_version("1.35", "RAPID") == "1.35.2-gke.1842000"
    assert (
        resolve_version("", "STABLE").startswith("1.33.")
        and resolve_version("1.34", "REGULAR") == "1.34.3-gke.1245000"
    )
    assert version_key("1.34.10-gke.1") > version_key("1.34.9-gke.99")
    with pytest.raises(ApiError, match="No valid versions"):
        resolve_version("1.35", "STABLE")


@_PROFILE
@given(st.sampled_from(sorted(DURATIONS)), _NAMES)
def test_a_things_duration_is_within_its_span_and_always_the_same(what: str, name: str) -> None:
    span = DURATIONS[what]
    longest = max(span.high, span.rare_max)
    assert span.low <= sample_seconds(what, name) == sample_seconds(what, name) <= longest
