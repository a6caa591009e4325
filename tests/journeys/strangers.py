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

from road import JSON, Road

Change = Callable[[JSON], JSON | None]
_CLUSTER = "/container/v1/projects/my-project/locations/us-central1/clusters/nemo-cluster"
_PATIENCE_S = 60.0


def as_they_are(row: JSON) -> JSON | None:
    return row


def make(walk: Road, writes: list[JSON], change: Change = as_they_are) -> None:
    """Repeats recorded creates in their order; `change` may alter a request, or leave it out (None)."""
    services = [
        row["path"].rpartition("/")[2].removesuffix(":enable") for row in writes if ":enable" in row["path"]
    ]
    walk.server.enable(*services)
    for row in writes:
        wanted = change(copy.deepcopy(row))
        if wanted is not None and ":enable" not in row["path"]:
            _send(walk, {**wanted, "body": _unmarked(wanted["body"])})


def _send(walk: Road, row: JSON) -> None:
    """Until it is taken: what it leans on may still be coming up."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        status, answer = _kubernetes(walk, row) if row["service"] == "kubernetes" else _google(walk, row)
        if status < 300:
            return
        assert time.monotonic() < until, (row["path"], status, answer)
        time.sleep(0.1)


def _google(walk: Road, row: JSON) -> tuple[int, JSON]:
    service = row["service"].partition(".")[0]
    query = {key: value for key, value in row["query"].items() if key not in ("requestId", "$alt")}
    path = (
        ("" if service == "compute" else f"/{service}")
        + row["path"]
        + (f"?{urlencode(query)}" if query else "")
    )
    return walk.server.ask(row["method"], path, row["body"])


def _kubernetes(walk: Road, row: JSON) -> tuple[int, JSON]:
    _, cluster = walk.server.ask("GET", _CLUSTER)
    if not cluster.get("endpoint"):
        return 503, cluster
    context = ssl.create_default_context(
        cadata=base64.b64decode(cluster["masterAuth"]["clusterCaCertificate"]).decode()
    )
    kind = "application/merge-patch+json" if row["method"] == "PATCH" else "application/json"
    request = urllib.request.Request(
        f"https://{cluster['endpoint']}{row['path']}",
        json.dumps(row["body"]).encode(),
        {"Authorization": f"Bearer {walk.server.token}", "Content-Type": kind},
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


def _unmarked(value: JSON | None) -> JSON | None:
    text = json.dumps(value)
    return json.loads(text, object_hook=_without)  # type: ignore[no-any-return]


def _without(body: JSON) -> JSON:
    ours = str(body.get("description", "")).startswith("grpo-wizard ")
    return {
        key: value
        for key, value in body.items()
        if key != "grpo-wizard" and not (ours and key == "description")
    }
