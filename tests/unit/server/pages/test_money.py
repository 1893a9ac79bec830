from decimal import Decimal

import pytest

from loops.store.task_queries import Spent
from server.cost_words import NO_PRICE
from server.pages.money import brief_cost, money, spent_words


@pytest.mark.parametrize(
    ("dollars", "words"),
    [
        (0, "$0"),
        (0.0, "$0"),
        (0.00001, "< $0.0001"),
        (0.0001, "$0.0001"),
        (0.03125, "$0.0312"),
        (Decimal("0.5"), "$0.5000"),
        (1, "$1.00"),
        (1234.567, "$1,234.57"),
    ],
)
def test_an_amount_is_told_as_exactly_as_it_matters(dollars: float | Decimal, words: str) -> None:
    assert money(dollars) == words


def test_what_nobody_knows_is_never_told_as_nothing() -> None:
    assert spent_words(Spent(unknown=2)) == f"cost unknown: {NO_PRICE}"
    part = spent_words(Spent(cost=0.5, unknown=1))
    assert part.startswith("$0.5000 and an unknown part: no price is known")
    assert "LOOPS_PRICE" in part
    assert "LOOPS_PRICE" in NO_PRICE
    assert brief_cost(Spent(unknown=1)) == "unknown"
    assert brief_cost(Spent(cost=0.5, unknown=1)) == "$0.5000 + unknown"


def test_a_list_shows_nothing_where_nothing_was_spent_and_what_is_stored_where_tasks_are_no_longer_kept() -> None:
    assert brief_cost(None) == brief_cost(Spent()) == ""
    assert brief_cost(None, 0.25) == "$0.2500"
    assert brief_cost(Spent(cost=0.25)) == "$0.2500"


def test_what_is_spent_adds_up_with_what_is_not_known_of_it() -> None:
    whole = Spent(1, 2, None, 0.5, 0) + Spent(10, 20, 5, 0.25, 1)
    assert whole == Spent(11, 22, 5, 0.75, 1)
    assert whole.known is None
    assert Spent(cost=0.5).known == 0.5
