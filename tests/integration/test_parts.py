"""A delivery of many events is decided in parts, and one that takes long to read is read outside the transaction; on
SQLite and on Postgres."""

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.errors import StoreBusy
from loops.packed import unpack
from loops.store import connections, deliveries
from loops.store.tables import events, runs
from server.app import Wiring
from tests.integration.running import PROJECT, Running, eventually, issue, log_action, running, workflow
from triggers.dispatch import BatchOutcome
from triggers.posthog.body import decode

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "phc_parts"
ONE = 100  # are decided at once, where a batch has no time
MANY = 250


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


def started(folder: Path, url: str) -> Any:
    """A process that dispatches when it is told to."""
    return running(folder, url, role="web", wiring=Wiring(dispatching=False))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(module_database_url: str, folder: Path) -> AsyncIterator[Running]:
    async with started(folder, module_database_url) as made:
        sealed, now = made.services.box.seal({"api_key": KEY}), made.services.clock.now()
        await made.write(
            lambda c: connections.insert(
                c, project_id=PROJECT, kind="posthog", name="app", config={}, secrets=sealed, now=now
            )
        )
        yield made


@pytest.fixture
def no_time(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch takes the least that it takes."""
    monkeypatch.setattr("triggers.dispatch.BATCH_SECONDS", -1.0)
    monkeypatch.setattr("triggers.lookahead._LATE_SECONDS", 600)  # however slow this machine is
    monkeypatch.setattr("triggers.lookahead._SOON_SECONDS", 0)


async def listening(service: Running, name: str, **more: Any) -> str:
    document = workflow(name, log_action("note", "noted"), **more)
    document["actions"][0]["config"] = {"type": "event", "filters": {"events": [{"id": name}]}}
    return (await service.create(document)).id


def said(name: str, count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"event": name, "distinct_id": f"p{n}", "uuid": str(uuid.uuid4()), "properties": {"n": n}, **more}
        for n in range(count)
    ]


async def captured(service: Running, batch: list[dict[str, Any]]) -> str:
    """Our id of the delivery."""
    body = json.dumps({"api_key": KEY, "batch": batch}).encode()
    async with aiohttp.ClientSession() as client, client.post(f"{service.service.url}/batch/", data=body) as response:
        assert response.status == 200
    (newest,) = await service.read(lambda c: deliveries.page(c, PROJECT, limit=1))
    return str(newest["id"])


async def batch(service: Running) -> BatchOutcome:
    return await service.service.dispatcher.batch()


async def all_batches(service: Running) -> None:
    outcome = await batch(service)
    while outcome.taken or outcome.left or outcome.unread:
        await asyncio.sleep(0.01)
        outcome = await batch(service)


async def started_by(service: Running, delivery: str) -> list[str]:
    query = sa.select(runs.c.event_uuid).where(runs.c.delivery_id == delivery)
    return list(await service.read(lambda c: c.execute(query).scalars().all()))


async def status(service: Running, delivery: str) -> tuple[str, str, int]:
    row = await service.delivery(delivery)
    return row["status"], row["reason"], row["runs"]


async def test_others_are_dispatched_while_a_delivery_of_many_events_goes_on(service, no_time, monkeypatch):
    monkeypatch.setattr(
        service.service.dispatcher, "_most", 2
    )  # so that the queue has more of these than are looked at
    await listening(service, "many")
    await service.create(workflow("other", log_action("a", "x")))
    sent = [said("many", MANY) for _ in range(3)]
    ours = [await captured(service, one) for one in sent]
    other = (await service.post(issue()))["delivery"]
    outcome = await batch(service)
    assert outcome.left
    assert await status(service, other) == ("dispatched", "", 1)
    assert await status(service, ours[0]) == ("accepted", "", ONE)
    assert await status(service, ours[1]) == ("accepted", "", 0)
    for part in (2 * ONE, MANY):
        await batch(service)
        assert len(await started_by(service, ours[0])) == part
    assert await status(service, ours[0]) == ("dispatched", "", MANY)
    await all_batches(service)
    for delivery, events_sent in zip(ours, sent, strict=True):
        assert sorted(await started_by(service, delivery)) == sorted(one["uuid"] for one in events_sent)


async def test_each_event_sees_its_person_as_known_after_it_from_part_to_part(service, no_time):
    await listening(service, "ordered")
    sent = said("ordered", MANY)
    for n, one in enumerate(sent):
        one |= {"distinct_id": "ada" if n % 2 else "bob", "$set": {"last": n}}
    delivery = await captured(service, sent)
    await all_batches(service)
    query = sa.select(events.c.position, events.c.body).where(events.c.delivery_id == delivery)
    found = await service.read(lambda c: c.execute(query.order_by(events.c.position)).all())
    assert [row[0] for row in found] == list(range(MANY))
    assert [unpack(row[1])["person"]["properties"]["last"] for row in found] == list(range(MANY))


async def test_a_part_that_is_not_committed_is_decided_again_and_none_twice(service, no_time, monkeypatch):
    await listening(service, "undone")
    delivery = await captured(service, said("undone", MANY))
    await batch(service)
    inner = deliveries.keep_progress

    def failing(*given: Any) -> None:
        inner(*given)
        raise StoreBusy("lost", hint="again")

    with monkeypatch.context() as patch:
        patch.setattr(deliveries, "keep_progress", failing)
        with pytest.raises(StoreBusy):
            await batch(service)
    assert await status(service, delivery) == ("accepted", "", ONE)
    await all_batches(service)
    assert len(set(await started_by(service, delivery))) == len(await started_by(service, delivery)) == MANY
    assert await status(service, delivery) == ("dispatched", "", MANY)


async def test_an_event_that_cannot_be_started_stops_its_delivery_and_not_what_was_decided(
    service, no_time, monkeypatch
):
    monkeypatch.setattr("triggers.dispatch.RETRIES", (service.services.clock.now() - service.services.clock.now(),) * 3)
    await listening(service, "refused", trigger_masking={"hash": "{event.properties.n}", "ttl": 60})
    engine, started = service.services.engine, 0
    inner = engine.enqueue

    def enqueue(*given: Any, **more: Any) -> None:
        nonlocal started
        started += 1
        if started == 150:
            raise ValueError("not now")
        inner(*given, **more)

    monkeypatch.setattr(engine, "enqueue", enqueue)
    delivery = await captured(service, said("refused", MANY))
    await batch(service)
    await batch(service)
    assert await status(service, delivery) == ("accepted", "ValueError: not now", 149)
    await all_batches(service)
    assert await status(service, delivery) == ("dispatched", "", MANY)
    verdicts = [one["stage"] for one in await service.verdicts(delivery)]
    assert verdicts == ["start"] * MANY


async def test_what_became_of_all_parts_is_told_at_the_end(service, no_time):
    await listening(service, "same", trigger_masking={"hash": "all", "ttl": 3600})
    first = said("same", 1)
    await captured(service, first)
    await all_batches(service)
    rest = said("same", MANY)
    delivery = await captured(service, first + rest)
    await all_batches(service)
    assert await status(service, delivery) == ("ignored", f"no loop started; {MANY} masked", 0)
    again = await captured(service, rest + first)
    await all_batches(service)
    assert await status(service, again) == ("ignored", f"the same event came before, in delivery {delivery}", 0)


async def test_a_process_that_has_nothing_at_hand_goes_on_where_the_last_one_stopped(
    service, no_time, module_database_url, tmp_path_factory, monkeypatch
):
    await listening(service, "killed")
    large = said("killed", MANY, padding="x" * 1000)
    delivery = await captured(service, large)
    await batch(service)
    decoded_by: list[str] = []

    def noting(body: bytes) -> Any:
        decoded_by.append(threading.current_thread().name)
        return decode(body)

    monkeypatch.setattr("triggers.posthog.receive.decode", noting)
    async with started(tmp_path_factory.mktemp("next"), module_database_url) as after:
        await all_batches(after)
        await eventually(lambda: status(after, delivery), lambda found: found[0] != "accepted")
    assert await status(service, delivery) == ("dispatched", "", MANY)
    assert sorted(await started_by(service, delivery)) == sorted(one["uuid"] for one in large)
    # Once, and not on a thread that writes.
    assert [name.startswith("loops-once") for name in decoded_by] == [True]
