"""Rules of organisation policies, and what is free among private ranges."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.steps.core.cloud_reader import OrgPolicyRule
from grpo_wizard.steps.gcp.cidr import first_free_range, parse_ranges
from grpo_wizard.steps.project.org_policies import evaluate, location_values

HERE = location_values("us-central1", "us-central1-b")


def allow(*values: str) -> OrgPolicyRule:
    return OrgPolicyRule(allowed_values=frozenset(values))


def deny(*values: str) -> OrgPolicyRule:
    return OrgPolicyRule(denied_values=frozenset(values))


@pytest.mark.parametrize(
    ("rules", "wanted", "said"),
    [
        ([], set(), "free"),
        ([OrgPolicyRule()], HERE, "free"),
        ([OrgPolicyRule(denies=True)], HERE, "forbidden"),
        ([allow("in:us-locations")], HERE, "free"),
        ([allow("us-central1")], HERE, "free"),
        ([allow("in:eu-locations")], HERE, "unclear"),
        ([allow("europe-west1", "europe-west4")], HERE, "forbidden"),
        ([deny("in:us-locations")], HERE, "forbidden"),
        ([deny("europe-west1")], HERE, "free"),
        ([allow("under:organizations/1")], set(), "unclear"),
    ],
)
def test_a_policy_in_force_is_read(rules: list[OrgPolicyRule], wanted: set[str], said: str) -> None:
    assert evaluate(rules, wanted) == said


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(9, 24)), max_size=30))
def test_a_free_range_overlaps_nothing_that_is_taken(drawn: list[tuple[int, int, int]]) -> None:
    taken = [IPv4Network((f"10.{a}.{b}.0", size), strict=False) for a, b, size in drawn]
    found = first_free_range(14, taken)
    if found is None:
        assert all(
            any(block.overlaps(one) for one in taken)
            for block in IPv4Network("10.0.0.0/8").subnets(new_prefix=14)
        )
    else:
        assert found.is_private and not any(found.overlaps(one) for one in taken)


def test_a_range_at_the_edge_is_found_and_a_full_space_has_none() -> None:
    nearly = [
        *parse_ranges(
            [
                "10.0.0.0/9",
                "10.128.0.0/10",
                "10.192.0.0/11",
                "10.224.0.0/12",
                "10.240.0.0/13",
                "10.248.0.0/14",
            ]
        )
    ]
    assert first_free_range(14, nearly) == IPv4Network("10.252.0.0/14")
    full = [*parse_ranges(["10.0.0.0/8", "172.16.0.0/12"])]
    assert first_free_range(14, full) is None and first_free_range(20, full) == IPv4Network("192.168.0.0/20")


def test_texts_that_are_no_ipv4_range_are_passed_over() -> None:
    assert [*parse_ranges(["fd00::/8", "nonsense", "10.0.0.1/8"])] == [IPv4Network("10.0.0.0/8")]
