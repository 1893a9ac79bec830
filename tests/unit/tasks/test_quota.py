from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.tasks.quota import WINDOW, Allowed, QuotaLimits, QuotaUsage, Refused, decide, in_window, next_slot

NOW = datetime(2026, 7, 6, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MOMENTS = st.lists(st.integers(-200_000, 100).map(lambda seconds: NOW + seconds * SECOND), max_size=30)


def ago(*hours: float) -> list[datetime]:
    return [NOW - timedelta(hours=each) for each in hours]


def test_a_task_within_every_quota_is_allowed():
    usage = QuotaUsage(ago(*[1] * 99), ago(*[1] * 499), 4)
    assert decide(NOW, usage, QuotaLimits()) == Allowed()


def test_the_workflow_s_quota_names_itself_and_its_next_slot():
    refused = decide(NOW, QuotaUsage(ago(*range(20), 23.5)), QuotaLimits(workflow=21))
    assert refused == Refused(
        "workflow",
        "This workflow reached its daily limit of 21 tasks (trailing 24 hours). The event was skipped. "
        "The next slot frees at 2026-07-06 12:30:00 UTC.",
        NOW + timedelta(minutes=30),
    )


def test_the_project_s_quota_is_asked_after_the_workflow_s():
    usage = QuotaUsage(ago(1), ago(1, 2), running=9)
    refused = decide(NOW, usage, QuotaLimits(project=2))
    assert isinstance(refused, Refused)
    assert refused.quota == "project"
    assert refused.reason.startswith("This project reached its daily limit of 2 tasks created by workflows")
    assert refused.frees_at == NOW + timedelta(hours=22)


def test_the_parallel_limit_frees_with_a_task_and_not_with_the_clock():
    refused = decide(NOW, QuotaUsage(running=5), QuotaLimits())
    assert isinstance(refused, Refused)
    assert (refused.quota, refused.frees_at) == ("parallel", None)
    assert "already has 5 tasks in flight (limit 5)" in refused.reason


def test_what_is_exactly_a_day_old_does_not_count_and_what_is_a_moment_younger_does():
    limits = QuotaLimits(workflow=1)
    assert decide(NOW, QuotaUsage([NOW - WINDOW]), limits) == Allowed()
    assert isinstance(decide(NOW, QuotaUsage([NOW - WINDOW + timedelta(microseconds=1)]), limits), Refused)


def test_the_time_that_is_told_is_never_before_the_slot():
    refused = decide(NOW, QuotaUsage([NOW - timedelta(microseconds=1)]), QuotaLimits(workflow=1))
    assert isinstance(refused, Refused)
    assert "2026-07-07 12:00:00 UTC" in refused.reason


def test_a_limit_of_none_frees_no_slot():
    refused = decide(NOW, QuotaUsage(), QuotaLimits(workflow=0))
    assert isinstance(refused, Refused)
    assert (refused.frees_at, "No slot frees" in refused.reason) == (None, True)


@given(st.lists(st.integers(0, 40_000), min_size=1, max_size=60), st.integers(1, 6), st.integers(1, 6))
def test_no_trailing_window_ever_holds_more_than_the_limit(gaps, workflow, project):
    """Tries at any times, each that is allowed is created: of the workflow every other one, of the project all."""
    limits = QuotaLimits(workflow, project, parallel=10**6)
    own: list[datetime] = []
    every: list[datetime] = []
    moment = NOW
    for number, gap in enumerate(gaps):
        moment += gap * SECOND
        mine = number % 2 == 0
        if decide(moment, QuotaUsage(own if mine else [], every), limits) == Allowed():
            every.append(moment)
            if mine:
                own.append(moment)
        for created, limit in ((own, workflow), (every, project)):
            assert len([one for one in created if moment - WINDOW < one <= moment]) <= limit


@given(MOMENTS, st.integers(1, 12))
def test_the_next_slot_is_the_first_instant_that_is_free(created, limit):
    slot = next_slot(NOW, created, limit)
    assert slot is not None
    assert slot >= NOW
    assert len(in_window(slot, created)) < limit
    if slot > NOW:
        assert len(in_window(slot - timedelta(microseconds=1), created)) >= limit


@given(MOMENTS, st.integers(0, 5), st.integers(0, 20), st.integers(1, 5), st.randoms())
def test_a_decision_does_not_depend_on_the_order_of_what_was_created(created, running, limit, parallel, random):
    shuffled = list(created)
    random.shuffle(shuffled)
    limits = QuotaLimits(limit, limit, parallel)
    assert decide(NOW, QuotaUsage(created, created, running), limits) == decide(
        NOW, QuotaUsage(shuffled, shuffled, running), limits
    )


@pytest.mark.parametrize("used", [95, 99, 100])
def test_a_burst_takes_what_is_left_and_no_more(used):
    created = ago(*[1] * used)
    taken = 0
    for _ in range(20):
        if decide(NOW, QuotaUsage(created, created), QuotaLimits(parallel=100)) == Allowed():
            created.append(NOW)
            taken += 1
    assert taken == 100 - used
