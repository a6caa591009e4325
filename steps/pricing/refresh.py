"""Today's list prices: cached prices when a deployment is opened, the Cloud Billing Catalog before money is spent."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.google.billing_catalog import CACHE_FILE, list_skus, read_cache, write_cache
from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.pricing.book import BUILT_IN_PRICES, PriceBook, sku_pattern

if TYPE_CHECKING:
    from grpo_wizard.steps.clients.context import CloudContext
    from grpo_wizard.steps.deployment.session import Session

REFRESH_DEADLINE_S = 25.0  # a little more than the client gives all pages of the catalog together
_RETRY_AFTER_S = 60.0  # how long an answer, or a failure, is shared by all callers of one connection


def load_price_book(home: Path, mode: str) -> PriceBook:
    """Return the prices known without asking anybody: cached ones of any age, else the built-in list.

    Reads one small file, once per version of it. A rehearsal caches nothing: real prices never mix with it.
    """
    if mode != "real":
        return BUILT_IN_PRICES
    try:
        stat = (home / CACHE_FILE).stat()
    except OSError:
        return BUILT_IN_PRICES
    return _load(home, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _load(home: Path, mtime_ns: int, size: int) -> PriceBook:
    """`mtime_ns` and `size` are the file's version."""
    cached = read_cache(home, time.time(), max_age=math.inf)
    return BUILT_IN_PRICES if cached is None else _price_book(cached["skus"], float(cached["read"]))


async def refresh_prices(
    session: Session, *, deadline: float = REFRESH_DEADLINE_S, retry: bool = False
) -> str:
    """Put today's prices on the session. Return why they are not today's; empty when they are.

    Prices cached less than a day ago count as today's. Gives up after `deadline` seconds and keeps the prices known.
    `retry` asks again although the catalog refused a moment ago.
    """
    home, mode = Path(session.store.home.root), session.deployment.mode
    if mode == "real" and read_cache(home, time.time()) is not None:
        session.price_book = load_price_book(home, mode)
        return ""
    try:
        cache_in = home if mode == "real" else None
        reading = asyncio.to_thread(_read_catalog, session.cloud, cache_in, 0.0 if retry else _RETRY_AFTER_S)
        answer = await asyncio.wait_for(reading, deadline)
    except TimeoutError:
        answer = _CatalogAnswer(None, "the Cloud Billing Catalog did not respond in time")
    if answer.price_book is not None:
        session.price_book = answer.price_book
        return ""
    return f"{answer.problem}; using {_describe(session.price_book)}"


@dataclass(frozen=True)
class _CatalogAnswer:
    """Prices, or why there are none."""

    price_book: PriceBook | None
    problem: str = ""


def _read_catalog(cloud: CloudContext, cache_in: Path | None, ttl: float) -> _CatalogAnswer:
    """Ask the catalog, once for all callers that ask at the same time. Blocking."""

    def ask() -> _CatalogAnswer:
        try:
            rows = list_skus(cloud, catalog.load("prices")["skus"]["service"], sku_pattern())
        except WizardError as error:
            return _CatalogAnswer(None, f"today's prices could not be read ({error.title})")
        if not rows:
            return _CatalogAnswer(None, "the Cloud Billing Catalog lists none of these machines")
        now = time.time()
        if cache_in is not None:
            write_cache(cache_in, rows, now)
        return _CatalogAnswer(_price_book(rows, now))

    answer: _CatalogAnswer = cloud.cached("list prices", ask, ttl)
    return answer


def _describe(book: PriceBook) -> str:
    return f"prices retrieved {book.read_at}" if book.skus else "the built-in price list"


def _price_book(rows: Iterable[Mapping[str, object]], read_at: float) -> PriceBook:
    return PriceBook.from_catalog(rows, datetime.fromtimestamp(read_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
