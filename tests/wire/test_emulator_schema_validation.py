"""Validation against Google's documents, on generated messages."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpo_wizard.steps.emulator.context import ApiError
from grpo_wizard.steps.emulator.server import payload
from grpo_wizard.steps.emulator.server.discovery_documents import DOCUMENTS, Document, Method, load_document
from grpo_wizard.steps.emulator.server.schema_checks import check_body, to_camel_case, to_snake_case

JSON = dict[str, Any]
FIXED = settings(derandomize=True, max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
WRITES = (
    ("container.googleapis.com", "v1", "container.projects.locations.clusters.create"),
    ("container.googleapis.com", "v1", "container.projects.locations.clusters.nodePools.create"),
    ("lustre.googleapis.com", "v1", "lustre.projects.locations.instances.create"),
    ("compute.googleapis.com", "compute/v1", "compute.subnetworks.insert"),
)
FORMED = {
    "byte": ["", "AAAAAAAAAAA=", "a-_b"],
    "google-datetime": ["2026-11-30T00:00:00Z", "2026-11-30T00:00:00.123+01:00"],
    "google-duration": ["0s", "-1.5s"],
}


def method_of(service: str, prefix: str, method_id: str) -> tuple[Document, Method]:
    document = load_document(service, prefix)
    return document, next(method for method in document.methods if method.id == method_id)


def messages(document: Document, name: str, depth: int) -> st.SearchStrategy[JSON]:
    """Valid messages of a schema, at most `depth` deep."""
    properties = document.schemas[name].get("properties", {})
    return st.fixed_dictionaries(
        {}, optional={key: values(document, spec, depth) for key, spec in list(properties.items())[:12]}
    )


def values(document: Document, spec: JSON, depth: int) -> st.SearchStrategy[Any]:
    """Valid values of a property, in every way that proto JSON allows."""
    if "$ref" in spec:
        return messages(document, spec["$ref"], depth - 1) if depth else st.builds(dict)
    if "enum" in spec:
        return st.sampled_from(spec["enum"])
    form = spec.get("format", "")
    if form in FORMED:
        return st.sampled_from(FORMED[form])
    if form in ("int64", "uint64"):
        return st.integers(0, 2**40).flatmap(lambda n: st.sampled_from([n, str(n)]))
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(max_size=5),
        "integer": st.integers(0, 2**31 - 1),
        "number": st.floats(allow_nan=False, allow_infinity=False),
        "boolean": st.booleans(),
        "array": st.lists(values(document, spec["items"], depth), max_size=2)
        if "items" in spec
        else st.builds(list),
    }
    return kinds.get(spec.get("type", "any"), st.builds(dict))


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write[2])
def test_valid_messages_pass_and_a_second_pass_changes_nothing(write: tuple[str, str, str]) -> None:
    document, method = method_of(*write)
    assert method.request

    @FIXED
    @given(messages(document, method.request, 3))
    def holds(body: JSON) -> None:
        clean = accepted(document, method, body)
        assert accepted(document, method, clean) == clean

    holds()


def accepted(document: Document, method: Method, body: JSON) -> JSON:
    """The checked body; a missing required field is not what is looked at here."""
    try:
        return check_body(document, method, copy.deepcopy(body))
    except ApiError as error:
        assert all("not specified" in line for line in error.message.splitlines()), error.message
        return {}


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write[2])
def test_an_unknown_field_is_named_wherever_it_stands(write: tuple[str, str, str]) -> None:
    document, method = method_of(*write)
    assert method.request

    @FIXED
    @given(messages(document, method.request, 3), st.data())
    def holds(body: JSON, data: st.DataObject) -> None:
        body = copy.deepcopy(body)  # generated values are shared
        spots = places(document, document.schemas[method.request or ""], body)
        data.draw(st.sampled_from(spots))["noSuchField"] = 1
        with pytest.raises(ApiError, match='Unknown name "noSuchField"') as refused:
            check_body(document, method, body)
        assert refused.value.code == 400

    holds()


def places(document: Document, schema: JSON, value: Any) -> list[JSON]:
    """Every message inside a message (maps take any key and do not count)."""
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    found = [value]
    for key, item in value.items():
        spec = schema["properties"][key]
        inner = spec.get("items", spec)
        for one in item if isinstance(item, list) else [item]:
            found += places(document, document.schemas.get(inner.get("$ref", ""), inner), one)
    return found


@given(st.from_regex(r"[a-z]{2,8}(_[a-z]{2,8}){0,3}", fullmatch=True))
@FIXED
def test_a_name_comes_back_from_camel_case(name: str) -> None:
    assert to_snake_case(to_camel_case(name)) == name


def test_integers_stand_for_the_packages_enum_values() -> None:
    document, method = method_of(*WRITES[0])
    body = {"cluster": {"networkConfig": {"datapathProvider": 2}}}
    clean = check_body(document, method, body)
    assert clean["cluster"]["networkConfig"]["datapathProvider"] == "ADVANCED_DATAPATH"
    body = {"cluster": {"networkConfig": {"datapathProvider": 99}}}
    with pytest.raises(ApiError, match="datapath_provider"):
        check_body(document, method, body)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"--boundary", "Unexpected token.\n--boundary\n^"),
        (b'{"a": 1,, "b": 2}', "Expected an object key or }.\n"),
        (b'{"a" 1}', "Expected : between key:value pair.\n"),
        (b'{"a": 1 "b": 2}', 'Expected , or } after key:value pair.\n{"a": 1 "b": 2}\n        ^'),
        (b'{"a": [1 2]}', "Expected , or ] after array value.\n"),
        (b'{"a": "b', "Closing quote expected in string.\n"),
        (b'{"a": ', "Unexpected end of string. Expected a value.\n"),
        (b"{} {}", "Parsing terminated before end of input.\n"),
        (b'{"a": NaN}', "Unexpected token.\n"),
        (b'{"a": "\xff"}', "Encountered non UTF-8 code points."),
        (b"[" * 100_000, "Message too deep."),
        (b'{"a":' * 100_000, "Message too deep."),
    ],
)
def test_what_is_no_json_is_refused_where_it_breaks(raw: bytes, says: str) -> None:
    with pytest.raises(ApiError) as refused:
        payload.parse_body(raw)
    assert (refused.value.code, refused.value.status) == (400, "INVALID_ARGUMENT")
    assert refused.value.message.startswith(f"Invalid JSON payload received. {says}")


def test_every_document_has_methods_that_find_themselves() -> None:
    """Ambiguous paths would be answered by a wrong method."""
    for service, prefixes in DOCUMENTS.items():
        for prefix in prefixes:
            document = load_document(service, prefix)
            assert document.methods, (service, prefix)
            for method in document.methods:
                path = "/" + example(method)
                if set("([|") & set(path):  # a pattern that is more than segments
                    continue
                found = document.find(method.http_method, path)
                assert found is not None, (method.id, path)


def example(method: Method) -> str:
    """A path that the method answers."""
    import re

    def fill(match: re.Match[str]) -> str:
        name = match.group().strip("{}+")
        pattern = method.parameters.get(name, {}).get("pattern", "x") if "+" in match.group() else "x"
        return pattern.strip("^$").replace("[^/]+", "x").replace(".*", "x")

    return re.sub(r"\{[^}]*\}", fill, method.template)
