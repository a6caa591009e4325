"""What the real gcloud and kubectl say of a deployment, several commands at a time, in a form that can be compared."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cli_harness import APPLY, CliHarness, cli_harness
from gcloud_requests import leaves
from gcloud_resource_kinds import ADDRESS, LUSTRE

from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.core.model import Resource, SecretValue
from grpo_wizard.steps.engine.refresh import resolve
from grpo_wizard.steps.registry import STEPS, validate

JSON = dict[str, Any]
TOOLS = ("gcloud", "kubectl", "gke-gcloud-auth-plugin")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
CREDENTIALS = "gcloud container clusters get-credentials nemo-cluster --location=us-central1"
_PARALLEL_COMMANDS = 3
_HOST = re.compile(r"^https?://[^/]+/(compute/[a-z0-9]+/)?(?=projects/)")


@dataclass
class CommandCache:
    """Commands in the environment that the server prints, each asked once."""

    environment: Mapping[str, str]
    answers: dict[str, str] = field(default_factory=dict)

    def run_all(self, commands: Iterable[str]) -> None:
        """Runs commands side by side; fails where one does, or warns that a part of its answer is missing."""
        new = [command for command in dict.fromkeys(commands) if command not in self.answers]
        with ThreadPoolExecutor(_PARALLEL_COMMANDS) as pool:
            self.answers |= zip(new, pool.map(self._one, new), strict=True)

    def _one(self, command: str) -> str:
        done = subprocess.run(
            shlex.split(command),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
            stdin=subprocess.DEVNULL,
        )
        # gcloud ends with 0 when a list could not be read: "Some requests did not succeed", and no row.
        assert done.returncode == 0 and "WARNING: Some" not in done.stderr, (command, done.stderr)
        return done.stdout

    def text(self, command: str) -> str:
        self.run_all([command])
        return self.answers[command]

    def json(self, command: str) -> Any:
        return json.loads(
            self.text(f"{command} {'-o' if command.startswith('kubectl') else '--format='}json")
        )


@dataclass(frozen=True)
class LiveDeployment:
    """A deployment that stands, and what it says of itself."""

    harness: CliHarness
    shell: CommandCache
    plan: list[JSON]
    status: list[JSON]
    cloud_resources: list[JSON]
    answers: Answers  # as `export --answers` gives them
    deployment_id: str

    def names(self, kind: str) -> set[str]:
        """Of a kind's resources: what the plan says is there."""
        return {row["name"] for row in self.plan if row["kind"] == kind and row["action"] == "keep"}

    def rows(self, kind: str) -> list[JSON]:
        """Of a kind's things: what the world holds, whoever made them."""
        return [row for row in self.cloud_resources if row["kind"] == kind]

    def expected_specs(
        self, kind: str, outputs: Mapping[str, Mapping[str, str]]
    ) -> list[tuple[Resource, JSON]]:
        """A kind's resources, each with what it asks for; `facts` are what only the cloud knows."""
        resources = [r for step in STEPS for r in step.resources(self.answers) if r.kind == kind]
        return [(r, _public(resolve(r.spec, outputs))) for r in resources]


def _public(value: Any) -> Any:
    """A spec without the values that are secret."""
    if isinstance(value, Mapping):
        return {key: _public(item) for key, item in value.items() if not isinstance(item, SecretValue)}
    return [_public(item) for item in value] if isinstance(value, list) else value


@contextmanager
def live_deployment(home: Path) -> Iterator[LiveDeployment]:
    """The tutorial's deployment up to the RayCluster, made by the real command on a server of its own."""
    with cli_harness(home) as walk:
        walk.init()
        assert walk.events(*APPLY)[-1]["ok"]
        plan, status = walk.json("plan")["resources"], walk.json("status")["resources"]
        answers = validate(tomllib.loads(walk.run("export", "--answers").stdout))
        shell = CommandCache(walk.server.env | {"KUBECONFIG": str(home / "kubeconfig")})
        lineage = walk.state()["lineage"]
        yield LiveDeployment(walk, shell, plan, status, walk.server.cloud_resources(), answers, lineage)
        assert walk.server.call("GET", "/_rehearsal/answers")[1]["violations"] == []


