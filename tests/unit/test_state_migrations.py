"""Versions of the document: the first stays readable, newer ones are refused, a chain is followed."""

from pathlib import Path

import pytest

from grpo_wizard.state.codec import decode, encode
from grpo_wizard.state.migrations import MIGRATIONS, Document, NewerVersion, upgrade
from grpo_wizard.state.model import VERSION

V1 = Path(__file__).parent / "fixtures" / "state_v1.json"


def test_the_recorded_document_of_version_1_is_read_with_every_value() -> None:
    deployment = decode(V1.read_bytes(), "nemo-cluster")
    assert deployment.serial == 41
    assert deployment.answers["grpo"] == {
        "colocated": False,
        "learning_rate": 5e-07,
        "overrides": ["a.b=1", "c=日本"],
        "seed": None,
    }
    assert deployment.resources["networks.network.nemo-net"].facts == {"mtu": "8896"}
    assert deployment.job is not None and deployment.job.extra == {"from_step": 10}
    assert decode(encode(deployment), "nemo-cluster") == deployment


def test_a_byte_order_mark_of_an_editor_does_no_harm() -> None:
    assert decode(b"\xef\xbb\xbf" + V1.read_bytes(), "nemo-cluster").serial == 41


def test_an_unknown_field_is_refused_and_named() -> None:
    with pytest.raises(ValueError, match="colour"):
        decode(V1.read_bytes().replace(b'"serial"', b'"colour": 1, "serial"'), "nemo-cluster")


def test_older_documents_go_through_every_step_and_are_not_changed_in_place() -> None:
    def rename(old: Document) -> Document:
        return {"title": old["name"]}

    def count(old: Document) -> Document:
        return {**old, "letters": len(old["title"])}

    old = {"version": 3, "name": "abc"}
    new = upgrade(old, {3: rename, 4: count}, current=5)
    assert new == {"version": 5, "title": "abc", "letters": 3}
    assert old == {"version": 3, "name": "abc"}


def test_a_version_with_no_way_to_today_is_refused_by_number() -> None:
    with pytest.raises(ValueError, match="version 2"):
        upgrade({"version": 2}, {3: dict}, current=5)


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(NewerVersion) as caught:
        upgrade({"version": VERSION + 1, "tool": "grpo-wizard 9"})
    assert (caught.value.version, caught.value.tool) == (VERSION + 1, "grpo-wizard 9")


def test_every_older_version_that_was_released_has_a_migration() -> None:
    assert sorted(MIGRATIONS) == list(range(1, VERSION))
