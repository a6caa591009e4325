"""The store: round trips, refusals, backups, and that a damaged state is never taken for none."""

import json
import math
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.state.codec import decode, encode
from grpo_wizard.state.errors import (
    InvalidName,
    StateChanged,
    StateExists,
    StateInvalid,
    StateMissing,
    StateNewer,
    StateNotSaved,
    StateUnreadable,
)
from grpo_wizard.state.home import Home
from grpo_wizard.state.model import Deployment, JobRecord, ResourceRecord
from grpo_wizard.state.secret import Secret
from grpo_wizard.state.store import StateStore

NAME = "nemo-cluster"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUE = SCALAR | st.lists(SCALAR, max_size=3)
ANSWERS = st.dictionaries(TEXT, st.dictionaries(TEXT, VALUE, max_size=3), max_size=3)
RESOURCE = st.builds(
    ResourceRecord,
    kind=TEXT,
    name=TEXT,
    step=TEXT,
    origin=st.sampled_from(["intended", "created", "adopted"]),
    request_id=TEXT,
    operation=TEXT,
    identity=TEXT,
    facts=st.dictionaries(TEXT, TEXT, max_size=2),
)
JOB = st.none() | st.builds(
    JobRecord,
    submission_id=TEXT,
    parameters_hash=TEXT,
    status=TEXT,
    attempt=st.integers(1, 99),
    extra=st.dictionaries(TEXT, VALUE, max_size=2),
)
DEPLOYMENT = st.builds(
    Deployment,
    serial=st.integers(0, 10**9),
    lineage=st.from_regex(r"[a-z][a-z0-9]{3,10}", fullmatch=True),
    mode=st.sampled_from(["real", "rehearsal"]),
    name=st.just(NAME),
    answers=ANSWERS,
    resources=st.dictionaries(TEXT, RESOURCE, max_size=2),
    job=JOB,
    timings=st.dictionaries(TEXT, st.floats(allow_nan=False, allow_infinity=False), max_size=2),
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.choose(str(tmp_path / "home"))


def begun(home: Home) -> Deployment:
    return StateStore(home).create(NAME, "rehearsal", {"project": {"project_id": "example.com:my-proj"}})


def _kinds(value: Any) -> Any:
    """The value with its exact types: 1, 1.0 and True are equal but not the same."""
    if isinstance(value, dict):
        return {key: _kinds(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_kinds(item) for item in value]
    return type(value).__name__, value


@settings(derandomize=True, deadline=None, max_examples=120)
@given(DEPLOYMENT)
def test_whatever_the_model_holds_is_read_back_the_same_to_the_type(deployment: Deployment) -> None:
    again = decode(encode(deployment), NAME)
    assert _kinds(again.model_dump()) == _kinds(deployment.model_dump())


@settings(derandomize=True, deadline=None, max_examples=120)
@given(DEPLOYMENT, st.floats(0, 1), st.binary(max_size=3))
def test_a_document_cut_short_or_overwritten_is_read_whole_or_refused_in_words(
    deployment: Deployment, where: float, rubbish: bytes
) -> None:
    data = encode(deployment).rstrip()
    cut = data[: int(where * (len(data) - 1))]
    with pytest.raises(ValueError, match=r"\S"):
        decode(cut, NAME)
    try:
        decode(cut + rubbish + data[len(cut) + len(rubbish) :], NAME)
    except ValueError as error:
        assert str(error)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.recursive(SCALAR | st.floats(), lambda one: st.lists(one) | st.dictionaries(TEXT, one)))
def test_any_other_json_is_refused_in_words(document: Any) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        decode(json.dumps(document).encode(), NAME)


def test_a_new_deployment_is_on_disk_0600_with_serial_1_and_a_label_safe_mark(home: Home) -> None:
    deployment = begun(home)
    file = home.state_file(NAME)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert deployment.serial == 1
    assert deployment.lineage[0] == "g" and deployment.lineage.isalnum() and len(deployment.lineage) == 11
    assert StateStore(home).load(NAME) == deployment
    assert home.deployments() == [NAME]


def test_a_save_raises_the_serial_and_keeps_the_one_before_as_backup(home: Home) -> None:
    store, deployment = StateStore(home), begun(home)
    before = home.state_file(NAME).read_bytes()
    deployment.timings["a"] = 1.5
    assert store.save(deployment).serial == 2
    assert home.backup_file(NAME).read_bytes() == before
    assert store.load(NAME) == deployment
    assert sorted(path.name for path in home.folder(NAME).iterdir()) == [
        ".state.json.guard",
        "state.json",
        "state.json.bak",
    ]


def test_a_save_over_another_process_s_save_is_refused_and_changes_nothing(home: Home) -> None:
    store = StateStore(home)
    begun(home)
    mine, theirs = store.load(NAME), store.load(NAME)
    store.save(theirs)
    on_disk = home.state_file(NAME).read_bytes()
    with pytest.raises(StateChanged) as caught:
        store.save(mine)
    assert (caught.value.loaded, caught.value.found) == (1, 2)
    assert home.state_file(NAME).read_bytes() == on_disk
    assert mine.serial == 1


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused_and_the_file_stays(home: Home, number: float) -> None:
    deployment = begun(home)
    on_disk = home.state_file(NAME).read_bytes()
    deployment.timings["a"] = number
    with pytest.raises(StateInvalid):
        StateStore(home).save(deployment)
    assert home.state_file(NAME).read_bytes() == on_disk
    assert deployment.serial == 1


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("place", [{"timings": {"a": "HERE"}}, {"answers": {"grpo": {"a": ["HERE"]}}}])
def test_a_file_with_a_number_that_is_not_finite_is_unreadable(home: Home, number: str, place: Any) -> None:
    begun(home)
    file = home.state_file(NAME)
    document = json.loads(file.read_bytes()) | place
    file.write_text(json.dumps(document).replace('"HERE"', number))
    with pytest.raises(StateUnreadable, match=r"finite|answers"):
        StateStore(home).load(NAME)


def test_text_that_is_not_unicode_and_secrets_are_refused(home: Home) -> None:
    deployment = begun(home)
    deployment.answers["x"] = {"a": "\udcff"}
    with pytest.raises(StateInvalid, match="Unicode"):
        StateStore(home).save(deployment)
    deployment.answers["x"] = {"a": Secret("hf_not_for_anybody")}  # type: ignore[dict-item]
    with pytest.raises(StateInvalid) as caught:
        StateStore(home).save(deployment)
    assert "hf_not" not in str(caught.value)
    assert all(b"hf_not" not in path.read_bytes() for path in home.folder(NAME).iterdir())


def test_the_file_is_utf_8_whatever_the_locale(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    deployment = StateStore(home).create(NAME, "real", {"grpo": {"dataset": "ü/日本"}})
    assert "ü/日本".encode() in home.state_file(NAME).read_bytes()
    assert StateStore(home).load(NAME) == deployment


def test_creating_twice_is_refused_also_beside_a_damaged_state_or_a_lone_backup(home: Home) -> None:
    store = StateStore(home)
    store.save(begun(home))
    with pytest.raises(StateExists):
        begun(home)
    home.state_file(NAME).write_bytes(b"")
    with pytest.raises(StateExists):
        begun(home)
    assert home.state_file(NAME).read_bytes() == b""
    home.state_file(NAME).unlink()
    with pytest.raises(StateExists):
        begun(home)


def test_a_deployment_that_never_was_is_missing_and_nothing_is_made(home: Home) -> None:
    for call in (StateStore(home).load, StateStore(home).restore_backup, StateStore(home).archive):
        with pytest.raises(StateMissing, match="nemo-cluster"):
            call(NAME)
    assert not home.folder(NAME).exists()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\0" * 300,
        b"{",
        b'{"version": 1, "serial"',
        b"[]",
        b"null",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b"{}",
        b'{"version": "1"}',
        b'{"version": 0}',
        b'{"version": true}',
    ],
)
def test_a_damaged_state_is_named_kept_and_its_backup_offered(home: Home, damage: bytes) -> None:
    store, file = StateStore(home), home.state_file(NAME)
    store.save(begun(home))
    file.write_bytes(damage)
    for _ in range(2):
        with pytest.raises(StateUnreadable) as caught:
            store.load(NAME)
    error = caught.value
    assert str(file) in error.detail and error.fix and str(file) in error.command
    assert error.copy is not None and error.copy.read_bytes() == damage == file.read_bytes()
    assert len(list(file.parent.glob("*.unreadable-*"))) == 1
    assert error.backup == home.backup_file(NAME)
    assert home.deployments() == [NAME]


