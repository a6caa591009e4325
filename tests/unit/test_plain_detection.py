"""What switches plain mode on, and what the first line will say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_wizard.tui.plain.detect import gcloud_screen_reader_enabled, plain_mode_trigger

ON = "[core]\nproject = p-1\n[accessibility]\nscreen_reader = True\n"
OFF = "[accessibility]\nscreen_reader = false\n"


def _config(folder: Path, name: str = "default", text: str = ON, active: str = "") -> dict[str, str]:
    configurations = folder / "configurations"
    configurations.mkdir(parents=True, exist_ok=True)
    (configurations / f"config_{name}").write_text(text)
    if active:
        (folder / "active_config").write_text(active + "\n")
    return {"CLOUDSDK_CONFIG": str(folder)}


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"ACCESSIBLE": "1"}, "ACCESSIBLE=1"),
        ({"ACCESSIBLE": "true"}, "ACCESSIBLE=true"),
        ({"GRPO_WIZARD_PLAIN": "1"}, "GRPO_WIZARD_PLAIN=1"),
        ({"TERM": "dumb"}, "TERM=dumb"),
        ({"CLOUDSDK_ACCESSIBILITY_SCREEN_READER": "true"}, "the gcloud property accessibility/screen_reader"),
        ({"ACCESSIBLE": "0", "GRPO_WIZARD_PLAIN": "", "TERM": "xterm-256color"}, ""),
        ({}, ""),
    ],
)
def test_each_switch_is_named_by_its_own_words(
    environment: dict[str, str], said: str, tmp_path: Path
) -> None:
    assert plain_mode_trigger(False, {"HOME": str(tmp_path), **environment}) == said


def test_the_option_is_named_before_all_else(tmp_path: Path) -> None:
    assert plain_mode_trigger(True, {"HOME": str(tmp_path), "TERM": "dumb", "ACCESSIBLE": "1"}) == "--plain"


def test_gclouds_property_is_read_from_the_active_configuration(tmp_path: Path) -> None:
    environment = _config(tmp_path, text=OFF)
    assert not gcloud_screen_reader_enabled(environment)
    _config(tmp_path, "work", ON, active="work")
    assert gcloud_screen_reader_enabled(environment)
    assert not gcloud_screen_reader_enabled(environment | {"CLOUDSDK_ACTIVE_CONFIG_NAME": "default"})


def test_gclouds_default_folder_is_below_home(tmp_path: Path) -> None:
    _config(tmp_path / ".config" / "gcloud")
    assert gcloud_screen_reader_enabled({"HOME": str(tmp_path)})


def test_the_propertys_variable_overrules_the_file(tmp_path: Path) -> None:
    environment = _config(tmp_path) | {"CLOUDSDK_ACCESSIBILITY_SCREEN_READER": "false"}
    assert not gcloud_screen_reader_enabled(environment)


@pytest.mark.parametrize(
    "text", ["", "no section\n", "[accessibility]\nscreen_reader\n", "\x00\xff[[", "[a]\n%(x)s=%(y)s\n"]
)
def test_a_damaged_file_switches_nothing_on_and_breaks_nothing(text: str, tmp_path: Path) -> None:
    assert not gcloud_screen_reader_enabled(_config(tmp_path, text=text))
