"""A reservation bills whether its machines are used or not: its size and its end, for plan, status and destroy."""

from __future__ import annotations

import asyncio
from typing import Any

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.deployment.session import Session
from grpo_wizard.steps.gcp.reservations import parse_reservation


async def reservation_bill(session: Session) -> dict[str, Any] | None:
    """{name, project, machines, machine_type, ends, usd_per_hour}; None where none is used.

    What could not be looked up, or has no price, is None in it.
    """
    quotas, place = session.answers["quotas"], session.answers["project"]
    if quotas.get("capacity", "reservation") != "reservation":
        return None
    parts = parse_reservation(quotas["reservation"])
    owner = parts["project"] or place["project_id"]
    try:
        seen = await asyncio.to_thread(
            CachedCloudReader(session.cloud).ask,
            "reservation",
            project=owner,
            zone=place["zone"],
            name=parts["name"],
        )
    except WizardError:
        seen = None
    specific = (seen or {}).get("specificReservation", {})
    machines = int(specific.get("count") or 0) or None
    kind = specific.get("instanceProperties", {}).get("machineType") or quotas["machine_type"]
    each = session.price_book.machine_price(kind, place["region"], "reservation").usd
    return {
        "name": parts["name"],
        "project": owner,
        "machines": machines,
        "machine_type": kind,
        "ends": (seen or {}).get("deleteAtTime") or None,
        "usd_per_hour": round(each * machines, 2) if each and machines else None,
    }


def format_reservation_bill(bill: dict[str, Any]) -> str:
    """For people."""
    size = (
        f"{bill['machines']} x {bill['machine_type']}" if bill["machines"] else "its size is not known here"
    )
    cost = (
        f"{bill['usd_per_hour']:.2f} USD/h" if bill["usd_per_hour"] else "at a price that is not known here"
    )
    end = f"until {bill['ends']}" if bill["ends"] else "with no end set: until somebody deletes it"
    return (
        f"reservation {bill['name']} ({size}) bills {cost} whether its machines are used or not, "
        f"also after a teardown, {end}"
    )
