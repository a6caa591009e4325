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
_HOURLY = {"h", "GiBy.h"}


@dataclass(frozen=True)
class Quote:
    """USD an hour of one thing; None: no source gives one. `date` is the source's own."""

    usd: float | None
    source: str
    date: str = ""

    def times(self, count: int) -> Quote:
        return replace(self, usd=None if self.usd is None else round(self.usd * count, 4))


UNKNOWN = Quote(None, "no source gives a price")


@dataclass(frozen=True)
class Sku:
    """One row of the Cloud Billing Catalog: what it is called, where it holds, USD for one unit an hour."""

    description: str
    regions: frozenset[str]
    usd: float
    date: str


def read_sku(row: Mapping[str, Any]) -> Sku | None:
    """A SKU of the REST API (cloudbilling v1 services.skus.list). None where its price is no single one an hour."""
    priced = row.get("pricingInfo") or []
    if not priced:
        return None
    newest = priced[-1]  # in the order of time (the API returns the latest only, unless asked for a span)
    expression = newest.get("pricingExpression", {})
    paid = {_usd(rate) for rate in expression.get("tieredRates", [])} - {0.0}
    if expression.get("usageUnit") not in _HOURLY or len(paid) != 1 or None in paid:
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


def wanted_skus() -> re.Pattern[str]:
    """Descriptions that some machine of ours is billed by, of the tens of thousands that there are."""
    parts = (
        part["description"]
        for ways in catalog.load("prices")["skus"]["machines"].values()
        for parts in ways.values()
        for part in parts
    )
    return re.compile("|".join(f"(?:{each})" for each in sorted(set(parts))))


@dataclass(frozen=True)
class Book:
    """The prices that are at hand. Without SKUs it is the catalogue in the assets. `read` is when the SKUs were."""

    skus: tuple[Sku, ...] = ()
    read: str = ""

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], read: str) -> Book:
        return cls(tuple(sku for sku in map(read_sku, rows) if sku is not None), read)

    def machine(self, machine_type: str, region: str, capacity: str = "on_demand") -> Quote:
        """One machine. `capacity` as in quotas.capacity; a reservation bills at the list price."""
        way = "on_demand" if capacity == "reservation" else capacity
        return self._live(machine_type, region, way) or _listed(machine_type, region, way)

    def _live(self, machine_type: str, region: str, way: str) -> Quote | None:
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
        return Quote(
            round(total, 4), f"Cloud Billing Catalog, read {self.read}", max(dates) or self.read[:10]
        )


CATALOGUE = Book()


def _listed(machine_type: str, region: str, way: str) -> Quote:
    known = catalog.load("prices")
    if way == "on_demand":
        row = known["on_demand"].get(machine_type, {})
        usd = row.get("usd", {}).get(region)
        return UNKNOWN if usd is None else Quote(usd, row["source"], row["date"])
    row = known["spot"].get(machine_type) if way == "spot" else None
    return Quote(row["high"], row["source"], row["date"]) if row else UNKNOWN


def quote(resource: Resource, answers: Answers, book: Book) -> Quote | None:
    """Of a resource that is billed by the hour; None for one that costs nothing by itself."""
    region = answers["project"]["region"]
    if resource.kind == "node_pool":
        mine = answers["quotas"]
        capacity = mine.get("capacity", "reservation")
        return book.machine(mine["machine_type"], region, capacity).times(mine["gpu_nodes"])
    if resource.kind == "cluster":
        mine, fee = answers["cluster"], catalog.load("prices")["gke_cluster"]
        nodes = 1 if mine["one_cpu_node"] else catalog.ZONES_PER_REGION
        seen = book.machine(mine["cpu_machine_type"], region).times(nodes)
        if seen.usd is None:
            return seen
        return replace(
            seen, usd=round(seen.usd + float(fee["usd"]), 4), source=f"{seen.source}; {fee['source']}"
        )
    return UNKNOWN if resource.usd_per_hour is None else None


def priced(resources: Sequence[Resource], answers: Answers, book: Book = CATALOGUE) -> list[Resource]:
    """The same resources with the prices of `book` on them."""
    return [
        resource if found is None else replace(resource, usd_per_hour=found.usd)
        for resource, found in ((r, quote(r, answers, book)) for r in resources)
    ]


def sources(resources: Sequence[Resource], answers: Answers, book: Book) -> dict[str, str]:
    """Where each price is from, by resource id."""
    quotes = {r.id: quote(r, answers, book) for r in resources}
    return {
        id: f"{found.source} ({found.date})"
        if found.date and found.date not in found.source
        else found.source
        for id, found in quotes.items()
        if found is not None
    }
