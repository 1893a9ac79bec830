"""Dispatch: accepted deliveries become events, are held against the loops, and start runs.

One transaction a batch: it reads the definitions' epoch, takes due deliveries (their rows are the queue), parses and
matches them, and writes verdicts, runs and the engine's segments together with what became of each delivery. A
delivery that fails is undone alone and tried again after 1, 5 and 15 seconds, then quarantined with its error. One that
turns on what somebody has to be asked is put off, asked for outside the transaction, and decided in a second pass. One
of many events is decided in parts, a batch each; one that takes long to read is read outside the transaction.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from loops.errors import RowHeld, StoreBusy
from loops.event import event_json
from loops.packed import pack
from loops.ports import Clock, Engine, Reader, Writer
from loops.store import deliveries as store
from loops.store.connections import ConnectionRow
from loops.store.deliveries import Due, EventRow, Settled
from loops.store.outage import is_deadlock, is_outage
from triggers.audience import Audience, Heard
from triggers.definitions import Definitions
from triggers.handoff import Handoff
from triggers.lookahead import Ahead, Lookahead, Part, part_of
from triggers.overlap_stage import Cancel, Starting, cancel_alone
from triggers.posthog.event import SOURCE as POSTHOG
from triggers.reading import Desk, Read, Unread
from triggers.releasing import RETRIES, Releases, told
from triggers.rights import PATIENCE, Question
from triggers.slack.handing import NOBODY_HEARS, Handing
from triggers.source import Ignored, Source
from triggers.stages import Stages
from triggers.verdict import Verdict
from triggers.webhook.event import SOURCE as WEBHOOK

log = logging.getLogger("loops.dispatch")

BATCH = 256
# After which a batch takes no more: on SQLite whoever delivers is answered between two of them.
BATCH_SECONDS = 0.05
_AT_ONCE = 8
# Between the beginnings of two batches: under load a batch of many costs little more than a batch of few.
PACE_SECONDS = 0.05
# How often the queue is looked at without being told: for what other processes accepted, and for retries.
IDLE_SECONDS = 1.0


@dataclass(slots=True)
class BatchOutcome:
    """What a batch came to; `left` where the next may find something at once. `released` are events that debounce let
    go, and `next_hold` in how many seconds the next is due."""

    taken: int = 0
    left: bool = False
    runs: int = 0
    quarantined: int = 0
    released: int = 0
    next_hold: float = IDLE_SECONDS
    stages: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[Question, str]] = field(default_factory=list)
    unread: list[Read] = field(default_factory=list)

    def count(self, verdict: Verdict) -> None:
        """One more that ended at this stage."""
        self.stages[verdict.stage] = self.stages.get(verdict.stage, 0) + 1


class Dispatcher:
    """Dispatches in this process for as long as `forever` runs."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        engine: Engine,
        clock: Clock,
        definitions: Definitions,
        handoff: Handoff,
        sources: Mapping[str, Source],
        audience: Audience,
        *,
        handing: Handing = NOBODY_HEARS,
        cancel: Cancel = cancel_alone,
        observe: Callable[[BatchOutcome, float], None] = lambda _outcome, _seconds: None,
    ) -> None:
        """`cancel` ends runs that others replace."""
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._definitions = definitions
        self._desk = Desk(handoff, sources)
        self._audience = audience
        self._handing = handing
        self._observe = observe
        self._stages = Stages(definitions, audience, Starting(engine, cancel), clock)
        self._releases = Releases(self._stages, clock)
        self._wanted = asyncio.Event()
        self._most = BATCH
        self._lookahead = Lookahead(self._desk, clock)
        self._until = 0.0  # on the monotonic clock: when the batch takes no more
        self._reading: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Something was accepted in this process."""
        self._wanted.set()

    async def forever(self) -> None:
        """Dispatch until cancelled; a batch in flight is committed whole or not at all."""
        try:
            await self._forever()
        finally:
            if self._reading is not None:
                self._reading.cancel()

    async def _forever(self) -> None:
        while True:
            self._wanted.clear()
            begun = time.monotonic()
            try:
                outcome = await self.batch()
            except StoreBusy as error:
                self._definitions.forget()
                log.warning("dispatch waits for the database: %s", error.message)
                await asyncio.sleep(IDLE_SECONDS / 2)
                continue
            if outcome.taken < BATCH:
                await asyncio.sleep(max(0.0, begun + PACE_SECONDS - time.monotonic()))
            if not outcome.left:
                await self._idle(min(IDLE_SECONDS, outcome.next_hold))

    async def _idle(self, seconds: float) -> None:
        # Not wait_for: before Python 3.12 it swallows a cancellation that comes together with the event.
        try:
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def batch(self) -> BatchOutcome:
        """One batch; its outcome says how many deliveries it took."""
        begun = time.perf_counter()
        outcome = await self._writer.run(self._batch)
        for question, delivery_id in outcome.asked:
            self._audience.rights.ask(question, delivery_id)
        if outcome.unread and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read_beside(outcome.unread))
        if outcome.taken or outcome.released:
            self._observe(outcome, time.perf_counter() - begun)
        return outcome

    async def _read_beside(self, unread: Sequence[Read]) -> None:
        try:
            await self._desk.read_beside(self._reader, unread)
        except StoreBusy as error:
            log.warning("dispatch waits for the database: %s", error.message)
        else:
            self.wake()

    def _batch(self, connection: sa.Connection) -> BatchOutcome:
        outcome = BatchOutcome()
        found = self._due(connection, outcome)
        # After the deliveries were read: whatever loop was enabled before one of them was accepted is known by now.
        self._definitions.refresh(connection)
        rows: dict[int, ConnectionRow | None] = {}
        ahead = self._lookahead.take(connection, [due for due in found if due.source == POSTHOG], rows)
        outcome.unread += ahead.unread
        outcome.left |= ahead.is_full
        before = sum(part.progress.events for part in ahead.parts.values())
        settled = self._decided(connection, found, ahead, rows, outcome)
        store.settle(connection, settled)
        after = sum(part.progress.events for part in ahead.parts.values())
        self._lookahead.decided(ahead, after - before, {one.id for one in settled})
        self._definitions.names.keep(connection, self._clock)
        self._release(connection, outcome)
        return outcome

    def _due(self, connection: sa.Connection, outcome: BatchOutcome) -> list[Due]:
        now = self._clock.now()
        found, outcome.left = store.due(connection, now, self._most)
        if outcome.left and all(due.source == POSTHOG for due in found):
            # However many events wait for their turn: what comes from elsewhere does not.
            found += store.due(connection, now, self._most, POSTHOG)[0]
        return found

    def _decided(
        self,
        connection: sa.Connection,
        found: Sequence[Due],
        ahead: Ahead,
        rows: dict[int, ConnectionRow | None],
        outcome: BatchOutcome,
    ) -> list[Settled]:
        settled: list[Settled] = []
        failed: set[str | None] = set()  # subjects whose later deliveries have to wait
        order = [due for due in found if due.source != POSTHOG or due.id in ahead.parts]
        cut = ahead.cut
        if cut is not None:  # the others first: it would take all the time there is, batch after batch
            order.remove(cut.read.due)
        taken, self._until = 0, time.monotonic() + BATCH_SECONDS
        for start in range(0, len(order), _AT_ONCE):
            if start and time.monotonic() > self._until:
                outcome.left = True
                break
            some = order[start : start + _AT_ONCE]
            taken += len(some)
            reads = self._desk.read(connection, [due for due in some if due.id not in ahead.parts], rows)
            parts = [ahead.parts.get(due.id) or part_of(reads[due.id]) for due in some]
            settled += self._some(connection, parts, failed, outcome)
        # What a batch has no time for was read in vain: the next takes no more than this had time for, then more again.
        self._most = max(_AT_ONCE, taken) if taken < len(order) else min(BATCH, 2 * self._most)
        outcome.taken = taken
        if cut is not None:
            self._until = time.monotonic() + BATCH_SECONDS
            outcome.taken += 1
            settled += self._some(connection, [cut], failed, outcome)
        return settled

    def _release(self, connection: sa.Connection, outcome: BatchOutcome) -> None:
        """Let go what debounce holds and is due."""
        let_go = self._releases.due(connection)
        outcome.left |= let_go.left
        outcome.released = len(let_go.released)
        if let_go.next is not None:
            outcome.next_hold = let_go.next
        for one in let_go.released:
            outcome.runs += one.run_id is not None
            outcome.count(one.verdict)

    def _some(
        self, connection: sa.Connection, batch: Sequence[Part], failed: set[str | None], outcome: BatchOutcome
    ) -> list[Settled]:
        settled: list[Settled] = []
        for place, part in enumerate(batch):
            due, before = part.read.due, part.progress.events
            if due.subject is not None and due.subject in failed:
                continue
            if place and len(part.events) > 1 and time.monotonic() > self._until:
                outcome.left = True
                failed.add(due.subject)
                continue
            came = self._settle(connection, part, outcome)
            if isinstance(came, Settled):
                settled.append(came)
                continue
            failed.add(due.subject)
            if part.progress.events > before:
                store.keep_progress(connection, due.id, part.progress.as_json(), part.progress.here)
            if came is not None:
                self._put_off(connection, part.read, came, outcome)
        return settled

    def _settle(self, connection: sa.Connection, part: Part, outcome: BatchOutcome) -> Settled | Question | None:
        try:
            return self._dispatch(connection, part, outcome)
        except RowHeld:
            outcome.left = True
            return None  # no fault of its own: it stays accepted, and the next batch takes it again
        except Exception as error:
            if is_deadlock(error):
                outcome.left = True
                return None  # likewise: it has let go of what it held, and the other batch goes on
            if is_outage(error):
                raise  # the database itself: the whole batch is tried again
            # Whatever else it is, it is this delivery's alone: retried, then quarantined.
            self._failed(connection, part.read.due, error, outcome)
            return None

    def _put_off(self, connection: sa.Connection, read: Read, question: Question, outcome: BatchOutcome) -> None:
        due = read.due
        store.put_off(connection, due.id, due.attempts, self._clock.now() + PATIENCE, question.words)
        outcome.asked.append((question, due.id))
        self._desk.give_back(read)

    def _failed(self, connection: sa.Connection, due: Due, error: Exception, outcome: BatchOutcome) -> None:
        reason = told(error)
        attempts = due.attempts + 1
        if attempts > len(RETRIES):
            store.quarantine(connection, due.id, attempts, reason)
            outcome.quarantined += 1
            log.error("delivery quarantined", extra={"delivery_id": due.id, "reason": reason}, exc_info=error)
            return
        store.put_off(connection, due.id, attempts, self._clock.now() + RETRIES[attempts - 1], reason)
        told_of = {"delivery_id": due.id, "attempt": attempts, "reason": reason}
        log.warning("dispatch failed; it will be tried again", extra=told_of)

    def _dispatch(self, connection: sa.Connection, part: Part, outcome: BatchOutcome) -> Settled | Question | None:
        read, meaning = part.read, part.read.meaning
        if isinstance(meaning, Exception):
            raise meaning
        if isinstance(meaning, Settled):
            return meaning
        if isinstance(meaning, Unread):
            outcome.unread.append(read)
            return None
        if isinstance(meaning, list) and read.due.source == WEBHOOK and self._audience.alone(read.connection) is None:
            meaning = Ignored("the workflow of this webhook is not enabled")
        if isinstance(meaning, Ignored):
            return Settled(read.due.id, "ignored", meaning.reason, 0)
        return self._decide_all(connection, part, outcome)

    def _decide_all(self, connection: sa.Connection, part: Part, outcome: BatchOutcome) -> Settled | Question | None:
        """None where events are left for another batch."""
        progress = part.progress
        first, before = progress.events, progress.here
        while part.events and (progress.events == first or time.monotonic() <= self._until):
            begun = time.monotonic()
            question = self._decide_some(connection, part, outcome)
            if question is not None:
                return question
            self._lookahead.took(time.monotonic() - begun)
        outcome.runs += progress.here - before
        if part.events or not part.is_last:
            outcome.left = True
            return None
        return progress.settled(part.read.due.id)

    def _decide_some(self, connection: sa.Connection, part: Part, outcome: BatchOutcome) -> Question | None:
        read, progress, some = part.read, part.progress, part.events[: self._lookahead.at_once]
        came: Mapping[str, str] = {}
        if read.due.source == POSTHOG:
            some, came = self._lookahead.joined(connection, read, some)
        for event in some:
            if event.uuid in came:
                progress.repeated(came[event.uuid])
                continue
            heard = self._audience.of(connection, read.due, event, read.connection)
            if isinstance(heard, Question):  # nothing of the event is decided yet
                return heard
            verdicts = self._decide(connection, read.due, heard, progress.events)
            progress.decided(verdicts)
            for verdict in verdicts:
                outcome.count(verdict)
        return None

    def _decide(self, connection: sa.Connection, due: Due, heard: Heard, position: int) -> list[Verdict]:
        """Hold an event against the loops; whatever is written is undone together if anything fails."""
        event, matches = heard.event, heard.matches
        if not matches.passed and not matches.nearly:
            return []
        with connection.begin_nested():
            if heard.own is not None:
                verdicts = [
                    Verdict(one.key, one.version, "own_output", passed=False, reason=heard.own)
                    for one in (*matches.passed, *matches.missed)
                ]
                self._keep(connection, due, heard, position, verdicts)
                return verdicts
            listener, now = self._definitions.listener, self._clock.now()
            verdicts, matches = self._handing.hand(connection, due, heard, listener, now)
            verdicts += [self._stages.decide(connection, due, event, one) for one in matches.passed]
            for one, compared in matches.near:
                failed = next((part for part in compared if not part.passed), None)
                reason = failed.words() if failed is not None else "a filter did not match"
                verdicts.append(
                    Verdict(one.key, one.version, "filters", passed=False, reason=reason, compared=compared)
                )
            self._keep(connection, due, heard, position, verdicts)
        return verdicts

    def _keep(self, connection: sa.Connection, due: Due, heard: Heard, position: int, verdicts: list[Verdict]) -> None:
        event = heard.event
        row = EventRow(
            project_id=due.project_id,
            source=event.source,
            uuid=event.uuid,
            delivery_id=due.id,
            position=position,
            name=event.name,
            verdicts=[verdict.as_json() for verdict in verdicts],
            body=pack(event_json(event)) if any(verdict.passed or verdict.hold for verdict in verdicts) else None,
            facts=heard.facts,
        )
        store.put_event(connection, row, self._clock.now())
