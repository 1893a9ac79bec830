"""Tokens and what they cost, in words."""

from decimal import Decimal

from loops.store.task_queries import Spent
from server.cost_words import PART_UNKNOWN, UNKNOWN


def money(dollars: float | Decimal) -> str:
    """`$0`, `< $0.0001`, `$0.0312`, `$1.25`: to the cent from one dollar on."""
    amount = Decimal(str(dollars)) if isinstance(dollars, float) else dollars
    if not amount:
        return "$0"
    if amount < Decimal("0.0001"):
        return "< $0.0001"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def cost_words(cost: float | Decimal | None) -> str:
    """What something cost, or that nobody knows."""
    return UNKNOWN if cost is None else money(cost)


def spent_words(spent: Spent) -> str:
    """What several tasks cost together, with what is not known of it."""
    if not spent.unknown:
        return money(spent.cost)
    return f"{money(spent.cost)} {PART_UNKNOWN}" if spent.cost else UNKNOWN


def brief_cost(spent: Spent | None, stored: float = 0.0) -> str:
    """For a column of a list: empty where nothing was spent. `stored` is what is kept when tasks no longer are."""
    if spent is None:
        return money(stored) if stored else ""
    if not spent.unknown:
        return money(spent.cost) if spent.cost else ""
    return f"{money(spent.cost)} + unknown" if spent.cost else "unknown"
