"""The Cloud Billing Catalog through Google's own client, from a small server that answers as the recorded shape does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from google.oauth2.credentials import Credentials

from grpo_wizard.steps.clients.context import CloudContext
from grpo_wizard.steps.clients.errors import CloudError
from grpo_wizard.steps.clients.google import billing_catalog
from grpo_wizard.steps.clients.google.billing_catalog import list_skus
from grpo_wizard.steps.pricing.book import PriceBook, sku_pattern

ROWS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "unit" / "fixtures" / "skus.json").read_text("utf-8")
)
SERVICE = "services/6F81-5844-456A"


class _Catalog(BaseHTTPRequestHandler):
    """services.skus.list in pages of four. `fails_on`: a page that is answered 503."""

    asked: list[dict[str, list[str]]]
    fails_on: str | None = None
    wait_s = 0.0

    def do_GET(self) -> None:
        seen = urlsplit(self.path)
        query = parse_qs(seen.query)
        self.asked.append({"path": [seen.path], **query})
        time.sleep(self.wait_s)
        token = query.get("pageToken", ["0"])[0]
        at = int(token)
        page: dict[str, Any] = {
            "skus": ROWS[at : at + 4],
            "nextPageToken": str(at + 4) if at + 4 < len(ROWS) else "",
        }
        broken = token == self.fails_on
        body = json.dumps({"error": {"code": 503, "message": "later"}} if broken else page).encode()
        self.send_response(503 if broken else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextmanager
def _catalog(**about: Any) -> Iterator[tuple[CloudContext, list[dict[str, list[str]]]]]:
    handler = type("Catalog", (_Catalog,), {"asked": [], **about})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        yield CloudContext("real", Credentials("token"), "user@example.com", base_url=address), handler.asked  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()


def test_all_pages_are_read_in_usd_and_only_our_machines_are_kept() -> None:
    with _catalog() as (cloud, asked):
        rows = list_skus(cloud, SERVICE, sku_pattern())
    assert len(asked) == 3 and asked[0]["path"] == [f"/cloudbilling/v1/{SERVICE}/skus"]
    assert all(query["currencyCode"] == ["USD"] for query in asked)
    named = {row["description"] for row in rows}
    assert "A4 Nvidia B200 (1 gpu slice) running in Americas" in named
    assert not any("N2D" in name or "Commitment" in name for name in named)
    book = PriceBook.from_catalog(rows, "2026-11-30T00:00:00Z")
    assert book.machine_price("a4-highgpu-8g", "us-central1").usd == pytest.approx(128.88)
    assert book.machine_price("a4-highgpu-8g", "us-central1", "spot").usd == pytest.approx(39.6336)


def test_a_page_that_fails_spoils_the_whole_answer_half_a_list_gives_wrong_prices() -> None:
    with _catalog(fails_on="4") as (cloud, _asked), pytest.raises(CloudError) as refused:
        list_skus(cloud, SERVICE, sku_pattern())
    assert refused.value.transient


def test_a_list_that_takes_too_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(billing_catalog, "TIMEOUT_S", 0.05)
    with _catalog(wait_s=0.1) as (cloud, _asked), pytest.raises(CloudError) as refused:
        list_skus(cloud, SERVICE, sku_pattern())
    assert "too long" in refused.value.title
