"""`uv run …` in a rehearsal: runs the command with this environment's Python. The shim first on PATH calls it.

`uv run python -` reads a script from standard input; its arguments are mapped through the pod's mounts. The
examples in NEMO_RL_HOME map paths themselves, so that their logs show the pod's paths. Like uv, it exits with
128+N if signal N ended the command.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

_HERE = Path(__file__).resolve().parent


def main(argv: list[str]) -> int:
    if argv[:1] != ["run"] or len(argv) < 2:
        print(
            f"uv: only `uv run` is available in a rehearsal, not {' '.join(argv[:1]) or 'nothing'}",
            file=sys.stderr,
        )
        return 2
    words = argv[1:]
    while words and words[0] in ("--extra", "--locked", "--frozen", "--no-sync"):
        words = words[2:] if words[0] == "--extra" else words[1:]
    home = Path(os.environ.get("NEMO_RL_HOME", "/opt/nemo-rl"))
    if words[0] in ("python", "python3"):
        words = [sys.executable, *_arguments(words[1:], home)]
    path = os.pathsep.join([str(home), str(_HERE / "site")])
    # The toy's matrices are too small for threads: with one thread per core they take 20 times as long
    # (measured on 2 cores).
    return _run(
        words, {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    )


def _arguments(words: list[str], home: Path) -> list[str]:
    if words[:1] and words[0].startswith("examples/"):
        return words
    sys.path.insert(0, str(home))
    local = importlib.import_module("toy_grpo.places").local
    return [str(local(word)) if word.startswith("/") else word for word in words]


def _run(words: list[str], environment: dict[str, str]) -> int:
    child = subprocess.Popen(words, env=environment)

    def pass_on(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    code = child.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
