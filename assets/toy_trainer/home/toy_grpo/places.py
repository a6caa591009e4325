"""Where a pod's paths are on this machine, so that /data/... is the same word in logs here as on Google's
cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path


def local(path: str | Path) -> Path:
    """The local folder or file for a pod's path: the longest mount of TOY_MOUNTS (JSON {mountPath: folder})
    that holds it."""
    text = str(path)
    mounts: dict[str, str] = json.loads(os.environ.get("TOY_MOUNTS", "{}"))
    for mount in sorted(mounts, key=len, reverse=True):
        if text == mount or text.startswith(mount.rstrip("/") + "/"):
            return Path(mounts[mount] + text[len(mount.rstrip("/")) :])
    return Path(text)
