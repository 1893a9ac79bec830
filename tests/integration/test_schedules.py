"""Schedules on SQLite and on Postgres: what they fire, once each, and what becomes of them as time and people go on."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.errors import Conflict, NotFound, ScheduleError
from loops.runs.succession import run_ended
from loops.store import schedules as store
from loops.store import workflows as workflows_store
from loops.store.database import Database, open_database
from loops.store.schedule_tables import occurrences, schedules
from loops.store.tables import runs
from tests.integration.almanac import PROJECT, Almanac
from tests.integration.serving import workflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

MINUTE = timedelta(minutes=1)
DAILY = {"rrule": "FREQ=DAILY;INTERVAL=1", "starts_at": "2026-06-15T09:00:00Z"}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(module_database_url: str) -> AsyncIterator[Database]:
    opened = await asyncio.to_thread(open_database, module_database_url)
    yield opened
    await opened.aclose()


@pytest_asyncio.fixture(loop_scope="module")
async def almanac(database: Database) -> Almanac:
    """Nothing is due that another test has left."""
    found = Almanac(database)
    await found.write(
        lambda connection: [connection.execute(one.delete()).rowcount for one in (schedules, occurrences)]
    )
    return found


async def test_case_117_118_a_workflow_has_several_schedules_and_each_is_due_at_its_next_occurrence(almanac):
    flow = await almanac.workflow()
    first = await almanac.schedule(flow)
    second = await almanac.schedule(flow, **DAILY, timezone="America/New_York")
    assert first.next_due == at("2026-06-15 09:00")
    assert second.next_due == at("2026-06-15 09:00")
    assert (first.status, first.catch_up, first.idle_since) == ("active", "last", None)
    assert await almanac.read(store.earliest_due) == first.next_due


async def test_case_129_what_is_due_starts_a_run_and_is_due_at_the_next(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow, timezone="Europe/Berlin")
    assert await almanac.at("2026-06-15 08:59:59") == 0
    assert await almanac.at("2026-06-15 09:00:03") == 1
    assert await almanac.at("2026-06-15 09:00:04") == 0
    (run,) = await almanac.runs_of(flow)
    assert (run["source"], run["event_name"], run["status"], run["delivery_id"]) == (
        "schedule", "$scheduled", "queued", None,
    )  # fmt: skip
    assert almanac.queue.queued == [run["id"]]
    (past,) = await almanac.past(schedule)
    assert (past.due_at, past.outcome, past.run_id) == (at("2026-06-15 09:00"), "ran", run["id"])
    assert (await almanac.row(schedule)).next_due == at("2026-06-15 10:00")
    event = await almanac.event(run)
    assert (event.timestamp, event.person, event.verified) == (at("2026-06-15 09:00"), None, True)
    assert event.properties == {
        "schedule_id": schedule.id,
        "scheduled_at": "2026-06-15T09:00:00+00:00",
        "local_time": "2026-06-15T11:00:00+02:00",
        "timezone": "Europe/Berlin",
        "weekday": "Monday",
        "late": False,
    }


async def test_case_130_what_is_due_of_a_workflow_that_is_not_active_is_not_started_and_nothing_is_due(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    # As a damaged database, or another release, would have it: the schedule was not told.
    await almanac.write(lambda connection: workflows_store.update(connection, flow.id, status="draft"))
    assert await almanac.at("2026-06-15 09:00:01") == 1
    assert await almanac.at("2026-06-15 10:00:01") == 0
    assert await almanac.outcomes(schedule) == ["06-15 09:00 skipped"]
    assert (await almanac.row(schedule)).next_due is None
    assert await almanac.runs_of(flow) == []


async def test_case_131_a_schedule_of_a_draft_is_armed_from_now_as_the_workflow_is_enabled(almanac):
    flow = await almanac.workflow("draft")
    schedule = await almanac.schedule(flow)
    assert (schedule.next_due, schedule.status) == (None, "active")
    almanac.clock.time = at("2026-06-15 11:20")
    await almanac.workflows.enable(PROJECT, flow.id, "ada")
    assert (await almanac.row(schedule)).next_due == at("2026-06-15 12:00")
    assert await almanac.outcomes(schedule) == [
        "06-15 09:00 skipped", "06-15 10:00 skipped", "06-15 11:00 skipped",
    ]  # fmt: skip


async def test_case_131_what_is_active_and_not_armed_is_armed_from_now_as_the_clock_starts(almanac):
    flow = await almanac.workflow()
    found = [await almanac.schedule(flow) for _ in range(3)]
    for one in found:
        await almanac.write(partial(store.update, schedule_id=one.id, next_due=None, fault="x"))
    almanac.clock.time = at("2026-06-15 11:20")
    await almanac.occurrences.arm()
    for one in found:
        row = await almanac.row(one)
        assert (row.next_due, row.fault) == (at("2026-06-15 12:00"), "")


async def test_case_132_a_schedule_without_further_occurrence_is_completed(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow, rrule="FREQ=DAILY;COUNT=2", starts_at="2026-06-15T09:00:00Z")
    await almanac.at("2026-06-15 09:00:01")
    assert (await almanac.row(schedule)).status == "active"
    await almanac.at("2026-06-16 09:00:01")
    row = await almanac.row(schedule)
    assert (row.status, row.next_due) == ("completed", None)
    assert await almanac.counted(schedule) == {"ran": 2}


async def test_case_133_a_schedule_that_cannot_be_read_any_more_stops_alone_and_says_why(almanac):
    flow = await almanac.workflow()
    broken, mended, whole = [await almanac.schedule(flow) for _ in range(3)]
    await almanac.write(lambda c: store.update(c, broken.id, rrule="FREQ=BROKEN"))
    await almanac.write(lambda c: store.update(c, mended.id, timezone="Mars/Olympus"))
    assert await almanac.at("2026-06-15 09:00:01") == 3
    assert await almanac.outcomes(whole) == ["06-15 09:00 ran"]
    await almanac.schedules.pause(PROJECT, broken.id)
    await almanac.schedules.resume(PROJECT, broken.id)  # what is wrong is still wrong
    row = await almanac.row(broken)
    assert "FREQ=BROKEN is no frequency" in row.fault
    assert (row.next_due, row.status) == (None, "active")
    assert "Invalid or unknown timezone" in (await almanac.row(mended)).fault
    assert await almanac.at("2026-06-15 10:00:01") == 1
    await almanac.schedules.update(PROJECT, mended.id, {"timezone": "Europe/Berlin"})
    row = await almanac.row(mended)
    assert (row.fault, row.next_due) == ("", at("2026-06-15 11:00"))


async def test_what_nobody_foresaw_stops_the_schedule_that_it_is_of_and_undoes_nothing_else(almanac):
    flows = [await almanac.workflow() for _ in range(5)]
    found = [await almanac.schedule(flow) for flow in flows]
    almanac.queue.broken = flows[2].id
    assert await almanac.at("2026-06-15 09:00:01") == 4
    for schedule, flow in zip(found, flows, strict=True):
        row, fine = await almanac.row(schedule), flow.id != almanac.queue.broken
        assert await almanac.outcomes(schedule) == (["06-15 09:00 ran"] if fine else [])
        assert len(await almanac.runs_of(flow)) == fine
        assert row.fault == ("" if fine else "RuntimeError: this run breaks the engine")
        assert (row.next_due is None) is not fine
    assert await almanac.at("2026-06-15 10:00:01") == 4
    almanac.queue.broken = ""
    await almanac.occurrences.arm()
    assert await almanac.at("2026-06-15 11:00:01") == 5


async def test_looking_that_fails_itself_is_raised_and_not_tried_for_ever(almanac, monkeypatch):
    def fail(*_given):
        raise RuntimeError("no table")

    monkeypatch.setattr(store, "due", fail)
    with pytest.raises(RuntimeError, match="no table"):
        await almanac.at("2026-06-15 09:00:01")


async def test_case_134_the_variables_of_a_schedule_win_and_unknown_keys_are_kept(almanac):
    variables = [
        {"key": "greeting", "type": "string", "default": "Hi"},
        {"key": "empty", "type": "string", "default": ""},
        {"key": "count", "type": "number", "default": "1"},
    ]
    flow = await almanac.workflow(variables=variables)
    await almanac.schedule(flow, variables={"greeting": "Hello", "count": 5, "more": [1]})
    await almanac.at("2026-06-15 09:00:01")
    (run,) = await almanac.runs_of(flow)
    assert run["state"]["variables"] == {"greeting": "Hello", "empty": "", "count": 5, "more": [1]}


async def test_variables_that_have_become_too_large_together_refuse_the_occurrence_and_the_next_one_is_due(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow, variables={"text": "x" * 3000})
    other = [{"key": "long", "type": "string", "default": "y" * 3000}]
    await almanac.workflows.patch(PROJECT, flow.id, {"variables": other}, "ada")
    await almanac.at("2026-06-15 09:00:01")
    (past,) = await almanac.past(schedule)
    assert (past.outcome, past.run_id) == ("refused", None)
    assert "over the limit of 5120" in past.reason
    assert await almanac.runs_of(flow) == []
    assert (await almanac.row(schedule)).next_due == at("2026-06-15 10:00")


async def test_case_135_with_another_trigger_nothing_is_due_any_more(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    manual = workflow(flow.name, {"type": "manual", "inputs": _inputs()})
    await almanac.workflows.update(PROJECT, flow.id, manual, "ada")
    assert (await almanac.row(schedule)).next_due is None
    assert await almanac.at("2026-06-15 09:00:01") == 0
    await almanac.occurrences.arm()
    assert (await almanac.row(schedule)).next_due is None
    with pytest.raises(ScheduleError, match="its trigger is manual"):
        await almanac.schedule(flow)
    await almanac.workflows.update(PROJECT, flow.id, workflow(flow.name, {"type": "schedule"}), "ada")
    assert (await almanac.row(schedule)).next_due == at("2026-06-15 10:00")


def _inputs():
    return {"event": {"value": "$workflow_triggered"}, "distinct_id": {"value": "{request.body.user_id}"}}


async def test_case_119_another_rule_begins_from_now(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    almanac.clock.time = at("2026-06-15 09:30")  # 09:00 was due, and nobody looked
    saved = await almanac.schedules.update(PROJECT, schedule.id, DAILY)
    assert saved.row.next_due == at("2026-06-16 09:00")
    assert await almanac.at("2026-06-15 09:31") == 0
    assert await almanac.past(schedule) == []


async def test_case_120_other_variables_leave_what_is_due_as_it_is(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    almanac.clock.time = at("2026-06-15 09:00:30")
    saved = await almanac.schedules.update(PROJECT, schedule.id, {"variables": {"a": 1}, "catch_up": "all"})
    assert (saved.row.next_due, saved.row.variables) == (at("2026-06-15 09:00"), {"a": 1})
    assert await almanac.at("2026-06-15 09:00:31") == 1


async def test_case_121_another_rule_revives_what_was_completed(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow, rrule="FREQ=DAILY;COUNT=1", starts_at="2026-06-15T09:00:00Z")
    await almanac.at("2026-06-15 09:00:01")
    with pytest.raises(Conflict, match="is over"):
        await almanac.schedules.resume(PROJECT, schedule.id)
    kept = await almanac.schedules.update(PROJECT, schedule.id, {"variables": {"a": 1}})
    assert kept.row.status == "completed"
    with pytest.raises(ScheduleError, match="no future occurrences"):
        await almanac.schedules.update(PROJECT, schedule.id, {"starts_at": "2026-06-14T09:00:00Z"})
    saved = await almanac.schedules.update(PROJECT, schedule.id, {"rrule": "FREQ=DAILY;INTERVAL=1"})
    assert (saved.row.status, saved.row.next_due) == ("active", at("2026-06-16 09:00"))


async def test_case_122_what_is_paused_stays_paused_and_resumes_from_now(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    await almanac.schedules.pause(PROJECT, schedule.id)
    saved = await almanac.schedules.update(PROJECT, schedule.id, {**DAILY, "starts_at": "2026-06-15T10:00:00Z"})
    assert (saved.row.status, saved.row.next_due) == ("paused", None)
    assert await almanac.at("2026-06-16 10:00:01") == 0
    assert (await almanac.schedules.pause(PROJECT, schedule.id)).status == "paused"
    resumed = await almanac.schedules.resume(PROJECT, schedule.id)
    assert (resumed.status, resumed.next_due) == ("active", at("2026-06-17 10:00"))
    assert await almanac.outcomes(schedule) == ["06-15 10:00 skipped", "06-16 10:00 skipped"]
    assert "paused" in (await almanac.past(schedule))[0].reason


async def test_what_was_due_and_not_yet_fired_as_it_is_paused_is_skipped(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    almanac.clock.time = at("2026-06-15 09:00:01")
    await almanac.schedules.pause(PROJECT, schedule.id)
    await almanac.schedules.resume(PROJECT, schedule.id)
    assert await almanac.outcomes(schedule) == ["06-15 09:00 skipped"]
    assert await almanac.at("2026-06-15 10:00:01") == 1
    assert await almanac.outcomes(schedule) == ["06-15 09:00 skipped", "06-15 10:00 ran"]


async def test_resuming_while_the_workflow_is_disabled_arms_and_tells_nothing_yet(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    await almanac.schedules.pause(PROJECT, schedule.id)
    await almanac.workflows.disable(PROJECT, flow.id)
    almanac.clock.time = at("2026-06-15 09:30")
    assert (await almanac.schedules.resume(PROJECT, schedule.id)).next_due is None
    assert await almanac.outcomes(schedule) == []
    await almanac.workflows.enable(PROJECT, flow.id, "ada")
    assert await almanac.outcomes(schedule) == ["06-15 09:00 skipped"]
    assert (await almanac.row(schedule)).next_due == at("2026-06-15 10:00")


async def test_a_schedule_that_is_paused_for_good_while_it_rests_is_completed_as_it_resumes(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow, rrule="FREQ=DAILY;COUNT=1", starts_at="2026-06-15T09:00:00Z")
    await almanac.schedules.pause(PROJECT, schedule.id)
    almanac.clock.time = at("2026-06-15 12:00")
    assert (await almanac.schedules.resume(PROJECT, schedule.id)).status == "completed"
    assert await almanac.outcomes(schedule) == ["06-15 09:00 skipped"]


@pytest.mark.parametrize(
    ("zone", "begin", "hours"), [("Europe/Berlin", "2026-03-28 23:30", 3), ("Europe/Berlin", "2026-10-24 23:30", 4)]
)
async def test_sc06_minute_by_minute_over_the_hour_in_which_clocks_change_each_fires_once(almanac, zone, begin, hours):
    almanac.clock.time = at(begin)
    flow = await almanac.workflow()
    daily = await almanac.schedule(flow, rrule="FREQ=DAILY;INTERVAL=1", starts_at="2026-01-01T02:30:00", timezone=zone)
    hourly = await almanac.schedule(flow, timezone=zone)
    looked = sum([await almanac.at((at(begin) + number * MINUTE).isoformat()) for number in range(hours * 60)])
    assert await almanac.counted(daily) == {"ran": 1}
    assert await almanac.counted(hourly) == {"ran": hours}
    assert looked == hours + 1


@pytest.mark.parametrize(("catch_up", "count"), [("last", 1), ("all", 10), ("none", 0)])
async def test_sc22_d17_after_an_outage_the_policy_says_what_is_made_good_and_it_is_marked_late(
    almanac, catch_up, count
):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow, catch_up=catch_up)
    await almanac.at("2026-06-15 18:30")
    runs = await almanac.runs_of(flow)
    assert len(runs) == count
    told = await almanac.counted(schedule)
    assert (told.get("late", 0), told.get("missed", 0), told.get("ran", 0)) == (count, 10 - count, 0)
    for run in runs:
        assert (await almanac.event(run)).properties["late"] is True
    assert (await almanac.row(schedule)).next_due == at("2026-06-15 19:00")
    late = [one for one in await almanac.past(schedule) if one.outcome == "late"]
    assert [one.reason for one in late[-1:]] == ["nothing fired it in time: 30 min late"] * min(count, 1)


async def test_d17_the_last_one_runs_in_time_where_it_is_claimed_within_a_minute(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow, catch_up="none")
    await almanac.at("2026-06-15 12:00:30")
    assert (await almanac.outcomes(schedule))[-2:] == ["06-15 11:00 missed", "06-15 12:00 ran"]


async def test_d17_at_most_the_last_hundred_are_made_good(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow, catch_up="all")
    await almanac.at("2026-07-15 18:30")
    assert await almanac.counted(schedule) == {"late": 100}
    assert (await almanac.outcomes(schedule))[-1] == "07-15 18:00 late"
    assert (await almanac.row(schedule)).next_due == at("2026-07-15 19:00")


async def test_sc23_disabled_before_and_enabled_just_before_the_time_it_fires(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    almanac.clock.time = at("2026-06-15 08:55")
    await almanac.workflows.disable(PROJECT, flow.id)
    assert (await almanac.row(schedule)).next_due is None
    almanac.clock.time = at("2026-06-15 08:59")
    await almanac.workflows.enable(PROJECT, flow.id, "ada")
    await almanac.at("2026-06-15 09:00:01")
    assert await almanac.outcomes(schedule) == ["06-15 09:00 ran"]


async def test_sc23_what_lies_in_the_time_a_workflow_was_disabled_is_skipped_whatever_is_made_good(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow, catch_up="all")
    await almanac.workflows.disable(PROJECT, flow.id)
    assert await almanac.at("2026-06-15 10:30") == 0
    await almanac.workflows.enable(PROJECT, flow.id, "ada")
    await almanac.at("2026-06-15 11:00:01")
    assert await almanac.outcomes(schedule) == ["06-15 09:00 skipped", "06-15 10:00 skipped", "06-15 11:00 ran"]
    assert (await almanac.past(schedule))[0].reason == "the workflow was not active"
    assert len(await almanac.runs_of(flow)) == 1


async def test_sc25_twelve_that_enable_at_once_leave_one_schedule_that_fires_once(almanac):
    flow = await almanac.workflow("draft")
    schedule = await almanac.schedule(flow)
    await asyncio.gather(*(almanac.workflows.enable(PROJECT, flow.id, "ada") for _ in range(12)))
    rows = await almanac.read(lambda connection: store.of_workflow(connection, flow.id))
    assert [row.id for row in rows] == [schedule.id]
    await almanac.at("2026-06-15 09:00:01")
    assert len(await almanac.runs_of(flow)) == 1


async def test_sc29_many_that_look_at_once_fire_each_occurrence_once(almanac):
    flow = await almanac.workflow()
    found = [await almanac.schedule(flow) for _ in range(20)]
    others = [almanac.another() for _ in range(5)]
    for hour in range(9, 14):
        almanac.clock.time = at(f"2026-06-15 {hour:02}:00:01")
        await asyncio.gather(*(other.claim() for other in others))
    runs = await almanac.runs_of(flow)
    assert len(runs) == len(almanac.queue.queued) == 20 * 5
    assert len({run["event_uuid"] for run in runs}) == 20 * 5
    for schedule in found:
        assert await almanac.counted(schedule) == {"ran": 5}


async def test_sc29_an_occurrence_that_was_decided_is_never_decided_again(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    await almanac.at("2026-06-15 09:00:01")
    # As if what another process stored of the schedule were lost.
    await almanac.write(lambda c: store.update(c, schedule.id, next_due=at("2026-06-15 09:00")))
    assert await almanac.at("2026-06-15 09:00:02") == 1
    assert len(await almanac.runs_of(flow)) == 1
    assert (await almanac.row(schedule)).next_due == at("2026-06-15 10:00")


@pytest.mark.parametrize(("catch_up", "outcome"), [("last", "late"), ("all", "late"), ("none", "missed")])
async def test_sc30_once_while_nothing_ran_fires_late_or_is_told_as_missed(almanac, catch_up, outcome):
    flow = await almanac.workflow()
    once = {"rrule": "FREQ=DAILY;COUNT=1", "starts_at": "2026-06-15T09:00:00Z", "catch_up": catch_up}
    schedule = await almanac.schedule(flow, **once)
    await almanac.at("2026-06-17 09:30")
    assert await almanac.outcomes(schedule) == [f"06-15 09:00 {outcome}"]
    assert (await almanac.row(schedule)).status == "completed"
    assert len(await almanac.runs_of(flow)) == (outcome == "late")


async def test_masking_never_holds_for_a_schedule(almanac):
    flow = await almanac.workflow(trigger_masking={"hash": "all", "ttl": 86400})
    await almanac.schedule(flow)
    await almanac.at("2026-06-15 09:00:01")
    await almanac.at("2026-06-15 10:00:01")
    assert len(await almanac.runs_of(flow)) == 2


OVERLAPS: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"policy": "skip"}, ["ran", "skipped", "ran"], ["queued"]),
    ({"policy": "queue", "maximum": 1}, ["ran", "ran", "skipped"], ["queued", "waiting"]),
    ({"policy": "parallel", "maximum": 2}, ["ran", "ran", "ran"], ["queued", "queued"]),
    ({"policy": "restart"}, ["ran", "ran", "ran"], ["cancelled", "queued"]),
]


@pytest.mark.parametrize(("overlap", "outcomes", "before"), OVERLAPS, ids=[one[0]["policy"] for one in OVERLAPS])
async def test_an_occurrence_meets_the_overlap_policy_and_no_other_brake(almanac, overlap, outcomes, before):
    limits = {"trigger_rate_limit": {"count": 1, "period": 86_400}, "trigger_debounce": {"quiet": 60, "longest": 60}}
    flow = await almanac.workflow(trigger_overlap=overlap, **limits)
    schedule = await almanac.schedule(flow)
    await almanac.at("2026-06-15 09:00")
    await almanac.at("2026-06-15 10:00")
    assert [run["status"] for run in await almanac.runs_of(flow)] == before
    if before[-1] != "waiting":  # the last one is over before the third is due
        (*_, last) = await almanac.runs_of(flow)

        def end(connection: sa.Connection) -> None:
            connection.execute(runs.update().where(runs.c.id == last["id"]).values(status="completed"))
            run_ended(connection, almanac.queue, last["id"], almanac.clock.now())

        await almanac.write(end)
    await almanac.at("2026-06-15 11:00")
    assert [one.outcome for one in await almanac.past(schedule)] == outcomes
    skipped = [one.reason for one in await almanac.past(schedule) if one.outcome == "skipped"]
    assert all("is under way" in reason for reason in skipped)


async def test_two_schedules_of_one_workflow_that_are_due_at_once_meet_its_overlap_policy(almanac):
    flow = await almanac.workflow(trigger_overlap={"policy": "skip"})
    both = [await almanac.schedule(flow, timezone=zone) for zone in ("UTC", "Europe/Berlin")]
    await almanac.at("2026-06-15 09:00")
    assert sorted([(await almanac.past(one))[0].outcome for one in both]) == ["ran", "skipped"]
    assert len(await almanac.runs_of(flow)) == 1


async def test_a_schedule_of_cron_fires_and_a_rule_may_take_its_place(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow, cron="0 9 * * 1-5")
    await almanac.at("2026-06-15 09:00:01")
    assert await almanac.outcomes(schedule) == ["06-15 09:00 ran"]
    saved = await almanac.schedules.update(PROJECT, schedule.id, {**DAILY, "starts_at": "2026-06-15T10:00:00Z"})
    assert (saved.row.cron, saved.row.next_due) == (None, at("2026-06-15 10:00"))


async def test_two_that_change_a_schedule_at_once_both_take_effect_or_one_is_told(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    changes = [almanac.schedules.update(PROJECT, schedule.id, {"variables": {"n": number}}) for number in range(8)]
    came = await asyncio.gather(*changes, return_exceptions=True)
    assert all(isinstance(one, Conflict) for one in came if isinstance(one, BaseException))
    done = [one.row.variables for one in came if not isinstance(one, BaseException)]
    assert (await almanac.row(schedule)).variables in done


async def test_a_deleted_schedule_fires_no_more_and_its_runs_stay(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    await almanac.at("2026-06-15 09:00:01")
    await almanac.schedules.delete(PROJECT, schedule.id)
    assert await almanac.at("2026-06-15 10:00:01") == 0
    assert len(await almanac.runs_of(flow)) == 1
    left = sa.select(sa.func.count()).select_from(occurrences)
    assert await almanac.read(lambda connection: connection.execute(left).scalar()) == 0
    with pytest.raises(NotFound):
        await almanac.row(schedule)


async def test_a_workflow_that_is_archived_takes_no_schedules_and_fires_none(almanac):
    flow = await almanac.workflow()
    schedule = await almanac.schedule(flow)
    await almanac.workflows.archive(PROJECT, flow.id)
    assert (await almanac.row(schedule)).next_due is None
    with pytest.raises(Conflict, match="archived"):
        await almanac.schedule(flow)


async def test_a_workflow_has_at_most_fifty_schedules(almanac):
    flow = await almanac.workflow()
    for _ in range(50):
        await almanac.schedule(flow)
    with pytest.raises(Conflict, match="50 schedules"):
        await almanac.schedule(flow)


async def test_enabling_a_workflow_that_has_no_schedule_warns(almanac):
    flow = await almanac.workflow("draft")
    (warning,) = (await almanac.workflows.enable(PROJECT, flow.id, "ada")).warnings
    assert (warning.path, warning.message) == ("schedules", "it has none yet, so nothing starts it")
