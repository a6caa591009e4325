"""Map a pod's paths to this machine, so that logs show /data/... as on the real cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path


def local(path: str | Path) -> Path:
    """Return the local path of a pod's path: below the longest matching mount of TOY_MOUNTS (JSON {mountPath: folder})."""
    text = str(path)
    mounts: dict[str, str] = json.loads(os.environ.get("TOY_MOUNTS", "{}"))
    for mount in sorted(mounts, key=len, reverse=True):
        if text == mount or text.startswith(mount.rstrip("/") + "/"):
            return Path(mounts[mount] + text[len(mount.rstrip("/")) :])
    return Path(text)
