"""List prices from the Cloud Billing Catalog, cached for a day: it has tens of thousands of rows."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_wizard.steps.clients.context import CloudContext, call
from grpo_wizard.steps.clients.errors import CloudError, translate
from grpo_wizard.steps.clients.serialization import JSON, to_json

CACHE_FILE = "prices.json"
_PAGE = 5000
CACHE_TTL_S = 24 * 3600.0
TIMEOUT_S = 20.0  # for all pages; about ten of 3 MB each


def list_skus(cloud: CloudContext, service: str, pattern: re.Pattern[str]) -> list[JSON]:
    """The service's SKUs whose description matches, in USD. Raises CloudError if any page fails."""
    client = cloud.rest_client("cloudbilling", "google.cloud.billing_v1", "CloudCatalogClient")
    begun, found = time.monotonic(), []
    request = {"parent": service, "currency_code": "USD", "page_size": _PAGE}
    try:
        for sku in call("cloudbilling", client.list_skus, request=request):
            if pattern.fullmatch(sku.description):
                found.append(to_json(sku))
            if time.monotonic() - begun > TIMEOUT_S:
                raise CloudError("slow", "Reading the price list took too long", transient=True)
    except CloudError:
        raise
    except Exception as error:  # a later page: the pager calls outside of `call`
        raise translate("cloudbilling.googleapis.com", error) from error
    return found


def read_cache(home: Path, now: float, max_age: float = CACHE_TTL_S) -> Mapping[str, Any] | None:
    """Return the cached SKUs: {"read": seconds since the epoch, "skus": […]}.

    None when they are older than `max_age` seconds, and for a file that is missing or damaged.
    """
    try:
        cached: dict[str, Any] = json.loads((home / CACHE_FILE).read_text("utf-8"))
        fresh = isinstance(cached["skus"], list) and 0 <= now - float(cached["read"]) < max_age
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return cached if fresh else None


def write_cache(home: Path, rows: list[JSON], now: float) -> None:
    """Cache the list. A failure to write is ignored."""
    part = home / f".{CACHE_FILE}.part"
    try:
        part.write_text(json.dumps({"read": now, "skus": rows}), "utf-8")
        part.replace(home / CACHE_FILE)
    except OSError:
        part.unlink(missing_ok=True)
