"""The outbox over SQLite and Postgres: stored before sent, claimed once, and honest about what nobody can know."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from loops.errors import Conflict, NotFound, StoreBusy, StoreError
from loops.store import connections
from loops.store import outbox as store
from loops.store.database import Database, open_database
from loops.store.outbox import OutboxRow
from loops.store.tables import outbox
from notify.enqueue import Outbox, Stored
from notify.message import (
    Absent,
    Address,
    EmailTarget,
    Message,
    Notifier,
    Outcome,
    Outgoing,
    PageTarget,
    Refused,
    Retry,
    Sent,
    Settlement,
    SlackTarget,
    Target,
    Uncertain,
    Unconnected,
    Unsettled,
)
from notify.outbox import LEASE
from notify.sending import Listener, OutboxSender
from notify.slack import SlackNotifier
from tests.doubles.slack import TOKEN, SlackDouble, limited, loses_the_answer, loses_the_request, slack

T = TypeVar("T")
NOW = datetime(2026, 7, 6, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class SetClock:
    """A clock that a test moves."""

    def __init__(self, now: datetime = NOW) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time


class Service:
    """A notifier that does what a test says: `says` is taken one a send, Sent when it is empty."""

    def __init__(self, parts: int = 1) -> None:
        self.got: list[tuple[str, int]] = []
        self.says: list[Outcome | Callable[[], Awaitable[Outcome]]] = []
        self.found: list[Settlement] = []
        self._parts = parts

    async def parts(self, message: Message) -> int | Refused:
        return self._parts

    async def send(self, outgoing: Outgoing) -> Outcome:
        self.got.append((outgoing.message.key, outgoing.part))
        says = self.says.pop(0) if self.says else Sent(f"ref-{len(self.got)}")
        return await says() if callable(says) else says

    async def settle(self, outgoing: Outgoing) -> Settlement:
        return self.found.pop(0) if self.found else Unsettled("nobody can tell")


class Connections:
    """Notifiers by the id of their connection."""

    def __init__(self, **notifiers: Notifier) -> None:
        self.by_id = {int(name[1:]): notifier for name, notifier in notifiers.items()}
        self.fails: list[StoreError] = []

    async def of(self, target: Target, project_id: str) -> Notifier | Unconnected:
        if self.fails:
            raise self.fails.pop(0)
        assert target.connection_id is not None
        return self.by_id.get(target.connection_id) or Unconnected("there is no such connection", "make it")


class Desk:
    """A database with an outbox, a clock, and whoever sends from it."""

    def __init__(self, database: Database, clock: SetClock) -> None:
        self.database = database
        self.clock = clock
        self.outbox = Outbox(clock)
        self.rested: list[tuple[str, str]] = []
        self.told: list[tuple[str, str]] = []
        self.first_told = asyncio.Event()

    def sender(self, connections: Connections, **settings: Any) -> OutboxSender:
        return OutboxSender(
            self.database.writer,
            self.database.reader,
            self.clock,
            connections,
            listener=Listener(lambda _c, row: self.rested.append((row.key, row.status)), self._tell),
            **settings,
        )

    async def _tell(self, row: OutboxRow) -> None:
        self.told.append((row.key, row.status))
        self.first_told.set()

    async def put(self, key: str = "k", target: Target | None = None, text: str = "text") -> Stored:
        message = Message(target or SlackTarget(1, "C1"), key, text)
        return await self.write(lambda connection: self.outbox.put(connection, message, project_id="default"))

    async def write(self, fn: Callable[[sa.Connection], T]) -> T:
        return await self.database.writer.run(fn)

    async def row(self, key: str = "k") -> OutboxRow:
        return await self.database.reader.read(lambda connection: store.by_key(connection, "default", key))

    async def status(self, key: str = "k") -> str:
        return (await self.row(key)).status


@pytest.fixture
async def desk(database_url: str) -> AsyncIterator[Desk]:
    database = open_database(database_url)
    yield Desk(database, SetClock())
    await database.aclose()


async def test_a_message_is_stored_sent_once_and_its_end_is_told(desk):
    service = Service()
    stored = await desk.put()
    assert (stored.status, stored.new) == ("pending", True)
    sender = desk.sender(Connections(c1=service))
    assert [await sender.drain(), await sender.drain()] == [1, 0]
    row = await desk.row()
    assert (row.id, row.status, row.refs, row.due_at) == (stored.id, "sent", ["ref-1"], None)
    assert service.got == [("k", 0)]
    assert desk.rested == desk.told == [("k", "sent")]


async def test_the_same_key_is_the_same_message(desk):
    first = await desk.put(text="one")
    again = await desk.put(text="two")
    assert (again.id, again.new) == (first.id, False)
    service = Service()
    await desk.sender(Connections(c1=service)).drain()
    assert len(service.got) == 1


async def test_one_key_in_two_projects_is_two_messages(desk):
    message = Message(SlackTarget(1, "C1"), "k", "text")
    put = [
        await desk.write(lambda connection, name=project: desk.outbox.put(connection, message, project_id=name))
        for project in ("default", "other")
    ]
    assert all(stored.new for stored in put)


async def test_a_message_of_a_transaction_that_fails_never_leaves(desk):
    def put_and_fail(connection: sa.Connection) -> None:
        desk.outbox.put(connection, Message(SlackTarget(1, "C1"), "k"), project_id="default")
        raise Conflict("no")

    with pytest.raises(Conflict):
        await desk.write(put_and_fail)
    with pytest.raises(NotFound):
        await desk.row()


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (SlackTarget(None, "C1"), "there is no Slack connection: it stands here alone"),
        (EmailTarget(None, (Address("a@b.org"),)), "there is no mail server connection: it stands here alone"),
        (PageTarget(), ""),
    ],
)
async def test_without_a_connection_a_message_is_shown_and_not_sent(desk, target: Target, reason: str):
    assert (await desk.put(target=target)).status == "shown"
    assert await desk.sender(Connections()).drain() == 0
    row = await desk.row()
    assert (row.status, row.reason, row.due_at) == ("shown", reason, None)


async def test_a_message_whose_connection_is_gone_is_shown(desk):
    await desk.put()
    await desk.sender(Connections()).drain()
    row = await desk.row()
    assert (row.status, row.reason, row.mend) == ("shown", "there is no such connection", "make it")
    assert desk.told == [("k", "shown")]


async def test_secrets_are_masked_before_anything_is_stored(desk):
    masking = Outbox(desk.clock, mask=lambda text: text.replace("hunter22", "***"))
    message = Message(SlackTarget(1, "C1"), "k", "the password is hunter22")
    await desk.write(lambda connection: masking.put(connection, message, project_id="default"))
    assert (await desk.row()).message["text"] == "the password is ***"


async def test_what_is_refused_is_over_and_a_person_may_ask_again(desk):
    service = Service()
    service.says = [Refused("is_archived", "it is archived", "unarchive it")]
    stored = await desk.put()
    sender = desk.sender(Connections(c1=service))
    await sender.drain()
    row = await desk.row()
    assert (row.status, row.code, row.reason, row.mend) == ("refused", "is_archived", "it is archived", "unarchive it")
    with pytest.raises(NotFound):
        await desk.write(lambda connection: desk.outbox.send_again(connection, "other", stored.id))
    await desk.write(
        lambda connection: connections.insert(
            connection, project_id="default", kind="slack", name="team", config={}, secrets="", now=desk.clock.now()
        )
    )
    await desk.write(lambda connection: desk.outbox.send_again(connection, "default", stored.id))
    await sender.drain()
    assert await desk.status() == "sent"
    with pytest.raises(Conflict):
        await desk.write(lambda connection: desk.outbox.send_again(connection, "default", stored.id))
    assert desk.told == [("k", "refused"), ("k", "sent")]


async def test_a_retry_waits_its_time_and_no_longer(desk):
    service = Service()
    service.says = [Retry("busy", after=30)]
    await desk.put()
    sender = desk.sender(Connections(c1=service))
    await sender.drain()
    assert (await desk.row()).due_at == NOW + timedelta(seconds=30)
    desk.clock.time += timedelta(seconds=29)
    assert await sender.drain() == 0
    desk.clock.time += timedelta(seconds=1)
    assert await sender.drain() == 1
    assert await desk.status() == "sent"
    assert (await desk.row()).attempts == 2


async def test_a_rate_limit_quiets_its_connection_alone(desk):
    service, other = Service(), Service()
    service.says = [Retry("limited", after=30, whole=True)]
    for key, connection_id in (("a", 1), ("b", 1), ("c", 2)):
        await desk.put(key, SlackTarget(connection_id, "C1"))
    sender = desk.sender(Connections(c1=service, c2=other))
    await sender.drain()
    assert (service.got, other.got) == ([("a", 0)], [("c", 0)])
    desk.clock.time += timedelta(seconds=31)
    await sender.drain()
    assert sorted(service.got[1:]) == [("a", 0), ("b", 0)]


async def test_messages_over_one_connection_leave_in_order_one_at_a_time(desk):
    service = Service()
    running: list[int] = []

    async def slowly() -> Outcome:
        running.append(1)
        assert len(running) == 1
        await asyncio.sleep(0.01)
        running.pop()
        return Sent("ref")

    service.says = [slowly] * 6
    keys = [f"k{number}" for number in range(6)]
    for key in keys:
        await desk.put(key)
    await desk.sender(Connections(c1=service)).drain()
    assert [key for key, _part in service.got] == keys


async def test_a_slow_connection_holds_up_no_other(desk):
    slow, fast = Service(), Service()
    go_on = asyncio.Event()

    async def wait() -> Outcome:
        await go_on.wait()
        return Sent("ref")

    slow.says = [wait]
    await desk.put("slow", SlackTarget(1, "C1"))
    await desk.put("fast", SlackTarget(2, "C1"))
    draining = asyncio.ensure_future(desk.sender(Connections(c1=slow, c2=fast)).drain())
    async with asyncio.timeout(5):
        await desk.first_told.wait()
    assert desk.told == [("fast", "sent")]
    go_on.set()
    await draining
    assert await desk.status("slow") == "sent"


async def test_each_part_is_stored_as_it_is_sent_and_a_retry_goes_on_after_the_last(desk):
    service = Service(parts=3)
    service.says = [Sent("one"), Retry("busy")]
    await desk.put()
    sender = desk.sender(Connections(c1=service))
    await sender.drain()
    row = await desk.row()
    assert (row.status, row.refs, row.parts) == ("retry", ["one"], 3)
    assert row.reason == "part 2 of 3: busy"
    desk.clock.time += MINUTE
    await sender.drain()
    assert (await desk.row()).refs == ["one", "ref-3", "ref-4"]
    assert [part for _key, part in service.got] == [0, 1, 1, 2]


async def test_two_processes_never_send_one_message_twice(desk, database_url):
    service = Service()
    for number in range(30):
        await desk.put(f"k{number}", SlackTarget(number % 3 + 1, "C1"))
    connections = Connections(c1=service, c2=service, c3=service)
    other = Desk(open_database(database_url), desk.clock)
    try:
        senders = [one.sender(connections) for one in (desk, other, desk, other)]
        while sum(await asyncio.gather(*(sender.drain() for sender in senders))):
            pass
    finally:
        await other.database.aclose()
    assert sorted(service.got) == sorted((f"k{number}", 0) for number in range(30))
    assert {await desk.status(f"k{number}") for number in range(30)} == {"sent"}


async def test_a_claim_that_was_overtaken_changes_nothing(desk):
    await desk.put()
    row = await desk.row()
    first = await desk.write(lambda connection: store.change(connection, row, {"status": "sending"}, NOW))
    second = await desk.write(lambda connection: store.change(connection, row, {"status": "sent"}, NOW))
    assert (first, second) == (True, False)
    assert await desk.status() == "sending"


async def test_an_uncertain_message_that_can_be_found_is_settled(desk):
    service = Service()
    service.says, service.found = [Uncertain("lost")], [Absent(), Sent("1.2")]
    await desk.put()
    sender = desk.sender(Connections(c1=service))
    await sender.drain()
    assert await desk.status() == "uncertain"
    for seconds in (3, 13):
        desk.clock.time += timedelta(seconds=seconds)
        await sender.drain()
    row = await desk.row()
    assert (row.status, row.refs) == ("sent", ["1.2"])
    assert len(service.got) == 1


async def test_an_uncertain_message_that_is_surely_absent_is_sent(desk):
    service = Service()
    service.says, service.found = [Uncertain("lost")], [Absent(), Absent()]
    await desk.put()
    sender = desk.sender(Connections(c1=service))
    await sender.drain()
    desk.clock.time += MINUTE
    await sender.drain()
    assert await desk.status() == "sent"
    assert len(service.got) == 2


async def test_an_uncertain_message_that_nobody_can_settle_rests_and_is_told(desk):
    service = Service()
    service.says = [Uncertain("lost")]
    await desk.put()
    sender = desk.sender(Connections(c1=service))
    await sender.drain()
    assert desk.told == []
    for _look in range(5):
        desk.clock.time += 10 * MINUTE
        await sender.drain()
    row = await desk.row()
    assert (row.status, row.due_at) == ("uncertain", None)
    assert "send it again if not" in row.mend
    assert len(service.got) == 1
    assert desk.rested == desk.told == [("k", "uncertain")]


async def test_a_send_that_takes_too_long_is_uncertain(desk):
    service = Service()
    service.says = [lambda: asyncio.sleep(60, Sent("late"))]
    await desk.put()
    await desk.sender(Connections(c1=service), attempt=timedelta(seconds=0.05)).drain()
    assert await desk.status() == "uncertain"


async def test_a_process_that_slept_through_its_lease_sends_nothing(desk):
    service = Service()

    class Sleepy(Connections):
        async def of(self, target: Target, project_id: str) -> Notifier | Unconnected:
            desk.clock.time += LEASE
            return await super().of(target, project_id)

    await desk.put()
    sender = desk.sender(Sleepy(c1=service))
    assert await sender.begin() == 1
    await asyncio.wait(sender._running)
    assert service.got == []
    assert await desk.status() == "sending"


async def test_the_late_word_of_an_attempt_that_was_taken_for_dead_still_counts(desk):
    service, other = Service(), Service()
    other.found = [Unsettled("cannot look", again=True)]

    async def late() -> Outcome:
        desk.clock.time += LEASE
        await desk.sender(Connections(c1=other)).drain()
        assert await desk.status() == "uncertain"
        return Sent("late")

    service.says = [late]
    await desk.put()
    sender = desk.sender(Connections(c1=service))
    await sender.begin()
    await asyncio.wait(sender._running)
    row = await desk.row()
    assert (row.status, row.refs) == ("sent", ["late"])
    assert other.got == []


async def test_the_late_word_of_an_attempt_changes_nothing_once_the_message_moved_on(desk):
    service = Service()

    async def late() -> Outcome:
        row = await desk.row()
        refused = {"status": "refused", "began_at": None}
        await desk.write(lambda connection: store.change(connection, row, refused, desk.clock.time))
        return Sent("late")

    service.says = [late]
    await desk.put()
    await desk.sender(Connections(c1=service)).drain()
    row = await desk.row()
    assert (row.status, row.refs) == ("refused", [])


async def test_a_fault_in_a_notifier_is_no_second_message(desk, caplog):
    service = Service()

    async def broken() -> Outcome:
        raise KeyError("ts")

    service.says = [broken]
    await desk.put()
    sender = desk.sender(Connections(c1=service))
    await sender.drain()
    assert "sending a message failed" in caplog.text
    assert await desk.status() == "sending"
    desk.clock.time += LEASE
    await sender.drain()
    assert await desk.status() == "uncertain"
    assert len(service.got) == 1


async def test_a_message_that_cannot_be_rendered_is_refused_and_told(desk):
    class Tripped(Service):
        async def parts(self, message: Message) -> int | Refused:
            return Refused("message.unrenderable", "it cannot be rendered", "shorten it")

    service = Tripped()
    await desk.put()
    sender = desk.sender(Connections(c1=service))
    await sender.drain()
    row = await desk.row()
    assert (row.status, row.code, row.mend, row.due_at) == ("refused", "message.unrenderable", "shorten it", None)
    assert desk.rested == desk.told == [("k", "refused")]
    assert service.got == []


@pytest.mark.parametrize("status", ["pending", "sending", "uncertain"])
async def test_a_stored_message_that_cannot_be_read_is_refused_and_told(desk, status: str):
    await desk.put()
    broken = {"message": {"text": "no target"}, "status": status, "began_at": NOW}
    await desk.write(lambda connection: connection.execute(outbox.update().values(**broken)))
    await desk.sender(Connections(c1=Service())).drain()
    row = await desk.row()
    assert (row.status, row.code, row.due_at) == ("refused", "message.unrenderable", None)
    assert desk.told == [("k", "refused")]


async def test_an_uncertain_message_is_not_looked_for_for_ever_when_looking_fails(desk, caplog):
    class Blind(Service):
        looks = 0

        async def settle(self, outgoing: Outgoing) -> Settlement:
            self.looks += 1
            raise KeyError("messages")

        async def parts(self, message: Message) -> int | Refused:
            return Refused("message.unrenderable", "it cannot be rendered")

    service = Blind()
    await desk.put()
    await desk.write(lambda c: c.execute(outbox.update().values(status="uncertain", began_at=NOW, parts=1)))
    sender = desk.sender(Connections(c1=service))
    for _look in range(8):
        await sender.drain()
        desk.clock.time += 60 * MINUTE
    row = await desk.row()
    assert (row.status, row.due_at) == ("uncertain", None)
    assert "KeyError" in row.mend
    assert service.looks == 7
    assert "looking for a message failed" in caplog.text
    assert desk.told == [("k", "uncertain")]


@pytest.mark.parametrize("status", ["pending", "uncertain"])
async def test_a_connection_of_which_nothing_can_be_made_is_not_tried_for_ever(desk, status: str):
    class Broken(Connections):
        async def of(self, target: Target, project_id: str) -> Notifier | Unconnected:
            raise KeyError("host")

    await desk.put()
    await desk.write(lambda c: c.execute(outbox.update().values(status=status, began_at=NOW, attempts=17)))
    sender = desk.sender(Broken())
    for _try in range(10):
        await sender.drain()
        desk.clock.time += 60 * MINUTE
    row = await desk.row()
    assert (row.status, row.due_at) == ("refused" if status == "pending" else "uncertain", None)
    assert "KeyError" in row.reason + row.mend
    assert len(desk.told) == 1


async def test_an_uncertain_message_whose_connection_cannot_be_opened_rests_in_the_end(desk):
    connections = Connections(c1=Service())
    connections.fails = [StoreError("a stored secret cannot be decrypted")] * 20
    await desk.put()
    await desk.write(lambda c: c.execute(outbox.update().values(status="uncertain", began_at=NOW)))
    sender = desk.sender(connections)
    for _try in range(10):
        await sender.drain()
        desk.clock.time += 60 * MINUTE
    row = await desk.row()
    assert (row.status, row.due_at) == ("uncertain", None)
    assert "cannot be decrypted" in row.mend


async def test_a_connection_that_cannot_be_opened_now_is_for_later(desk):
    connections = Connections(c1=Service())
    connections.fails = [StoreError("a stored secret cannot be decrypted", hint="check LOOPS_SECRET_KEY")]
    await desk.put()
    sender = desk.sender(connections)
    await sender.drain()
    row = await desk.row()
    assert (row.status, row.reason) == ("retry", "a stored secret cannot be decrypted (check LOOPS_SECRET_KEY)")
    desk.clock.time += MINUTE
    await sender.drain()
    assert await desk.status() == "sent"


class Away:
    """A writer whose database is away for some of its transactions, by their number."""

    def __init__(self, database: Database, *numbers: int) -> None:
        self._writer = database.writer
        self._numbers = numbers
        self._done = 0

    def accept(self, row: Any) -> Any:
        return self._writer.accept(row)

    async def run(self, fn: Callable[[sa.Connection], T]) -> T:
        self._done += 1
        if self._done in self._numbers:
            raise StoreBusy("away")
        return await self._writer.run(fn)


async def test_what_is_known_of_a_message_waits_for_the_database(desk):
    service = Service()
    await desk.put()
    writer = Away(desk.database, 2, 3)  # the first claims
    sender = OutboxSender(writer, desk.database.reader, desk.clock, Connections(c1=service))
    await sender.drain()
    assert await desk.status() == "sent"
    assert len(service.got) == 1


async def test_it_sends_until_it_is_stopped_and_finishes_what_is_on_its_way(desk):
    service = Service(parts=2)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> Outcome:
        begun.set()
        await go_on.wait()
        return Sent("one")

    service.says = [wait]
    sender = desk.sender(Connections(c1=service))
    running = asyncio.ensure_future(sender.forever())
    await desk.put()
    sender.wake()
    async with asyncio.timeout(5):
        await begun.wait()
        running.cancel()
        await asyncio.sleep(0.01)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running
    row = await desk.row()
    assert (row.status, row.refs) == ("retry", ["one"])
    assert len(service.got) == 1


async def test_it_waits_for_a_database_that_is_away(desk, caplog):
    service = Service()
    await desk.put()
    writer = Away(desk.database, 1)
    sender = OutboxSender(writer, desk.database.reader, desk.clock, Connections(c1=service), alone=True)
    running = asyncio.ensure_future(sender.forever())
    async with asyncio.timeout(10):
        while await desk.status() != "sent":
            await asyncio.sleep(0.05)
            sender.wake()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert "waits for the database" in caplog.text


async def test_messages_are_listed_the_newest_first_page_by_page(desk):
    for number in range(5):
        await desk.put(f"k{number}", PageTarget() if number % 2 else None)

    async def listed(**asked: Any) -> list[str]:
        rows = await desk.database.reader.read(lambda connection: store.listed(connection, "default", **asked))
        return [row.key for row in rows]

    assert await listed() == ["k4", "k3", "k2", "k1", "k0"]
    assert await listed(limit=2, before=(await desk.row("k3")).id) == ["k2", "k1"]
    assert await listed(status="shown") == ["k3", "k1"]
    assert await listed(run_id="r1") == []


@pytest.fixture
async def double() -> AsyncIterator[SlackDouble]:
    async with slack() as opened:
        yield opened


async def test_a_lost_answer_of_slack_is_settled_by_reading_back(desk, double):
    desk.clock.time = datetime.now(UTC)
    double.faults = [loses_the_answer, loses_the_request, limited(2)]
    for key in ("taken", "lost", "limited"):
        await desk.put(key)
    sender = desk.sender(Connections(c1=SlackNotifier(TOKEN, base_url=double.url)))
    await sender.drain()
    assert [await desk.status(key) for key in ("taken", "lost", "limited")] == ["uncertain", "uncertain", "retry"]
    for _look in range(4):
        desk.clock.time += MINUTE
        await sender.drain()
    assert [await desk.status(key) for key in ("taken", "lost", "limited")] == ["sent"] * 3
    marks = [one["metadata"]["event_payload"]["outbox_id"] for one in double.posted["C1"]]
    assert sorted(marks) == sorted([(await desk.row(key)).id for key in ("taken", "lost", "limited")])


_CHILD = """
import asyncio, sys
from loops.clock import SystemClock
from loops.store.database import open_database
from notify.message import Address
from notify.sending import OutboxSender

