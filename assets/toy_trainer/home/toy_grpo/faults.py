"""Simulated failures of real runs: `+toy.fault=nan@5`, or {"fault": "nan@5"} in the file that TOY_FAULTS names.

zero_reward   every reward 0.0 from that step on      nan     loss and weights turn NaN (a learning rate
without bounds)
stall         the step begins and nothing follows      worker  a generation worker dies as the OOM killer
ends it (SIGKILL)
oom           the driver itself is killed: exit 137
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KINDS = ("zero_reward", "nan", "stall", "worker", "oom")


@dataclass(frozen=True)
class Fault:
    """What goes wrong from `step` on; kind "" for nothing."""

    kind: str = ""
    step: int = 1

    def now(self, kind: str, step: int) -> bool:
        return self.kind == kind and step >= self.step


def read(config: dict[str, Any]) -> Fault:
    """Return the override's fault, otherwise the file's, otherwise none.

    Raises ValueError for an unknown one.
    """
    text = str(config.get("toy", {}).get("fault") or _from_file())
    if not text:
        return Fault()
    found = re.fullmatch(rf"({'|'.join(KINDS)})(?:@(\d+))?", text)
    if found is None:
        raise ValueError(
            f"unknown fault {text!r}; expected one of {', '.join(KINDS)}, optionally followed by @STEP"
        )
    return Fault(found[1], int(found[2] or 1))


def _from_file() -> str:
    path = Path(os.environ.get("TOY_FAULTS") or "faults.json")
    return str(json.loads(path.read_text(encoding="utf-8")).get("fault", "")) if path.is_file() else ""
