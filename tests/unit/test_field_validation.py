"""What people type: old project ids, AI zones, names by each API's own rule, reservations in every form, sizes, tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.state.errors import InvalidSecret
from grpo_wizard.steps.clients.connect import secrets_from_env
from grpo_wizard.steps.clients.context import keep_colons
from grpo_wizard.steps.core import validators
from grpo_wizard.steps.core.answers import Field, InvalidValue
from grpo_wizard.steps.gcp.naming import is_ai_zone, region_of, workload_pool
from grpo_wizard.steps.gcp.reservations import affinity_value, parse_reservation
from grpo_wizard.steps.lustre.checks import nearest_capacities
from grpo_wizard.steps.registry import step

settings.register_profile("fixed", derandomize=True, max_examples=100, deadline=None)
settings.load_profile("fixed")


def field(key: str) -> Field:
    name, _, of = key.partition(".")
    return step(name).field(of)


def refused(key: str, raw: Any) -> str:
    with pytest.raises(InvalidValue) as caught:
        field(key).parse(raw)
    return str(caught.value)


@pytest.mark.parametrize("id", ["my-proj-123456", "example.com:my-proj", "abcdef", "a" * 30])
def test_project_ids_of_today_and_of_old_are_taken_as_they_are(id: str) -> None:
    assert field("project.project_id").parse(f" {id} ") == id


@pytest.mark.parametrize(
    "id", ["My-proj", "short", "my-proj-", "a" * 31, "1-project", "com:my-proj", "example.com:"]
)
def test_other_ids_are_refused_with_the_rule(id: str) -> None:
    assert "6 to 30 lowercase letters, digits or hyphens" in refused("project.project_id", id)


def test_an_old_id_is_turned_round_in_the_workload_pool_and_kept_in_urls() -> None:
    assert workload_pool("example.com:my-proj") == "my-proj.example.com.svc.id.goog"
    assert keep_colons("https://x/v1/projects/example.com%3Amy-proj/a?b=c%3Ad") == (
        "https://x/v1/projects/example.com:my-proj/a?b=c%3Ad"
    )


@pytest.mark.parametrize(
    ("zone", "region", "ai"),
    [
        ("us-central1-b", "us-central1", False),
        ("us-central1-ai1a", "us-central1", True),
        ("us-south1-ai1b", "us-south1", True),
    ],
)
def test_a_zone_belongs_to_all_but_its_last_part(zone: str, region: str, ai: bool) -> None:
    assert field("project.zone").parse(zone) == zone
    assert (region_of(zone), is_ai_zone(zone)) == (region, ai)


@pytest.mark.parametrize("name", ["a" * 41, "1c-demo", "Demo", "demo-", "de mo", ""])
def test_a_clusters_name_is_refused_with_googles_rule(name: str) -> None:
    rule = refused("cluster.cluster_name", name)
    assert "start with a letter, not end with a hyphen, and have at most 40 characters" in rule
    assert field("cluster.cluster_name").parse("a" * 40) == "a" * 40


@given(
    key=st.sampled_from([("networks.network", 63), ("cluster.gpu_pool", 40), ("networks.gvnic_prefix", 50), ("lustre.lustre_name", 57)]),
    name=st.from_regex(r"\A[a-z]([-a-z0-9]{0,70}[a-z0-9])?\Z"),
)  # fmt: skip
def test_each_name_has_its_own_longest(key: tuple[str, int], name: str) -> None:
    of, longest = key
    if len(name) <= longest:
        assert field(of).parse(name) == name
    else:
        refused(of, name)


_NAME = st.from_regex(r"\A[a-z]([-a-z0-9]{0,20}[a-z0-9])?\Z")


@given(
    name=_NAME,
    owner=st.sampled_from(["", "owner-project", "example.com:my-proj"]),
    block=st.none() | _NAME,
    sub=st.none() | _NAME,
    head=st.sampled_from(["", "https://www.googleapis.com/compute/v1/", "https://compute.googleapis.com/compute/beta/"]),
    zone=st.sampled_from(["", "us-central1-b"]),
)  # fmt: skip
def test_a_reservation_is_read_in_every_form(
    name: str, owner: str, block: str | None, sub: str | None, head: str, zone: str
) -> None:
    value = name
    if owner:
        value = f"{head}projects/{owner}/{f'zones/{zone}/' if zone else ''}reservations/{name}"
    if block:
        value += f"/reservationBlocks/{block}" + (f"/reservationSubBlocks/{sub}" if sub else "")
    parts = parse_reservation(field("quotas.reservation").parse(value))
    assert (parts.name, parts.project) == (name, owner)
    assert (parts.block, parts.sub_block) == (block or "", sub or "" if block else "")
    pool = affinity_value(value, "my-project")
    assert (
        pool == name
        if not owner and not block
        else pool.startswith(f"projects/{owner or 'my-project'}/reservations/{name}")
    )


@pytest.mark.parametrize(
    ("tier", "capacity", "nearest"),
    [
        (500, 18000, [18000]),
        (500, 20000, [18000, 36000]),
        (500, 12000, [18000]),
        (1000, 9000, [9000]),
        (125, 18000, [72000]),
        (500, 3060000, [3060000]),
        (500, 3060001, [3024000, 3168000]),
    ],
)
def test_lustre_sizes_go_by_tier_and_the_nearest_are_named(
    tier: int, capacity: int, nearest: list[int]
) -> None:
    assert nearest_capacities(tier, capacity) == nearest


def test_a_size_with_commas_is_read_and_one_with_another_unit_is_refused() -> None:
    assert field("lustre.capacity_gib").parse("18,000") == 18000
    assert "a whole number of GiB" in refused("lustre.capacity_gib", "18TiB")


@pytest.mark.parametrize("raw", ["hf_EXAMPLE\n", " hf_EXAMPLE ", "\thf_EXAMPLE\r\n"])
def test_a_tokens_ends_are_trimmed(raw: str) -> None:
    assert secrets_from_env({"HF_TOKEN": raw})["hf_token"].reveal() == "hf_EXAMPLE"


@pytest.mark.parametrize("raw", ["hf_EX AMPLE", "hf_EX\u200bAMPLE", "hf_EX\nAMPLE", "hf_EX\ufeffAMPLE"])
def test_blanks_and_invisible_signs_inside_a_token_are_refused_without_showing_it(raw: str) -> None:
    with pytest.raises(InvalidSecret) as caught:
        secrets_from_env({"HF_TOKEN": raw})
    assert "AMPLE" not in str(caught.value)


def test_a_service_accounts_address_is_one() -> None:
    good = "nodes@my-project.iam.gserviceaccount.com"
    assert validators.service_account(good) == good
    assert "a service account email address" in refused("cluster.node_service_account", "user@example.com")


@pytest.mark.parametrize(
    "raw",
    [
        '["grpo.val_period=5", "+data.shuffle=false"]',
        "['grpo.val_period=5', '+data.shuffle=false',]",
        " grpo.val_period=5   +data.shuffle=false ",
        ["grpo.val_period=5", "+data.shuffle=false"],
    ],
)
def test_overrides_are_taken_as_a_line_as_a_list_and_as_a_lists_text(raw: Any) -> None:
    assert field("grpo.overrides").parse(raw) == ["grpo.val_period=5", "+data.shuffle=false"]


@pytest.mark.parametrize("raw", ["[grpo.val_period=5", "[5]", '["no override"]', "[[1]]"])
def test_a_list_that_holds_no_overrides_is_refused_with_what_is_allowed(raw: str) -> None:
    assert "Hydra overrides such as" in refused("grpo.overrides", raw)


def test_an_empty_list_of_overrides_is_none() -> None:
    assert field("grpo.overrides").parse("[]") == []


@given(items=st.lists(st.text()), cut=st.integers(0, 40))
def test_any_text_of_a_list_is_either_overrides_or_refused(items: list[str], cut: int) -> None:
    text = json.dumps(items)[: cut or None]
    try:
        taken = field("grpo.overrides").parse(text)
    except InvalidValue:
        return
    assert all("=" in each or each.startswith("~") for each in taken)
