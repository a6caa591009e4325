"""What switched plain mode on: an option, the environment, the terminal, or gcloud's own property for screen readers."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

_TRUTHY = ("1", "true", "yes", "on", "y")


def plain_mode_trigger(option: bool, environment: Mapping[str, str]) -> str:
    """The words that the first line names, or nothing when the full screen is to be shown."""
    if option:
        return "--plain"
    for name in ("GRPO_WIZARD_PLAIN", "ACCESSIBLE"):
        if _is_truthy(environment.get(name, "")):
            return f"{name}={environment[name].strip()}"
    if gcloud_screen_reader_enabled(environment):
        return "gcloud's property accessibility/screen_reader"
    return "TERM=dumb" if environment.get("TERM", "").lower() == "dumb" else ""


def gcloud_screen_reader_enabled(environment: Mapping[str, str]) -> bool:
    """gcloud's property as its configuration files hold it: gcloud itself takes a second to start, and may not be there.

    Order: the property's own variable, then the active configuration
    (https://cloud.google.com/sdk/docs/configurations, `gcloud topic accessibility`; read 2026-06).
    """
    said = environment.get("CLOUDSDK_ACCESSIBILITY_SCREEN_READER", "")
    if said.strip():
        return _is_truthy(said)
    folder = _gcloud_config_dir(environment)
    name = (
        environment.get("CLOUDSDK_ACTIVE_CONFIG_NAME", "").strip()
        or _read_text(folder / "active_config").strip()
    )
    file = folder / "configurations" / f"config_{name or 'default'}"
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(_read_text(file))
    except configparser.Error:
        return False  # gcloud will say what is wrong with its file; it is not ours to judge
    return _is_truthy(parser.get("accessibility", "screen_reader", fallback=""))


def _gcloud_config_dir(environment: Mapping[str, str]) -> Path:
    named = environment.get("CLOUDSDK_CONFIG", "").strip()
    return (
        Path(named).expanduser()
        if named
        else Path(environment.get("HOME") or "~").expanduser() / ".config" / "gcloud"
    )


def _read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


def _is_truthy(text: str) -> bool:
    return text.strip().lower() in _TRUTHY
