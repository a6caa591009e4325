"""Google's discovery documents: which method serves a path, and the schemas of its messages.

The documents are those of the PyPI package google-api-python-client. For services without one there (Lustre,
Cloud Quotas), the same shape is derived from their google-cloud packages (proto_documents.py); those of
Hugging Face and W&B are written by hand (external_documents.py).
"""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any
from urllib.parse import unquote

JSON = dict[str, Any]

# Service host -> version prefix of the path -> document's name in the package, or "" where it is derived.
DOCUMENTS: dict[str, dict[str, str]] = {
    "compute.googleapis.com": {"compute/v1": "compute.v1", "compute/beta": "compute.beta"},
    "container.googleapis.com": {"v1": "container.v1", "v1beta1": "container.v1beta1"},
    "serviceusage.googleapis.com": {"v1": "serviceusage.v1", "v1beta1": "serviceusage.v1beta1"},
    "cloudresourcemanager.googleapis.com": {"v1": "cloudresourcemanager.v1", "v3": "cloudresourcemanager.v3"},
    "servicenetworking.googleapis.com": {"v1": "servicenetworking.v1"},
    "cloudbilling.googleapis.com": {"v1": "cloudbilling.v1"},
    "orgpolicy.googleapis.com": {"v2": "orgpolicy.v2"},
    "lustre.googleapis.com": {"v1": ""},
    "cloudquotas.googleapis.com": {"v1": "", "v1beta": ""},
    "huggingface.co": {"": ""},
    "api.wandb.ai": {"": ""},
}


@dataclass
class Method:
    """One method of a document."""

    id: str
    http_method: str
    template: str  # path with {name} and {+name}
    parameters: JSON
    request: str | None  # schema of the body
    response: str | None
    body_path: str = ""  # path under which violations of the body are reported; "" is its root
    segments: int | None = None  # of the path; None: any number

    @cached_property
    def literal_length(self) -> int:
        """Number of literal characters: the more, the more specific the match."""
        patterns = re.sub(r"\{([^}]*)\}", lambda m: self._variable_pattern(m.group(1)), self.template)
        return len(re.sub(r"\[\^/\]\+|\.\*", "", patterns))

    def _variable_pattern(self, variable: str) -> str:
        pattern = self.parameters.get(variable[1:], {}).get("pattern", "") if variable[0] == "+" else ""
        return str(pattern).strip("^$")

    @cached_property
    def _regex(self) -> tuple[re.Pattern[str], list[str]]:
        names: list[str] = []
        parts = ["/"]
        for text, variable in re.findall(r"([^{]*)(\{[^}]*\})?", self.template):
            parts.append(re.escape(text))
            if variable:
                name = variable.strip("{}+")
                names.append(name)
                parts.append(f"({self._pattern(name, variable.startswith('{+'))})")
        return re.compile("".join(parts) + r"\Z"), names

    def _pattern(self, name: str, reserved: bool) -> str:
        if not reserved:
            return "[^/]+"
        pattern: str = self.parameters.get(name, {}).get("pattern", "^.+$")
        return pattern.removeprefix("^").removesuffix("$").replace("(", "(?:").replace("(?:?:", "(?:")

    def match(self, path: str) -> dict[str, str] | None:
        """Return the path parameters, or None if the path does not match."""
        regex, names = self._regex
        found = regex.match(path)
        return (
            {name: unquote(value) for name, value in zip(names, found.groups(), strict=True)}
            if found
            else None
        )


