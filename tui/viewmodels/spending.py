"""What the spending limit means for a plan that is about to be launched, and what is still billed after a destroy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_wizard.steps.engine.spending import (
    creates_free_resources,
    describe_unpriced,
    spending_errors,
    unpriced_resources,
)
from grpo_wizard.steps.pricing.book import PriceBook
from grpo_wizard.steps.pricing.budget import BudgetGuard, SpendingLimits, spending_limit
from grpo_wizard.steps.registry import all_resources, validate
from grpo_wizard.tui.style.i18n import _
from grpo_wizard.tui.viewmodels.labels import count_unpriced

if TYPE_CHECKING:
    from grpo_wizard.steps.engine.plan import Decision
    from grpo_wizard.tui.controllers.draft import Draft


@dataclass(frozen=True)
class SpendingReview:
    """`blocker`: why it cannot be launched. `notice`: what the limit does not promise. `overridable`: by "start anyway"."""

    blocker: str = ""
    notice: str = ""
    overridable: bool = False


def review_spending(
    draft: Draft, decisions: Sequence[Decision] | None, price_book: PriceBook, *, accept_unpriced: bool
) -> SpendingReview:
    """Compare a plan with project.max_usd at the prices known now. Empty while there is no plan or no limit."""
    if decisions is None or draft.validate()[1]:
        return SpendingReview()
    answers = validate(draft.working_answers)
    limits = SpendingLimits(total_usd=spending_limit(answers, None))
    if not limits.any_set:
        return SpendingReview()
    budget = BudgetGuard(draft.deployment, all_resources(answers, price_book), limits.total_usd)
    if errors := spending_errors(decisions, budget, limits, allow_unpriced=True):
        return SpendingReview(f"{errors[0]['title']}. {errors[0]['fix']}")
    unpriced = describe_unpriced(unpriced_resources(decisions, budget.resources))
    if not unpriced:
        return SpendingReview(notice=budget.warning())
    if creates_free_resources(decisions) and draft.deployment.mode == "real":
        text = _("No price is known yet for {names}; prices will be read again once the APIs are enabled")
        return SpendingReview(notice=text.format(names=unpriced))
    strict = spending_errors(decisions, budget, limits)
    if strict and not accept_unpriced:
        return SpendingReview(strict[0]["title"], overridable=True)
    text = _("The spending limit covers known prices only; no price is known for {names}")
    return SpendingReview(notice=text.format(names=unpriced), overridable=bool(strict))


def format_remaining_cost(prices: Iterable[float | None], free: bool = False) -> str:
    """Describe what is billed after a destroy. `prices`: USD per hour of what is kept, None where unknown.

    `free`: in a rehearsal, where nothing is billed.
    """
    billed = [usd for usd in prices if usd != 0]
    known = sum(usd for usd in billed if usd is not None)
    unknown = sum(usd is None for usd in billed)
    if not billed:
        return _("After this, nothing will be billed.")
    price = _("{usd} USD/h").format(usd=f"{known:.2f}")
    if unknown:
        price += f" + {count_unpriced(unknown)}"
    return _("After this, {price} will still be billed.").format(price=price) + (
        " " + _("(free in a rehearsal)") if free else ""
    )
