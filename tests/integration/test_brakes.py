"""Brakes after the mask, from posted deliveries to runs and verdicts, on both databases, by a clock of our own."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.errors import Conflict
from loops.runs.sweeper import Sweeper
from loops.store import overlaps, retention, workflows
from loops.store.brake_tables import holds, rates
from loops.store.brake_tables import overlaps as overlap_table
from loops.store.mask_tables import masks
from loops.store.tables import events, runs
from server.app import Wiring
from server.brake_words import brake_words
from server.explain import explained
from tests.integration.running import PROJECT, Running, eventually, issue, log_action, running, workflow
from tests.integration.test_dispatch import Failing, all_batches, batch, posted
from tests.integration.test_masking import Clock
from triggers.replay import Replayed
from triggers.stages import Stages

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "{event.properties.number}"


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(
    module_database_url: str, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    wiring = Wiring(clock=clock, engine=Failing, dispatching=False)
    async with running(tmp_path_factory.mktemp("web"), module_database_url, role="web", wiring=wiring) as started:
        yield started


async def braked(service: Running, repository: str, status: str = "active", **brakes: Any) -> str:
    named = {f"trigger_{name}": value for name, value in brakes.items()}
    document = workflow(repository, log_action("a", "x"), repository=repository, status=status, **named)
    return (await service.create(document)).id


async def sent(service: Running, repository: str, number: int = 1, **more: Any) -> str:
    """A new fact, posted and dispatched: the delivery."""
    delivery = await posted(service, issue(repository, number, **more))
    await all_batches(service)
    return delivery


async def told(service: Running, delivery: str) -> tuple[str, str, str | None]:
    """Stage, reason and run of its one verdict that was stored, as people are told."""
    (found,) = [one for one in (await explained(service.services, PROJECT, delivery)).verdicts if not one.recomputed]
    return found.verdict["stage"], found.verdict["reason"], found.run


async def stages(service: Running, deliveries: Sequence[str]) -> list[str]:
    return [(await told(service, one))[0] for one in deliveries]


async def ends(service: Running, run_id: str | None) -> None:
    """The run is cancelled, which is an end as any other."""
    assert run_id is not None
    assert await service.services.runs.cancel(PROJECT, run_id) == "cancelled"


async def statuses(service: Running, flow: str) -> list[str]:
    query = sa.select(runs.c.status).where(runs.c.workflow_id == flow).order_by(runs.c.created_at)
    return await service.read(lambda connection: list(connection.execute(query).scalars()))


async def open_holds(service: Running, flow: str) -> list[Mapping[str, Any]]:
    query = sa.select(holds).where(holds.c.workflow_id == flow, holds.c.released_at.is_(None))
    return await service.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])


async def passed(service: Running, flow: str) -> int:
    """How many events count for the rate limit."""
    query = sa.select(rates.c.passed).where(rates.c.workflow_id == flow)
    return await service.read(lambda connection: sum(len(one) for one in connection.execute(query).scalars()))


async def matches(service: Running, flow: str) -> int:
    """How many matches the windows of the mask have."""
    query = sa.select(masks.c.count).where(masks.c.workflow_id == flow)
    return await service.read(lambda connection: sum(connection.execute(query).scalars()))


async def test_a_rate_limit_drops_what_is_over_it_by_key_and_says_when_the_next_passes(service, clock):
    flow = await braked(service, "acme/rate", rate_limit={"count": 2, "period": 60, "key": KEY})
    begun = clock.now()
    first = [await sent(service, "acme/rate", number) for number in (1, 1, 1, 2)]
    assert await stages(service, first) == ["start", "start", "rate_limit", "start"]
    free = f"{begun + timedelta(seconds=60):%Y-%m-%d %H:%M:%S} UTC"
    assert (await told(service, first[2]))[1] == (
        f"2 events have passed within 1 min (key '1'), the most; the next passes at {free}"
    )
    assert (await told(service, first[1]))[1].endswith("; rate limit: 2 of 2 within 1 min (key '1')")
    assert (await service.delivery(first[2]))["reason"] == "no loop started; 1 over a rate limit"
    clock.go(60)
    assert await stages(service, [await sent(service, "acme/rate", 1)]) == ["start"]
    assert len(await service.runs(flow)) == 4


async def test_debounce_runs_the_last_of_a_burst_and_the_others_name_it(service, clock):
    flow = await braked(service, "acme/burst", debounce={"quiet": 30, "longest": 100, "key": KEY})
    ids = []
    for _ in range(3):
        ids.append(await sent(service, "acme/burst", 7))
        clock.go(20)
    other = await sent(service, "acme/burst", 8)
    assert await service.runs(flow) == []
    stage, reason, _ = await told(service, ids[2])
    due = f"{clock.now() + timedelta(seconds=10):%Y-%m-%d %H:%M:%S} UTC"
    assert (stage, reason.startswith(f"held until {due}, unless another event (key '7') comes before")) == (
        "debounce",
        True,
    )
    assert (
        f"of delivery {ids[2]} (key '7'), the last of 3 so far; that is held until {due}"
        in (await told(service, ids[0]))[1]
    )
    assert (await service.delivery(ids[0]))["reason"] == "1 debounced"
    clock.go(10)
    assert (await batch(service)).released == 1
    (run,) = await service.runs(flow)
    assert run["delivery_id"] == ids[2]
    stage, reason, its = await told(service, ids[2])
    assert (stage, reason, its) == (
        "start",
        "every filter and brake passed; debounce: the last of 3 events (key '7')",
        run["id"],
    )
    for swallowed in ids[:2]:
        stage, reason, its = await told(service, swallowed)
        assert (stage, its) == ("debounce", None)
        assert f"of delivery {ids[2]} (key '7'), the last of 3, which started run {run['id']} at " in reason
    (compared,) = await service.verdicts(ids[2])
    assert [one["passed"] for one in compared["compared"]] == [True] * 4
    assert [(await service.delivery(one))["runs"] for one in ids] == [0, 0, 1]
    assert (await service.delivery(ids[2]))["reason"] == "started once debounce let it go"
    assert (await told(service, other))[0] == "debounce"


async def test_a_key_that_never_rests_goes_on_after_the_longest_wait_and_begins_anew(service, clock):
    flow = await braked(service, "acme/longest", debounce={"quiet": 30, "longest": 50})
    ids = []
    for _ in range(4):  # at 0, 20, 40, 60: the first three are due at 50
        ids.append(await sent(service, "acme/longest"))
        clock.go(20)
    (run,) = await service.runs(flow)
    assert run["delivery_id"] == ids[2]
    assert [row["count"] for row in await open_holds(service, flow)] == [1]


async def test_what_is_due_and_what_came_later_in_one_batch_are_told_apart(service, clock):
    flow = await braked(service, "acme/late", debounce={"quiet": 10, "longest": 10})
    first = await posted(service, issue("acme/late"))
    clock.go(60)
    second = await posted(service, issue("acme/late"))
    await all_batches(service)
    assert [run["delivery_id"] for run in await service.runs(flow)] == [first]
    assert await stages(service, [first, second]) == ["start", "debounce"]
    assert (await service.delivery(first))["runs"] == 1


async def test_what_debounce_holds_counts_before_it_and_what_it_lets_go_after_it(service, clock):
    flow = await braked(
        service,
        "acme/order",
        rate_limit={"count": 3, "period": 600},
        debounce={"quiet": 10, "longest": 60},
        overlap={"policy": "skip"},
    )
    # Of a burst only the one that is held counts.
    ids = [await sent(service, "acme/order", number) for number in range(4)]
    assert await stages(service, ids) == ["debounce"] * 4
    assert await passed(service, flow) == 1
    clock.go(10)
    await batch(service)
    (run,) = await service.runs(flow)
    ids = [await sent(service, "acme/order", number) for number in range(2)]
    assert await passed(service, flow) == 2
    clock.go(10)
    await batch(service)
    assert await passed(service, flow) == 1
    stage, reason, _ = await told(service, ids[1])
    assert (stage, reason) == (
        "overlap",
        f"run {run['id']} is under way (overlap: skip); debounce: the last of 2 events",
    )
    assert "which started none at " in (await told(service, ids[0]))[1]
    assert (await service.delivery(ids[1]))["reason"] == "stopped by overlap once debounce let it go"


async def test_a_loop_that_was_disabled_or_begun_anew_meanwhile_does_not_run_what_was_held(service, clock):
    flow = await braked(service, "acme/off", debounce={"quiet": 10, "longest": 10})
    one = await sent(service, "acme/off")
    await service.services.workflows.disable(PROJECT, flow)
    await service.services.workflows.enable(PROJECT, flow, "test")
    clock.go(10)
    await batch(service)
    assert (await told(service, one))[:2] == (
        "enabled",
        "the loop was disabled, or begun anew, while debounce held the event",
    )
    assert await service.runs(flow) == []


async def test_what_was_held_is_held_against_the_loop_as_it_is_when_it_goes_on(service, clock):
    debounce = {"quiet": 10, "longest": 10, "key": KEY}
    flow = await braked(service, "acme/edited", debounce=debounce)
    stays, goes = await sent(service, "acme/edited", 1), await sent(service, "acme/edited", 2)
    edited = workflow("edited", log_action("a", "x"), repository="acme/edited", trigger_debounce=debounce)
    only = {"key": "number", "value": 1, "operator": "exact", "type": "event"}
    edited["actions"][0]["config"]["filters"]["properties"].append(only)
    await service.services.workflows.update(PROJECT, flow, edited, "test")
    clock.go(10)
    await batch(service)
    assert [(await told(service, one))[0] for one in (stays, goes)] == ["start", "filters"]
    reason = (await told(service, goes))[1]
    assert reason.startswith("number is 2, wanted exactly 1; the loop was changed while debounce held the event; ")
    (compared,) = [one["compared"] for one in await service.verdicts(goes) if one["workflow"] == flow]
    assert (compared[-1]["key"], compared[-1]["passed"]) == ("number", False)
    (run,) = await service.runs(flow)
    assert (run["delivery_id"], run["version"]) == (stays, 2)


async def test_what_was_held_does_not_go_on_once_its_loop_listens_to_something_else(service, clock):
    debounce = {"quiet": 10, "longest": 10}
    flow = await braked(service, "acme/turned", debounce=debounce)
    one = await sent(service, "acme/turned")
    edited = workflow("turned", log_action("a", "x"), trigger_debounce=debounce)
    edited["actions"][0]["config"] = {"type": "event", "filters": {"events": [{"id": "signed_up", "type": "events"}]}}
    await service.services.workflows.update(PROJECT, flow, edited, "test")
    clock.go(10)
    await batch(service)
    assert ((await told(service, one))[0], await service.runs(flow)) == ("trigger", [])


async def test_a_run_that_waits_for_its_turn_is_of_the_loop_that_admitted_it_and_ends_with_a_cancel(service):
    flow = await braked(service, "acme/turns", overlap={"policy": "queue", "maximum": 3})
    ids = [await sent(service, "acme/turns", number) for number in range(3)]
    first, second, third = [(await told(service, one))[2] for one in ids]
    edited = workflow("turns", log_action("b", "y"), repository="acme/elsewhere")
    await service.services.workflows.update(PROJECT, flow, edited, "test")
    await service.services.workflows.disable(PROJECT, flow, running="drain")
    await ends(service, first)
    ran = {run["id"]: (run["status"], run["version"]) for run in await service.runs(flow)}
    assert ran == {first: ("cancelled", 1), second: ("queued", 1), third: ("waiting", 1)}
    await service.services.workflows.enable(PROJECT, flow, "test")
    await service.services.workflows.archive(PROJECT, flow, running="cancel")
    assert await statuses(service, flow) == ["cancelled"] * 3


async def test_what_is_held_keeps_its_event_whatever_the_age(service, clock):
    await braked(service, "acme/kept", debounce={"quiet": 86_400, "longest": 604_800})
    delivery = await sent(service, "acme/kept")
    clock.go(3 * 86_400)

    def swept(connection: sa.Connection) -> int:
        return retention.remove(connection, retention.find(connection, clock.now(), 1))

    await service.write(swept)
    query = sa.select(events.c.body).where(events.c.delivery_id == delivery)
    assert await service.read(lambda connection: connection.execute(query).scalar()) is not None
    await batch(service)
    assert (await told(service, delivery))[0] == "start"
    clock.go(3 * 86_400)
    await service.write(swept)
    count = sa.select(sa.func.count()).select_from(holds).where(holds.c.delivery_id == delivery)
    assert await service.read(lambda connection: connection.execute(count).scalar()) == 0


async def test_what_cannot_start_is_tried_again_and_given_up_without_holding_up_others(service, clock):
    flow = await braked(service, "acme/broken", debounce={"quiet": 10, "longest": 10, "key": KEY})
    one = await sent(service, "acme/broken", 1)
    clock.go(10)
    for seconds in (1, 5, 15):
        service.services.engine.refused = 1
        await batch(service)
        assert (await told(service, one))[0] == "debounce"
        clock.go(seconds)
    service.services.engine.refused = 1
    other = await posted(service, issue("acme/broken", 2))
    await batch(service)
    assert (await told(service, one))[0] == "error"
    assert (await service.delivery(one))["reason"] == "stopped by an error once debounce let it go"
    clock.go(10)
    await batch(service)
    assert ((await told(service, other))[0], len(await service.runs(flow))) == ("start", 1)


async def test_what_one_process_lets_go_another_does_not(service, clock, monkeypatch):
    flow = await braked(service, "acme/twice", debounce={"quiet": 10, "longest": 10})
    await sent(service, "acme/twice")
    (row,) = await open_holds(service, flow)
    clock.go(10)
    found: list[Any] = []
    release = Stages.release

    def twice(self: Stages, connection: sa.Connection, hold: Any) -> Any:
        found.append(hold)
        first = release(self, connection, hold)
        assert release(self, connection, hold) is None
        return first

    monkeypatch.setattr("triggers.stages.Stages.release", twice)
    assert (await batch(service)).released == 1
    assert ([one.id for one in found], len(await service.runs(flow))) == ([row["id"]], 1)


async def test_skip_starts_nothing_while_a_run_is_under_way(service):
    flow = await braked(service, "acme/skip", overlap={"policy": "skip", "key": KEY})
    ids = [await sent(service, "acme/skip", number) for number in (1, 1, 2)]
    assert await stages(service, ids) == ["start", "overlap", "start"]
    (_, _, run) = await told(service, ids[0])
    assert (await told(service, ids[1]))[1] == f"run {run} (key '1') is under way (overlap: skip)"
    assert (await service.delivery(ids[1]))["reason"] == "no loop started; 1 stopped by overlap"
    await ends(service, run)
    assert await stages(service, [await sent(service, "acme/skip", 1)]) == ["start"]
    assert len(await service.runs(flow)) == 3


async def test_a_queue_begins_in_its_order_as_each_run_ends_and_drops_what_is_over_its_maximum(service, clock):
    flow = await braked(service, "acme/queue", overlap={"policy": "queue", "maximum": 2})
    ids = []
    for _ in range(4):
        clock.go(1)
        ids.append(await sent(service, "acme/queue"))
    found = [await told(service, one) for one in ids]
    assert [stage for stage, _, _ in found] == ["start", "start", "start", "overlap"]
    first, second, third = (run for _, _, run in found[:3])
    assert found[1][1] == f"every filter and brake passed; waits for run {first}, as number 1 of 2 (overlap: queue)"
    assert await statuses(service, flow) == ["queued", "waiting", "waiting"]
    assert (await service.run(second))["wait"] == {"kind": "turn", "detail": {"run": first}}
    with pytest.raises(Conflict, match="waits for a turn"):
        await service.services.runs.resume(PROJECT, second, {})
    await ends(service, first)
    assert await statuses(service, flow) == ["cancelled", "queued", "waiting"]
    assert await service.service._client.statuses([(second, 0)]) == {(second, 0): "ENQUEUED"}
    await ends(service, third)  # one that waits leaves the queue, and nothing else moves
    assert await statuses(service, flow) == ["cancelled", "queued", "cancelled"]
    await service.services.runs.cancel_all(flow)
    query = sa.select(sa.func.count()).select_from(overlap_table).where(overlap_table.c.workflow_id == flow)
    assert await service.read(lambda connection: connection.execute(query).scalar()) == 0


async def test_restart_cancels_the_run_and_one_that_acts_is_waited_for(service):
    flow = await braked(service, "acme/restart", overlap={"policy": "restart"})
    first, second = [(await told(service, await sent(service, "acme/restart")))[2] for _ in range(2)]
    row = await service.run(first)
    assert (row["status"], row["reason"]) == (
        "cancelled",
        "cancelled: a newer run took its place (overlap: restart)",
    )
    await service.write(lambda c: c.execute(runs.update().where(runs.c.id == second).values(status="running")))
    third, fourth = [(await told(service, await sent(service, "acme/restart")))[2] for _ in range(2)]
    assert (await service.run(second))["cancel_requested_at"] is not None
    assert [(await service.run(one))["status"] for one in (third, fourth)] == ["cancelled", "waiting"]
    assert len(await service.runs(flow)) == 4


async def test_parallel_lets_so_many_run_at_once(service):
    await braked(service, "acme/parallel", overlap={"policy": "parallel", "maximum": 2})
    ids = [await sent(service, "acme/parallel") for _ in range(3)]
    assert await stages(service, ids) == ["start", "start", "overlap"]
    await ends(service, (await told(service, ids[0]))[2])
    assert await stages(service, [await sent(service, "acme/parallel")]) == ["start"]


MASKING = {"hash": "{event.properties.title}", "ttl": 3600}


async def test_a_match_and_a_slot_are_given_back_by_whatever_stops_the_event_after_them(service, clock):
    flow = await braked(
        service,
        "acme/back",
        masking=MASKING,
        rate_limit={"count": 2, "period": 600},
        overlap={"policy": "skip"},
    )
    first = await sent(service, "acme/back", title="a")
    assert (await matches(service, flow), await passed(service, flow)) == (1, 1)
    dropped = [await sent(service, "acme/back", title="b") for _ in range(2)]
    assert await stages(service, [first, *dropped]) == ["start", "overlap", "overlap"]
    assert (await matches(service, flow), await passed(service, flow)) == (1, 1)
    await ends(service, (await told(service, first))[2])
    second = await sent(service, "acme/back", title="b")
    limited = [await sent(service, "acme/back", title="c") for _ in range(2)]
    assert await stages(service, [second, *limited]) == ["start", "rate_limit", "rate_limit"]
    assert (await matches(service, flow), await passed(service, flow)) == (2, 2)
    await ends(service, (await told(service, second))[2])
    clock.go(600)
    assert await stages(service, [await sent(service, "acme/back", title=one) for one in "ca"]) == ["start", "mask"]


async def test_a_queue_that_is_full_gives_back_and_one_that_waits_or_is_cancelled_keeps_its_count(service):
    flow = await braked(
        service,
        "acme/back-queue",
        masking=MASKING,
        rate_limit={"count": 5, "period": 600},
        overlap={"policy": "queue", "maximum": 1},
    )
    ids = [await sent(service, "acme/back-queue", title=one) for one in "abcc"]
    assert await stages(service, ids) == ["start", "start", "overlap", "overlap"]
    waiting = (await told(service, ids[1]))[2]
    assert (await matches(service, flow), await passed(service, flow)) == (2, 2)
    await ends(service, waiting)
    assert (await service.run(waiting))["status"] == "cancelled"
    assert (await matches(service, flow), await passed(service, flow)) == (2, 2)
    assert await stages(service, [await sent(service, "acme/back-queue", title="b")]) == ["mask"]


async def test_a_threshold_lets_the_next_match_pass_in_place_of_one_that_was_stopped(service):
    flow = await braked(
        service, "acme/back-nth", masking={"hash": "all", "ttl": 60, "threshold": 3}, overlap={"policy": "skip"}
    )
    ids = [await sent(service, "acme/back-nth") for _ in range(5)]
    assert await stages(service, ids) == ["start", "mask", "mask", "overlap", "overlap"]
    assert await matches(service, flow) == 3
    await ends(service, (await told(service, ids[0]))[2])
    ids = [await sent(service, "acme/back-nth") for _ in range(2)]
    assert await stages(service, ids) == ["start", "mask"]
    assert (await told(service, ids[1]))[1].startswith("match 5 of the window, 2 of 3; fires next at 7; ")


@pytest.mark.parametrize("how", ["disabled", "overlap", "error"])
async def test_what_debounce_lets_go_gives_back_what_counted_it_where_it_is_stopped_then(service, clock, how):
    repository = f"acme/back-{how}"
    flow = await braked(
        service,
        repository,
        masking=MASKING,
        rate_limit={"count": 9, "period": 600},
        debounce={"quiet": 10, "longest": 60},
        overlap={"policy": "skip"},
    )
    if how == "overlap":
        await sent(service, repository, title="first")
        clock.go(10)
        await batch(service)
    before = (await matches(service, flow), await passed(service, flow))
    ids = [await sent(service, repository, title=one) for one in "aba"]  # the first one's match is back by the third
    assert await stages(service, ids) == ["debounce"] * 3
    assert (await matches(service, flow), await passed(service, flow)) == (before[0] + 1, before[1] + 1)
    masked = await sent(service, repository, title="a")
    assert (await told(service, masked))[1].startswith(f"the same hash passed at {clock.now():%Y-%m-%d %H:%M:%S} UTC")
    if how == "disabled":
        await service.services.workflows.disable(PROJECT, flow)
        await service.services.workflows.enable(PROJECT, flow, "test")
    clock.go(10)
    for _ in range(4 if how == "error" else 1):
        service.services.engine.refused = int(how == "error")
        await batch(service)
        clock.go(15)
    stopped = {"disabled": "enabled"}.get(how, how)
    assert await stages(service, [ids[2], masked]) == [stopped, "mask"]
    assert (await matches(service, flow), await passed(service, flow)) == before
    assert await stages(service, [await sent(service, repository, title="a")]) == ["debounce"]


async def test_a_start_by_hand_meets_overlap_and_no_other_brake(service):
    document = workflow("by hand", log_action("a", "x"), trigger_overlap={"policy": "queue", "maximum": 1})
    document["actions"][0]["config"] = {"type": "manual"}
    document["trigger_rate_limit"] = {"count": 1, "period": 60}
    flow = (await service.create(document)).id
    first, second = [(await service.services.by_hand.start(PROJECT, flow, {}, "ada"))["run"] for _ in range(2)]
    assert [(await service.run(one))["status"] for one in (first, second)] == ["queued", "waiting"]
    with pytest.raises(Conflict, match=r"starts nothing now: run .* is under way, and 1 waits for it"):
        await service.services.by_hand.start(PROJECT, flow, {}, "ada")
    await ends(service, first)
    assert (await service.run(second))["status"] == "queued"


async def test_a_replay_meets_overlap_and_no_other_brake(service, clock):
    flow = await braked(
        service,
        "acme/replay",
        rate_limit={"count": 1, "period": 600},
        debounce={"quiet": 10, "longest": 10},
        overlap={"policy": "skip"},
    )
    delivery = await sent(service, "acme/replay")
    (one,) = await service.services.replays.delivery(PROJECT, delivery, flow)
    assert (one.verdict.stage, one.verdict.passed, one.replay) == ("start", True, 1)
    (two,) = await service.services.replays.delivery(PROJECT, delivery, flow)
    assert (two.verdict.stage, two.run, f"run {one.run} is under way" in two.verdict.reason) == ("overlap", None, True)
    clock.go(10)
    await batch(service)
    found = [(v["stage"], v.get("replay")) for v in await service.verdicts(delivery)]
    assert found == [("overlap", None), ("start", 1), ("overlap", 2)]


async def missed(service: Running, flow: str, since: datetime | None = None) -> list[Replayed]:
    now = service.services.clock.now()
    period = (since or now - timedelta(hours=2), now + timedelta(seconds=1))
    return [*(await service.services.replays.missed(PROJECT, flow, period)).items]


async def later(service: Running, flow: str) -> None:
    await service.services.workflows.enable(PROJECT, flow, "test")


async def test_a_period_meets_every_brake_as_of_when_its_deliveries_came_and_counts(service, clock):
    place = "acme/period"
    mask, rate = {"hash": KEY, "ttl": 3600}, {"count": 2, "period": 60}
    flow = await braked(service, place, masking=mask, rate_limit=rate, status="draft")
    ids = []
    for number, pause in ((1, 10), (1, 10), (2, 10), (3, 60), (4, 1)):
        ids.append(await sent(service, place, number))
        clock.go(pause)
    await later(service, flow)
    started = await missed(service, flow)
    assert [one.delivery_id for one in started] == [ids[0], ids[2], ids[4]]
    assert started[0].verdict.reason.startswith("replay 1: every filter and brake passed; the same hash is masked")
    assert await stages(service, ids) == ["start", "mask", "start", "rate_limit", "start"]
    assert await missed(service, flow) == []
    assert await stages(service, [await sent(service, place, 1)]) == ["mask"]  # what was played again has counted
    assert await stages(service, [await sent(service, place, 9)]) == ["start"]
    (one,) = await service.services.replays.delivery(PROJECT, ids[1], flow)
    assert one.verdict.reason == "replay 1: every filter passed; not asked: claim, mask, rate limit"
    row = await service.delivery(ids[1])
    assert (row["status"], row["reason"]) == ("dispatched", "no loop listens for it, 1 run started by a replay")


async def test_of_a_burst_in_a_period_the_last_goes_on_once_and_is_a_replay(service, clock):
    flow = await braked(service, "acme/bursts", debounce={"quiet": 30, "longest": 100}, status="draft")
    ids = []
    for pause in (20, 20, 100, 5, 200):
        ids.append(await sent(service, "acme/bursts"))
        clock.go(pause)
    await later(service, flow)
    assert [(one.delivery_id, one.run) for one in await missed(service, flow)] == [(one, None) for one in ids]
    assert [run["delivery_id"] for run in await service.runs(flow)] == [ids[2]]
    assert (await batch(service)).released == 0  # more of the burst may be about to come
    assert (await service.delivery(ids[4]))["reason"] == "no loop listens for it, 1 debounced"
    clock.go(10)
    assert (await batch(service)).released == 1
    found = await service.runs(flow)
    assert {(run["delivery_id"], run["replay"]) for run in found} == {(ids[2], 1), (ids[4], 1)}
    assert await stages(service, ids) == ["debounce", "debounce", "start", "debounce", "start"]
    _, reason, run = await told(service, ids[4])
    assert reason == "replay 1: every filter and brake passed; debounce: the last of 2 events"
    assert run in {one["id"] for one in found}
    assert (await service.delivery(ids[4]))["reason"].endswith(
        "started once debounce let it go, 1 run started by a replay"
    )
    assert await missed(service, flow) == []


async def test_what_is_played_again_and_what_comes_meanwhile_are_bursts_apart(service, clock):
    flow = await braked(service, "acme/apart", debounce={"quiet": 30, "longest": 600}, status="draft")
    ids = []
    for pause in (60, 20):
        ids.append(await sent(service, "acme/apart"))
        clock.go(pause)
    await later(service, flow)
    ids.append(await sent(service, "acme/apart"))
    assert {one.delivery_id for one in await missed(service, flow)} == set(ids[:2])
    clock.go(5)
    ids.append(await sent(service, "acme/apart"))
    assert sorted(row["count"] for row in await open_holds(service, flow)) == [1, 2]
    clock.go(30)
    await all_batches(service)
    assert await stages(service, ids) == ["start", "start", "debounce", "start"]
    found = {run["delivery_id"]: run["replay"] for run in await service.runs(flow)}
    assert found == {ids[0]: 1, ids[1]: 1, ids[3]: 0}


async def test_a_burst_that_is_played_again_after_a_later_one_starts_as_well(service, clock):
    flow = await braked(service, "acme/reversed", debounce={"quiet": 30, "longest": 100}, status="draft")
    ids, came = [], []
    for pause in (20, 40, 20, 1):
        came.append(clock.now())
        ids.append(await sent(service, "acme/reversed"))
        clock.go(pause)
    await later(service, flow)
    await missed(service, flow, since=came[3])
    (over,) = await missed(service, flow, since=came[2])
    assert over.verdict.reason.startswith("replay 1: passed over for one that came after it, which is held until 20")
    await missed(service, flow)
    clock.go(30)
    await all_batches(service)
    assert await stages(service, ids) == ["debounce", "start", "debounce", "start"]


async def test_one_that_is_played_again_while_its_period_holds_it_has_a_number_and_a_run_of_its_own(service, clock):
    flow = await braked(service, "acme/numbers", debounce={"quiet": 1, "longest": 5}, status="draft")
    delivery = await sent(service, "acme/numbers")
    clock.go(5)
    await later(service, flow)
    assert len(await missed(service, flow)) == 1
    (one,) = await service.services.replays.delivery(PROJECT, delivery, flow)
    assert one.replay == 2
    clock.go(10)
    await all_batches(service)
    assert {run["replay"]: run["id"] == one.run for run in await service.runs(flow)} == {1: False, 2: True}
    assert [(v["stage"], v["replay"]) for v in await service.verdicts(delivery)] == [("start", 1), ("start", 2)]
    row = await service.delivery(delivery)
    assert (row["runs"], "2 runs started by replays" in row["reason"].split(", ")) == (2, True)


async def test_the_sweeper_lets_begin_what_another_release_left_waiting(service, clock):
    flow = await braked(service, "acme/swept", overlap={"policy": "queue", "maximum": 5})
    first, second = [(await told(service, await sent(service, "acme/swept")))[2] for _ in range(2)]
    # As a process of an older release would end it: nobody is let begin.
    await service.write(lambda c: c.execute(runs.update().where(runs.c.id == first).values(status="completed")))
    one = service.services
    sweeper = Sweeper(one.writer, one.reader, service.service._client, one.engine, clock)
    await sweeper.sweep()
    assert (await service.run(second))["status"] == "queued"
    found = await service.read(lambda connection: overlaps.under_way(connection, flow))
    assert (found.acting, found.waiting) == ((second,), ())


async def test_a_run_that_is_given_up_lets_the_next_begin(service, clock):
    flow = await braked(service, "acme/given-up", overlap={"policy": "queue", "maximum": 5})
    first, second = [(await told(service, await sent(service, "acme/given-up")))[2] for _ in range(2)]
    # Its segments have died again and again, and the engine knows none of them any more.
    lost = runs.update().where(runs.c.id == first).values(seq=9, restarts=9)
    await service.write(lambda connection: connection.execute(lost))
    clock.go(60)
    one = service.services
    sweeper = Sweeper(one.writer, one.reader, service.service._client, one.engine, clock)
    await eventually(sweeper.sweep, lambda mended: not mended)
    assert [(await service.run(run))["status"] for run in (first, second)] == ["failed", "queued"]
    assert (await service.read(lambda connection: overlaps.under_way(connection, flow))).acting == (second,)


async def test_brakes_are_told_in_words(service):
    flow = await braked(
        service,
        "acme/page",
        masking={"hash": "{event.uuid}", "ttl": 3600},
        rate_limit={"count": 1, "period": 60, "key": KEY},
        debounce={"quiet": 30, "longest": 3600, "key": KEY},
        overlap={"policy": "parallel", "maximum": 2},
    )
    row = await service.read(lambda connection: workflows.get(connection, PROJECT, flow))
    assert brake_words(row.definition) == (
        ("mask", "one match of the same {event.uuid} within 1 h"),
        ("rate limit", f"1 event within 1 min, for each {KEY}"),
        ("debounce", f"the last event, once none has come for 30 s, 1 h after the first at most, for each {KEY}"),
        ("overlap", "up to 2 runs at a time"),
    )
