"""Manifests equal Google's but for the table of deliberate differences, and every one fits its schema."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from gcloud_requests import differing_paths

from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.core import tutorial_differences
from grpo_wizard.steps.core.model import OutputRef, SecretValue
from grpo_wizard.steps.registry import all_resources, validate

JSON = dict[str, Any]
HERE = Path(__file__).parent
KUBERNETES = "1.33"
HEAD = "RayCluster spec.headGroupSpec.template.spec"
WORKER = "RayCluster spec.workerGroupSpecs.0.template.spec"
# The chart was rendered for four nodes; Helm leaves the namespace to the command line.
NODES, NOT_IN_THE_CHART = 4, {"metadata.namespace"}

# Where each difference shows: kind and path, `*` for any text.
ALWAYS = {
    "secrets_as_files": (
        f"{HEAD}.containers.ray-head.env.HF_TOKEN_PATH.*",
        f"{HEAD}.containers.ray-head.env.NETRC.*",
        f"{HEAD}.containers.ray-head.volumeMounts.tokens.*",
        f"{HEAD}.volumes.tokens.*",
        f"{WORKER}.containers.ray-worker.env.HF_TOKEN_PATH.*",
        f"{WORKER}.containers.ray-worker.env.NETRC.*",
        f"{WORKER}.containers.ray-worker.volumeMounts.tokens.*",
        f"{WORKER}.volumes.tokens.*",
    ),
    "no_installs": (f"{HEAD}.containers.ray-head.command.2", f"{WORKER}.containers.ray-worker.command.2"),
    "wait_for_gib": (f"{WORKER}.initContainers.wait-for-gib.*",),
    "pull_if_absent": (
        f"{HEAD}.containers.ray-head.imagePullPolicy",
        f"{WORKER}.containers.ray-worker.imagePullPolicy",
    ),
    "worker_limit": ("RayCluster spec.workerGroupSpecs.0.maxReplicas",),
    "no_unused_volume": (f"{WORKER}.volumes.ray-tmp.*",),
    "release_after_job": (
        f"{HEAD}.containers.release.*",
        f"{HEAD}.volumes.release.*",
        f"{HEAD}.serviceAccountName",
    ),
    "fluentbit_pinned": (f"{HEAD}.containers.ray-head.volumeMounts.log-volume.*",),
}
SHIPPING = {  # only where logs are shipped
    "fluentbit_pinned": (
        f"{HEAD}.containers.fluent-bit.image",
        f"{WORKER}.containers.fluent-bit.image",
        "ConfigMap data.fluent-bit.conf",
    )
}
SWITCHED = {
    "own_start_command": ("RayCluster metadata.annotations.ray.io/overwrite-container-cmd",),
    "rdma_interfaces": ("RayCluster spec.workerGroupSpecs.0.template.metadata.annotations.*",),
    "fluentbit_off": (
        f"{HEAD}.containers.fluent-bit.*",
        f"{HEAD}.volumes.fluentbit-config-volume.*",
        f"{WORKER}.containers.fluent-bit.*",
        f"{WORKER}.volumes.fluentbit-config-volume.*",
        "ConfigMap",
    ),
}


def tutorial(*above: JSON) -> Answers:
    """The tutorial's answers with others laid over them, complete."""
    given: JSON = tomllib.loads((HERE.parents[1] / "assets" / "answers-tutorial.toml").read_text("utf-8"))
    for layer in above:
        given = {step: {**given.get(step, {}), **layer.get(step, {})} for step in {*given, *layer}}
    return validate(given)


def exact() -> JSON:
    """The answers that switch off what can be."""
    return tomllib.loads((HERE / "tutorial_exact.toml").read_text("utf-8"))


def manifests(answers: Answers) -> dict[tuple[str, str], JSON]:
    """All Kubernetes objects of a deployment by (kind, name), with values for what only the cloud knows."""
    specs = (r.spec for r in all_resources(answers) if "apiVersion" in r.spec)
    return {(s["kind"], s["metadata"]["name"]): filled(s) for s in specs}


def filled(value: Any) -> Any:
    """A spec as it could be sent."""
    if isinstance(value, Mapping):
        return {key: filled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item) for item in value]
    return "10.0.0.2" if isinstance(value, OutputRef) else "text" if isinstance(value, SecretValue) else value


def google(name: str) -> list[JSON]:
    """Google's objects: the file's documents, normalised."""
    documents: list[JSON] = json.loads((HERE / "fixtures" / "manifests" / f"{name}.json").read_text("utf-8"))
    return documents


