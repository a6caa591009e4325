"""What a deployment costs an hour: today's list prices where the Cloud Billing Catalog answered, else the catalogue in the assets.

Every price has a source and a date. What neither of them names has no price: it is listed as unknown, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.model import Answers, Resource

# The spans in which the catalogue's units are priced; anything else is not taken for an hour.
_HOURLY_UNITS = {"h", "GiBy.h"}


@dataclass(frozen=True)
class PriceQuote:
    """USD an hour of one thing; None: no source gives one. `date` is the source's own."""

    usd: float | None
    source: str
    date: str = ""

    def times(self, count: int) -> PriceQuote:
        return replace(self, usd=None if self.usd is None else round(self.usd * count, 4))


UNKNOWN_PRICE = PriceQuote(None, "no source gives a price")


@dataclass(frozen=True)
class Sku:
    """One row of the Cloud Billing Catalog: what it is called, where it holds, USD for one unit an hour."""

    description: str
    regions: frozenset[str]
    usd: float
    date: str


def parse_sku(row: Mapping[str, Any]) -> Sku | None:
    """A SKU of the REST API (cloudbilling v1 services.skus.list). None where its price is no single one an hour."""
    priced = row.get("pricingInfo") or []
    if not priced:
        return None
    newest = priced[-1]  # in the order of time (the API returns the latest only, unless asked for a span)
    expression = newest.get("pricingExpression", {})
    paid = {_usd(rate) for rate in expression.get("tieredRates", [])} - {0.0}
    if expression.get("usageUnit") not in _HOURLY_UNITS or len(paid) != 1 or None in paid:
        return None
    [usd] = paid
    date = str(newest.get("effectiveTime", ""))[:10]
    return Sku(
        str(row.get("description", "")), frozenset(row.get("serviceRegions", [])), float(usd or 0), date
    )


def _usd(rate: Mapping[str, Any]) -> float | None:
    price = rate.get("unitPrice", {})
    if price.get("currencyCode", "USD") != "USD":
        return None
    return int(price.get("units") or 0) + int(price.get("nanos") or 0) / 1e9


def sku_pattern() -> re.Pattern[str]:
    """Descriptions that some machine of ours is billed by, of the tens of thousands that there are."""
    parts = (
        part["description"]
        for ways in catalog.load("prices")["skus"]["machines"].values()
        for parts in ways.values()
        for part in parts
    )
    return re.compile("|".join(f"(?:{each})" for each in sorted(set(parts))))


@dataclass(frozen=True)
class PriceBook:
    """The prices that are at hand. Without SKUs it is the catalogue in the assets. `read` is when the SKUs were."""

    skus: tuple[Sku, ...] = ()
    read_at: str = ""

    @classmethod
    def from_catalog(cls, rows: Iterable[Mapping[str, Any]], read_at: str) -> PriceBook:
        return cls(tuple(sku for sku in map(parse_sku, rows) if sku is not None), read_at)

    def machine_price(
        self, machine_type: str, region: str, provisioning_model: str = "on_demand"
    ) -> PriceQuote:
        """One machine. `capacity` as in quotas.capacity; a reservation bills at the list price."""
        way = "on_demand" if provisioning_model == "reservation" else provisioning_model
        return self._catalog_price(machine_type, region, way) or _built_in_price(machine_type, region, way)

    def _catalog_price(self, machine_type: str, region: str, way: str) -> PriceQuote | None:
        """The sum of its parts; None as soon as one part has not exactly one price there."""
        parts = catalog.load("prices")["skus"]["machines"].get(machine_type, {}).get(way, [])
        total, dates = 0.0, []
        for part in parts:
            pattern = re.compile(part["description"])
            fitting = [s for s in self.skus if region in s.regions and pattern.fullmatch(s.description)]
            if len({sku.usd for sku in fitting}) != 1:
                return None
            total += fitting[0].usd * part["count"]
            dates.append(fitting[0].date)
        if not dates:
            return None
        return PriceQuote(
            round(total, 4), f"Cloud Billing Catalog, read {self.read_at}", max(dates) or self.read_at[:10]
        )


BUILT_IN_PRICES = PriceBook()


def _built_in_price(machine_type: str, region: str, way: str) -> PriceQuote:
    known = catalog.load("prices")
    if way == "on_demand":
        row = known["on_demand"].get(machine_type, {})
        usd = row.get("usd", {}).get(region)
        return UNKNOWN_PRICE if usd is None else PriceQuote(usd, row["source"], row["date"])
    row = known["spot"].get(machine_type) if way == "spot" else None
    return PriceQuote(row["high"], row["source"], row["date"]) if row else UNKNOWN_PRICE


def price_quote(resource: Resource, answers: Answers, price_book: PriceBook) -> PriceQuote | None:
    """Of a resource that is billed by the hour; None for one that costs nothing by itself."""
    region = answers["project"]["region"]
    if resource.kind == "node_pool":
        mine = answers["quotas"]
        capacity = mine.get("capacity", "reservation")
        return price_book.machine_price(mine["machine_type"], region, capacity).times(mine["gpu_nodes"])
    if resource.kind == "cluster":
        mine, fee = answers["cluster"], catalog.load("prices")["gke_cluster"]
        nodes = 1 if mine["one_cpu_node"] else catalog.ZONES_PER_REGION
        seen = price_book.machine_price(mine["cpu_machine_type"], region).times(nodes)
        if seen.usd is None:
            return seen
        return replace(
            seen, usd=round(seen.usd + float(fee["usd"]), 4), source=f"{seen.source}; {fee['source']}"
        )
    return UNKNOWN_PRICE if resource.usd_per_hour is None else None


def with_prices(
    resources: Sequence[Resource], answers: Answers, price_book: PriceBook = BUILT_IN_PRICES
) -> list[Resource]:
    """The same resources with the prices of `book` on them."""
    return [
        resource if found is None else replace(resource, usd_per_hour=found.usd)
        for resource, found in ((r, price_quote(r, answers, price_book)) for r in resources)
    ]


def price_sources(resources: Sequence[Resource], answers: Answers, price_book: PriceBook) -> dict[str, str]:
    """Where each price is from, by resource id."""
    quotes = {r.id: price_quote(r, answers, price_book) for r in resources}
    return {
        id: f"{found.source} ({found.date})"
        if found.date and found.date not in found.source
        else found.source
        for id, found in quotes.items()
        if found is not None
    }