def normalized(value: Any) -> Any:
    """A value without hosts in links and without what is unset: proto JSON leaves out false, zero and empty."""
    if isinstance(value, Mapping):
        found = {key: normalized(item) for key, item in value.items() if not key.startswith("x_gcloud")}
        return {key: item for key, item in found.items() if item not in (None, False, 0, "", "0", {}, [])}
    if isinstance(value, list):
        return [normalized(item) for item in value]
    return _HOST.sub("", value) if isinstance(value, str) else value


def short_name(link: str) -> str:
    """The bare name at a link's end."""
    return link.rpartition("/")[2]


def table(text: str) -> list[dict[str, str]]:
    """gcloud's or kubectl's default table: a row's cells by column. Columns begin where their headings do."""
    lines = [line for line in text.splitlines() if line.strip()]
    head = list(re.finditer(r"\S+(?: \S+)*", lines[0]))
    starts = [0, *(found.start() for found in head[1:])]
    ends = [*starts[1:], None]
    return [
        {found.group(): line[begin:end].strip() for found, begin, end in zip(head, starts, ends, strict=True)}
        for line in lines[1:]
    ]


def missing_rows(text: str, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that a table does not have. A cell is a text, a pattern, or `...` for anything that is not empty."""
    rows = table(text)
    return [row for row in wanted if not any(_row_matches(row, shown) for shown in rows)]


def _row_matches(wanted: dict[str, Any], shown: dict[str, str]) -> bool:
    return all(_cell_matches(cell, shown.get(column, "")) for column, cell in wanted.items())


def _cell_matches(wanted: Any, shown: str) -> bool:
    if isinstance(wanted, re.Pattern):
        return wanted.fullmatch(shown) is not None
    return bool(shown) if wanted is ... else bool(shown == wanted)


def value_at(value: Mapping[str, Any], path: str) -> Any:
    found: Any = value
    for key in path.split("."):
        found = found.get(key, {}) if isinstance(found, Mapping) else {}
    return found


def leaf_texts(value: Any) -> dict[str, str]:
    """A value's leaves as texts: an int64 is a text in one client and a number in another."""
    return {path: str(leaf) for path, leaf in leaves(normalized(value)) if path}


def missing_values(want: Any, have: Any) -> dict[str, tuple[str, str]]:
    """Of what is wanted: the paths at which something else stands."""
    told = leaf_texts(have)
    return {
        path: (leaf, told.get(path, "")) for path, leaf in leaf_texts(want).items() if told.get(path) != leaf
    }


def value_differences(one: Any, other: Any) -> dict[str, tuple[str, str]]:
    """The paths at which two values differ, whichever has them."""
    return missing_values(one, other) | {
        path: pair[::-1] for path, pair in missing_values(other, one).items()
    }


def cloud_outputs(deployment: LiveDeployment) -> dict[str, dict[str, str]]:
    """What only the cloud knows, taken from gcloud's own answers."""
    address = deployment.shell.json(ADDRESS.list_command)[0]
    server, _, filesystem = deployment.shell.json(LUSTRE.list_command)[0]["mountPoint"].partition("@tcp:/")
    return {
        "lustre.address.nemo-lustre-range": {"cidr": f"{address['address']}/{address['prefixLength']}"},
        "lustre.lustre.nemo-lustre": {"ip": server, "filesystem": filesystem},
    }


def mask_secret(item: JSON) -> JSON:
    """An object whose values are not shown when a test fails: the world masks them anyway."""
    hidden = item.get("type") == "Opaque"
    return item | {"data": dict.fromkeys(item.get("data", {}), "***")} if hidden else item


def kubernetes_client(deployment: LiveDeployment) -> Any:
    """Kubernetes' own Python client, by the entry that `get-credentials` wrote and the server's token."""
    from kubernetes import client, config, dynamic

    entry = yaml.safe_load(Path(deployment.shell.environment["KUBECONFIG"]).read_text("utf-8"))
    entry["users"] = [{"name": user["name"], "user": {}} for user in entry["users"]]  # not its plugin
    settings = client.Configuration()
    config.load_kube_config_from_dict(entry, client_configuration=settings)
    settings.api_key = {"authorization": f"Bearer {deployment.harness.server.token}"}
    return dynamic.DynamicClient(client.ApiClient(settings))
