"""The job's entrypoint: one POSIX shell script, the same on Google Cloud and in a rehearsal.

No git pull, no sed, no `set -x` (it would print exports), no secret (they are mounted as files), no
working_dir, no env_vars
(NeMo RL v0.5.0's ray.init(runtime_env=os.environ) fails to merge with them). Ray runs it by /bin/sh (Popen
with shell=True).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from importlib.resources import files

RECIPES = "examples/configs/recipes/llm"
_HEREDOC = "PREPARE_GSM8K"
# Words that Hydra's grammar would read as null, a boolean or a number are quoted; so is all that is not
# plainly a word or a path.
_UNQUOTED = re.compile(r"[A-Za-z_/][\w./-]*", re.ASCII)
_RESERVED = re.compile(r"null|none|true|false|on|off|yes|no|nan|inf|[-+]?inf", re.IGNORECASE)


def hydra_quote(value: object) -> str:
    """Quote a value for Hydra's override grammar: None becomes null, booleans and numbers stay as they are,
    and text is read back unchanged."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    if _UNQUOTED.fullmatch(text) and not _RESERVED.fullmatch(text):
        return text
    literal = re.sub(
        r"(\\*)\$\{", lambda found: found[1] * 2 + r"\${", text
    )  # OmegaConf would interpolate ${…}
    return "'" + re.sub(r"(\\*)('|$)", _escaped, literal) + "'"


def _escaped(found: re.Match[str]) -> str:
    """Escape for Hydra, which halves backslashes only before a quote."""
    return found[1] * 2 + (r"\'" if found[2] else "")


def _prepare_data(dataset: str, final_number_answers: bool) -> tuple[list[str], list[str]]:
    """(shell lines that prepare the data, overrides that refer to it)."""
    if dataset != "openai/gsm8k":
        return [], [f"data.dataset_name={hydra_quote(dataset)}"]
    form, folder = ("number", "/data/gsm8k") if final_number_answers else ("raw", "/data/gsm8k-raw")
    script = (
        files("grpo_wizard.assets").joinpath("job/prepare_gsm8k.py").read_text(encoding="utf-8").rstrip("\n")
    )
    lines = [f"uv run python - {folder} {form} <<'{_HEREDOC}'", script, _HEREDOC]
    return lines, [
        "data.dataset_name=ResponseDataset",
        f"+data.train_data_path={folder}/train.jsonl",
        f"+data.val_data_path={folder}/test.jsonl",
        "+data.input_key=question",
        "+data.output_key=answer",
    ]


def entrypoint(
    recipe: str, overrides: Sequence[str], dataset: str = "openai/gsm8k", *, final_number_answers: bool = True
) -> str:
    """The script that prepares the data and runs `recipe` with Hydra `overrides`, each `key=value` with the value
    already quoted for Hydra."""
    prepare, pointing = _prepare_data(dataset, final_number_answers)
    config = shlex.quote(f"{RECIPES}/{recipe}.yaml")
    words = [shlex.quote(word) for word in (*pointing, *overrides)]
    return (
        "\n".join(
            [
                "set -eu",
                'cd "${NEMO_RL_HOME:-/opt/nemo-rl}"',
                "export PYTHONUNBUFFERED=1 RAY_COLOR_PREFIX=0 RAY_DEDUP_LOGS=0 HF_HOME=/data/hf",
                *prepare,
                " \\\n  ".join([f"exec uv run python examples/run_grpo_math.py --config {config}", *words]),
            ]
        )
        + "\n"
    )
