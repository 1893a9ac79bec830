"""Out of the outbox: due messages are claimed, sent part by part, and what came of each part is stored at once.

Every change of a row names the version it was read at, so of several processes one alone claims a message. Over one
connection this process sends one message at a time, in the order in which they were stored.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from loops.errors import LoopsError, StoreBusy
from loops.ports import Clock, Reader, Writer
from loops.store import outbox as store
from loops.store import run_requests
from loops.store.outbox import OutboxRow
from notify.enqueue import standing_of
from notify.message import (
    Message,
    Notifier,
    Notifiers,
    Outcome,
    Outgoing,
    Refused,
    Retry,
    Settlement,
    Uncertain,
    Unconnected,
    Unsettled,
)
from notify.outbox import (
    ATTEMPT,
    DUE_TO_SEND,
    Standing,
    as_columns,
    came,
    claimed,
    interrupted,
    next_look,
    rests,
    settled,
    unsent,
    withdrawn,
)
from notify.rendering import rendered

log = logging.getLogger("loops.outbox")

AT_ONCE = 16
IDLE_SECONDS = 1.0
_STORE_TRIES = 5


def _nothing(_connection: sa.Connection, _row: OutboxRow) -> None:
    return


async def _nothing_after(_row: OutboxRow) -> None:
    return


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told of messages that have come to rest (sent, refused, shown, or uncertain with nothing left to ask).

    `within` runs in the transaction that stores it, `after` once that is committed; after a crash between the two only
    `within` has run.
    """

    within: Callable[[sa.Connection, OutboxRow], None] = _nothing
    after: Callable[[OutboxRow], Awaitable[None]] = _nothing_after


