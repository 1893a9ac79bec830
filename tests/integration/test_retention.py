"""What is old goes after its time, on SQLite and on Postgres, and nothing that is still needed."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from loops.errors import Conflict
from loops.runs.engine import EngineClient, prepare_engine
from loops.store import connections, retention
from loops.store import deliveries as deliveries_store
from loops.store import outbox as outbox_store
from loops.store.columns import to_micros
from loops.store.database import Database, open_database
from loops.store.mask_tables import masks
from loops.store.output_tables import task_outputs
from loops.store.people_tables import groups, persons
from loops.store.schedule_tables import occurrences
from loops.store.tables import claims, deliveries, events, outbox, run_steps, runs, workflows
from loops.store.task_tables import notes, task_rounds, tasks
from notify.enqueue import Outbox
from notify.message import Message
from server.housekeeping import retain_once
from tests.contract.databases import delivery_row
from tests.doubles.messages import TO_SLACK, stored

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
KEEP_DAYS = 30


class Still:
    """A clock that stands still."""

    def now(self) -> datetime:
        return NOW


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = open_database(database_url)
    yield opened
    await opened.aclose()


@pytest.fixture
async def client(database: Database, database_url: str) -> AsyncIterator[EngineClient]:
    prepare_engine(database_url)
    client = EngineClient(database_url)
    yield client
    await client.aclose()


def a_run(name: str, ended: datetime | None, **other: Any) -> dict[str, Any]:
    """A run that began a day before it ended, or two hundred days ago and is waiting still."""
    return {
        "id": name,
        "project_id": "default",
        "workflow_id": "w",
        "version": 1,
        "source": "github",
        "event_uuid": f"event of {name}",
        "event_name": "x",
        "replay": 0,
        "status": "waiting" if ended is None else "completed",
        "reason": "",
        "seq": 0,
        "restarts": 0,
        "state": {},
        "cost": 0.0,
        "created_at": ago(200) if ended is None else ended - timedelta(days=1),
        "updated_at": ended or ago(200),
        "finished_at": ended,
        **other,
    }


def a_step(run_id: str, step_id: str = "a") -> dict[str, Any]:
    values: dict[str, Any] = {"seq": 0, "position": 0, "type": "function", "name": "x", "status": "completed"}
    return {"run_id": run_id, "step_id": step_id, "started_at": NOW, **values}


def an_event(uuid: str, made: datetime, **other: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"project_id": "default", "source": "github", "delivery_id": "d", "name": "x"}
    return {**values, "uuid": uuid, "created_at": made, "position": 0, "verdicts": [], "body": b"x", **other}


async def put(database: Database, table: sa.Table, *rows: dict[str, Any]) -> None:
    await database.writer.run(lambda connection: connection.execute(table.insert(), list(rows)))


async def accepted(database: Database, key: str, received: datetime, status: str = "ignored") -> None:
    await database.writer.accept(delivery_row(key, received_at=to_micros(received), status=status))


async def swept(database: Database) -> int:
    """One batch."""
    old = await database.reader.read(lambda connection: retention.find(connection, NOW, KEEP_DAYS))
    return await database.writer.run(lambda connection: retention.remove(connection, old))


async def keys(database: Database, *columns: "sa.Column[Any]", where: Any = True) -> list[Any]:
    query = sa.select(*columns).where(where).order_by(*columns)
    found = await database.reader.read(lambda connection: connection.execute(query).all())
    return [row[0] if len(columns) == 1 else tuple(row) for row in found]


async def test_a_deliverys_body_goes_after_thirty_days_and_its_key_after_ninety(database):
    for days in (29, 31, 89, 91):
        await accepted(database, f"{days} days", ago(days))
    assert await swept(database) == 4  # three bodies, one key
    assert await keys(database, deliveries.c.key) == ["29 days", "31 days", "89 days"]
    assert await keys(database, deliveries.c.key, where=deliveries.c.body.is_not(None)) == ["29 days"]
    assert await keys(database, deliveries.c.key, where=deliveries.c.headers.is_not(None)) == ["29 days"]
    receipt = await database.writer.accept(delivery_row("31 days"))
    assert not receipt.new
    assert await database.reader.read(lambda c: deliveries_store.load(c, receipt.id)) is None
    assert await swept(database) == 0


@pytest.mark.parametrize("status", ["dispatched", "ignored", "quarantined"])
async def test_whatever_became_of_a_delivery_it_goes(database, status):
    await accepted(database, "old", ago(91), status)
    await swept(database)
    assert await keys(database, deliveries.c.key) == []


async def test_a_delivery_that_waits_for_dispatch_stays_however_old_it_is(database):
    await accepted(database, "waits", ago(200), "accepted")
    assert await swept(database) == 0
    assert await keys(database, deliveries.c.key, where=deliveries.c.body.is_not(None)) == ["waits"]


async def test_events_go_after_thirty_days(database):
    await put(database, events, an_event("young", ago(29)), an_event("old", ago(31)))
    assert await swept(database) == 1
    assert await keys(database, events.c.uuid) == ["young"]


async def test_the_event_of_an_open_run_stays_as_long_as_the_run(database):
    await put(database, runs, a_run("open", None), a_run("over", ago(35)))
    await put(database, events, an_event("event of open", ago(200)), an_event("event of over", ago(36)))
    assert await swept(database) == 1
    assert await keys(database, events.c.uuid) == ["event of open"]
    over = runs.update().values(status="completed", finished_at=NOW)
    await database.writer.run(lambda connection: connection.execute(over))
    assert await swept(database) == 1
    assert await keys(database, events.c.uuid) == []


async def test_an_event_that_a_run_began_to_need_since_it_was_looked_for_stays(database):
    await put(database, events, an_event("event of late", ago(31)))
    old = await database.reader.read(lambda connection: retention.find(connection, NOW, KEEP_DAYS))
    assert [row[2] for row in old.events] == ["event of late"]
    await put(database, runs, a_run("late", None))
    assert await database.writer.run(lambda connection: retention.remove(connection, old)) == 0
    assert await keys(database, events.c.uuid) == ["event of late"]


async def test_only_the_old_one_goes_of_two_events_with_one_uuid(database):
    await put(
        database,
        events,
        an_event("same", ago(31)),
        an_event("same", ago(1), project_id="other"),
        an_event("same", ago(1), source="posthog"),
    )
    assert await swept(database) == 1
    found = await keys(database, events.c.project_id, events.c.source)
    assert found == [("default", "posthog"), ("other", "github")]


async def test_the_steps_of_a_run_go_thirty_days_after_its_end_and_its_row_ninety(database):
    await put(database, runs, a_run("29", ago(29)), a_run("31", ago(31)), a_run("91", ago(91)), a_run("open", None))
    await put(database, run_steps, *(a_step(run_id) for run_id in ("29", "31", "91", "open")))
    assert await swept(database) == 3
    assert await keys(database, runs.c.id) == ["29", "31", "open"]
    assert await keys(database, run_steps.c.run_id) == ["29", "open"]


def a_task(name: str, ended: datetime | None) -> dict[str, Any]:
    values = {
        "project_id": "default",
        "workflow_id": "w",
        "run_id": name,
        "step_id": "task",
        "title": "x",
        "reason": "",
    }
    counts = {"seq": 0, "restarts": 0, "rounds": 1, "input_tokens": 0, "output_tokens": 0}
    status: dict[str, Any] = {"status": "running" if ended is None else "completed", "request": {}, "model": ""}
    status["ending"] = ""
    times = {"created_at": ago(200), "updated_at": ended or ago(200), "finished_at": ended}
    return {"id": name, "key": name, **values, **counts, **status, **times}


async def test_a_task_and_its_rounds_go_thirty_days_after_its_end_whatever_else_is_kept(database):
    await put(database, tasks, a_task("29", ago(29)), a_task("31", ago(31)), a_task("open", None))
    rounds: list[dict[str, Any]] = [
        {"task_id": name, "number": 1, "body": {}, "updated_at": ago(200)} for name in ("29", "31", "open")
    ]
    await put(database, task_rounds, *rounds)
    written = {"kind": "comment", "repository": "a/b", "body": {}, "status": "written", "reason": "", "url": ""}
    stamps = {"created_at": ago(200), "updated_at": ago(200), "attempts": 1, "number": 1}
    outputs = [{**written, **stamps, "task_id": name, "key": name} for name in ("29", "31", "open")]
    await put(database, task_outputs, *outputs)
    assert [await swept(database) for _ in range(3)] == [2, 1, 0]
    assert await keys(database, tasks.c.id) == ["29", "open"]
    assert await keys(database, task_rounds.c.task_id) == ["29", "open"]
    assert await keys(database, task_outputs.c.task_id) == ["29", "open"]


async def test_a_note_goes_ninety_days_after_it_was_closed_and_never_while_it_is_open(database):
    closed = {"open": None, "young": ago(89), "old": ago(91)}
    names = {
        "project_id": "default",
        "workflow_id": "w",
        "subject": "s",
        "task_id": "t",
        "text": "x",
        "reason": "",
        "created_at": ago(200),
    }
    rows = [
        {**names, "id": key, "open_key": key, "created_at": ago(200), "closed_at": at} for key, at in closed.items()
    ]
    await put(database, notes, *rows)
    assert await swept(database) == 1
    assert await keys(database, notes.c.id) == ["open", "young"]


async def test_claims_go_after_ninety_days(database):
    made = {"young": ago(89), "old": ago(91)}
    rows = [{"workflow_id": "w", "claim": name, "delivery_id": "d", "created_at": at} for name, at in made.items()]
    await put(database, claims, *rows)
    assert await swept(database) == 1
    assert await keys(database, claims.c.claim) == ["young"]


def a_mask(digest: str, ends: datetime, workflow: str = "w") -> dict[str, Any]:
    values = {"workflow_id": workflow, "digest": digest, "ends_at": ends, "started_at": ends - timedelta(hours=1)}
    return {**values, "count": 3, "updated_at": ends}


async def test_windows_of_masks_go_a_day_after_their_end_however_long_things_are_kept(database):
    await put(database, masks, a_mask("open", ago(-1)), a_mask("young", ago(0.9)), a_mask("old", ago(1.1)))
    old = await database.reader.read(lambda connection: retention.find(connection, NOW, 365))
    assert await database.writer.run(lambda connection: retention.remove(connection, old)) == 1
    assert await keys(database, masks.c.digest) == ["open", "young"]


async def test_a_window_that_has_begun_anew_since_it_was_looked_for_stays(database):
    await put(database, masks, a_mask("again", ago(2)), a_mask("gone", ago(2)))
    old = await database.reader.read(lambda connection: retention.find(connection, NOW, KEEP_DAYS))
    anew = masks.update().where(masks.c.digest == "again").values(started_at=NOW, ends_at=ago(-1), count=1)
    await database.writer.run(lambda connection: connection.execute(anew))
    assert await database.writer.run(lambda connection: retention.remove(connection, old)) == 1
    assert await keys(database, masks.c.digest) == ["again"]


async def test_what_became_of_occurrences_goes_after_ninety_days(database):
    told = {"schedule_id": "s", "outcome": "ran", "reason": "", "decided_at": NOW}
    await put(database, occurrences, *({**told, "due_at": ago(days)} for days in (1, 89, 91, 400)))
    assert await swept(database) == 2
    assert await keys(database, occurrences.c.due_at) == [ago(89), ago(1)]


async def test_the_windows_of_an_archived_workflow_go(database):
    common = {"project_id": "default", "name": "x", "description": "", "version": 1, "definition": {}}
    times = {"changed_epoch": 1, "since_epoch": 0, "created_at": NOW, "updated_at": NOW}
    statuses = {"gone": "archived", "off": "draft", "on": "active"}
    await put(database, workflows, *({**common, **times, "id": one, "status": s} for one, s in statuses.items()))
    await put(database, masks, *(a_mask("all", ago(-1000), one) for one in statuses))
    assert await swept(database) == 1
    assert await keys(database, masks.c.workflow_id) == ["off", "on"]


async def test_windows_go_in_small_batches(database, monkeypatch):
    monkeypatch.setattr("loops.store.retention.BATCH", 10)
    await put(database, masks, *(a_mask(f"{number:03}", ago(2)) for number in range(25)))
    assert [await swept(database) for _ in range(4)] == [10, 10, 5, 0]


async def test_a_longer_time_to_keep_holds_for_everything(database):
    await accepted(database, "old", ago(100))
    await put(database, events, an_event("old", ago(100)))
    await put(database, runs, a_run("old", ago(100)))
    find = retention.find
    assert not await database.reader.read(lambda connection: find(connection, NOW, 120))
    assert await database.reader.read(lambda connection: find(connection, NOW, 99))


async def test_a_batch_is_small_whatever_there_is(database, monkeypatch):
    monkeypatch.setattr("loops.store.retention.BATCH", 10)
    await put(database, runs, *(a_run(f"r{number}", ago(40)) for number in range(5)))
    await put(database, run_steps, *(a_step(f"r{n}", f"s{m}") for n in range(5) for m in range(9)))
    assert [await swept(database) for _ in range(6)] == [10, 10, 10, 10, 5, 0]


async def test_housekeeping_goes_on_until_nothing_old_is_left(database, client, monkeypatch):
    monkeypatch.setattr("loops.store.retention.BATCH", 10)
    monkeypatch.setattr("server.housekeeping._BETWEEN_BATCHES", 0)
    await put(database, events, *(an_event(f"e{number}", ago(31)) for number in range(35)))
    assert await retain_once(database.writer, database.reader, client, Still(), KEEP_DAYS) == 35
    assert await keys(database, events.c.uuid) == []


async def a_message(database: Database, key: str, rested: datetime, status: str = "sent", **columns: Any) -> str:
    said = Message(TO_SLACK, key, f"what {key} says")
    return await stored(database.writer, rested, status, message=said, **columns)


async def test_what_a_message_says_goes_after_thirty_days_and_its_row_after_ninety(database):
    for days in (29, 31, 89, 91):
        await a_message(database, f"{days} days", ago(days))
    assert await swept(database) == 4  # three texts, one row
    assert await keys(database, outbox.c.key) == ["29 days", "31 days", "89 days"]
    rows = await database.reader.read(lambda connection: outbox_store.listed(connection, "default"))
    assert [row.message.get("text") for row in rows] == [None, None, "what 29 days says"]
    assert await swept(database) == 0


@pytest.mark.parametrize("status", ["sent", "refused", "shown", "withdrawn", "uncertain"])
async def test_whatever_became_of_a_message_that_rests_it_goes(database, status: str):
    await a_message(database, "old", ago(91), status, due_at=None)
    await swept(database)
    assert await keys(database, outbox.c.key) == []


@pytest.mark.parametrize("status", ["pending", "sending", "retry", "uncertain"])
async def test_a_message_that_is_not_at_rest_stays_however_old_it_is(database, status: str):
    await a_message(database, "old", ago(200), status, due_at=ago(200))
    assert await swept(database) == 0


async def test_a_message_that_is_asked_for_again_since_it_was_looked_for_stays(database):
    message_id = await a_message(database, "late", ago(91), "refused")
    old = await database.reader.read(lambda connection: retention.find(connection, NOW, KEEP_DAYS))
    assert (len(old.texts), len(old.messages)) == (1, 1)
    again = Outbox(Still())
    await database.writer.run(
        lambda connection: connections.insert(
            connection, project_id="default", kind="slack", name="team", config={}, secrets="", now=NOW
        )
    )
    await database.writer.run(lambda connection: again.send_again(connection, "default", message_id))
    assert await database.writer.run(lambda connection: retention.remove(connection, old)) == 0
    row = await database.reader.read(lambda connection: outbox_store.get(connection, message_id))
    assert (row.status, row.message["text"]) == ("pending", "what late says")


async def test_a_message_whose_text_is_gone_is_not_sent_again(database):
    message_id = await a_message(database, "old", ago(31), "refused")
    await swept(database)
    again = Outbox(Still())
    with pytest.raises(Conflict, match="no longer kept"):
        await database.writer.run(lambda connection: again.send_again(connection, "default", message_id))


async def test_persons_and_groups_go_when_nobody_heard_of_them_for_ninety_days(
    database: Database, client: EngineClient
) -> None:
    def put(connection: sa.Connection) -> None:
        for name, seen in (("old", ago(91)), ("young", ago(89))):
            row = {"project_id": "default", "properties": {}, "created_at": ago(400), "seen_at": seen}
            connection.execute(persons.insert().values(distinct_id=name, **row))
            connection.execute(groups.insert().values(type="company", key=name, **row))

    await database.writer.run(put)
    await retain_once(database.writer, database.reader, client, Still(), KEEP_DAYS)
    left = await database.reader.read(
        lambda connection: (
            [row.distinct_id for row in connection.execute(sa.select(persons))],
            [row.key for row in connection.execute(sa.select(groups))],
        )
    )
    assert left == (["young"], ["young"])


async def test_a_person_who_is_heard_of_before_he_goes_stays(database: Database) -> None:
    def put(connection: sa.Connection) -> None:
        row = {"project_id": "default", "properties": {}, "created_at": ago(400), "seen_at": ago(91)}
        connection.execute(persons.insert().values(distinct_id="ada", **row))

    await database.writer.run(put)
    old = await database.reader.read(lambda connection: retention.find(connection, NOW, KEEP_DAYS))
    await database.writer.run(lambda connection: connection.execute(persons.update().values(seen_at=NOW)))
    assert await database.writer.run(lambda connection: retention.remove(connection, old)) == 0
    assert await database.reader.read(lambda connection: len(connection.execute(sa.select(persons)).all())) == 1
