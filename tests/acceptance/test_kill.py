"""Killed with -9 at every transition, on both databases, and started again: one run, each step once, one result."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.store import connections
from loops.store.tables import deliveries, run_steps, runs
from server.app import Wiring
from tests.acceptance.victims import OPEN, Places, Victim, free_port, named, prepare, together
from tests.integration.running import PROJECT, delay_action, eventually, issue, log_action, running, workflow

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.postgres]

EXPECTED = [
    ("first", "completed", {"text": "first Issue 1"}, ["first Issue 1"]),
    ("pause", "completed", False, ["waiting 1s", "the time is over"]),
    ("second", "completed", {"text": "second first Issue 1"}, ["second first Issue 1"]),
    ("exit", "completed", {"reason": "done"}, []),
]


async def completed(victim: Victim, key: str) -> None:
    """Exactly one run, with each step's row once and what a run that nothing happened to leaves."""
    await eventually(lambda: victim.of(key), lambda found: found and found[0]["status"] not in OPEN)
    (run,) = await victim.of(key)
    assert (run["status"], run["reason"], run["restarts"]) == ("completed", "done", 0)
    rows = await victim.found(sa.select(deliveries).where(deliveries.c.key == key))
    assert [(row["status"], row["runs"], row["attempts"]) for row in rows] == [("dispatched", 1, 0)]
    steps = sa.select(run_steps).where(run_steps.c.run_id == run["id"]).order_by(run_steps.c.position)
    assert [told(row) for row in await victim.found(steps)] == EXPECTED


def told(row: Mapping[str, Any]) -> tuple[Any, ...]:
    result = row["result"]["resumed_early"] if row["step_id"] == "pause" else row["result"]
    return row["step_id"], row["status"], result, [line["text"] for line in row["log"] or []]


LIFE = workflow(
    "a whole life",
    log_action("first", "first {event.properties.title}"),
    delay_action("pause", "1s"),
    log_action("second", "second {steps.first.text}"),
)

KEY = "phc_killed"
MANY = 300
ORDERED = workflow("ordered", log_action("note", "noted"))
ORDERED["actions"][0]["config"] = {"type": "event", "filters": {"events": [{"id": "order"}]}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def victims(places: Places) -> AsyncIterator[list[Victim]]:
    """One on SQLite and one on Postgres for each lane."""
    made: list[Victim] = []
    with places.opened() as opened:
        for folder, address in opened:
            made.append(Victim(folder, address, await prepare(folder, address, LIFE), free_port()))
            made[-1].begin()
        yield made
        for one in made:
            await one.end()


# In the order in which a delivery and its run pass them; the number says which passing. Between two of them nothing
# is stored that a third could find different.
POINTS = [
    ("receive:begin", 1),
    ("receive:end", 1),
    ("accept:after", 1),
    ("parse", 1),
    ("enqueue:before", 1),
    ("dispatch:inside", 1),
    ("dispatch:after", 1),
    ("claim:before", 1),
    ("claim:inside", 1),
    ("claim:after", 1),
    ("function:run:end", 1),
    ("record:inside", 1),
    ("record:after", 1),
    ("delay:run:end", 1),
    ("park:inside", 1),
    ("park:after", 1),
    ("claim:inside", 2),
    ("claim:after", 2),
    ("delay:resume:end", 1),
    ("record:inside", 2),
    ("record:after", 2),
    ("record:after", 3),
    ("exit:run:end", 1),
    ("finish:inside", 1),
    ("finish:after", 1),
]


@pytest.mark.parametrize("points", together(POINTS), ids=named)
async def test_gh_14_killed_at_any_point_a_delivery_becomes_one_run_with_each_step_once(victims, points):
    lanes = [(victims[2 * lane : 2 * lane + 2], point) for lane, point in enumerate(points)]
    await asyncio.gather(*(killed_at(victim, *point) for both, point in lanes for victim in both))


async def killed_at(victim: Victim, point: str, nth: int) -> None:
    key, payload = str(uuid.uuid4()), issue()
    await victim.arm(point, nth)
    answered = await victim.deliver(payload, key)
    await victim.died()
    victim.begin()
    if not 200 <= answered < 300:
        await victim.accepted(payload, key)
    await completed(victim, key)


async def test_killed_while_it_waits_a_run_goes_on_when_its_time_has_come(victims):
    async def killed_in_its_wait(victim: Victim) -> None:
        key = str(uuid.uuid4())
        await victim.accepted(issue(), key)
        await eventually(lambda: victim.of(key), lambda found: found and found[0]["status"] == "waiting")
        assert victim.process is not None
        victim.process.kill()
        await victim.died()
        await asyncio.sleep(1.5)  # its time comes while nobody is there
        victim.begin()
        await completed(victim, key)

    await asyncio.gather(*(killed_in_its_wait(victim) for victim in victims[:2]))


async def test_killed_again_and_again_at_the_same_point_a_run_still_ends(victims):
    async def killed_thrice(victim: Victim) -> None:
        key = str(uuid.uuid4())
        await victim.arm("function:run:end", 1)
        await victim.accepted(issue(), key)
        await victim.died()
        for _ in range(2):
            victim.begin()
            await victim.arm("function:run:end", 1)
            await victim.died()
        victim.begin()
        await completed(victim, key)

    await asyncio.gather(*(killed_thrice(victim) for victim in victims[:2]))


async def test_after_all_that_there_is_one_run_for_each_delivery(victims):
    for victim in victims:
        found = await victim.found(sa.select(runs.c.delivery_id, runs.c.status))
        stored = await victim.found(sa.select(deliveries.c.id))
        assert sorted(run["delivery_id"] for run in found) == sorted(row["id"] for row in stored)
        assert {run["status"] for run in found} == {"completed"}


@pytest.mark.parametrize(("lane", "point", "nth"), [(0, "dispatch:after", 1), (1, "dispatch:inside", 2)])
async def test_killed_between_two_parts_of_a_delivery_each_event_becomes_one_run(victims, lane, point, nth):
    sent = [{"event": "order", "distinct_id": f"p{n}", "uuid": str(uuid.uuid4())} for n in range(MANY)]
    body = json.dumps({"api_key": KEY, "batch": sent}).encode()
    of_these = sa.select(runs.c.event_uuid).where(runs.c.event_name == "order")

    async def killed_between(victim: Victim) -> None:
        await victim.end()
        async with running(victim.folder, victim.url, role="web", wiring=Wiring(dispatching=False)) as desk:
            sealed, now = desk.services.box.seal({"api_key": KEY}), desk.services.clock.now()
            await desk.write(
                lambda c: connections.insert(
                    c, project_id=PROJECT, kind="posthog", name="app", config={}, secrets=sealed, now=now
                )
            )
            await desk.create(ORDERED)
        victim.begin()
        await victim.arm(point, nth)
        assert await victim.call("/batch/", data=body) == 200
        await victim.died()
        assert 0 < len(await victim.found(of_these)) < MANY
        victim.begin()
        settled = sa.select(deliveries.c.status, deliveries.c.runs).where(deliveries.c.source == "posthog")
        await eventually(lambda: victim.found(settled), lambda found: found[0]["status"] != "accepted")
        assert [tuple(row.values()) for row in await victim.found(settled)] == [("dispatched", MANY)]
        found = [row["event_uuid"] for row in await victim.found(of_these)]
        assert sorted(found) == sorted(one["uuid"] for one in sent)

    await asyncio.gather(*(killed_between(victim) for victim in victims[2 * lane : 2 * lane + 2]))
