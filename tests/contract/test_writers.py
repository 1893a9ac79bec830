"""What every Writer keeps, on SQLite and on Postgres."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from loops.errors import Conflict, PayloadMalformed, StoreBusy
from loops.ports import DeliveryRow
from loops.store import workflows
from loops.store.database import Database, is_sqlite
from loops.store.deliveries import expand
from loops.store.tables import deliveries, epochs
from tests.contract.databases import Outage, delivery_row


async def stored(database: Database) -> set[str]:
    """The ids of the deliveries that are there."""
    return set(await database.reader.read(lambda c: c.execute(sa.select(deliveries.c.id)).scalars().all()))


async def counted(database: Database) -> int:
    """The counter that `count` counts up; 0 before."""
    query = sa.select(epochs.c.value).where(epochs.c.name == "counted")
    return await database.reader.read(lambda connection: connection.execute(query).scalar() or 0)


def count(connection: sa.Connection) -> int:
    """Read, then write: what two transactions at once get wrong unless one waits for the other."""
    here = epochs.c.name == "counted"
    before: int = connection.execute(sa.select(epochs.c.value).where(here).with_for_update()).scalar_one()
    connection.execute(epochs.update().where(here).values(value=before + 1))
    return before + 1


def count_from(value: int) -> Callable[[sa.Connection], object]:
    return lambda connection: connection.execute(epochs.insert().values(name="counted", value=value))


async def behind(database: Database, *work: "asyncio.Future[object]") -> list[object]:
    """The results of requests that have all waited together, behind one that took its time."""
    go_on = threading.Event()
    first = asyncio.ensure_future(database.writer.run(lambda _connection: go_on.wait(10)))
    await asyncio.sleep(0.05)
    waiting = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(0.05)
    go_on.set()
    await first
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_an_accepted_delivery_is_stored_with_the_epoch_of_the_definitions(database):
    epoch = await database.writer.run(workflows.bump_epoch)
    row = delivery_row(subject="1#2", headers='{"a": "ü"}', body=b"\x00\xff", size=2)
    receipt = await database.writer.accept(row)
    assert (receipt.id, receipt.new) == (row.id, True)
    found = await database.reader.read(lambda c: c.execute(sa.select(deliveries)).mappings().one())
    columns = ("key", "subject", "headers", "size", "status", "epoch", "attempts", "runs", "verified")
    assert [found[name] for name in columns] == [
        row.key, "1#2", '{"a": "ü"}', 2, "accepted", epoch, 0, 0, True,
    ]  # fmt: skip
    assert expand(found["body"]) == b"\x00\xff"


async def test_a_delivery_that_no_loop_listened_for_is_settled_as_it_is_stored(database):
    epoch = await database.writer.run(workflows.bump_epoch)
    receipts = [
        await database.writer.accept(delivery_row(f"at {unheard}", unheard=unheard)) for unheard in (epoch, None)
    ]
    told = await statuses(database)
    assert [told[one.id] for one in receipts] == [("ignored", "no loop listens for it"), ("accepted", "")]


async def test_a_delivery_is_not_settled_when_definitions_have_changed_since_it_was_held_against_them(database):
    epoch = await database.writer.run(workflows.bump_epoch)
    await database.writer.run(workflows.bump_epoch)
    receipt = await database.writer.accept(delivery_row("late", unheard=epoch))
    assert (await statuses(database))[receipt.id] == ("accepted", "")


async def test_a_group_with_an_empty_body_keeps_every_body(database):
    bodies = [b"", b"x" * 70_000, b"", b"{}"]
    rows = [delivery_row(f"body {number}", body=body) for number, body in enumerate(bodies)]
    await asyncio.gather(*(database.writer.accept(row) for row in rows))
    found = await database.reader.read(
        lambda c: dict(map(tuple, c.execute(sa.select(deliveries.c.id, deliveries.c.body))))
    )
    assert [expand(found[row.id]) for row in rows] == bodies


async def statuses(database: Database) -> dict[str, tuple[str, str]]:
    query = sa.select(deliveries.c.id, deliveries.c.status, deliveries.c.reason)
    return {row[0]: (row[1], row[2]) for row in await database.reader.read(lambda c: c.execute(query).all())}


async def test_a_key_that_comes_again_is_known_and_answered_with_the_first_delivery(database):
    first = await database.writer.accept(delivery_row("once"))
    again = await database.writer.accept(delivery_row("once"))
    assert (first.new, again.new, again.id) == (True, False, first.id)
    assert await stored(database) == {first.id}


async def test_twenty_arrivals_of_one_key_at_once_are_one_delivery(database):
    receipts = await asyncio.gather(*(database.writer.accept(delivery_row("once")) for _ in range(20)))
    assert sum(one.new for one in receipts) == 1
    assert {one.id for one in receipts} == await stored(database)


async def test_one_key_from_two_connections_is_two_deliveries(database):
    receipts = [await database.writer.accept(delivery_row("once", connection_id=number)) for number in (1, 2)]
    assert all(one.new for one in receipts)
    assert len(await stored(database)) == 2


async def test_deliveries_that_wait_together_share_a_transaction(database):
    before = database.writer.transactions
    rows = [delivery_row() for _ in range(200)]
    await asyncio.gather(*(database.writer.accept(row) for row in rows))
    assert await stored(database) == {row.id for row in rows}
    assert database.writer.transactions - before < 100


async def test_a_closure_returns_its_value_after_its_commit(database):
    await database.writer.run(count_from(41))
    assert await database.writer.run(count) == 42
    assert await counted(database) == 42


async def test_a_closure_that_raises_undoes_its_own_writes_and_nobody_elses(database):
    await database.writer.run(count_from(0))
    refusal = Conflict("no")

    def fails(connection: sa.Connection) -> None:
        count(connection)
        raise refusal

    row = delivery_row()
    work = [database.writer.run(count), database.writer.run(fails), database.writer.run(count)]
    told = await behind(database, *work, database.writer.accept(row))
    assert told[1] is refusal
    assert sorted(one for one in told if isinstance(one, int)) == [1, 2]
    assert await counted(database) == 2
    assert await stored(database) == {row.id}


@pytest.mark.parametrize(
    "breaks",
    [
        lambda c: c.execute(sa.text("SELECT nothing FROM nowhere")),
        lambda c: c.execute(epochs.insert().values(name="definitions", value=1)),
        lambda c: c.execute(epochs.insert().values(name="\ud800", value=1)),
        lambda _: 1 / 0,
    ],
    ids=["unknown table", "duplicate", "lone surrogate", "fault of its own"],
)
async def test_a_closure_with_a_fault_of_its_own_is_told_so_and_keeps_nobody_from_writing(database, breaks):
    await database.writer.run(count_from(0))
    told = await behind(database, database.writer.run(count), database.writer.run(breaks), database.writer.run(count))
    assert isinstance(told[1], DBAPIError | ValueError | ZeroDivisionError)
    assert sorted(one for one in told if isinstance(one, int)) == [1, 2]


async def test_a_caller_who_goes_away_takes_nobody_along(database):
    rows = [delivery_row() for _ in range(3)]
    waiting = [asyncio.ensure_future(database.writer.accept(row)) for row in rows]
    await asyncio.sleep(0)
    waiting[1].cancel()
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(told[1], asyncio.CancelledError)
    assert {rows[0].id, rows[2].id} <= await stored(database)


async def test_a_database_that_cannot_write_is_told_and_keeps_nothing(database, outage: Outage):
    await database.writer.run(count_from(0))
    lost = [delivery_row() for _ in range(5)]
    with outage():
        told = await asyncio.gather(*(database.writer.accept(row) for row in lost), return_exceptions=True)
        with pytest.raises(StoreBusy) as error:
            await database.writer.run(count)
    assert [type(one) for one in told] == [StoreBusy] * 5
    assert error.value.hint
    assert await stored(database) == set()
    assert await counted(database) == 0


async def test_a_database_that_comes_back_is_written_again(database, outage: Outage):
    await database.writer.run(count_from(0))
    row = delivery_row()
    with outage(), pytest.raises(StoreBusy):
        await database.writer.accept(row)
    assert (await database.writer.accept(row)).new
    assert await database.writer.run(count) == 1
    assert await stored(database) == {row.id}


@pytest.mark.postgres
async def test_an_outage_in_the_middle_of_a_closure_undoes_it(postgres, sessions_end):
    await postgres.writer.run(count_from(0))

    def interrupted(connection: sa.Connection) -> None:
        count(connection)
        sessions_end()
        count(connection)

    with pytest.raises(StoreBusy):
        await postgres.writer.run(interrupted)
    assert await counted(postgres) == 0


@pytest.mark.postgres
async def test_two_transactions_that_wait_for_each_other_both_come_through(postgres):
    both = threading.Barrier(2)
    tries: list[int] = []

    def locking(first: int, second: int) -> Callable[[sa.Connection], None]:
        def closure(connection: sa.Connection) -> None:
            tries.append(first)
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(first)))
            if tries.count(first) == 1:
                both.wait(30)
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(second)))
            count(connection)

        return closure

    await postgres.writer.run(count_from(0))
    await asyncio.gather(postgres.writer.run(locking(1, 2)), postgres.writer.run(locking(2, 1)))
    assert await counted(postgres) == 2
    assert len(tries) > 2


@pytest.mark.postgres
async def test_a_connection_lost_while_nothing_happened_goes_unnoticed(postgres, sessions_end):
    await postgres.writer.run(count_from(0))
    await postgres.writer.accept(delivery_row())
    sessions_end()
    assert (await postgres.writer.accept(delivery_row())).new
    assert await postgres.writer.run(count) == 1


TEXTS = ["key", "name", "subject", "headers", "reason"]


async def refused_alone(database: Database, poison: DeliveryRow) -> None:
    """Only the poison among ten deliveries is refused, the others are stored."""
    rows = [delivery_row() for _ in range(9)]
    rows[4:4] = [poison]
    told = await asyncio.gather(*(database.writer.accept(row) for row in rows), return_exceptions=True)
    assert isinstance(told.pop(4), PayloadMalformed)
    assert all(one.new for one in told)  # type: ignore[union-attr]
    assert await stored(database) == {row.id for row in rows} - {poison.id}


@pytest.mark.parametrize("column", TEXTS)
async def test_a_delivery_with_a_lone_surrogate_is_refused_alone(database, column):
    await refused_alone(database, delivery_row(**{column: "lone \ud800 surrogate"}))


@pytest.mark.postgres
@pytest.mark.parametrize("column", TEXTS)
async def test_a_delivery_with_nul_is_refused_alone_where_it_cannot_be_stored(postgres, column):
    await refused_alone(postgres, delivery_row(**{column: "n\x00l"}))


@pytest.mark.postgres
async def test_a_delivery_whose_key_is_too_long_for_the_index_is_refused_alone(postgres):
    noise = "".join(f"{number:x}" for number in range(20_000, 30_000))  # such as no compression makes short
    await refused_alone(postgres, delivery_row(key=noise))


async def test_a_delivery_that_cannot_be_stored_keeps_no_closure_from_writing(database):
    await database.writer.run(count_from(0))
    told = await behind(
        database,
        database.writer.run(count),
        database.writer.accept(delivery_row(name="\udfff")),
        database.writer.run(count),
    )
    assert isinstance(told[1], PayloadMalformed)
    assert sorted(one for one in told if isinstance(one, int)) == [1, 2]
    assert await counted(database) == 2


async def test_a_burst_of_mixed_writes_beside_another_writer_fails_nobody(database):
    """Fifty deliveries and fifty read-then-write transactions, while the durable engine writes as well."""
    await database.writer.run(count_from(0))
    over = threading.Event()
    neighbour = threading.Thread(target=_write_on_and_on, args=(database.url, over))
    neighbour.start()
    try:
        accepted, results = await asyncio.gather(
            asyncio.gather(*(database.writer.accept(delivery_row()) for _ in range(50))),
            asyncio.gather(*(database.writer.run(count) for _ in range(50))),
        )
    finally:
        over.set()
        neighbour.join()
    assert all(one.new for one in accepted)
    assert sorted(results) == list(range(1, 51))
    assert await counted(database) == 50


def _write_on_and_on(url: str, over: threading.Event) -> None:
    if not is_sqlite(url):
        return
    connection = sqlite3.connect(sa.make_url(url).database or "", timeout=30, isolation_level="IMMEDIATE")
    connection.execute("CREATE TABLE neighbour (n INTEGER)")
    while not over.wait(0.001):
        connection.execute("INSERT INTO neighbour VALUES (1)")
        connection.commit()
    connection.close()


async def test_closing_finishes_what_waits_and_refuses_what_comes_after(database):
    await database.writer.run(count_from(0))
    rows: list[DeliveryRow] = [delivery_row() for _ in range(20)]
    accepts = [asyncio.ensure_future(database.writer.accept(row)) for row in rows]
    runs = [asyncio.ensure_future(database.writer.run(count)) for _ in range(20)]
    await asyncio.sleep(0)
    await database.writer.aclose()
    assert all(one.new for one in await asyncio.gather(*accepts))
    assert sorted(await asyncio.gather(*runs)) == list(range(1, 21))
    assert await stored(database) == {row.id for row in rows}
    with pytest.raises(StoreBusy, match="closed"):
        await database.writer.accept(delivery_row())
    with pytest.raises(StoreBusy, match="closed"):
        await database.writer.run(count)
    await database.writer.aclose()