def test_a_damaged_state_is_not_saved_over(home: Home) -> None:
    deployment = begun(home)
    home.state_file(NAME).write_bytes(b"{")
    with pytest.raises(StateUnreadable):
        StateStore(home).save(deployment)
    assert home.state_file(NAME).read_bytes() == b"{"


def test_the_restored_backup_has_a_higher_serial_than_the_lost_state(home: Home) -> None:
    store, file = StateStore(home), home.state_file(NAME)
    deployment = begun(home)
    store.save(deployment)
    lost = store.save(deployment).serial
    file.write_bytes(b"{")
    restored = store.restore_backup(NAME)
    assert restored.serial > lost
    assert store.load(NAME) == restored
    assert [path.read_bytes() for path in file.parent.glob("*.unreadable-*")] == [b"{"]
    with pytest.raises(StateChanged):
        store.save(deployment)
    assert store.save(restored).serial == restored.serial


def test_without_state_and_with_a_backup_the_backup_is_offered(home: Home) -> None:
    store = StateStore(home)
    store.save(begun(home))
    home.state_file(NAME).unlink()
    with pytest.raises(StateUnreadable, match="is missing") as caught:
        store.load(NAME)
    assert caught.value.copy is None and caught.value.backup == home.backup_file(NAME)
    store.restore_backup(NAME)
    assert store.load(NAME).name == NAME


