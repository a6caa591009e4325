"""Google Cloud resources as gcloud commands: each resource's own command, with variables and the owner label added."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_wizard.steps.clients.registry import KINDS
from grpo_wizard.steps.clients.serialization import OWNER_LABEL_KEY
from grpo_wizard.steps.core.model import Resource
from grpo_wizard.steps.export.bash import command_lines
from grpo_wizard.steps.gcp.naming import network_path, workload_pool

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers


@dataclass(frozen=True)
class ExportContext:
    """What a script is written for. `owner_label` is empty if labels are disabled."""

    answers: Answers
    deployment_id: str

    @property
    def owner_label(self) -> str:
        return self.deployment_id if self.answers.project.ownership_marks else ""

    def variables(self) -> dict[str, str]:
        """The script's variables and their values, in the order of its first lines."""
        a = self.answers
        named = {
            "PROJECT_ID": a.project.project_id,
            "REGION": a.project.region,
            "ZONE": a.project.zone,
            "NETWORK": a.networks.network,
            "CLUSTER": a.cluster.cluster_name,
            "LUSTRE": a.lustre.lustre_name,
            "NAMESPACE": a.raycluster.namespace,
            "RAYCLUSTER": a.raycluster.raycluster_name,
            "GPU_NODES": str(a.quotas.gpu_nodes),
        }
        return named | ({"MARK": self.owner_label} if self.owner_label else {})

    def flag_substitutions(self) -> Mapping[str, str]:
        """Flags whose value is replaced by a variable."""
        v = self.variables()
        path = network_path(v["PROJECT_ID"], v["NETWORK"])
        return {
            f"--project={v['PROJECT_ID']}": '--project="${PROJECT_ID}"',
            f"--region={v['REGION']}": '--region="${REGION}"',
            f"--location={v['REGION']}": '--location="${REGION}"',
            f"--location={v['ZONE']}": '--location="${ZONE}"',
            f"--node-locations={v['ZONE']}": '--node-locations="${ZONE}"',
            f"--cluster={v['CLUSTER']}": '--cluster="${CLUSTER}"',
            f"--network={v['NETWORK']}": '--network="${NETWORK}"',
            f"--network={path}": '--network="projects/${PROJECT_ID}/global/networks/${NETWORK}"',
            "--source-ranges=${LUSTRE_RANGE}": '--source-ranges="${LUSTRE_RANGE}"',
            f"--description={OWNER_LABEL_KEY} {self.owner_label}": f'--description="{OWNER_LABEL_KEY} ${{MARK}}"',
            f"--labels={OWNER_LABEL_KEY}={self.owner_label}": f'--labels="{OWNER_LABEL_KEY}=${{MARK}}"',
        }


def enable_apis(resources: Sequence[Resource]) -> list[str]:
    """Enable all APIs with one command."""
    names = [r.name for r in resources if r.kind == "api"]
    rows = [f"  {name} \\" for name in names]
    return ["gcloud services enable \\", *rows[:-1], rows[-1].removesuffix(" \\")] if names else []


def resource_commands(resource: Resource, context: ExportContext) -> list[str]:
    """The commands that create one resource."""
    if resource.kind == "iam_binding":
        return _iam_binding_commands(resource, context)
    commands = [_arguments(part, resource, context, n == 0) for n, part in enumerate(_commands(resource))]
    lines = [row for words in commands for row in command_lines(words, context.flag_substitutions())]
    return lines + (
        _lustre_range_commands(resource) if resource.step == "lustre" and resource.kind == "address" else []
    )


def _commands(resource: Resource) -> list[str]:
    return resource.command.split(" && ")


def _arguments(text: str, resource: Resource, context: ExportContext, first: bool) -> list[str]:
    words = shlex.split(text)
    labels = context.owner_label and not resource.data_source
    owner_flag = KINDS[resource.kind].owner_flag
    if first and labels and owner_flag:
        separator = " " if owner_flag == "--description" else "="
        words.append(f"{owner_flag}={OWNER_LABEL_KEY}{separator}{context.owner_label}")
    # Created in parallel with the cluster, because it takes longest.
    return [*words, "--async"] if resource.kind == "lustre" else words


def _lustre_range_commands(resource: Resource) -> list[str]:
    """Read the address range that Google chose."""
    ask = f"gcloud compute addresses describe {shlex.quote(resource.name)} --global"
    return [
        f'LUSTRE_RANGE="$({ask} \\\n  --format=\'value[separator="/"](address,prefixLength)\')"',
        'say "Lustre uses the range ${LUSTRE_RANGE}"',
    ]


def _iam_binding_commands(resource: Resource, context: ExportContext) -> list[str]:
    before, member = _iam_member(str(resource.spec["member"]), context)
    words = ["gcloud", "projects", "add-iam-policy-binding", "@project", "@member"]
    words += [f"--role={resource.spec['role']}", "--condition=None"]
    known = {"@project": '"${PROJECT_ID}"', "@member": f"--member={member}"}
    return before + command_lines(words, known)


def _iam_member(member: str, context: ExportContext) -> tuple[list[str], str]:
    """(lines that look the member up, the member as one quoted word)."""
    if member.startswith("principal://KSA/"):
        namespace, name = member.removeprefix("principal://KSA/").split("/")
        pool = workload_pool(context.answers.project.project_id)
        number = (
            'PROJECT_NUMBER="$(gcloud projects describe "${PROJECT_ID}" --format=\'value(projectNumber)\')"'
        )
        who = (
            "principal://iam.googleapis.com/projects/${PROJECT_NUMBER}/locations/global/workloadIdentityPools/"
            f"{pool}/subject/ns/{namespace}/sa/{name}"
        )
        return [number], f'"{who}"'
    if member:
        return [], shlex.quote(member)
    return ['ME="$(gcloud config get-value core/account)"'], '"$(member_of "${ME}")"'
