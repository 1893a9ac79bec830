"""Persons and groups in the database, on SQLite and on Postgres."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from loops.event import Event
from loops.store import people as store
from loops.store.database import Database, open_database
from loops.store.people_tables import persons
from triggers.people import group_types, hold_people, joined, remembered
from triggers.posthog.people import MOST_BYTES

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = open_database(database_url)
    yield opened
    await opened.aclose()


def setting(who: str, **properties: Any) -> Event:
    return Event(f"u{who}{properties}", "$set", "posthog", who, NOW, {"$set": properties})


def keep(connection: sa.Connection, project_id: str, events: list[Event]) -> list[Event]:
    """As dispatch does: whomever the events change is held first."""
    hold_people(connection, project_id, events, NOW)
    return remembered(connection, project_id, events, {}, NOW)


async def known(database: Database, *ids: str) -> dict[str, Any]:
    return await database.reader.read(lambda connection: dict(store.read_persons(connection, "p", ids)))


async def test_two_that_change_a_person_at_once_lose_nothing_of_each_other(database: Database) -> None:
    first_wrote = threading.Event()

    def first(connection: sa.Connection) -> None:
        keep(connection, "p", [setting("ada", a=1), setting("bob", a=1)])
        first_wrote.set()
        threading.Event().wait(0.3)  # the other one waits for this transaction's end by now

    def second(connection: sa.Connection) -> None:
        assert first_wrote.wait(10)
        keep(connection, "p", [setting("bob", b=2), setting("ada", b=2)])

    await asyncio.gather(database.writer.run(first), database.writer.run(second))
    assert await known(database, "ada", "bob") == {"ada": {"a": 1, "b": 2}, "bob": {"a": 1, "b": 2}}


async def test_a_person_of_another_project_is_another_person(database: Database) -> None:
    await database.writer.run(lambda connection: keep(connection, "p", [setting("ada", a=1)]))
    await database.writer.run(lambda connection: keep(connection, "q", [setting("ada", a=2)]))
    assert await known(database, "ada") == {"ada": {"a": 1}}


async def test_looking_stores_nothing_and_shows_what_is_known(database: Database) -> None:
    await database.writer.run(lambda connection: keep(connection, "p", [setting("ada", a=1)]))
    (seen,) = await database.reader.read(lambda connection: joined(connection, "p", [setting("ada", b=2)], {}))
    assert seen.person is not None
    assert seen.person.properties == {"a": 1, "b": 2}
    assert await known(database, "ada") == {"ada": {"a": 1}}


async def test_thousands_of_persons_in_one_batch_are_read_and_stored(database: Database) -> None:
    events = [setting(f"n{number}", a=number) for number in range(1500)]
    for _ in range(2):
        await database.writer.run(lambda connection: keep(connection, "p", events))
    count = await database.reader.read(
        lambda connection: connection.execute(sa.select(sa.func.count()).select_from(persons)).scalar_one()
    )
    assert count == 1500


async def test_a_change_that_is_too_much_is_logged_and_the_event_goes_on(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    event = setting("ada", long="x" * MOST_BYTES)
    (found,) = await database.writer.run(lambda connection: keep(connection, "p", [event]))
    assert found.person is not None
    assert found.person.properties == {}
    (record,) = [one for one in caplog.records if one.name == "loops.people"]
    assert (record.refused, record.project_id) == (1, "p")  # type: ignore[attr-defined]
    assert str(MOST_BYTES) in record.getMessage()


def test_the_types_of_groups_are_in_the_order_of_the_setting() -> None:
    assert group_types({"group_types": "project, company"}) == ("project", "company")
    assert group_types({}) == group_types({"group_types": None}) == ()
