"""What a day and a task may spend, as values."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import RequestError
from loops.tasks.allowance import (
    OVERRIDES,
    Allowance,
    Allowances,
    Limits,
    checked_overrides,
    overridden,
    refused_for_the_day,
    room_at,
)
from loops.tasks.quota import WINDOW, QuotaLimits

NOW = datetime(2026, 7, 6, 12, tzinfo=UTC)
SPENDINGS = st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 50), st.integers(0, 50)), max_size=20)


def ago(*spent: tuple[float, int, float]) -> list[tuple[datetime, int, Decimal]]:
    return [(NOW - timedelta(minutes=minutes), tokens, Decimal(str(cost))) for minutes, tokens, cost in spent]


def test_a_day_that_is_used_up_says_of_what_and_when_room_frees():
    spent = ago((1_430, 60, 0), (60, 40, 0), (1_441, 500, 0))
    refused = refused_for_the_day("project", Allowance(tokens=100), spent, NOW)
    assert refused is not None
    assert (refused.quota, refused.frees_at) == ("project_spending", NOW + timedelta(minutes=10))
    assert refused.reason == (
        "This project reached its daily budget of 100 tokens (trailing 24 hours). The event was skipped. "
        "Room frees at 2026-07-06 12:10:00 UTC."
    )
    assert refused_for_the_day("project", Allowance(tokens=101), spent, NOW) is None
    money = refused_for_the_day("workflow", Allowance(cost=Decimal(2)), ago((5, 1, 2.0)), NOW)
    assert money is not None
    assert "daily budget of $2 (" in money.reason
    none = refused_for_the_day("workflow", Allowance(tokens=0), [], NOW)
    assert none is not None
    assert "No room frees" in none.reason


@given(SPENDINGS, st.integers(0, 200), st.none() | st.integers(0, 200))
def test_room_frees_at_the_first_instant_that_has_some(spent, tokens, cents):
    allowance = Allowance(tokens, None if cents is None else Decimal(cents))
    moments = ago(*spent)
    counted = [one for one in moments if one[0] > NOW - WINDOW]

    def is_full(at: datetime) -> bool:
        left = [one for one in counted if one[0] > at - WINDOW]
        return bool(allowance.used_up(sum(one[1] for one in left), sum((one[2] for one in left), Decimal(0))))

    refused = refused_for_the_day("workflow", allowance, moments, NOW)
    assert (refused is not None) == is_full(NOW)
    if refused is not None and refused.frees_at is not None:
        assert not is_full(refused.frees_at)
        assert is_full(refused.frees_at - timedelta(microseconds=1))
    elif refused is not None:
        assert room_at(allowance, counted) is None
        assert is_full(NOW + timedelta(days=2))


def test_a_project_s_own_quotas_stand_in_place_of_the_installation_s():
    usual = Limits(QuotaLimits(100, 500), Allowances(Allowance(10), Allowance(20, Decimal(2)), Allowance(30)))
    own = checked_overrides({"project_tasks": 7, "workflow_cost": 0.5, "task_tokens": None, "task_cost": "1.50"})
    assert own == {"project_tasks": 7, "workflow_cost": "0.5", "task_cost": "1.50"}
    found = overridden(usual, own)
    assert found.tasks == QuotaLimits(100, 7)
    assert found.spending == Allowances(Allowance(10, Decimal("1.50")), Allowance(20, Decimal("0.5")), Allowance(30))
    assert overridden(usual, {}) == usual
    assert (found.spending.limits_cost, found.spending.limits_tokens) == (True, True)
    assert not Allowances().limits_cost


@pytest.mark.parametrize("name", OVERRIDES)
@pytest.mark.parametrize("value", [-1, True, [], "many", 10**15, float("nan")])
def test_a_quota_that_is_none_is_refused_with_its_place(name: str, value: Any):
    with pytest.raises(RequestError) as refused:
        checked_overrides({name: value})
    assert refused.value.path == f"quotas.{name}"


def test_a_quota_that_nobody_knows_is_refused_with_the_nearest():
    with pytest.raises(RequestError) as refused:
        checked_overrides({"project_token": 5})
    assert refused.value.hint == 'did you mean "project_tokens"?'
