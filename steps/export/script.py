"""The deployment as a bash script of gcloud and kubectl commands, in dependency order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from grpo_wizard.steps.clients.registry import KINDS
from grpo_wizard.steps.core.catalog import read_asset
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.core.tutorial_differences import DIFFERENCES, Difference, differences_for
from grpo_wizard.steps.engine.graph import topological_order
from grpo_wizard.steps.export import gcloud as google
from grpo_wizard.steps.export import kubectl as cluster
from grpo_wizard.steps.export.bash import assignment, comment, heading
from grpo_wizard.steps.export.gcloud import ExportContext
from grpo_wizard.steps.registry import all_resources

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

# Lustre is requested before the cluster because it takes longest; what depends on it waits later.
_SECTIONS = {
    "project": "The project and its APIs",
    "networks": "Networks",
    "lustre": "Lustre: range, peering, instance",
    "cluster": "The cluster and its GPU pool",
    "nodes": "Cluster objects for the GPU nodes",
    "volume": "The volume on Lustre",
    "access": "Objects that the RayCluster depends on",
    "raycluster": "The RayCluster: the head, then its workers",
    "job": "The job",
}
_SECTION_BY_STEP = {"project": "project", "networks": "networks", "lustre": "lustre"}


def section_of(resource: Resource) -> int:
    """The position of a resource's section in the script, from 0."""
    section = KINDS[resource.kind].section or _SECTION_BY_STEP.get(resource.step, "access")
    return list(_SECTIONS).index(section)


def script_order(resources: Sequence[Resource]) -> list[Resource]:
    """Sort by section, and within a section by dependencies."""
    return sorted(topological_order(resources), key=section_of)


def render_script(answers: Answers, name: str, deployment_id: str) -> str:
    """Render the script. It labels resources with `deployment_id`, so that grpo-wizard recognizes them as this deployment's."""
    context = ExportContext(answers, deployment_id)
    resources = script_order(all_resources(answers))
    reported: set[str] = set()
    lines = [
        *_header(context, name),
        "set -euo pipefail",
        "",
        *_variable_lines(context),
        *_shell_functions(resources),
    ]
    for number, (section, title) in enumerate(_SECTIONS.items()):
        members = [r for r in resources if section_of(r) == number]
        lines += heading(number + 1, title)
        lines += [row for d in _new_differences(members, answers, reported) for row in _difference_comment(d)]
        lines += [row for part in _section_commands(section, members, context) for row in part]
    return "\n".join([*lines, "", 'say "done"', ""])


def _header(context: ExportContext, name: str) -> list[str]:
    about = (
        f"The deployment {name} as gcloud and kubectl commands, written by `grpo-wizard export`.",
        "It requires gcloud (signed in), kubectl, gke-gcloud-auth-plugin and curl. HF_TOKEN and WANDB_API_KEY "
        "are read from the environment.",
        "It creates resources and adopts none: it stops at the first one that already exists. To change a value, "
        "change the answer and export again, because manifests contain the same names.",
    )
    general = [d for d in DIFFERENCES if not d.resource_kinds and d.is_enabled(context.answers)]
    rows = [row for text in about for row in comment(text)]
    return ["#!/usr/bin/env bash", *rows, *(row for d in general for row in _difference_comment(d))]


def _variable_lines(context: ExportContext) -> list[str]:
    return [assignment(name, value) for name, value in context.variables().items()]


def _shell_functions(resources: Sequence[Resource]) -> list[str]:
    names = ["common", "member"] if any(_grants_to_caller(r) for r in resources) else ["common"]
    return [row for name in names for row in read_asset(f"export/{name}.sh").splitlines()]


def _grants_to_caller(resource: Resource) -> bool:
    return resource.kind == "iam_binding" and not resource.spec["member"]


def _new_differences(
    resources: Sequence[Resource], answers: Answers, reported: set[str]
) -> Iterator[Difference]:
    """Yield the differences that were not reported in an earlier section."""
    for resource in resources:
        for difference in differences_for(answers, resource.step, resource.kind):
            if difference.name not in reported:
                reported.add(difference.name)
                yield difference


def _difference_comment(difference: Difference) -> list[str]:
    off = f" (off: {difference.opt_out_setting})" if difference.opt_out_setting else ""
    return comment(f"Different from the tutorial: {difference.what}; {difference.why}{off}.", "  ")


def _section_commands(
    section: str, resources: Sequence[Resource], context: ExportContext
) -> Iterator[list[str]]:
    """The commands of one section, one part per resource; consecutive plain objects share one part."""
    projects = [r for r in resources if r.kind == "project"]
    for project in projects:
        yield google.resource_commands(project, context)
    yield google.enable_apis(resources)
    if section == "nodes":
        yield cluster.get_credentials()
    if any(r.kind == "pv" for r in resources):
        yield cluster.wait_for_lustre()
    rest = [r for r in resources if r.kind not in ("project", "api")]
    plain: list[Resource] = []
    for resource in rest:
        if KINDS[resource.kind].export_as == "manifest":
            plain.append(resource)
            continue
        if plain:
            yield cluster.apply_objects(plain, context)
            plain = []
        yield _commands_for(resource, context)
    if plain:
        yield cluster.apply_objects(plain, context)
    yield from (cluster.wait_for_claim(r) for r in rest if r.kind == "pvc")


def _commands_for(resource: Resource, context: ExportContext) -> list[str]:
    writers = {
        "gcloud": google.resource_commands,
        "secret": cluster.create_secret,
        "raycluster": cluster.create_raycluster,
        "job": cluster.submit_job,
    }
    return writers[KINDS[resource.kind].export_as](resource, context)
