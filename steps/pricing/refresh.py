"""Asking for today's prices: the Cloud Billing Catalog where it answers, else what the assets know. Nothing waits on it for long."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.google.billing_catalog import list_skus, read_cache, write_cache
from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.pricing.book import PriceBook, sku_pattern


async def refresh_prices(session: Session) -> str:
    """Puts today's prices on the session. Returns why the catalogue in the assets stands in, empty when it does not."""
    known = cached_prices(session)
    if known is not None:
        session.price_book = known
        return ""
    service = catalog.load("prices")["skus"]["service"]
    try:
        rows = await asyncio.to_thread(list_skus, session.cloud, service, sku_pattern())
    except WizardError as error:
        return f"today's prices could not be read ({error.title}): the built-in list is used"
    if not rows:
        return "the Cloud Billing Catalog lists none of these machines: the built-in list is used"
    if session.deployment.mode == "real":
        write_cache(Path(session.store.home.root), rows, time.time())
    session.price_book = _price_book(rows, time.time())
    return ""


def cached_prices(session: Session) -> PriceBook | None:
    """Prices that were read less than a day ago. A rehearsal keeps none: what is real is not mixed into it."""
    if session.deployment.mode != "real":
        return None
    seen = read_cache(Path(session.store.home.root), time.time())
    return None if seen is None else _price_book(seen["skus"], float(seen["read"]))


def _price_book(rows: list[dict[str, Any]], read_at: float) -> PriceBook:
    return PriceBook.from_catalog(rows, datetime.fromtimestamp(read_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
