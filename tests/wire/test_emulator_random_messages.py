"""Random messages that the documents allow, for existing and missing resources: never an internal error."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import Any
from urllib.parse import quote

import pytest
from emulator_server import EmulatorServer
from invalid_requests import documents, prefix, served_methods
from test_emulator_rejects_invalid_requests import Line

from grpo_wizard.steps.emulator.server.discovery_documents import Document, Method

JSON = dict[str, Any]
_APIS = "compute container cloudquotas orgpolicy cloudresourcemanager cloudbilling lustre servicenetworking"
_WORDS = (
    *(
        "nemo-net",
        "nemo-res",
        "us-central1",
        "us-central1-b",
        "a4-highgpu-8g",
        "10.0.0.0/24",
        "x",
        "",
        "5",
        "-1",
    ),
    *(
        "projects/my-project/global/networks/nemo-net",
        "projects/",
        "//",
        "a/b/c/d/e/f",
        "gs://b/c",
        "tcp",
        "VPC_PEERING",
    ),
)
_NAMES = ("nemo-net", "nemo-cluster", "nemo-res", "nemo-x", "-", "n1")
_FIXED = {
    "project": "my-project",
    "projectId": "my-project",
    "zone": "us-central1-b",
    "region": "us-central1",
}
_VARIABLE = re.compile(r"\{[^}]*\}")
# They would end the round for all others, or wait.
_LEFT_OUT = (".projects.delete", "updateBillingInfo", "setIamPolicy", ".wait", "services.disable")


class Chance:
    """Random values of a document's schemas."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)

    def message(self, document: Document, schema: JSON, depth: int) -> JSON:
        share = 0.9 if depth > 3 else 0.35
        fields = schema.get("properties", {}) if depth >= 0 else {}
        return {
            n: self.value(document, spec, depth) for n, spec in fields.items() if self.pick.random() < share
        }

    def value(self, document: Document, spec: JSON, depth: int) -> Any:
        pick, kind = self.pick, spec.get("type", "any")
        if "$ref" in spec:
            return self.message(document, document.schemas.get(spec["$ref"], {}), depth - 1)
        if "enum" in spec:
            return pick.choice(spec["enum"])
        if "additionalProperties" in spec:
            inner = spec["additionalProperties"]
            return {
                pick.choice(_WORDS): self.value(document, inner, depth) for _ in range(pick.choice([0, 1, 2]))
            }
        if kind == "array":
            return [self.value(document, spec["items"], depth) for _ in range(pick.choice([0, 1, 1, 2]))]
        formed = {"byte": "AAAA", "google-datetime": "2099-01-01T00:00:00Z", "google-duration": "3s"}
        whole = ["0", "1", "9000", "18000", str(2**62)]
        choices: dict[str, list[Any]] = {
            "boolean": [True, False],
            "integer": [0, 1, 2, -1, 2**31 - 1],
            "number": [0, 1.5, -1e300],
            "any": [1, "x", None, [], {}],
        }
        form = spec.get("format", "")
        if form in formed:
            return formed[form]
        return pick.choice(whole if form in ("int64", "uint64") else choices.get(kind, list(_WORDS)))

    def path(self, document: Document, method: Method) -> str:
        def fill(match: re.Match[str]) -> str:
            name = match.group().strip("{}+")
            if "+" not in match.group():
                return _FIXED.get(name, self.pick.choice(_NAMES))
            pattern = str(method.parameters.get(name, {}).get("pattern", "x")).strip("^$")
            pattern = pattern.replace("projects/[^/]+", "projects/my-project")
            place = self.pick.choice(["us-central1", "us-central1-b", "global"])
            pattern = re.sub(
                r"\(\?*:*([^|)]*)[^)]*\)", r"\1", pattern.replace("locations/[^/]+", f"locations/{place}")
            )
            return pattern.replace("[^/]+", self.pick.choice(_NAMES)).replace(".*", "x")

        return f"{prefix(document)}/{_VARIABLE.sub(fill, method.template)}?{self.query(document, method)}"

    def query(self, document: Document, method: Method) -> str:
        found = []
        for name, spec in method.parameters.items():
            if spec.get("location") == "query" and (spec.get("required") or self.pick.random() < 0.2):
                value = self.value(document, {k: v for k, v in spec.items() if k != "repeated"}, 1)
                found.append(f"{name}={quote(str(value).lower() if isinstance(value, bool) else str(value))}")
        return "&".join(found)


def _round(server: EmulatorServer, seed: int) -> Counter[int]:
    line, chance, codes = Line(server), Chance(seed), Counter[int]()
    for document in documents():
        for method in served_methods(document):
            if any(word in method.id for word in _LEFT_OUT):
                continue
            schema = document.schemas.get(method.request or "", {})
            body = json.dumps(chance.message(document, schema, 4)).encode() if method.request else None
            path = chance.path(document, method)
            status, answer = line.ask(method.http_method, path, body)
            codes[status] += 1
            assert status < 500 or status == 501, (seed, method.http_method, path, body, answer)
    return codes


@pytest.fixture(scope="module")
def cloud(shared_rehearsal: EmulatorServer) -> EmulatorServer:
    shared_rehearsal.enable(*(f"{name}.googleapis.com" for name in _APIS.split()))
    return shared_rehearsal


@pytest.mark.parametrize("seed", range(3))
def test_no_message_that_the_documents_allow_makes_the_server_stumble(
    cloud: EmulatorServer, seed: int
) -> None:
    codes = _round(cloud, seed)
    print(f"seed {seed}: {dict(codes)}")
    assert codes.total() > 200 and codes[200] > 40 and codes[400] > 40


@pytest.mark.heavy
def test_no_message_in_many_rounds_makes_the_server_stumble(cloud: EmulatorServer) -> None:
    codes = sum((_round(cloud, seed) for seed in range(100, 140)), Counter[int]())
    print(dict(codes))
    assert codes.total() > 9000
