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
from gcloud_bodies import leaves
from gcloud_kinds import ADDRESS, LUSTRE
from road import APPLY, Road, road

from grpo_wizard.steps.core.model import Resource, SecretValue
from grpo_wizard.steps.engine.refresh import resolve
from grpo_wizard.steps.registry import STEPS, complete

JSON = dict[str, Any]
TOOLS = ("gcloud", "kubectl", "gke-gcloud-auth-plugin")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
CREDENTIALS = "gcloud container clusters get-credentials nemo-cluster --location=us-central1"
_AT_ONCE = 3
_HOST = re.compile(r"^https?://[^/]+/(compute/[a-z0-9]+/)?(?=projects/)")


@dataclass
class Shell:
    """Commands in the environment that the server prints, each asked once."""

    environment: Mapping[str, str]
    answers: dict[str, str] = field(default_factory=dict)

    def ask(self, commands: Iterable[str]) -> None:
        """Runs commands side by side; fails where one does, or warns that a part of its answer is missing."""
        new = [command for command in dict.fromkeys(commands) if command not in self.answers]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
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
        self.ask([command])
        return self.answers[command]

    def json(self, command: str) -> Any:
        return json.loads(
            self.text(f"{command} {'-o' if command.startswith('kubectl') else '--format='}json")
        )


@dataclass(frozen=True)
class Stand:
    """A deployment that stands, and what it says of itself."""

    walk: Road
    shell: Shell
    plan: list[JSON]
    status: list[JSON]
    world: list[JSON]
    answers: Mapping[str, Mapping[str, Any]]  # as `export --answers` gives them
    lineage: str

    def names(self, kind: str) -> set[str]:
        """Of a kind's resources: what the plan says is there."""
        return {row["name"] for row in self.plan if row["kind"] == kind and row["action"] == "keep"}

    def rows(self, kind: str) -> list[JSON]:
        """Of a kind's things: what the world holds, whoever made them."""
        return [row for row in self.world if row["kind"] == kind]

    def wanted(self, kind: str, facts: Mapping[str, Mapping[str, str]]) -> list[tuple[Resource, JSON]]:
        """A kind's resources, each with what it asks for; `facts` are what only the cloud knows."""
        resources = [r for step in STEPS for r in step.resources(self.answers) if r.kind == kind]
        return [(r, _public(resolve(r.spec, facts))) for r in resources]


def _public(value: Any) -> Any:
    """A spec without the values that are secret."""
    if isinstance(value, Mapping):
        return {key: _public(item) for key, item in value.items() if not isinstance(item, SecretValue)}
    return [_public(item) for item in value] if isinstance(value, list) else value


@contextmanager
def standing(home: Path) -> Iterator[Stand]:
    """The tutorial's deployment up to the RayCluster, made by the real command on a server of its own."""
    with road(home) as walk:
        walk.init()
        assert walk.lines(*APPLY)[-1]["ok"]
        plan, status = walk.json("plan")["resources"], walk.json("status")["resources"]
        answers = complete(tomllib.loads(walk.run("export", "--answers").stdout))
        shell = Shell(walk.server.env | {"KUBECONFIG": str(home / "kubeconfig")})
        lineage = walk.state()["lineage"]
        yield Stand(walk, shell, plan, status, walk.server.world(), answers, lineage)
        assert walk.server.ask("GET", "/_rehearsal/answers")[1]["violations"] == []


def bare(value: Any) -> Any:
    """A value without hosts in links and without what is unset: proto JSON leaves out false, zero and empty."""
    if isinstance(value, Mapping):
        found = {key: bare(item) for key, item in value.items() if not key.startswith("x_gcloud")}
        return {key: item for key, item in found.items() if item not in (None, False, 0, "", "0", {}, [])}
    if isinstance(value, list):
        return [bare(item) for item in value]
    return _HOST.sub("", value) if isinstance(value, str) else value


def last(link: str) -> str:
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


def not_shown(text: str, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that a table does not have. A cell is a text, a pattern, or `...` for anything that is not empty."""
    rows = table(text)
    return [row for row in wanted if not any(_fits(row, shown) for shown in rows)]


def _fits(wanted: dict[str, Any], shown: dict[str, str]) -> bool:
    return all(_cell(cell, shown.get(column, "")) for column, cell in wanted.items())


def _cell(wanted: Any, shown: str) -> bool:
    if isinstance(wanted, re.Pattern):
        return wanted.fullmatch(shown) is not None
    return bool(shown) if wanted is ... else bool(shown == wanted)


def place(value: Mapping[str, Any], path: str) -> Any:
    found: Any = value
    for key in path.split("."):
        found = found.get(key, {}) if isinstance(found, Mapping) else {}
    return found


def texts(value: Any) -> dict[str, str]:
    """A value's leaves as texts: an int64 is a text in one client and a number in another."""
    return {path: str(leaf) for path, leaf in leaves(bare(value)) if path}


def unmet(want: Any, have: Any) -> dict[str, tuple[str, str]]:
    """Of what is wanted: the paths at which something else stands."""
    told = texts(have)
    return {path: (leaf, told.get(path, "")) for path, leaf in texts(want).items() if told.get(path) != leaf}


def unequal(one: Any, other: Any) -> dict[str, tuple[str, str]]:
    """The paths at which two values differ, whichever has them."""
    return unmet(one, other) | {path: pair[::-1] for path, pair in unmet(other, one).items()}


def facts(stand: Stand) -> dict[str, dict[str, str]]:
    """What only the cloud knows, taken from gcloud's own answers."""
    address = stand.shell.json(ADDRESS.lists)[0]
    server, _, filesystem = stand.shell.json(LUSTRE.lists)[0]["mountPoint"].partition("@tcp:/")
    return {
        "lustre.address.nemo-lustre-range": {"cidr": f"{address['address']}/{address['prefixLength']}"},
        "lustre.lustre.nemo-lustre": {"ip": server, "filesystem": filesystem},
    }


def secretless(item: JSON) -> JSON:
    """An object whose values are not shown when a test fails: the world masks them anyway."""
    hidden = item.get("type") == "Opaque"
    return item | {"data": dict.fromkeys(item.get("data", {}), "***")} if hidden else item


def kubernetes_client(stand: Stand) -> Any:
    """Kubernetes' own Python client, by the entry that `get-credentials` wrote and the server's token."""
    from kubernetes import client, config, dynamic

    entry = yaml.safe_load(Path(stand.shell.environment["KUBECONFIG"]).read_text("utf-8"))
    entry["users"] = [{"name": user["name"], "user": {}} for user in entry["users"]]  # not its plugin
    settings = client.Configuration()
    config.load_kube_config_from_dict(entry, client_configuration=settings)
    settings.api_key = {"authorization": f"Bearer {stand.walk.server.token}"}
    return dynamic.DynamicClient(client.ApiClient(settings))
