"""The same deployment as a bash script of gcloud and kubectl commands, everything behind what it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grpo_wizard.steps.core.catalog import asset
from grpo_wizard.steps.core.model import Answers, Resource
from grpo_wizard.steps.core.tutorial_differences import DIFFERENCES, Difference, shown_in
from grpo_wizard.steps.engine.plan import order
from grpo_wizard.steps.export import gcloud as google
from grpo_wizard.steps.export import kubectl as cluster
from grpo_wizard.steps.export.bash import assignment, comment, heading
from grpo_wizard.steps.export.gcloud import Context
from grpo_wizard.steps.registry import all_resources

# Lustre is asked for before the cluster, as it takes longest; what needs it waits for it later.
_SECTIONS = (
    "The project and its APIs",
    "Networks",
    "Lustre: range, peering, instance",
    "The cluster and its GPU pool",
    "What GPU nodes need in the cluster",
    "The volume on Lustre",
    "What the RayCluster leans on",
    "The RayCluster: the head, then its workers",
    "The job",
)
_SECTION = {
    "cluster": 3,
    "node_pool": 3,
    "daemonset": 4,
    "network_params": 4,
    "device_network": 4,
    "namespace": 5,
    "pv": 5,
    "pvc": 5,
    "raycluster": 7,
    "job": 8,
}
_BY_STEP = {"project": 0, "networks": 1, "lustre": 2, "raycluster": 6}


def section_of(resource: Resource) -> int:
    """The place of a resource in the script, from 0."""
    return _SECTION.get(resource.kind, _BY_STEP.get(resource.step, 6))


def ordered(resources: Sequence[Resource]) -> list[Resource]:
    """In the script's order: by section, and within one behind what is needed."""
    return sorted(order(resources), key=section_of)


def script(answers: Answers, name: str, lineage: str) -> str:
    """The whole script. `lineage` is the mark on what it makes: the wizard knows it as this deployment's."""
    context = Context(answers, lineage)
    resources = ordered(all_resources(answers))
    told: set[str] = set()
    lines = [*_top(context, name), "set -euo pipefail", "", *_values(context), *_functions(resources)]
    for number, title in enumerate(_SECTIONS):
        members = [r for r in resources if section_of(r) == number]
        lines += heading(number + 1, title)
        lines += [row for d in _differences(members, answers, told) for row in _difference(d)]
        lines += [row for part in _section(number, members, context) for row in part]
    return "\n".join([*lines, "", 'say "done"', ""])


def _top(context: Context, name: str) -> list[str]:
    about = (
        f"The deployment {name} as gcloud and kubectl commands, written by `grpo-wizard export`.",
        "It needs gcloud (signed in), kubectl, gke-gcloud-auth-plugin and curl. HF_TOKEN and WANDB_API_KEY "
        "are read from the environment.",
        "It makes things and adopts nothing: where one is there already, it stops. To change a value, change "
        "the answer and export again, as manifests hold the same names.",
    )
    general = [d for d in DIFFERENCES if not d.where and d.on(context.answers)]
    rows = [row for text in about for row in comment(text)]
    return ["#!/usr/bin/env bash", *rows, *(row for d in general for row in _difference(d))]


def _values(context: Context) -> list[str]:
    return [assignment(name, value) for name, value in context.variables().items()]


def _functions(resources: Sequence[Resource]) -> list[str]:
    names = ["common", "member"] if any(_own_account(r) for r in resources) else ["common"]
    return [row for name in names for row in asset(f"export/{name}.sh").splitlines()]


def _own_account(resource: Resource) -> bool:
    return resource.kind == "iam_binding" and not resource.spec["member"]


def _differences(resources: Sequence[Resource], answers: Answers, told: set[str]) -> Iterator[Difference]:
    """Those that show here for the first time."""
    for resource in resources:
        for difference in shown_in(answers, resource.step, resource.kind):
            if difference.name not in told:
                told.add(difference.name)
                yield difference


def _difference(difference: Difference) -> list[str]:
    off = f" (off: {difference.switched_off_by})" if difference.switched_off_by else ""
    return comment(f"Better than the tutorial: {difference.what}; {difference.why}{off}.", "  ")


def _section(number: int, resources: Sequence[Resource], context: Context) -> Iterator[list[str]]:
    """The commands of one section, a part a resource; neighbours of plain objects go together."""
    projects = [r for r in resources if r.kind == "project"]
    for project in projects:
        yield google.lines(project, context)
    yield google.apis(resources)
    if _SECTIONS[number].startswith("What GPU nodes"):
        yield cluster.credentials()
    if any(r.kind == "pv" for r in resources):
        yield cluster.lustre_ready()
    rest = [r for r in resources if r.kind not in ("project", "api")]
    plain: list[Resource] = []
    for resource in rest:
        if resource.kind in cluster.PLAIN:
            plain.append(resource)
            continue
        if plain:
            yield cluster.objects(plain, context)
            plain = []
        yield _special(resource, context)
    if plain:
        yield cluster.objects(plain, context)
    yield from (cluster.claim_bound(r) for r in rest if r.kind == "pvc")


def _special(resource: Resource, context: Context) -> list[str]:
    rooms = {"secret": cluster.secret, "raycluster": cluster.raycluster, "job": cluster.job}
    return rooms.get(resource.kind, google.lines)(resource, context)
