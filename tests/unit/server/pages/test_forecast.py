"""What the page of a forecast says of one."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from loops.errors import RequestError
from loops.tasks.quota import QuotaLimits
from server.forecast_words import wanted_days
from server.pages.forecast import came_of, cost_words, days_of
from triggers.forecast_basis import Basis
from triggers.forecast_hearing import Looked
from triggers.forecast_quotas import Example, Tally
from triggers.forecasting import Forecast

UNTIL = datetime(2026, 12, 8, 12, tzinfo=UTC)
BASIS = Basis(0.15, "the median of 40 tasks of this project", timedelta(minutes=5), "")


def at(days: float) -> datetime:
    """So many days before the end."""
    return UNTIL - timedelta(days=days)


def found(tally: Tally, basis: Basis = BASIS, steps: int = 1) -> Forecast:
    return Forecast("w", "Triage", at(7), UNTIL, Looked(), tally, steps, basis, QuotaLimits())


def test_what_came_stands_in_the_order_of_the_stages_and_refused_tasks_behind_the_runs_that_asked_for_them():
    tally = Tally()
    for number, stage in enumerate(("filters", "later", "mask", "start", "start")):
        tally.count(stage, at(5 - number), f"d{number}")
    tally.refuse("parallel", at(1), "d4")
    assert [
        (one.words, one.count, [example.delivery for example in one.examples]) for one in came_of(found(tally))
    ] == [
        ("would start a run", 2, ["d4", "d3"]),
        ("its task refused by a quota", 1, ["d4"]),
        ("masked", 1, ["d2"]),
        ("stopped by its filters", 1, ["d0"]),
        ("later", 1, ["d1"]),
    ]


def test_the_last_three_examples_are_kept():
    tally = Tally()
    for number in range(5):
        tally.count("start", at(5 - number), f"d{number}")
    tally.count("start", at(0))
    (came,) = came_of(found(tally))
    assert (came.count, came.examples) == (6, [Example(at(5 - number), f"d{number}") for number in (4, 3, 2)])


def test_days_are_those_of_utc_the_newest_first_and_only_such_as_had_something():
    tally = Tally()
    for before in (3.0, 2.6, 2.4, 0.1):
        tally.count("start", at(before), "d")
    tally.create(at(2.4))
    tally.refuse("workflow", at(1.0))
    days = {day: (one.counts["start"], one.created, one.refused) for day, one in days_of(found(tally)).items()}
    assert list(days.items()) == [
        (date(2026, 12, 8), (1, 0, 0)),
        (date(2026, 12, 7), (0, 0, 1)),
        (date(2026, 12, 6), (1, 1, 0)),
        (date(2026, 12, 5), (2, 0, 0)),
    ]


def test_a_cost_tells_what_it_is_based_on_and_one_that_is_not_known_why():
    tally = Tally()
    assert cost_words(found(tally, steps=0)) == "Nothing: it creates no task"
    assert cost_words(found(tally)) == "Nothing: no task would have been created"
    tally.create(UNTIL)
    assert cost_words(found(tally)) == "about $0.1500: one task, the median of 40 tasks of this project"
    tally.created = 1200
    assert cost_words(found(tally)) == (
        "about $180.00: 1,200 tasks of $0.1500 each, the median of 40 tasks of this project"
    )
    unknown = replace(BASIS, cost=None, cost_words="unknown: no task has been done yet whose cost is known")
    assert cost_words(found(tally, unknown)) == unknown.cost_words


@pytest.mark.parametrize("days", [1, 7, 90, 7.0])
def test_whole_days_are_taken(days):
    assert wanted_days(days) == int(days)


@pytest.mark.parametrize("days", [0, 91, 0.5, True, None, "7", [7], float("nan"), 10**400])
def test_what_is_no_whole_number_of_days_is_refused_with_its_mend(days):
    with pytest.raises(RequestError, match="is not a whole number from 1 to 90") as refused:
        wanted_days(days)
    assert (refused.value.path, refused.value.hint) == ("days", "ask for whole days, such as 7")
