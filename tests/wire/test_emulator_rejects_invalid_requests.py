"""Every served method of every Google document, called with one error: rejected with words that name the
error.
"""

from __future__ import annotations

import http.client
import importlib.metadata
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer
from invalid_requests import (
    RequestCase,
    documents,
    invalid_requests,
    served_methods,
    valid_path,
    valid_requests,
)

from grpo_wizard.steps.emulator.context import HANDLERS
from grpo_wizard.steps.emulator.server.discovery_documents import Document

JSON = dict[str, Any]
CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
_EACH = 2  # requests of one kind a method in the run that is always there
# Fewer would mean that the requests are no longer made, not that all is well.
_METHODS, _REQUESTS, _FIELDS, _UNSERVED, _ALL = 130, 2000, 2000, 1000, 12000


class Line:
    """One kept connection to a server: thousands of requests go over it."""

    def __init__(self, server: EmulatorServer) -> None:
        self._connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"))
        self._headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: bytes | None) -> tuple[int, JSON]:
        self._connection.request(method, path, body, self._headers)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read() or b"{}")


def _faults(line: Line, requests: Iterable[RequestCase]) -> Iterator[str]:
    """What is not as Google has it, a sentence each."""
    for one in requests:
        status, answer = line.ask(one.http_method, one.path, one.body)
        error = answer.get("error", {})
        said = json.dumps([error.get("message"), error.get("details")], ensure_ascii=False)
        told = [json.loads(json.dumps(word)) for word in one.expected_texts]
        heard = all(word in said.replace('\\"', '"') for word in told)
        if status != one.status or error.get("code") != one.status or not heard:
            yield f"{one.kind}: {one.method.id}: {one.http_method} {one.path} {one.body!r}: {status} {said}; wants {told}"
        elif one.status == 400 and error.get("status") != "INVALID_ARGUMENT":
            yield f"{one.kind}: {one.method.id}: status {error.get('status')}"
        elif one.kind in _DETAILED and "fieldViolations" not in said:
            yield f"{one.kind}: {one.method.id}: no BadRequest with the field"


_DETAILED = {
    "unknown field",
    "list for one",
    "object for scalar",
    "bad enum",
    "unknown parameter",
    "unknown mask",
}


def _each(requests: Iterable[RequestCase], most: int) -> Iterator[RequestCase]:
    """At most so many of one kind."""
    seen: Counter[str] = Counter()
    for one in requests:
        seen[one.kind] += 1
        if seen[one.kind] <= most:
            yield one


def _tried(line: Line, most: int) -> tuple[set[str], Counter[str], list[str]]:
    methods: set[str] = set()
    kinds: Counter[str] = Counter()
    bad: list[str] = []
    for document in documents():
        for method in served_methods(document):
            requests = list(_each(invalid_requests(document, method), most))
            methods.add(method.id)
            kinds.update(one.kind for one in requests)
            bad += _faults(line, requests)
    return methods, kinds, bad


def test_the_documents_are_those_of_the_pinned_package() -> None:
    """They change monthly: the counts below, and every word of the answers, are of this version."""
    pinned = re.search(r"^google-api-python-client==(\S+)", CONSTRAINTS.read_text("utf-8"), re.MULTILINE)
    assert pinned and importlib.metadata.version("google-api-python-client") == pinned.group(1)


def test_every_served_method_refuses_what_is_wrong_and_names_it(shared_rehearsal: EmulatorServer) -> None:
    methods, kinds, bad = _tried(Line(shared_rehearsal), _EACH)
    print(f"{len(methods)} methods, {kinds.total()} wrong requests: {dict(kinds)}")
    assert not bad, f"{len(bad)} answers differ, the first of them:\n" + "\n".join(bad[:5])
    others = {name for name in HANDLERS if name.startswith(("huggingface", "wandb"))}
    assert methods == set(HANDLERS) - others and len(methods) >= _METHODS
    assert kinds.total() >= _REQUESTS and len(kinds) == 19


def _current() -> list[Document]:
    """The versions that are no beta; the others say nearly the same."""
    return [document for document in documents() if "beta" not in document.prefix]


VERSIONS = pytest.mark.parametrize("which", [_current, pytest.param(documents, marks=pytest.mark.heavy)])


@VERSIONS
def test_every_field_that_the_documents_have_may_be_sent(
    shared_rehearsal: EmulatorServer, which: Callable[[], list[Document]]
) -> None:
    line, tried, bad = Line(shared_rehearsal), 0, []
    for document in which():
        for one in (one for method in served_methods(document) for one in valid_requests(document, method)):
            status, answer = line.ask(one.http_method, one.path, one.body)
            tried += 1
            said = str(answer.get("error", {}).get("message", ""))
            if status == 500 or re.search(r"Unknown name|Invalid value at|Invalid value \(", said):
                bad.append(f"{one.method.id} {one.body!r}: {status} {said}")
    print(f"{tried} bodies of one field")
    assert not bad, f"{len(bad)} refused, the first of them:\n" + "\n".join(bad[:5])
    assert tried >= _FIELDS


@VERSIONS
def test_a_method_that_is_not_served_is_named_and_never_guessed(
    shared_rehearsal: EmulatorServer, which: Callable[[], list[Document]]
) -> None:
    line, tried, bad = Line(shared_rehearsal), 0, []
    for document in which():
        for method in document.methods:
            path = valid_path(document, method)
            if method.id in HANDLERS or set(path) & set("([|"):
                continue
            status, answer = line.ask(method.http_method, path, b"{}" if method.request else None)
            said = answer["error"]["message"]
            tried += 1
            if (status, answer["error"]["status"]) != (501, "UNIMPLEMENTED") or f" {method.id} " not in said:
                bad.append(f"{method.id}: {status} {said}")
    print(f"{tried} methods that are not served")
    assert not bad, f"{len(bad)} answered otherwise, the first of them:\n" + "\n".join(bad[:5])
    assert tried >= _UNSERVED


@pytest.mark.heavy
def test_every_field_of_every_served_method_refuses_what_is_wrong(shared_rehearsal: EmulatorServer) -> None:
    methods, kinds, bad = _tried(Line(shared_rehearsal), 10**6)
    print(f"{len(methods)} methods, {kinds.total()} wrong requests: {dict(kinds)}")
    assert not bad, f"{len(bad)} answers differ, the first of them:\n" + "\n".join(bad[:5])
    assert kinds.total() >= _ALL