@pytest.mark.parametrize("which", ["exact", "better"])
def test_the_raycluster_is_the_charts_but_for_what_the_table_names(which: str) -> None:
    nodes = {"quotas": {"gpu_nodes": NODES}}
    answers = tutorial(nodes, exact()) if which == "exact" else tutorial(nodes)
    ours = manifests(answers)
    found: set[str] = set()
    for theirs in google("rendered-seed"):
        mine = ours.get((theirs["kind"], theirs["metadata"]["name"]))
        paths = differing_paths(theirs, mine) - NOT_IN_THE_CHART if mine else {""}
        found |= {f"{theirs['kind']} {path}".strip() for path in paths}
    claims = [ALWAYS, SHIPPING if which == "exact" else SWITCHED]
    patterns = [pattern for table in claims for each in table.values() for pattern in each]
    assert {place for place in found if not any(fnmatchcase(place, p) for p in patterns)} == set()
    assert {p for p in patterns if not any(fnmatchcase(place, p) for place in found)} == set()


def test_every_claim_is_a_row_of_the_table() -> None:
    rows = {row["name"]: row for row in tutorial_differences.rows(tutorial(exact()))}
    assert set(ALWAYS) | set(SHIPPING) | set(SWITCHED) <= set(rows)
    assert [name for name in SWITCHED if rows[name]["on"]] == []


@pytest.mark.parametrize("name", ["network-mapping", "nccl-rdma-installer"])
def test_device_networks_and_installer_are_googles(name: str) -> None:
    ours = manifests(tutorial())
    theirs = google(name)
    assert {(d["kind"], d["metadata"]["name"]): d for d in theirs} == {
        (d["kind"], d["metadata"]["name"]): ours[d["kind"], d["metadata"]["name"]] for d in theirs
    }
    assert len(theirs) == (18 if name == "network-mapping" else 1)


def test_h200_takes_its_own_selector_tuner_and_boot_disk() -> None:
    h200 = {
        "quotas": {
            "gpu_type": "nvidia-h200-141gb",
            "machine_type": "a3-ultragpu-8g",
            "reservation": "h200-res",
        }
    }
    answers = tutorial(h200)
    pod = manifests(answers)["RayCluster", "ray-cluster-kuberay"]["spec"]["workerGroupSpecs"][0]["template"][
        "spec"
    ]
    env = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
    pool = next(r.spec for r in all_resources(answers) if r.kind == "node_pool")
    assert pod["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-h200-141gb"}
    assert env["NCCL_TUNER_CONFIG_PATH"] == "/usr/local/gib/configs/tuner_config_a3u.txtpb"
    assert (pool["config"]["machineType"], pool["config"]["diskType"]) == (
        "a3-ultragpu-8g",
        "hyperdisk-balanced",
    )


VARIANTS: dict[str, tuple[JSON, ...]] = {
    "better": (),
    "exact": (exact(),),
    "elsewhere": ({"raycluster": {"namespace": "team-a", "fluentbit": True}},),
}


def _pod_templates(raycluster: JSON) -> Iterator[JSON]:
    yield raycluster["spec"]["headGroupSpec"]["template"]
    for group in raycluster["spec"]["workerGroupSpecs"]:
        yield group["template"]


@pytest.mark.parametrize("which", VARIANTS)
def test_every_core_object_and_pod_fits_kubernetes_strictly(which: str) -> None:
    objects = manifests(tutorial(*VARIANTS[which]))
    for (kind, name), body in objects.items():
        if kind == "RayCluster":
            for template in _pod_templates(body):
                meta = {"name": name, **template.get("metadata", {})}
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
                kubernetes_validate.validate(pod, KUBERNETES, strict=True)
        elif not body["apiVersion"].startswith("networking.gke.io"):
            kubernetes_validate.validate(body, KUBERNETES, strict=True)


def test_a_field_that_kubernetes_does_not_know_would_be_seen() -> None:
    secret = manifests(tutorial())["Secret", "ray-cluster-kuberay-tokens"]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(secret | {"stringdata": {}}, KUBERNETES, strict=True)


@cache
def _raycluster_schema() -> JSON:
    """KubeRay's CRD, closed: a field that it does not name is refused, as a strict API server does."""
    packed = resources.files("grpo_wizard.assets").joinpath("kube/raycluster-v1.4.2.json.gz").read_bytes()
    schema: JSON = _closed(json.loads(gzip.decompress(packed))["schema"])
    schema["properties"] |= {"metadata": {"type": "object"}}
    return schema


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


@pytest.mark.parametrize("which", VARIANTS)
def test_the_raycluster_fits_kuberays_crd_strictly(which: str) -> None:
    raycluster = manifests(tutorial(*VARIANTS[which]))["RayCluster", "ray-cluster-kuberay"]
    validator = jsonschema.Draft202012Validator(_raycluster_schema())
    validator.validate(raycluster)
    broken = json.loads(json.dumps(raycluster))
    broken["spec"]["workerGroupSpecs"][0]["template"]["spec"]["nodeSelektor"] = {}
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(broken)
