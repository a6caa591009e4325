"""The bill of a reservation, which is due whether its machines are used or not: for plan, status and destroy."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grpo_wizard.state.errors import WizardError
from grpo_wizard.steps.clients.queries.cached import CachedCloudReader
from grpo_wizard.steps.gcp.reservations import parse_reservation

if TYPE_CHECKING:
    from grpo_wizard.steps.deployment.session import Session


async def reservation_bill(session: Session) -> dict[str, object] | None:
    """Return {name, project, machines, machine_type, ends, usd_per_hour}; None when no reservation is used.

    A value that could not be read, or a price that is not known, is None.
    """
    quotas, project = session.answers.quotas, session.answers.project
    if quotas.capacity != "reservation":
        return None
    name = parse_reservation(quotas.reservation)
    owner = name.project or project.project_id
    reader = CachedCloudReader(session.cloud)
    try:
        found = await asyncio.to_thread(
            lambda: reader.reservation(project=owner, zone=project.zone, name=name.name)
        )
    except WizardError:
        found = None
    machines = found.count or None if found else None
    machine_type = (found.machine_type if found else "") or quotas.machine_type
    each = session.price_book.machine_price(machine_type, project.region, "reservation").usd
    return {
        "name": name.name,
        "project": owner,
        "machines": machines,
        "machine_type": machine_type,
        "ends": (found.delete_at if found else "") or None,
        "usd_per_hour": round(each * machines, 2) if each and machines else None,
    }


def format_reservation_bill(bill: dict[str, object]) -> str:
    """Return the bill as a sentence."""
    size = f"{bill['machines']} x {bill['machine_type']}" if bill["machines"] else "size unknown"
    cost = f"at {bill['usd_per_hour']:.2f} USD/h" if bill["usd_per_hour"] else "at an unknown price"
    end = f"until {bill['ends']}" if bill["ends"] else "until it is deleted (it has no end time)"
    return (
        f"reservation {bill['name']} ({size}) is billed {cost} {end}, even after destroy "
        "and whether or not its machines are used"
    )
