"""The configuration: a YAML file with `defaults`, then Hydra overrides.

Unknown keys raise Hydra's own errors.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, cast

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

OmegaConf.register_new_resolver("mul", lambda a, b: a * b, replace=True)


def arguments(argv: list[str]) -> tuple[Path, list[str]]:
    """Return (--config, overrides)."""
    parser = argparse.ArgumentParser(description="GRPO training of a rehearsal")
    parser.add_argument(
        "--config", type=Path, default=Path("examples/configs/grpo_math_1B.yaml"), help="a YAML file"
    )
    known, overrides = parser.parse_known_args(argv)
    return known.config, overrides


def load(path: Path) -> DictConfig:
    """Load the file, merged over the files of its `defaults` (relative paths)."""
    own = cast(DictConfig, OmegaConf.load(path))
    above = own.pop("defaults", [])
    merged = OmegaConf.create({})
    for name in [above] if isinstance(above, str) else above:
        merged = cast(DictConfig, OmegaConf.merge(merged, load(path.parent / name)))
    return cast(DictConfig, OmegaConf.merge(merged, own))


def override(config: DictConfig, overrides: list[str]) -> DictConfig:
    """Apply `key=value`, `+key=value`, `~key`. Raises hydra.errors.HydraException for an unknown key."""
    OmegaConf.set_struct(config, True)
    ConfigLoaderImpl._apply_overrides_to_config(OverridesParser.create().parse_overrides(overrides), config)
    return config


def resolved(config: DictConfig) -> dict[str, Any]:
    """Return plain dicts with interpolations resolved."""
    return cast(dict[str, Any], OmegaConf.to_container(config, resolve=True))