def test_two_damaged_files_offer_no_backup_and_can_be_set_aside_for_a_rebuild(home: Home) -> None:
    store = StateStore(home)
    lineage = begun(home).lineage
    home.state_file(NAME).write_bytes(b"")
    home.backup_file(NAME).write_bytes(b"{")
    with pytest.raises(StateUnreadable) as caught:
        store.load(NAME)
    assert caught.value.backup is None
    with pytest.raises(StateUnreadable, match="backup"):
        store.restore_backup(NAME)
    assert [path.read_bytes() for path in store.archive(NAME)] == [b"", b"{"]
    with pytest.raises(StateMissing):
        store.load(NAME)
    assert store.create(NAME, "real", {}, deployment_id=lineage).lineage == lineage


def test_a_newer_state_is_refused_by_version_and_writer_and_left_alone(home: Home) -> None:
    store, file = StateStore(home), home.state_file(NAME)
    deployment = begun(home)
    newer = file.read_bytes().replace(b'"version": 1', b'"version": 7')
    newer = newer.replace(b"wizard 0.1.0", b"wizard 3.2.1")
    file.write_bytes(newer)
    with pytest.raises(StateNewer, match=r"version 7.*grpo-wizard 3\.2\.1"):
        store.load(NAME)
    with pytest.raises(StateNewer):
        store.save(deployment)
    assert file.read_bytes() == newer


def test_a_state_copied_from_another_deployment_is_refused(home: Home) -> None:
    store = StateStore(home)
    begun(home)
    store.create("other", "real", {})
    home.state_file("other").write_bytes(home.state_file(NAME).read_bytes())
    with pytest.raises(StateUnreadable, match=NAME):
        store.load("other")


def test_a_lineage_that_is_no_label_and_a_bad_name_are_refused(home: Home) -> None:
    with pytest.raises(StateInvalid, match="lineage"):
        StateStore(home).create(NAME, "real", {}, deployment_id="No_Label")
    with pytest.raises(InvalidName):
        StateStore(home).create("../x", "real", {})
    assert home.deployments() == []


def test_a_folder_in_the_state_s_place_is_unreadable_not_missing(home: Home) -> None:
    begun(home)
    home.state_file(NAME).unlink()
    home.state_file(NAME).mkdir()
    with pytest.raises(StateUnreadable):
        StateStore(home).load(NAME)


def test_a_state_that_lost_its_folder_cannot_be_saved_and_says_so(home: Home, tmp_path: Path) -> None:
    deployment = begun(home)
    home.folder(NAME).rename(tmp_path / "away")
    with pytest.raises(StateNotSaved):
        StateStore(home).save(deployment)
    assert deployment.serial == 1