class OutboxSender:
    """Sends in this process for as long as `forever` runs. `alone` when no other process can be sending: then whatever
    is being sent at the start was left by a process that died. `page` is where people read a message, by its id."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        clock: Clock,
        notifiers: Notifiers,
        *,
        listener: Listener | None = None,
        alone: bool = False,
        attempt: timedelta = ATTEMPT,
        page: Callable[[str], str] = "/outbox/{}".format,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._notifiers = notifiers
        self._listener = listener or Listener()
        self._alone = alone
        self._attempt = attempt
        self._page = page
        self._wanted = asyncio.Event()
        self._running: dict[asyncio.Task[None], int | None] = {}
        self._stops = False
        self._quiet: dict[int, datetime] = {}  # connections that asked to be left alone until then

    def wake(self) -> None:
        """Something was put into the outbox in this process."""
        self._wanted.set()

    async def forever(self) -> None:
        """Send until cancelled; what is on its way then is seen to its end, which takes seconds."""
        recovered = not self._alone
        try:
            while True:
                self._wanted.clear()
                try:
                    if not recovered:
                        await self.recover()
                        recovered = True
                    begun = await self.begin()
                except StoreBusy as error:
                    log.warning("the outbox waits for the database: %s", error.message)
                    begun = 0
                if begun == 0:
                    await self._idle()
        finally:
            await self._finish()

    async def _idle(self) -> None:
        # Not wait_for: in Python 3.11 it swallows a cancellation that comes together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_SECONDS):
                await self._wanted.wait()

    async def _finish(self) -> None:
        self._stops = True
        if self._running:
            await asyncio.wait(list(self._running), timeout=self._attempt.total_seconds())

    async def drain(self) -> int:
        """Send all that is due now, and what becomes due on the way; how many messages were looked at."""
        looked = 0
        while True:
            looked += await self.begin()
            if not self._running:
                return looked
            await asyncio.wait(list(self._running), return_when=asyncio.FIRST_COMPLETED)

    async def recover(self) -> int:
        """What is being sent was left by a process that died: it is uncertain now. For a lone process at its start."""
        now = self._clock.now()

        def interrupt(connection: sa.Connection) -> int:
            rows = store.begun(connection)
            for row in rows:
                store.change(connection, row, as_columns(interrupted(standing_of(row), now)), now)
            return len(rows)

        return await self._writer.run(interrupt)

    async def begin(self) -> int:
        """Claim what is due and free to go, and start to send it; how many messages, those taken back included."""
        now = self._clock.now()
        room = AT_ONCE - len(self._running)
        if room <= 0 or not await self._reader.read(lambda connection: store.any_due(connection, now)):
            return 0
        self._quiet = {one: until for one, until in self._quiet.items() if until > now}
        busy = {one for one in self._running.values() if one is not None} | set(self._quiet)
        back, rows = await self._writer.run(
            lambda connection: (self._take_back(connection, now), self._claim(connection, now, room, busy))
        )
        for row in rows:
            task = asyncio.create_task(self._see_to(row), name=f"outbox-{row.id}")
            self._running[task] = row.connection_id
            task.add_done_callback(self._ended)
        for row in back:
            await self._listener.after(row)
        return len(back) + len(rows)

    def _take_back(self, connection: sa.Connection, now: datetime) -> list[OutboxRow]:
        """What is due and would be sent for runs whose cancellation was asked for: withdrawn, and the runs woken."""
        back = []
        for row in store.due_of_cancelled(connection, now, AT_ONCE):
            after = withdrawn(standing_of(row))
            if store.change(connection, row, as_columns(after), now):
                back.append(_moved(row, after))
                self._listener.within(connection, back[-1])
        return back

    def _claim(self, connection: sa.Connection, now: datetime, room: int, busy: set[int]) -> list[OutboxRow]:
        taken: list[OutboxRow] = []
        taken_over: set[int | None] = set(busy)
        while len(taken) < room:
            rows = store.due(connection, now, room, without={one for one in taken_over if one is not None})
            before = len(taken)
            for row in rows:
                if row.connection_id is None or row.connection_id not in taken_over:
                    taken += self._take(connection, row, now)
                    taken_over.add(row.connection_id)
            if len(taken) == before:
                break
        return taken

    def _take(self, connection: sa.Connection, row: OutboxRow, now: datetime) -> list[OutboxRow]:
        """The row as this process holds it now; none when another was faster, or is about to cancel its run."""
        standing = standing_of(row)
        if standing.status in DUE_TO_SEND:
            # Held from here on: who cancels the run now finds the message claimed. Not waited for: who holds the run
            # may wait for the message.
            if row.run_id is not None and not run_requests.held_to_act(connection, row.run_id):
                return []
            after = claimed(standing, now)
        elif standing.status == "sending":
            log.warning("a message was left by a process that died", extra={"message_id": row.id})
            after = next_look(interrupted(standing, now), now)
        else:
            after = next_look(standing, now)
        return [_moved(row, after)] if store.change(connection, row, as_columns(after), now) else []

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.pop(task, None)
        self._wanted.set()
        if not task.cancelled() and task.exception() is not None:
            # The row is as the claim left it: its lease runs out, and then it is uncertain.
            log.error("sending a message failed", exc_info=task.exception(), extra={"task": task.get_name()})

    async def _see_to(self, row: OutboxRow) -> None:
        message = await rendered(lambda: Message.from_json(row.message), 0)
        if isinstance(message, Refused):
            await self._refuse(row, message)
            return
        try:
            notifier = await self._notifiers.of(message.target, row.project_id)
        except LoopsError as error:
            await self._put_off(row, _later(error))
            return
        except Exception as error:
            log.exception("no connection can be made of what is stored of it", extra={"message_id": row.id})
            await self._put_off(row, Retry(f"its connection cannot be used: {type(error).__name__}"))
            return
        if row.status == "uncertain":
            await self._settle(row, message, notifier)
        elif isinstance(notifier, Unconnected):
            unconnected = notifier
            await self._store(row, lambda standing, _now: unsent(standing, unconnected))
        else:
            await self._send(row, message, notifier)

    async def _send(self, row: OutboxRow, message: Message, notifier: Notifier) -> None:
        parts = await notifier.parts(message)
        if isinstance(parts, Refused):
            await self._refuse(row, parts)
            return
        current: OutboxRow | None = row
        while current is not None and current.status == "sending":
            if current.due_at is not None and self._clock.now() >= current.due_at:
                return  # this process slept through its own lease: others may have settled the message
            outcome = await self._bounded(notifier, self._outgoing(current, message))
            self._note_quiet(current, outcome)
            current = await self._store(current, lambda at, now, came_to=outcome: came(_of(at, parts), came_to, now))  # type: ignore[misc]

    async def _refuse(self, row: OutboxRow, refused: Refused) -> None:
        await self._store(row, lambda standing, now: came(standing, refused, now))

    async def _put_off(self, row: OutboxRow, later: Retry) -> None:
        """Nobody can send it now, or look for it: both are tried again, and neither for ever."""
        if row.status == "uncertain":
            found = Unsettled(later.reason, again=True)
            await self._store(row, lambda standing, now: settled(standing, found, now))
        else:
            await self._store(row, lambda standing, now: came(standing, later, now))

    async def _bounded(self, notifier: Notifier, outgoing: Outgoing) -> Outcome:
        if self._stops:
            return Retry("the service was stopped before it was sent")
        try:
            async with asyncio.timeout(self._attempt.total_seconds()):
                return await notifier.send(outgoing)
        except TimeoutError:
            return Uncertain(f"sending took longer than {self._attempt.total_seconds():g} seconds")

    def _note_quiet(self, row: OutboxRow, outcome: Outcome) -> None:
        if isinstance(outcome, Retry) and outcome.whole and row.connection_id is not None:
            self._quiet[row.connection_id] = self._clock.now() + timedelta(seconds=outcome.after or 1.0)

    async def _settle(self, row: OutboxRow, message: Message, notifier: Notifier | Unconnected) -> None:
        if isinstance(notifier, Unconnected):
            found: Settlement = Unsettled(notifier.reason)
        else:
            try:
                async with asyncio.timeout(self._attempt.total_seconds()):
                    found = await notifier.settle(self._outgoing(row, message))
            except TimeoutError:
                found = Unsettled("looking for it took too long", again=True)
            except Exception as error:
                log.exception("looking for a message failed", extra={"message_id": row.id})
                found = Unsettled(f"looking for it failed: {type(error).__name__}", again=True)
        parts = 1 if isinstance(notifier, Unconnected) else await notifier.parts(message)
        # What cannot be rendered any more is refused when its next part is to be sent.
        known = max(row.parts, 1) if isinstance(parts, Refused) else parts
        await self._store(row, lambda standing, now: settled(_of(standing, known), found, now))

    def _outgoing(self, row: OutboxRow, message: Message) -> Outgoing:
        return Outgoing(row.id, message, row.created_at, tuple(row.refs), row.began_at, self._page(row.id))

    async def _store(self, row: OutboxRow, move: Callable[[Standing, datetime], Standing]) -> OutboxRow | None:
        """Move the row on from the attempt that `row` is; where it stands then, None when it is another's by now.

        What is known of a message must not be lost: a database that is away is waited for.
        """
        for wait in range(_STORE_TRIES):
            try:
                after = await self._writer.run(lambda connection: self._move(connection, row, move))
                break
            except StoreBusy as error:
                log.warning("what came of message %s is not stored yet: %s", row.id, error.message)
                await asyncio.sleep(0.2 * 2**wait)
        else:
            return None
        if after is not None and rests(after.status, after.due_at):
            await self._listener.after(after)
        return after

    def _move(
        self, connection: sa.Connection, row: OutboxRow, move: Callable[[Standing, datetime], Standing]
    ) -> OutboxRow | None:
        now = self._clock.now()
        if row.run_id is not None:
            run_requests.hold(connection, row.run_id)  # before the message, as everybody does who changes both
        current = store.held(connection, row.id)
        # An attempt that was taken for dead may still tell what came of it, until somebody else has acted on the row.
        if current.began_at != row.began_at or current.status not in {"sending", "uncertain"}:
            log.warning("a message moved on without this process", extra={"message_id": row.id, "is": current.status})
            return None
        after = move(standing_of(current), now)
        if not store.change(connection, current, as_columns(after), now):
            return None
        moved = _moved(current, after)
        if rests(moved.status, moved.due_at):
            self._listener.within(connection, moved)
        return moved


def _later(error: LoopsError) -> Retry:
    return Retry(f"{error.message} ({error.hint})" if error.hint else error.message)


def _of(standing: Standing, parts: int) -> Standing:
    columns = {**as_columns(standing), "parts": parts, "refs": standing.refs, "missed": standing.missed}
    return Standing(**columns)  # type: ignore[arg-type]


def _moved(row: OutboxRow, standing: Standing) -> OutboxRow:
    columns = {name: getattr(row, name) for name in OutboxRow.__dataclass_fields__}
    return OutboxRow(**{**columns, **as_columns(standing), "version": row.version + 1})
