"""Detects what enables plain mode: an option, the environment, the terminal, or gcloud's screen reader property."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

_TRUTHY = ("1", "true", "yes", "on", "y")


def plain_mode_trigger(option: bool, environment: Mapping[str, str]) -> str:
    """Return what enables plain mode, for the first line, or an empty string for the full screen."""
    if option:
        return "--plain"
    for name in ("GRPO_WIZARD_PLAIN", "ACCESSIBLE"):
        if _is_truthy(environment.get(name, "")):
            return f"{name}={environment[name].strip()}"
    if gcloud_screen_reader_enabled(environment):
        return "the gcloud property accessibility/screen_reader"
    return "TERM=dumb" if environment.get("TERM", "").lower() == "dumb" else ""


def gcloud_screen_reader_enabled(environment: Mapping[str, str]) -> bool:
    """Read gcloud's property from its configuration files: gcloud takes a second to start and may not be installed.

    The property's environment variable wins over the active configuration
    (https://cloud.google.com/sdk/docs/configurations, `gcloud topic accessibility`; read 2026-06).
    """
    override = environment.get("CLOUDSDK_ACCESSIBILITY_SCREEN_READER", "")
    if override.strip():
        return _is_truthy(override)
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
        return False  # gcloud itself reports errors in its file
    return _is_truthy(parser.get("accessibility", "screen_reader", fallback=""))


def _gcloud_config_dir(environment: Mapping[str, str]) -> Path:
    configured = environment.get("CLOUDSDK_CONFIG", "").strip()
    return (
        Path(configured).expanduser()
        if configured
        else Path(environment.get("HOME") or "~").expanduser() / ".config" / "gcloud"
    )


def _read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


def _is_truthy(text: str) -> bool:
    return text.strip().lower() in _TRUTHY