url, kind, place = sys.argv[1:4]

class One:
    async def of(self, target, project_id):
        if kind == "slack":
            from notify.slack import SlackNotifier
            return SlackNotifier(sys.argv[4], base_url=place)
        from notify.email import EmailNotifier, Server
        return EmailNotifier(Server("127.0.0.1", int(place), "none"), Address("loops@example.org"))

async def main():
    database = open_database(url)
    await OutboxSender(database.writer, database.reader, SystemClock(), One()).forever()

asyncio.run(main())
"""


async def child(url: str, *arguments: str) -> Process:
    """Another process that sends from the outbox, until it is killed."""
    root = Path(__file__).parents[2]
    return await asyncio.create_subprocess_exec(sys.executable, "-c", _CHILD, url, *arguments, cwd=root)


async def killed_by_its_message(process: Process) -> None:
    async with asyncio.timeout(60):
        assert await process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("posted_first", [True, False])
async def test_a_process_killed_while_slack_takes_the_message_leaves_one_message(desk, double, posted_first: bool):
    desk.clock.time = datetime.now(UTC)
    await desk.put()
    killed: list[int] = []

    async def kill(request: Any) -> str:
        os.kill(killed[0], signal.SIGKILL)
        if not posted_first:
            return await loses_the_request(request)  # type: ignore[return-value]
        return "lose the answer"

    double.faults = [kill]
    process = await child(desk.database.url, "slack", double.url, TOKEN)
    killed.append(process.pid)
    await killed_by_its_message(process)
    assert await desk.status() == "sending"
    sender = desk.sender(Connections(c1=SlackNotifier(TOKEN, base_url=double.url)), alone=True)
    assert await sender.recover() == 1
    assert await desk.status() == "uncertain"
    desk.clock.time = datetime.now(UTC) + 2 * MINUTE
    await sender.drain()
    row = await desk.row()
    assert row.status == "sent"
    assert [one["ts"] for one in double.posted["C1"]] == row.refs


async def test_a_process_killed_while_a_mail_server_takes_the_mail_leaves_it_to_a_person(desk, tmp_path):
    pytest.importorskip("aiosmtplib")
    pytest.importorskip("aiosmtpd")
    from notify.email import EmailNotifier, Server
    from tests.doubles.smtp import SmtpDouble, smtp

    killed: list[int] = []

    async def kill(double: SmtpDouble, *_session: Any) -> str:
        double.envelopes.append(_session[2])
        os.kill(killed[0], signal.SIGKILL)
        return "250 taken"

    desk.clock.time = datetime.now(UTC)
    await desk.put(target=EmailTarget(1, (Address("ada@example.org"),)))
    async with smtp(tmp_path, security="none", password=False) as (double, _tls):
        double.handle_DATA = kill.__get__(double)  # type: ignore[method-assign]
        process = await child(desk.database.url, "email", str(double.port))
        killed.append(process.pid)
        await killed_by_its_message(process)
        mailer = EmailNotifier(Server("127.0.0.1", double.port, "none"), Address("loops@example.org"))
        sender = desk.sender(Connections(c1=mailer))
        for minutes in (0, 2, 20, 600):
            desk.clock.time = datetime.now(UTC) + minutes * MINUTE
            await sender.drain()
        assert len(double.envelopes) == 1
    row = await desk.row()
    assert (row.status, row.due_at) == ("uncertain", None)
    assert desk.told == [("k", "uncertain")]
