"""Two dispatchers on one Postgres whose batches speak of the same things in opposite order: neither waits for ever."""

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.store import connections
from loops.store import deliveries as delivery_store
from loops.store.people_tables import groups, persons
from loops.store.tables import deliveries
from server.app import Wiring
from tests.conftest import new_postgres
from tests.integration.running import PROJECT, Running, log_action, running, workflow
from triggers import dispatch, lookahead

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.postgres]

KEY = "phc_crossing"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(
    postgres_server: Any, postgres_template: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Running, Running]]:
    """Two web processes that dispatch when they are told to, two deliveries a batch, as far as a database can tell."""
    wiring = Wiring(dispatching=False)
    with pytest.MonkeyPatch.context() as patch, new_postgres(postgres_server, postgres_template) as url:
        patch.setattr(dispatch, "BATCH", 2)
        async with (
            running(tmp_path_factory.mktemp("one"), url, role="web", wiring=wiring) as one,
            running(tmp_path_factory.mktemp("two"), url, role="web", wiring=wiring) as two,
        ):
            sealed = one.services.box.seal({"api_key": KEY})
            now = one.services.clock.now()
            await one.write(
                lambda c: connections.insert(
                    c, project_id=PROJECT, kind="posthog", name="app", config={}, secrets=sealed, now=now
                )
            )
            document = workflow("signed up", log_action("note", "noted"))
            document["actions"][0]["config"] = {"type": "event", "filters": {"events": [{"id": "signed_up"}]}}
            await one.create(document)
            yield one, two


def told(event: str, who: str = "ada", *, event_id: str = "", **properties: Any) -> dict[str, Any]:
    return {"event": event, "distinct_id": who, "uuid": event_id or str(uuid.uuid4()), "properties": properties}


def setting(who: str, key: str) -> dict[str, Any]:
    return told("$set", who) | {"$set": {key: 1}}


def identified(group: str, key: str) -> dict[str, Any]:
    return told("$groupidentify") | {
        "properties": {"$group_type": "company", "$group_key": group, "$group_set": {key: 1}}
    }


async def captured(service: Running, *events: dict[str, Any]) -> None:
    """A delivery for each event, in this order. Each tells of somebody else too: else its person would be its subject,
    and the deliveries of one subject never lie in two batches."""
    while (await service.service.dispatcher.batch()).taken:
        pass
    async with aiohttp.ClientSession() as client:
        for event in events:
            body = json.dumps({"api_key": KEY, "batch": [event, told("left", str(uuid.uuid4()))]}).encode()
            async with client.post(f"{service.service.url}/batch/", data=body) as response:
                assert response.status == 200


def crossing(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Both have taken their deliveries before either goes on, and whoever first comes back from `name` waits until the
    other has too, or evidently cannot."""
    _meet_after(monkeypatch, delivery_store, "due", 20)
    _meet_after(monkeypatch, owner, name, 0.7)


def _meet_after(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, seconds: float) -> None:
    inner: Callable[..., Any] = getattr(owner, name)
    met, came = threading.Barrier(2, timeout=seconds), set[int]()

    def meeting(*given: Any) -> Any:
        result = inner(*given)
        if len(came) < 2 and threading.get_ident() not in came:
            came.add(threading.get_ident())
            with suppress(threading.BrokenBarrierError):
                met.wait()
        return result

    monkeypatch.setattr(owner, name, meeting)


async def dispatched(both: tuple[Running, Running]) -> list[int]:
    """Both dispatch a batch at once, then whatever is left; how many deliveries each of the two took."""
    taken = await asyncio.gather(*(one.service.dispatcher.batch() for one in both))
    while (await both[0].service.dispatcher.batch()).taken:
        pass
    left = sa.select(deliveries.c.id).where(sa.or_(deliveries.c.status == "accepted", deliveries.c.attempts > 0))
    assert await both[0].read(lambda connection: connection.execute(left).all()) == []
    return [outcome.taken for outcome in taken]


async def known(service: Running, table: sa.Table, *keys: str) -> list[Any]:
    key = table.c.distinct_id if table is persons else table.c.key
    query = sa.select(key, table.c.properties).where(key.in_(keys))
    found = {row[0]: row[1] for row in await service.read(lambda connection: connection.execute(query).all())}
    return [found[one] for one in keys]


async def test_persons_whom_two_batches_change_are_held_in_one_order(both, monkeypatch):
    said = [("ada", "a"), ("bob", "b"), ("bob", "c"), ("ada", "d")]
    await captured(both[0], *(setting(who, key) for who, key in said))
    crossing(monkeypatch, lookahead, "remembered")
    assert await dispatched(both) == [2, 2]
    assert await known(both[0], persons, "ada", "bob") == [{"a": 1, "d": 1}, {"b": 1, "c": 1}]


async def test_groups_that_two_batches_change_are_held_in_one_order(both, monkeypatch):
    said = [("acme", "a"), ("Bolt", "b"), ("Bolt", "c"), ("acme", "d")]
    await captured(
        both[0],
        *(identified(name, key) for name, key in said),
    )
    crossing(monkeypatch, lookahead, "remembered")
    assert await dispatched(both) == [2, 2]
    assert await known(both[0], groups, "acme", "Bolt") == [{"a": 1, "d": 1}, {"b": 1, "c": 1}]


async def test_whoever_is_only_seen_again_is_not_waited_for(both, monkeypatch):
    await captured(both[0], setting("cy", "x"), setting("dan", "x"))
    await dispatched(both)
    long_ago = both[0].services.clock.now() - timedelta(days=5)
    await both[0].write(lambda connection: connection.execute(persons.update().values(seen_at=long_ago)))
    said = [told("seen", "cy"), told("seen", "dan"), told("seen", "dan"), told("seen", "cy")]
    await captured(both[0], *said)
    crossing(monkeypatch, lookahead, "remembered")
    assert await dispatched(both) == [2, 2]
    query = sa.select(persons.c.seen_at).where(persons.c.distinct_id.in_(["cy", "dan"]))
    seen = await both[0].read(lambda connection: connection.execute(query).scalars().all())
    assert all(moment > long_ago for moment in seen)


async def test_facts_that_two_batches_claim_start_one_run_each(both, monkeypatch, caplog):
    (flow,) = [one.key for one in both[0].services.definitions.listeners()] or [""]
    facts = [str(uuid.uuid4()) for _ in range(2)]
    order = (facts[0], facts[1], facts[1], facts[0])
    await captured(both[0], *(told("signed_up", str(n), event_id=fact, n=n) for n, fact in enumerate(order)))
    crossing(monkeypatch, delivery_store, "claim")
    assert await dispatched(both) == [2, 2]
    assert sorted(run["event_uuid"] for run in await both[0].runs(flow)) == sorted(facts)
    assert "waits for the database" not in caplog.text