@dataclass
class Document:
    """One version of one service."""

    service: str
    prefix: str
    schemas: dict[str, JSON]
    common_parameters: JSON  # query parameters common to all methods
    methods: list[Method]
    _buckets: dict[tuple[str, int | None], list[Method]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for method in sorted(self.methods, key=lambda m: -m.literal_length):
            self._buckets.setdefault((method.http_method, method.segments), []).append(method)
        self._cached_find = lru_cache(maxsize=4096)(self._find)

    def find(self, http_method: str, path: str) -> tuple[Method, dict[str, str]] | None:
        """Return the method that serves `path`, with its path parameters."""
        return self._cached_find(http_method, path)

    def _find(self, http_method: str, path: str) -> tuple[Method, dict[str, str]] | None:
        found = (self._first_match(http_method, count, path) for count in (path.count("/"), None))
        return max((one for one in found if one), key=lambda one: one[0].literal_length, default=None)

    def _first_match(
        self, http_method: str, count: int | None, path: str
    ) -> tuple[Method, dict[str, str]] | None:
        for method in self._buckets.get((http_method, count), []):
            params = method.match(path)
            if params is not None:
                return method, params
        return None


def find_document(service: str, path: str) -> Document | None:
    """Return the document of `service` (a host name) that covers `path`; None if there is none."""
    for prefix in DOCUMENTS.get(service, {}):
        if not prefix or path.startswith((f"/{prefix}/", f"/{prefix}:")):
            return load_document(service, prefix)
    return None


@cache
def load_document(service: str, prefix: str) -> Document:
    """Load or derive a document, once per process (compute.v1: 5 MB, about 60 ms)."""
    name = DOCUMENTS[service][prefix]
    raw = _read_packaged(name) if name else _derive(service, prefix)
    base = raw.get("servicePath", "")
    methods = [_method(spec, base) for spec in _walk_methods(raw)]
    return Document(service, prefix, raw.get("schemas", {}), raw.get("parameters", {}), methods)


def _read_packaged(name: str) -> JSON:
    folder = importlib.resources.files("googleapiclient") / "discovery_cache" / "documents"
    document: JSON = json.loads((folder / f"{name}.json").read_bytes())
    return document


def _derive(service: str, version: str) -> JSON:
    if service in ("huggingface.co", "api.wandb.ai"):
        from grpo_wizard.steps.emulator.server.external_documents import HANDWRITTEN_DOCUMENTS

        return HANDWRITTEN_DOCUMENTS[service]
    from grpo_wizard.steps.emulator.server.proto_documents import derive_document

    return derive_document(service, version)


def _walk_methods(node: JSON) -> Iterator[JSON]:
    yield from node.get("methods", {}).values()
    for child in node.get("resources", {}).values():
        yield from _walk_methods(child)


def _method(spec: JSON, base: str) -> Method:
    flat = base + str(spec.get("flatPath") or spec["path"])
    parameters = spec.get("parameters", {}) | _undocumented_parameters(spec)
    loose = any(
        ".*" in p.get("pattern", "") or ("{+" + n in spec["path"] and "pattern" not in p)
        for n, p in parameters.items()
    )
    request = spec.get("request", {}).get("$ref")
    return Method(
        id=spec["id"],
        http_method=spec["httpMethod"],
        template=base + spec["path"],
        parameters=parameters,
        request=request,
        response=spec.get("response", {}).get("$ref"),
        body_path=spec.get("bodyAt", _body_path(base, request)),
        segments=None if loose else flat.count("/") + 1,
    )


def _undocumented_parameters(spec: JSON) -> JSON:
    """Return parameters that a method accepts although the document does not list them.

    Compute's v1 document of 2026-11 tells callers of its lists to set `returnPartialSuccess`, and gcloud
    does, but only the beta document has the parameter (older v1 documents had it too).
    """
    lists = str(spec["id"]).startswith("compute.") and "maxResults" in spec.get("parameters", {})
    return {"returnPartialSuccess": {"type": "boolean", "location": "query"}} if lists else {}


def _body_path(base: str, request: str | None) -> str:
    """Return the name under which violations report the body: the message's name in snake case.

    APIs of Compute's age (with `servicePath` in their documents) call it `resource`: observed with YouTube's
    and Wallet's, and in Compute's own "Required field 'resource' not specified".
    """
    if base:
        return "resource" if request else ""
    if not request or request.endswith("Request"):
        return ""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", request).lower()
