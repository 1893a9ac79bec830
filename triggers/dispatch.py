"""Dispatch: accepted deliveries become events, are held against the loops, and start runs.

One transaction a batch: it reads the definitions' epoch, takes due deliveries (their rows are the queue), parses and
matches them, and writes verdicts, runs and the engine's segments together with what became of each delivery. A
delivery that fails is undone alone and tried again after 1, 5 and 15 seconds, then quarantined with its error. One that
turns on what somebody has to be asked is put off, asked for outside the transaction, and decided in a second pass.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from loops.errors import DefinitionError, LoopsError, RowHeld, StoreBusy
from loops.event import Event, event_json
from loops.packed import pack
from loops.ports import Clock, Engine, Reader, Writer
from loops.runs.state import RunState
from loops.storable import storable_text
from loops.store import deliveries as store
from loops.store import runs as runs_store
from loops.store.connections import ConnectionRow
from loops.store.deliveries import Due, EventRow, Settled
from loops.store.outage import is_deadlock, is_outage
from loops.store.runs import NewRun
from triggers.audience import Audience, Heard
from triggers.definitions import Definitions
from triggers.handoff import Handoff
from triggers.mask_stage import hold
from triggers.matcher import Listener, Matches
from triggers.people import hold_everybody, hold_people, remembered
from triggers.posthog.event import SOURCE as POSTHOG
from triggers.reading import Read, of_posthog, read_all
from triggers.repeats import reason as came_before
from triggers.repeats import repeats
from triggers.rights import PATIENCE, Question
from triggers.slack.handing import HANDED, NOBODY_HEARS, Handing
from triggers.source import Ignored, Source
from triggers.verdict import Verdict, unverified_reason
from triggers.webhook.event import SOURCE as WEBHOOK

log = logging.getLogger("loops.dispatch")

BATCH = 256
# After which a batch takes no more: on SQLite whoever delivers is answered between two of them.
BATCH_SECONDS = 0.05
_AT_ONCE = 8
RETRIES = (timedelta(seconds=1), timedelta(seconds=5), timedelta(seconds=15))
# Between the beginnings of two batches: under load a batch of many costs little more than a batch of few.
PACE_SECONDS = 0.05
# How often the queue is looked at without being told: for what other processes accepted, and for retries.
IDLE_SECONDS = 1.0
_RUN_NAMESPACE = uuid.UUID("5f0c8a52-9d0e-5c7e-8d0d-5e1d3a4b7c11")
_MOST_REASON = 500


def run_id(event: Event, project_id: str, workflow_id: str, replay: int = 0) -> str:
    """The id of the run that this event starts of this workflow: the same however often it is computed."""
    return str(uuid.uuid5(_RUN_NAMESPACE, f"{project_id}/{event.source}/{event.uuid}/{workflow_id}/{replay}"))


@dataclass(slots=True)
class BatchOutcome:
    """What a batch came to; `left` where the next may find something at once."""

    taken: int = 0
    left: bool = False
    runs: int = 0
    quarantined: int = 0
    stages: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[Question, str]] = field(default_factory=list)


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
        observe: Callable[[BatchOutcome, float], None] = lambda _outcome, _seconds: None,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._engine = engine
        self._clock = clock
        self._definitions = definitions
        self._handoff = handoff
        self._sources = sources
        self._audience = audience
        self._handing = handing
        self._observe = observe
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
                await self._idle()

    async def _idle(self) -> None:
        # Not wait_for: before Python 3.12 it swallows a cancellation that comes together with the event.
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def batch(self) -> BatchOutcome:
        """One batch; its outcome says how many deliveries it took."""
        begun = time.perf_counter()
        outcome = await self._writer.run(self._batch)
        for question, delivery_id in outcome.asked:
            self._audience.rights.ask(question, delivery_id)
        if outcome.taken:
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
        return outcome

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
        told = error.message if isinstance(error, LoopsError) else f"{type(error).__name__}: {error}"
        reason = storable_text(told[:_MOST_REASON])
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
        if isinstance(meaning, list) and read.due.source == WEBHOOK and self._alone(read.settings) is None:
            meaning = Ignored("the workflow of this webhook is not enabled")
        if isinstance(meaning, Ignored):
            return Settled(read.due.id, "ignored", meaning.reason, 0)
        return self._decide_all(connection, read, meaning, outcome)

    def _decide_all(
        self, connection: sa.Connection, read: Read, events: list[Event], outcome: BatchOutcome
    ) -> Settled | Question:
        due = read.due
        started, near, masked, reasons = 0, 0, 0, list[str]()
        # Of an earlier attempt that failed at a later event: what is decided is not decided, or counted, twice.
        decided = store.decided(connection, due.id) if len(events) > 1 else {}
        for position, event in enumerate(events):
            if event.uuid in decided:
                started += decided[event.uuid]
                continue
            heard = self._heard(connection, read, event)
            if isinstance(heard, Question):  # nothing is decided yet: what has to be asked about comes alone
                return heard
            verdicts = self._decide(connection, due, heard, position)
            started += sum(verdict.passed for verdict in verdicts)
            masked += sum(verdict.stage == "mask" for verdict in verdicts)
            reasons += [verdict.reason for verdict in verdicts if verdict.stage == HANDED]
            near += sum(not verdict.passed and verdict.stage != "mask" for verdict in verdicts)
            for verdict in verdicts:
                outcome.stages[verdict.stage] = outcome.stages.get(verdict.stage, 0) + 1
        outcome.runs += started
        if started or reasons:
            return Settled(due.id, "dispatched", "" if started else reasons[0], started)
        told = [f"{count} {what}" for count, what in ((masked, "masked"), (near, "came near")) if count]
        return Settled(
            due.id, "ignored", f"no loop started; {', '.join(told)}" if told else "no loop listens for it", 0
        )

    def _of_people(
        self, connection: sa.Connection, due: Due, events: list[Event], settings: Mapping[str, Any]
    ) -> list[Event] | Ignored:
        """The events with their persons and groups, without those that another delivery has brought."""
        came = repeats(connection, due.project_id, due.id, events)
        new = [event for event in events if event.uuid not in came]
        if not new:
            return Ignored(came_before(next(iter(came.values()))) if came else "it holds no event")
        now = self._clock.now()
        with connection.begin_nested():
            if not self._holds_people:
                hold_people(connection, due.project_id, new, now)
            return remembered(connection, due.project_id, new, settings, now)

    def _decide(self, connection: sa.Connection, due: Due, heard: Heard, position: int) -> list[Verdict]:
        """Hold an event against the loops; whatever is written is undone together if anything fails."""
        event, matches = heard.event, heard.matches
        if not matches.passed and not matches.missed:
            return []
        with connection.begin_nested():
            if heard.own is not None:
                verdicts = [
                    Verdict(one.key, one.version, "own_output", passed=False, reason=heard.own)
                    for one in (*matches.passed, *matches.missed)
                ]
                self._keep(connection, due, heard, position, verdicts)
                return verdicts
            verdicts, matches = self._handing.hand(connection, due, event, matches, self._clock.now())
            verdicts += [self._brakes_and_start(connection, due, event, one) for one in matches.passed]
            for listener, compared in matches.near:
                failed = next((one for one in compared if not one.passed), None)
                reason = failed.words() if failed is not None else "a filter did not match"
                verdicts.append(
                    Verdict(listener.key, listener.version, "filters", passed=False, reason=reason, compared=compared)
                )
            self._keep(connection, due, heard, position, verdicts)
        return verdicts

    def _heard(self, connection: sa.Connection, read: Read, event: Event) -> Heard | Question:
        """Who hears the event; that of a webhook the one loop whose address it came to."""
        if read.due.source != WEBHOOK:
            return self._audience.of(connection, read.due, event, read.connection)
        listener = self._alone(read.settings)
        return Heard(event, Matches(event, () if listener is None else (listener,)))

    def _alone(self, settings: Mapping[str, Any]) -> Listener | None:
        """The one loop that a webhook's delivery is for."""
        return self._definitions.alone(str(settings.get("workflow")))

    def _brakes_and_start(self, connection: sa.Connection, due: Due, event: Event, listener: Listener) -> Verdict:
        compared = listener.filter.explain(event)

        def verdict(stage: str, reason: str, *, passed: bool = False) -> Verdict:
            return Verdict(listener.key, listener.version, stage, passed=passed, reason=reason, compared=compared)

        if listener.since > due.epoch:
            return verdict("enabled", "the loop was enabled, or enabled again, after this delivery had arrived")
        try:
            state = self._definitions.initial_state(connection, listener)
            writes = (
                () if event.verified or listener.allows_unverified else self._definitions.writes(connection, listener)
            )
        except DefinitionError as error:  # this loop's alone: others that want the event start
            return verdict("definition", f"its stored definition cannot run: {error.message}")
        if writes:
            return verdict("unverified", unverified_reason(writes))
        over = self._audience.over_limit(connection, due.project_id, event, self._clock.now())
        if over is not None:
            return verdict("subject_limit", over)
        if event.claim is not None:
            first = store.claim(connection, listener.key, event.claim, due.id, self._clock.now())
            if first is not None:
                return verdict("claim", f"the same fact came before, in delivery {first}")
        reason = "every filter and brake passed"
        if listener.mask is not None:
            # By the time of arrival: a window is about when things happened, not about when they were dispatched.
            masked = hold(connection, listener.key, listener.mask, event_json(event), due.received_at)
            if not masked.passes:
                return verdict("mask", masked.reason)
            reason = f"{reason}; {masked.reason}"
        self._start(connection, due, event, listener, state)
        return verdict("start", reason, passed=True).noted()

    def _start(self, connection: sa.Connection, due: Due, event: Event, listener: Listener, state: RunState) -> None:
        run = NewRun(
            id=run_id(event, due.project_id, listener.key),
            project_id=due.project_id,
            workflow_id=listener.key,
            version=listener.version,
            source=event.source,
            event_uuid=event.uuid,
            event_name=event.name,
            delivery_id=due.id,
            replay=0,
            state=state,
            subject=event.subject,
        )
        if runs_store.insert(connection, run, self._clock.now()):
            self._engine.enqueue(connection, run.id, 0)

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
            body=pack(event_json(event)) if any(verdict.passed for verdict in verdicts) else None,
            facts=heard.facts,
        )
        store.put_event(connection, row, self._clock.now())
