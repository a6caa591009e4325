"""Importing this makes the toy importable as it is inside NEMO_RL_HOME."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

ASSETS = Path(str(files("grpo_wizard.assets")))
HOME = ASSETS / "toy_trainer/home"
sys.path.insert(0, str(HOME))
