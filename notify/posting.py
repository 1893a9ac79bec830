"""The outbox as runs use it: a step puts a message, its run waits, and is woken when the message has come to rest.

Whoever changes a run and a message holds the run first: a step that looks whether its message rests before it parks
must not miss that it does.
"""

import logging
from collections.abc import Callable, Mapping

import sqlalchemy as sa

from loops.connections.book import ConnectionBook
from loops.connections.named import unfit
from loops.errors import StoreBusy
from loops.event import JsonValue
from loops.ports import Clock, Engine, Origin, Posted, Preview, Reader, Writer
from loops.store import outbox as store
from loops.store import run_requests
from loops.store.outbox import OutboxRow
from notify.compose import message_of
from notify.enqueue import Outbox, standing_of
from notify.message import CONNECTION_KIND, Notifiers, Target, Unconnected
from notify.outbox import DUE_TO_SEND, as_columns, given_up, rests, withdrawn
from notify.preview import previewed
from notify.registry import ConnectedNotifiers
from notify.sending import Listener, OutboxSender

log = logging.getLogger("loops.outbox")


class OutboxMessages:
    """Fills the Messages port. `poke` tells the sender of this process that something is there."""

    def __init__(self, outbox: Outbox, clock: Clock, poke: Callable[[], None] = lambda: None) -> None:
        self._outbox = outbox
        self._clock = clock
        self._poke = poke

    def put(
        self,
        connection: sa.Connection,
        kind: str,
        inputs: Mapping[str, JsonValue],
        origin: Origin,
        *,
        notice: str = "",
    ) -> Posted:
        """See Messages.put. Where the project has no connection of the kind the message is shown on the page alone;
        where it has one and the message names what is none of them, it is refused."""
        message = message_of(kind, inputs, origin.key)
        message = message.noticed(notice) if notice else message
        run_requests.hold(connection, origin.run_id)
        stored = self._outbox.put(
            connection,
            message,
            project_id=origin.project_id,
            run_id=origin.run_id,
            step_id=origin.step_id,
            unconnected=unconnected(connection, message.target, origin.project_id),
        )
        return posted(store.get(connection, stored.id))

    def preview(self, connection: sa.Connection, kind: str, inputs: Mapping[str, JsonValue], origin: Origin) -> Preview:
        """See Messages.preview."""
        message = self._outbox.masked(message_of(kind, inputs, origin.key))
        return previewed(message, unconnected(connection, message.target, origin.project_id))

    def state(self, connection: sa.Connection, message_id: str) -> Posted:
        """See Messages.state."""
        row = store.get(connection, message_id)
        if row.run_id is not None:
            run_requests.hold(connection, row.run_id)
            row = store.get(connection, message_id)
        return posted(row)

    def withdraw(self, connection: sa.Connection, message_id: str) -> bool:
        """See Messages.withdraw. The caller holds the run that waits for the message. One that another process looks
        at now is not taken back here: the sender does so before it would claim it, and wakes the run."""
        row = store.held_if_free(connection, message_id)
        if row is None:
            return False
        if row.status not in DUE_TO_SEND:
            return row.status in {"withdrawn", "refused", "shown"}
        now = self._clock.now()
        return store.change(connection, row, as_columns(withdrawn(standing_of(row))), now)

    def give_up(self, connection: sa.Connection, message_id: str) -> bool:
        """See Messages.give_up. The caller holds the run that waits for the message."""
        row, now = store.held_if_free(connection, message_id), self._clock.now()
        # One that is due is sent by whoever looks next: perhaps nobody was there to do so when it was to be.
        if row is None or row.status not in DUE_TO_SEND or row.due_at is None or row.due_at <= now:
            return False
        return store.change(connection, row, as_columns(given_up(standing_of(row))), now)

    def wake(self) -> None:
        """See Messages.wake."""
        self._poke()


def posted(row: OutboxRow) -> Posted:
    """A stored message as steps see it."""
    return Posted(
        id=row.id,
        status=row.status,
        rests=rests(row.status, row.due_at),
        code=row.code,
        reason=row.reason,
        mend=row.mend,
        refs=tuple(row.refs),
        missed=tuple(row.missed),
    )


def unconnected(connection: sa.Connection, target: Target, project_id: str) -> Unconnected | None:
    """Why nothing can leave over the connection that a message names; None where it is one of the project, of the
    right kind. What it lacks to send is found out when it is to."""
    if target.kind not in CONNECTION_KIND:
        return Unconnected("it is for this page")
    found = unfit(connection, project_id, CONNECTION_KIND[target.kind], target.connection_id)
    return None if found is None else Unconnected(found.reason, found.mend, found.alone)


class WakingRuns:
    """Wakes the run that waits for a message: in the transaction that stores how the message came to rest, and by the
    engine after it. Where a crash comes between the two, the sweeper finds a run that was woken and does not act."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._woken: dict[str, int] = {}

    @property
    def listener(self) -> Listener:
        """This, as OutboxSender wants it."""
        return Listener(self.within, self.after)

    def within(self, connection: sa.Connection, row: OutboxRow) -> None:
        """See Listener."""
        self._woken.pop(row.id, None)
        if row.run_id is None or row.step_id is None:
            return
        seq = run_requests.wake_waiting(connection, row.run_id, row.step_id, {"message": row.id}, self._clock.now())
        if seq is not None:
            self._woken[row.id] = seq

    async def after(self, row: OutboxRow) -> None:
        """See Listener."""
        seq = self._woken.pop(row.id, None)
        if seq is None or row.run_id is None:
            return
        try:
            await self._engine.wake(row.run_id, seq)
        except StoreBusy as error:
            log.warning(
                "a run whose message rests waits for the sweeper: %s", error.message, extra={"run_id": row.run_id}
            )


def make_outbox(
    writer: Writer,
    reader: Reader,
    engine: Engine,
    clock: Clock,
    book: ConnectionBook,
    mask: Callable[[str], str],
    *,
    alone: bool,
    around: Callable[[Notifiers], Notifiers] = lambda notifiers: notifiers,
    page: Callable[[str], str] = "/outbox/{}".format,
) -> tuple[OutboxMessages, OutboxSender]:
    """The outbox of a process, for its steps and for whoever sends from it: `OutboxSender.forever` is to run in a
    process that works. `mask` blots out secrets; `alone` when no other process can be sending (SQLite), `around`
    puts something between the sender and who sends, `page` is the address at which people read a message."""
    listener = WakingRuns(engine, clock).listener
    notifiers = around(ConnectedNotifiers(book))
    sender = OutboxSender(writer, reader, clock, notifiers, listener=listener, alone=alone, page=page)
    return OutboxMessages(Outbox(clock, mask=mask), clock, sender.wake), sender
