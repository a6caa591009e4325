"""Somebody else's things: the same requests that the wizard once sent, sent again as plain REST without any mark."""

from __future__ import annotations

import base64
import copy
import json
import ssl
import time
import urllib.request
from collections.abc import Callable
from urllib.parse import urlencode

from cli_harness import JSON, CliHarness

Change = Callable[[JSON], JSON | None]
_CLUSTER = "/container/v1/projects/my-project/locations/us-central1/clusters/nemo-cluster"
_TIMEOUT_S = 60.0


def unchanged(row: JSON) -> JSON | None:
    return row


def create_foreign_resources(harness: CliHarness, writes: list[JSON], change: Change = unchanged) -> None:
    """Repeats recorded creates in their order; `change` may alter a request, or leave it out (None)."""
    services = [
        row["path"].rpartition("/")[2].removesuffix(":enable") for row in writes if ":enable" in row["path"]
    ]
    harness.server.enable(*services)
    for row in writes:
        wanted = change(copy.deepcopy(row))
        if wanted is not None and ":enable" not in row["path"]:
            _send(harness, {**wanted, "body": _without_owner_label(wanted["body"])})


def _send(harness: CliHarness, row: JSON) -> None:
    """Until it is taken: what it leans on may still be coming up."""
    until = time.monotonic() + _TIMEOUT_S
    while True:
        status, answer = (
            _kubernetes(harness, row) if row["service"] == "kubernetes" else _google(harness, row)
        )
        if status < 300:
            return
        assert time.monotonic() < until, (row["path"], status, answer)
        time.sleep(0.1)


def _google(harness: CliHarness, row: JSON) -> tuple[int, JSON]:
    service = row["service"].partition(".")[0]
    query = {key: value for key, value in row["query"].items() if key not in ("requestId", "$alt")}
    path = (
        ("" if service == "compute" else f"/{service}")
        + row["path"]
        + (f"?{urlencode(query)}" if query else "")
    )
    return harness.server.call(row["method"], path, row["body"])


def _kubernetes(harness: CliHarness, row: JSON) -> tuple[int, JSON]:
    _, cluster = harness.server.call("GET", _CLUSTER)
    if not cluster.get("endpoint"):
        return 503, cluster
    context = ssl.create_default_context(
        cadata=base64.b64decode(cluster["masterAuth"]["clusterCaCertificate"]).decode()
    )
    kind = "application/merge-patch+json" if row["method"] == "PATCH" else "application/json"
    request = urllib.request.Request(
        f"https://{cluster['endpoint']}{row['path']}",
        json.dumps(row["body"]).encode(),
        {"Authorization": f"Bearer {harness.server.token}", "Content-Type": kind},
        method=row["method"],
    )
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def _without_owner_label(value: JSON | None) -> JSON | None:
    text = json.dumps(value)
    return json.loads(text, object_hook=_drop_owner_label)  # type: ignore[no-any-return]


def _drop_owner_label(body: JSON) -> JSON:
    ours = str(body.get("description", "")).startswith("grpo-wizard ")
    return {
        key: value
        for key, value in body.items()
        if key != "grpo-wizard" and not (ours and key == "description")
    }
