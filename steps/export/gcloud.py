"""Google's resources as gcloud commands: each resource's own command, with variables and our mark put in."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grpo_wizard.steps.clients.serialization import MARK_KEY
from grpo_wizard.steps.core.model import Answers, Resource
from grpo_wizard.steps.export.bash import command
from grpo_wizard.steps.gcp.naming import network_path, workload_pool

# Where gcloud takes our mark. A peering and an IAM binding have no place for one.
_DESCRIBED = {"network", "subnet", "firewall", "address"}
_LABELLED = {"project", "cluster", "node_pool", "lustre"}


@dataclass(frozen=True)
class Context:
    """What a script is written for. `mark` is empty where marks are switched off."""

    answers: Answers
    lineage: str

    @property
    def mark(self) -> str:
        return self.lineage if self.answers["project"]["ownership_marks"] else ""

    def variables(self) -> dict[str, str]:
        """The script's own variables with their values, in the order in which they stand at its top."""
        a = self.answers
        named = {
            "PROJECT_ID": a["project"]["project_id"],
            "REGION": a["project"]["region"],
            "ZONE": a["project"]["zone"],
            "NETWORK": a["networks"]["network"],
            "CLUSTER": a["cluster"]["cluster_name"],
            "LUSTRE": a["lustre"]["lustre_name"],
            "NAMESPACE": a["raycluster"]["namespace"],
            "RAYCLUSTER": a["raycluster"]["raycluster_name"],
            "GPU_NODES": str(a["quotas"]["gpu_nodes"]),
        }
        return named | ({"MARK": self.mark} if self.mark else {})

    def words(self) -> Mapping[str, str]:
        """Flags whose value a variable stands for."""
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
            f"--description={MARK_KEY} {self.mark}": f'--description="{MARK_KEY} ${{MARK}}"',
            f"--labels={MARK_KEY}={self.mark}": f'--labels="{MARK_KEY}=${{MARK}}"',
        }


def apis(resources: Sequence[Resource]) -> list[str]:
    """All of them in one call."""
    names = [r.name for r in resources if r.kind == "api"]
    rows = [f"  {name} \\" for name in names]
    return ["gcloud services enable \\", *rows[:-1], rows[-1].removesuffix(" \\")] if names else []


def lines(resource: Resource, context: Context) -> list[str]:
    """The commands that make one resource."""
    if resource.kind == "iam_binding":
        return _binding(resource, context)
    written = [_words(part, resource, context, n == 0) for n, part in enumerate(_commands(resource))]
    made = [row for words in written for row in command(words, context.words())]
    return made + (_range(resource) if resource.step == "lustre" and resource.kind == "address" else [])


def _commands(resource: Resource) -> list[str]:
    return resource.command.split(" && ")


def _words(text: str, resource: Resource, context: Context, first: bool) -> list[str]:
    words = shlex.split(text)
    marks = context.mark and not resource.existing
    if first and marks and resource.kind in _DESCRIBED:
        words.append(f"--description={MARK_KEY} {context.mark}")
    if first and marks and resource.kind in _LABELLED:
        words.append(f"--labels={MARK_KEY}={context.mark}")
    # Made beside the cluster: it takes longer than all the rest.
    return [*words, "--async"] if resource.kind == "lustre" else words


def _range(resource: Resource) -> list[str]:
    """The range that Google chose."""
    ask = f"gcloud compute addresses describe {shlex.quote(resource.name)} --global"
    return [
        f'LUSTRE_RANGE="$({ask} \\\n  --format=\'value[separator="/"](address,prefixLength)\')"',
        'say "Lustre\'s range is ${LUSTRE_RANGE}"',
    ]


def _binding(resource: Resource, context: Context) -> list[str]:
    before, member = _member(str(resource.spec["member"]), context)
    words = ["gcloud", "projects", "add-iam-policy-binding", "@project", "@member"]
    words += [f"--role={resource.spec['role']}", "--condition=None"]
    known = {"@project": '"${PROJECT_ID}"', "@member": f"--member={member}"}
    return before + command(words, known)


def _member(member: str, context: Context) -> tuple[list[str], str]:
    """(lines that find out who that is, the member as one quoted word)."""
    if member.startswith("principal://KSA/"):
        namespace, name = member.removeprefix("principal://KSA/").split("/")
        pool = workload_pool(context.answers["project"]["project_id"])
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
