"""Dispatch: accepted deliveries become events, are held against the loops, and start runs.

One transaction a batch: it reads the definitions' epoch, takes due deliveries (their rows are the queue), parses and
matches them, and writes verdicts, runs and the engine's segments together with what became of each delivery. A
delivery that fails is undone alone and tried again after 1, 5 and 15 seconds, then quarantined with its error. One that
turns on what somebody has to be asked is put off, asked for outside the transaction, and decided in a second pass.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from loops.errors import RowHeld, StoreBusy
from loops.event import Event, event_json
from loops.packed import pack
from loops.ports import Clock, Engine, Reader, Writer
from loops.store import deliveries as store
from loops.store.connections import ConnectionRow
from loops.store.deliveries import Due, EventRow, Settled
from loops.store.outage import is_deadlock, is_outage
from triggers.audience import Audience, Heard
from triggers.definitions import Definitions
from triggers.handoff import Handoff
from triggers.overlap_stage import Cancel, Starting, cancel_alone
from triggers.people import hold_everybody, hold_people, remembered
from triggers.posthog.event import SOURCE as POSTHOG
from triggers.reading import Read, of_posthog, read_all
from triggers.releasing import RETRIES, Releases, told
from triggers.repeats import repeats
from triggers.rights import PATIENCE, Question
from triggers.slack.handing import NOBODY_HEARS, Handing, is_handed
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
_HELD = "debounced"
# What is said of a delivery whose events were stopped, by stage; of all others that they came near.
_STOPPED = {"mask": "masked", "rate_limit": "over a rate limit", "debounce": _HELD, "overlap": "stopped by overlap"}


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
        self._handoff = handoff
        self._sources = sources
        self._audience = audience
        self._handing = handing
        self._observe = observe
        self._stages = Stages(definitions, audience, Starting(engine, cancel), clock)
        self._releases = Releases(self._stages, clock)
        self._wanted = asyncio.Event()
        self._most = BATCH
        self._holds_people = False  # all whom the batch changes

    def wake(self) -> None:
        """Something was accepted in this process."""
        self._wanted.set()

    async def forever(self) -> None:
        """Dispatch until cancelled; a batch in flight is committed whole or not at all."""
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
        if outcome.taken or outcome.released:
            self._observe(outcome, time.perf_counter() - begun)
        return outcome

    def _batch(self, connection: sa.Connection) -> BatchOutcome:
        outcome = BatchOutcome()
        found, outcome.left = store.due(connection, self._clock.now(), self._most)
        # After the deliveries were read: whatever loop was enabled before one of them was accepted is known by now.
        self._definitions.refresh(connection)
        # Persons are held for the whole batch and before all else: two batches that hold them bit by bit could wait for
        # each other.
        rows: dict[int, ConnectionRow | None] = {}
        ahead = self._read(connection, [due for due in found if due.source == POSTHOG], rows)
        self._holds_people = hold_everybody(connection, of_posthog(ahead.values()), self._clock.now())
        settled: list[Settled] = []
        failed: set[str | None] = set()  # subjects whose later deliveries have to wait
        until = time.monotonic() + BATCH_SECONDS
        for start in range(0, len(found), _AT_ONCE):
            if start and time.monotonic() > until:
                self._leave(found[start:], ahead, outcome)
                break
            some = found[start : start + _AT_ONCE]
            outcome.taken += len(some)
            here = ahead | self._read(connection, [due for due in some if due.id not in ahead], rows)
            settled += self._some(connection, [here[due.id] for due in some], failed, outcome)
        # What a batch has no time for was read in vain: the next takes no more than this had time for, then more again.
        self._most = max(_AT_ONCE, outcome.taken) if outcome.taken < len(found) else min(BATCH, 2 * self._most)
        store.settle(connection, settled)
        self._definitions.names.keep(connection, self._clock)
        self._release(connection, outcome)
        return outcome

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

    def _leave(self, rest: Sequence[Due], ahead: Mapping[str, Read], outcome: BatchOutcome) -> None:
        """What stays for the next batch is at hand for it as before."""
        outcome.left = True
        for due in rest:
            read = ahead.get(due.id)
            if read is not None and read.held is not None:
                self._handoff.put(due.id, read.held)

    def _read(
        self, connection: sa.Connection, taken: Sequence[Due], rows: dict[int, ConnectionRow | None]
    ) -> dict[str, Read]:
        return {read.due.id: read for read in read_all(connection, taken, rows, self._handoff, self._sources)}

    def _some(
        self, connection: sa.Connection, batch: Sequence[Read], failed: set[str | None], outcome: BatchOutcome
    ) -> list[Settled]:
        settled: list[Settled] = []
        for read in batch:
            subject = read.due.subject
            if subject is not None and subject in failed:
                continue
            came = self._settle(connection, read, outcome)
            if isinstance(came, Settled):
                settled.append(came)
                continue
            failed.add(subject)
            if came is not None:
                self._put_off(connection, read, came, outcome)
        return settled

    def _settle(self, connection: sa.Connection, read: Read, outcome: BatchOutcome) -> Settled | Question | None:
        try:
            return self._dispatch(connection, read, outcome)
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
            self._failed(connection, read.due, error, outcome)
            return None

    def _put_off(self, connection: sa.Connection, read: Read, question: Question, outcome: BatchOutcome) -> None:
        due = read.due
        store.put_off(connection, due.id, due.attempts, self._clock.now() + PATIENCE, question.words)
        outcome.asked.append((question, due.id))
        if read.held is not None:
            self._handoff.put(due.id, read.held)

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

    def _dispatch(self, connection: sa.Connection, read: Read, outcome: BatchOutcome) -> Settled | Question:
        meaning = read.meaning
        if isinstance(meaning, Exception):
            raise meaning
        if isinstance(meaning, Settled):
            return meaning
        if isinstance(meaning, list) and read.due.source == POSTHOG:
            meaning = self._of_people(connection, read.due, meaning, read.settings)
        if isinstance(meaning, list) and read.due.source == WEBHOOK and self._audience.alone(read.connection) is None:
            meaning = Ignored("the workflow of this webhook is not enabled")
        if isinstance(meaning, Ignored):
            return Settled(read.due.id, "ignored", meaning.reason, 0)
        return self._decide_all(connection, read, meaning, outcome)

    def _decide_all(
        self, connection: sa.Connection, read: Read, events: list[Event], outcome: BatchOutcome
    ) -> Settled | Question:
        due = read.due
        started, stopped, handed = 0, Counter[str](), list[str]()
        # Of an earlier attempt that failed at a later event: what is decided is not decided, or counted, twice.
        decided = store.decided(connection, due.id) if len(events) > 1 else {}
        for position, event in enumerate(events):
            if event.uuid in decided:
                started += decided[event.uuid]
                continue
            heard = self._audience.of(connection, read.due, event, read.connection)
            if isinstance(heard, Question):  # nothing is decided yet: what has to be asked about comes alone
                return heard
            verdicts = self._decide(connection, due, heard, position)
            started += sum(verdict.passed for verdict in verdicts)
            handed += [verdict.reason for verdict in verdicts if is_handed(verdict)]
            stopped.update(_STOPPED.get(verdict.stage, "came near") for verdict in verdicts if not verdict.passed)
            for verdict in verdicts:
                outcome.count(verdict)
        outcome.runs += started
        if started or handed:
            return Settled(due.id, "dispatched", "" if started else handed[0], started)
        told = ", ".join(f"{stopped[what]} {what}" for what in (*_STOPPED.values(), "came near") if stopped[what])
        if stopped[_HELD]:
            return Settled(due.id, "dispatched", told, 0)
        reason = f"no loop started; {told}" if told else "no loop listens for it"
        return Settled(due.id, "ignored", reason, 0)

    def _of_people(
        self, connection: sa.Connection, due: Due, events: list[Event], settings: Mapping[str, Any]
    ) -> list[Event] | Ignored:
        """The events with their persons and groups, without those that another delivery has brought."""
        came = repeats(connection, due.project_id, due.id, events)
        new = [event for event in events if event.uuid not in came]
        if not new:
            return Ignored(next(iter(came.values())) if came else "it holds no event")
        now = self._clock.now()
        with connection.begin_nested():
            if not self._holds_people:
                hold_people(connection, due.project_id, new, now)
            return remembered(connection, due.project_id, new, settings, now)

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
