"""Tokens and what they cost, in words."""

from collections.abc import Sequence
from decimal import Decimal

from loops.store.task_queries import Spent
from server.cost_words import unknown_words


def money(dollars: float | Decimal) -> str:
    """`$0`, `< $0.0001`, `$0.0312`, `$1.25`: to the cent from one dollar on."""
    amount = Decimal(str(dollars)) if isinstance(dollars, float) else dollars
    if not amount:
        return "$0"
    if amount < Decimal("0.0001"):
        return "< $0.0001"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def spent_words(spent: Spent, models: Sequence[str] = ()) -> str:
    """What tasks of these models cost together, with what is not known of it and why."""
    if not spent.unknown:
        return money(spent.cost)
    return unknown_words(models, spent.input + spent.output, money(spent.cost) if spent.cost else "")


def brief_cost(spent: Spent | None, stored: float = 0.0) -> str:
    """For a column of a list: empty where nothing was spent. `stored` is what is kept when tasks no longer are."""
    if spent is None:
        return money(stored) if stored else ""
    if not spent.unknown:
        return money(spent.cost) if spent.cost else ""
    return f"{money(spent.cost)} + unknown" if spent.cost else "unknown"
