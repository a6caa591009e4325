"""step_N in NeMo RL v0.5.0's layout, written as tmp_step_N and renamed when complete
(nemo_rl/utils/checkpoint.py:112-184).
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toy_grpo.places import local
from toy_grpo.task import Floats

_STEP = re.compile(r"step_(\d+)")


def write_weights(folder: Path, tensors: dict[str, Floats], layout: str) -> None:
    """Write weights. `layout` dtensor1: .metadata and __0_0.distcp; dtensor2: model/ with safetensors.

    Both contain safetensors bytes here.
    """
    target = folder / ("__0_0.distcp" if layout == "dtensor1" else "model/model-00001-of-00001.safetensors")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(_safetensors(tensors))
    index = json.dumps({name: list(value.shape) for name, value in tensors.items()})
    (target.parent / (".metadata" if layout == "dtensor1" else "model.safetensors.index.json")).write_text(
        index, encoding="utf-8"
    )


def read_weights(folder: Path) -> dict[str, Floats]:
    """Read what write_weights wrote. Raises FileNotFoundError or ValueError for an incomplete folder."""
    found = [*folder.glob("__0_0.distcp"), *folder.glob("model/*.safetensors")]
    if not found:
        raise FileNotFoundError(f"{folder / '.metadata'}: no weights here")
    raw = found[0].read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header, body = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])]).reshape(entry["shape"]).copy()
        for name, entry in header.items()
    }


def _safetensors(tensors: dict[str, Floats]) -> bytes:
    header, body = {}, b""
    for name, value in tensors.items():
        raw = np.ascontiguousarray(value, dtype=np.float64).tobytes()
        header[name] = {
            "dtype": "F64",
            "shape": list(value.shape),
            "data_offsets": [len(body), len(body) + len(raw)],
        }
        body += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def write_tokenizer(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {**{str(digit): digit for digit in range(10)}, "<end>": 10}
    (folder / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "model": {"type": "WordLevel", "vocab": vocabulary}}), encoding="utf-8"
    )
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}), encoding="utf-8")


@dataclass(frozen=True)
class Keeper:
    """One checkpoint_dir, with the pod's paths."""

    folder: str
    metric: str | None
    higher: bool
    keep: int | None

    def latest(self) -> tuple[int, dict[str, Any]] | None:
        """Return (N, training_info) of the highest step_N; as in NeMo RL, its contents are not verified."""
        steps = self._steps()
        if not steps:
            return None
        return steps[-1], json.loads(
            (local(self.folder) / f"step_{steps[-1]}" / "training_info.json").read_text(encoding="utf-8")
        )

    def begin(self, step: int, info: dict[str, Any], config_yaml: str) -> str:
        """Create tmp_step_N with training_info.json and config.yaml. Returns its path in the pod."""
        name = f"{self.folder}/tmp_step_{step}"
        local(name).mkdir(parents=True, exist_ok=True)
        (local(name) / "training_info.json").write_text(json.dumps(info), encoding="utf-8")
        (local(name) / "config.yaml").write_text(config_yaml, encoding="utf-8")
        return name

    def finish(self, step: int, loader: dict[str, Any]) -> None:
        """Write the loader's state, rename to step_N, and delete checkpoints outside the top k."""
        base = local(self.folder)
        (base / f"tmp_step_{step}" / "train_dataloader.pt").write_text(json.dumps(loader), encoding="utf-8")
        final = base / f"step_{step}"
        if final.exists():
            old = base / f"old_step_{step}"
            final.rename(old)
            (base / f"tmp_step_{step}").rename(final)
            shutil.rmtree(old)
        else:
            (base / f"tmp_step_{step}").rename(final)
        self._drop()

    def loader_state(self, step: int) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(
            (local(self.folder) / f"step_{step}" / "train_dataloader.pt").read_text(encoding="utf-8")
        )
        return state

    def _steps(self) -> list[int]:
        base = local(self.folder)
        found = [_STEP.fullmatch(entry.name) for entry in base.iterdir()] if base.is_dir() else []
        return sorted(int(match[1]) for match in found if match)

    def _drop(self) -> None:
        """Delete checkpoints by rank (metric, step), a missing metric last; the latest stays (checkpoint.py:186-233)."""
        if self.keep is None:
            return
        steps = self._steps()
        ranked = sorted(steps, key=lambda step: (self._value(step), step), reverse=True)
        for step in ranked[self.keep :]:
            if step != steps[-1]:
                print(
                    f"Removing checkpoint {self.folder}/step_{step} due to being outside top-{self.keep}",
                    flush=True,
                )
                shutil.rmtree(local(self.folder) / f"step_{step}")

    def _value(self, step: int) -> float:
        if self.metric is None:
            return 0.0
        info = json.loads(
            (local(self.folder) / f"step_{step}" / "training_info.json").read_text(encoding="utf-8")
        )
        value = info.get(self.metric)
        return float("-inf") if value is None else (value if self.higher else -value)


def metric_of(name: str | None, info: dict[str, Any], measured: dict[str, dict[str, float]]) -> None:
    """Store the chosen metric in `info`.

    Raises ValueError for an unknown name (at the first save, as NeMo RL does).
    """
    if name is None:
        return
    prefix, _, metric = name.partition(":")
    if not measured[prefix]:
        warnings.warn(
            f"You asked to save checkpoints based on {metric} but no {prefix} metrics were collected. "
            "This checkpoint will not be saved as top-k.",
            stacklevel=2,
        )
        info.pop(name, None)
    elif metric not in measured[prefix]:
        raise ValueError(f"Metric {metric} not found in {prefix} metrics")
    else:
        info[name] = measured[prefix][metric]
