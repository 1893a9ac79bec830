"""A forecast's core: quotas, ends of runs, and what is still held, on a time line of its own."""

from datetime import datetime, timedelta
from decimal import Decimal

from loops.event import Event
from loops.tasks.allowance import Allowance, Allowances
from loops.tasks.quota import QuotaLimits
from tests.unit.triggers.brake_machine import START
from triggers.brakes import Debounce, KeyOf, OverlapRule, Rules
from triggers.forecast import Forecaster
from triggers.forecast_quotas import Assumed, Tally

ALL = KeyOf(None, "trigger_overlap")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def event(number: int, *, subject: str | None = None, claim: str | None = None) -> Event:
    return Event(f"u{number}", "e", "github", "ada", START, {}, subject=subject, claim=claim)


def forecast(times: "list[float]", until: float, rules: Rules | None = None, **assumed: object) -> Tally:
    made = Forecaster(None, rules, Assumed(**assumed))  # type: ignore[arg-type]  # what each test names
    for number, seconds in enumerate(times):
        made.arrive(at(seconds), event(number), f"d{number}")
    return made.close(at(until))


def overlap(policy: str, maximum: int = 1) -> Rules:
    return Rules(overlap=OverlapRule(policy, maximum, ALL))  # type: ignore[arg-type]  # a policy


def test_a_run_that_waits_begins_as_the_one_before_it_ends_and_creates_its_task_then():
    tally = forecast([0, 10, 20], 1000, overlap("queue", 1), tasks=1, lasts=timedelta(seconds=100))
    assert (tally.counts, tally.waited, tally.created) == ({"start": 2, "overlap": 1}, 1, 2)
    assert tally.peaks["parallel"].most == 1


def test_a_newer_run_replaces_the_one_under_way_and_takes_its_place_among_the_tasks():
    limits = QuotaLimits(100, 500, 1)
    tally = forecast([0, 10, 20], 1000, overlap("restart"), tasks=1, lasts=timedelta(seconds=100), limits=limits)
    assert (tally.counts, tally.replaced, tally.created, dict(tally.refused)) == ({"start": 3}, 2, 3, {})


def test_as_many_tasks_as_may_be_at_once_are_under_way_and_the_next_is_refused():
    limits = QuotaLimits(100, 500, 2)
    tally = forecast([0, 10, 20, 120], 1000, tasks=1, lasts=timedelta(seconds=100), limits=limits)
    assert (tally.created, dict(tally.refused), tally.first_refused["parallel"]) == (3, {"parallel": 1}, at(20))


def test_what_other_workflows_created_counts_for_the_project_for_a_day():
    day, limits = 86_400, QuotaLimits(100, 3, 5)
    others = [at(-day + 5), at(0), at(15)]
    tally = forecast([1, 10, 20, day + 1], day * 2, tasks=1, other_tasks=others, limits=limits)
    assert (tally.created, dict(tally.refused)) == (3, {"project": 1})
    assert (tally.peaks["project"].most, tally.peaks["project"].at) == (3, at(1))


def test_what_a_day_may_cost_is_held_against_it_with_what_others_spent():
    allowed = Allowances(workflow=Allowance(cost=Decimal("0.50")), project=Allowance(cost=Decimal("1.00")))
    each: dict[str, object] = {"tasks": 1, "cost": Decimal("0.20"), "tokens": 1000, "spending": allowed}
    alone = forecast([0, 10, 20, 30, 86_401], 90_000, None, **each)
    assert (alone.created, dict(alone.refused)) == (4, {"workflow_spending": 1})
    assert alone.first_refused["workflow_spending"] == at(30)
    beside = forecast([0, 10, 20], 90_000, None, **each, others_spent=[(at(5), 10, Decimal("0.80"))])
    assert (beside.created, dict(beside.refused)) == (1, {"project_spending": 2})
    tokens = Allowances(project=Allowance(tokens=1500))
    assert forecast([0, 10, 20], 100, None, **{**each, "spending": tokens}).created == 2


def test_what_debounce_holds_in_the_end_is_told_and_has_started_nothing():
    rule = Debounce(timedelta(seconds=60), timedelta(seconds=300), ALL)
    tally = forecast([0, 10, 100], 120, Rules(debounce=rule))
    assert (tally.counts, tally.pending) == ({"start": 1, "debounce": 2}, 1)
    assert forecast([0, 10, 100], 160, Rules(debounce=rule)).counts == {"start": 2, "debounce": 1}


def test_a_fact_counts_once_and_a_subject_as_often_as_it_may():
    made = Forecaster(None, None, Assumed(subject_runs=2, other_runs={"s": [(at(5), "elsewhere")]}))
    made.arrive(at(0), event(1, subject="s", claim="c"))
    made.arrive(at(1), event(2, subject="s", claim="c"))
    made.arrive(at(10), event(3, subject="s"))
    made.arrive(at(3700), event(4, subject="s"))
    assert made.close(at(4000)).counts == {"start": 2, "claim": 1, "subject_limit": 1}


def examples(tally: Tally) -> "dict[str, list[str]]":
    return {stage: [one.delivery for one in those] for stage, those in tally.examples.items()}


def test_the_last_deliveries_of_each_stage_are_kept_and_those_whose_task_was_refused():
    limits = QuotaLimits(100, 500, 1)
    tally = forecast([0, 1, 2, 3, 4], 1000, tasks=1, lasts=timedelta(seconds=100), limits=limits)
    assert examples(tally) == {"start": ["d2", "d3", "d4"], "quota": ["d2", "d3", "d4"]}
    rule = Debounce(timedelta(seconds=60), timedelta(seconds=300), ALL)
    assert examples(forecast([0, 10, 100], 120, Rules(debounce=rule))) == {"debounce": ["d0", "d2"], "start": ["d1"]}
    assert examples(forecast([0, 10], 1000, overlap("skip"), lasts=timedelta(seconds=100))) == {
        "start": ["d0"],
        "overlap": ["d1"],
    }


def test_tasks_are_counted_by_the_hour_in_which_they_were_created_or_refused():
    limits = QuotaLimits(100, 500, 1)
    tally = forecast([0, 10, 3600], 9000, tasks=1, lasts=timedelta(seconds=100), limits=limits)
    assert {hour.hour: (one.created, one.refused) for hour, one in tally.tasks.items()} == {12: (1, 1), 13: (1, 0)}


def test_verdicts_are_counted_by_the_hour_in_which_they_were_given():
    rule = Debounce(timedelta(seconds=1800), timedelta(seconds=3600), ALL)
    tally = forecast([2000], 9000, Rules(debounce=rule))
    assert {hour.hour: dict(counts) for hour, counts in tally.hours.items()} == {13: {"start": 1}}
