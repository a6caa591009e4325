"""The configuration: a YAML with `defaults`, then Hydra's own override grammar. Unknown keys are refused in
Hydra's own words."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, cast

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

OmegaConf.register_new_resolver("mul", lambda a, b: a * b, replace=True)


def arguments(argv: list[str]) -> tuple[Path, list[str]]:
    """(--config, overrides)."""
    parser = argparse.ArgumentParser(description="GRPO training, rehearsed")
    parser.add_argument(
        "--config", type=Path, default=Path("examples/configs/grpo_math_1B.yaml"), help="a YAML file"
    )
    known, overrides = parser.parse_known_args(argv)
    return known.config, overrides


def load(path: Path) -> DictConfig:
    """The file merged over the files that its `defaults` names, relative to it."""
    own = cast(DictConfig, OmegaConf.load(path))
    above = own.pop("defaults", [])
    merged = OmegaConf.create({})
    for name in [above] if isinstance(above, str) else above:
        merged = cast(DictConfig, OmegaConf.merge(merged, load(path.parent / name)))
    return cast(DictConfig, OmegaConf.merge(merged, own))


def override(config: DictConfig, overrides: list[str]) -> DictConfig:
    """Applies `key=value`, `+key=value`, `~key`. Raises hydra.errors.HydraException for a key that is not
    there."""
    OmegaConf.set_struct(config, True)
    ConfigLoaderImpl._apply_overrides_to_config(OverridesParser.create().parse_overrides(overrides), config)
    return config


def resolved(config: DictConfig) -> dict[str, Any]:
    """Plain dicts with interpolations filled in."""
    return cast(dict[str, Any], OmegaConf.to_container(config, resolve=True))
