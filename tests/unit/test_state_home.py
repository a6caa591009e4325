"""The home folder: where it is, who may read it, and what names are allowed in it."""

import re
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.state.errors import HomeUnusable, InvalidName
from grpo_wizard.state.home import Home, valid_name


def test_the_named_folder_wins_over_the_environment_and_both_over_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "user"))
    monkeypatch.delenv("GRPO_WIZARD_HOME", raising=False)
    assert tmp_path / "user" in Home.choose(None).root.parents
    monkeypatch.setenv("GRPO_WIZARD_HOME", str(tmp_path / "environment"))
    assert Home.choose(None).root == tmp_path / "environment"
    assert Home.choose(str(tmp_path / "named")).root == tmp_path / "named"


def test_the_folder_is_made_0700_and_one_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    assert stat.S_IMODE(Home.choose(str(tmp_path / "a" / "b")).root.stat().st_mode) == 0o700
    (tmp_path / "c").mkdir(mode=0o755)
    assert stat.S_IMODE(Home.choose(str(tmp_path / "c")).root.stat().st_mode) == 0o755


def test_a_relative_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Home.choose("here/../there").root == tmp_path / "there"


def test_a_file_in_its_place_is_said_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(HomeUnusable, match=re.escape(str(root))):
            Home.choose(str(root))


def test_only_folders_with_a_trace_of_a_state_are_deployments(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.deployments() == []
    made = [("b", "state.json"), ("a", "state.json.bak"), ("locked", "lock"), ("Not_one", "state.json")]
    for name, file in made:
        (tmp_path / "deployments" / name).mkdir(parents=True)
        (tmp_path / "deployments" / name / file).touch()
    (tmp_path / "deployments" / "c").mkdir()
    (tmp_path / "deployments" / "c" / "state.json").symlink_to(tmp_path / "nowhere")
    assert home.deployments() == ["a", "b", "c"]


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.text(max_size=50) | st.from_regex(r"[a-z][-a-z0-9]{0,42}\n?", fullmatch=True))
def test_a_name_is_taken_as_it_is_or_refused_and_never_leads_out_of_the_home(name: str) -> None:
    allowed = (
        1 <= len(name) <= 40
        and name[0] in "abcdefghijklmnopqrstuvwxyz"
        and not set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789-")
    )
    if allowed:
        assert valid_name(name) == name
        assert Home(Path("/h")).state_file(name).parent.parent == Path("/h/deployments")
    else:
        with pytest.raises(InvalidName):
            Home(Path("/h")).folder(name)
