"""Hourly prices: list prices from the Cloud Billing Catalog where it was read, else the built-in list in the assets.

Every price has a source and a date. A resource that neither source names has no price: it is reported as unknown,
never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from grpo_wizard.steps.core import catalog
from grpo_wizard.steps.core.model import Resource

if TYPE_CHECKING:
    from grpo_wizard.steps.answers import Answers

# Units of the catalog that are priced by the hour; a SKU with any other unit is skipped.
_HOURLY_UNITS = {"h", "GiBy.h"}


@dataclass(frozen=True)
class PriceQuote:
    """USD per hour of one resource, None when no source gives a price. `date` is the source's own."""

    usd: float | None
    source: str
    date: str = ""

    def times(self, count: int) -> PriceQuote:
        return replace(self, usd=None if self.usd is None else round(self.usd * count, 4))


UNKNOWN_PRICE = PriceQuote(None, "no source lists a price")


@dataclass(frozen=True)
class Sku:
    """One row of the Cloud Billing Catalog: description, regions, and USD per unit and hour."""

    description: str
    regions: frozenset[str]
    usd: float
    date: str


def parse_sku(row: Mapping[str, Any]) -> Sku | None:
    """Parse a SKU of cloudbilling v1 `services.skus.list`. Return None unless it has exactly one hourly price in USD."""
    priced = row.get("pricingInfo") or []
    if not priced:
        return None
    newest = priced[-1]  # oldest first; the API returns only the latest unless a time range is given
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
    """Return a pattern of the SKU descriptions that price a supported machine, out of tens of thousands of SKUs."""
    parts = (
        part["description"]
        for models in catalog.load("prices")["skus"]["machines"].values()
        for parts in models.values()
        for part in parts
    )
    return re.compile("|".join(f"(?:{each})" for each in sorted(set(parts))))


@dataclass(frozen=True)
class PriceBook:
    """Prices to look up. Without SKUs, only the built-in list. `read_at` is the UTC time at which the SKUs were read."""

    skus: tuple[Sku, ...] = ()
    read_at: str = ""

    @classmethod
    def from_catalog(cls, rows: Iterable[Mapping[str, object]], read_at: str) -> PriceBook:
        return cls(tuple(sku for sku in map(parse_sku, rows) if sku is not None), read_at)

    def machine_price(
        self, machine_type: str, region: str, provisioning_model: str = "on_demand"
    ) -> PriceQuote:
        """Price one machine. `provisioning_model` as in quotas.capacity; a reservation bills at the on-demand price."""
        model = "on_demand" if provisioning_model == "reservation" else provisioning_model
        return self._catalog_price(machine_type, region, model) or _built_in_price(
            machine_type, region, model
        )

    def _catalog_price(self, machine_type: str, region: str, model: str) -> PriceQuote | None:
        """Sum the prices of its parts; None as soon as one part does not have exactly one price in the region."""
        parts = catalog.load("prices")["skus"]["machines"].get(machine_type, {}).get(model, [])
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
            round(total, 4),
            f"Cloud Billing Catalog, retrieved {self.read_at}",
            max(dates) or self.read_at[:10],
        )


BUILT_IN_PRICES = PriceBook()


def _built_in_price(machine_type: str, region: str, model: str) -> PriceQuote:
    known = catalog.load("prices")
    if model == "on_demand":
        row = known["on_demand"].get(machine_type, {})
        usd = row.get("usd", {}).get(region)
        return UNKNOWN_PRICE if usd is None else PriceQuote(usd, row["source"], row["date"])
    row = known["spot"].get(machine_type) if model == "spot" else None
    return PriceQuote(row["high"], row["source"], row["date"]) if row else UNKNOWN_PRICE


def price_quote(resource: Resource, answers: Answers, price_book: PriceBook) -> PriceQuote | None:
    """Price a resource that is billed by the hour; None for one that is free by itself."""
    region = answers.project.region
    if resource.kind == "node_pool":
        quotas = answers.quotas
        machine = price_book.machine_price(quotas.machine_type, region, quotas.capacity)
        return machine.times(quotas.gpu_nodes)
    if resource.kind == "cluster":
        cluster, fee = answers.cluster, catalog.load("prices")["gke_cluster"]
        nodes = 1 if cluster.one_cpu_node else catalog.ZONES_PER_REGION
        quote = price_book.machine_price(cluster.cpu_machine_type, region).times(nodes)
        if quote.usd is None:
            return quote
        return replace(
            quote, usd=round(quote.usd + float(fee["usd"]), 4), source=f"{quote.source}; {fee['source']}"
        )
    if resource.kind == "lustre":
        lustre = answers.lustre
        return _lustre_price(lustre.capacity_gib, str(lustre.per_unit_storage_throughput), region)
    return UNKNOWN_PRICE if resource.usd_per_hour is None else None


def _lustre_price(capacity_gib: int, tier: str, region: str) -> PriceQuote:
    """Managed Lustre is billed per GiB and month; the tier is its throughput in MB/s per TiB."""
    known = catalog.load("prices")["managed_lustre"]
    usd = known["usd_per_gib_month"].get(region, {}).get(tier)
    if usd is None:
        return UNKNOWN_PRICE
    return PriceQuote(round(usd * capacity_gib / known["hours_per_month"], 4), known["source"], known["date"])


def with_prices(
    resources: Sequence[Resource], answers: Answers, price_book: PriceBook = BUILT_IN_PRICES
) -> list[Resource]:
    """Return the resources with the prices of `price_book` filled in."""
    return [
        resource if found is None else replace(resource, usd_per_hour=found.usd)
        for resource, found in ((r, price_quote(r, answers, price_book)) for r in resources)
    ]


def price_sources(resources: Sequence[Resource], answers: Answers, price_book: PriceBook) -> dict[str, str]:
    """Return the source of each price by resource id."""
    quotes = {r.id: price_quote(r, answers, price_book) for r in resources}
    return {
        id: f"{found.source} ({found.date})"
        if found.date and found.date not in found.source
        else found.source
        for id, found in quotes.items()
        if found is not None
    }


def hourly_cost(resources: Sequence[Resource]) -> tuple[float, list[str]]:
    """USD an hour of what has a known price, and the ids of what has none."""
    known = round(sum(r.usd_per_hour for r in resources if r.usd_per_hour), 4)
    return known, [r.id for r in resources if r.usd_per_hour is None]
