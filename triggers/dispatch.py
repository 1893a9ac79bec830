"""Dispatch: accepted deliveries become events, are held against the loops, and start runs.

One transaction a batch: it reads the definitions' epoch, takes due deliveries (their rows are the queue), parses and
matches them, and writes verdicts, runs and the engine's segments together with what became of each delivery. A
delivery that fails is undone alone and tried again after 1, 5 and 15 seconds, then quarantined with its error.
"""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from loops.errors import DefinitionError, LoopsError, StoreBusy
from loops.event import Delivery, Event
from loops.packed import pack
from loops.ports import Clock, Engine, Reader, Writer
from loops.runs.state import RunState
from loops.store import connections as connections_store
from loops.store import deliveries as store
from loops.store import runs as runs_store
from loops.store.deliveries import Due, EventRow, Settled
from loops.store.outage import is_outage
from loops.store.runs import NewRun
from triggers.definitions import Definitions
from triggers.handoff import Handoff, Held
from triggers.matcher import Listener, Matches
from triggers.people import remembered
from triggers.posthog.event import SOURCE as POSTHOG
from triggers.repeats import reason as came_before
from triggers.repeats import repeats
from triggers.source import Ignored, Source
from triggers.storable import storable_text
from triggers.verdict import Verdict
from triggers.webhook.event import SOURCE as WEBHOOK

log = logging.getLogger("loops.dispatch")

BATCH = 256
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
    """What a batch came to."""

    taken: int = 0
    runs: int = 0
    quarantined: int = 0
    stages: dict[str, int] = field(default_factory=dict)


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
        *,
        observe: Callable[[BatchOutcome, float], None] = lambda _outcome, _seconds: None,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._engine = engine
        self._clock = clock
        self._definitions = definitions
        self._handoff = handoff
        self._sources = sources
        self._observe = observe
        self._wanted = asyncio.Event()
        self._configs: dict[int, Mapping[str, Any]] = {}  # of one batch

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
            if outcome.taken == 0:
                await self._idle()
            elif outcome.taken < BATCH:
                await asyncio.sleep(max(0.0, begun + PACE_SECONDS - time.monotonic()))

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
        if outcome.taken:
            self._observe(outcome, time.perf_counter() - begun)
        return outcome

    def _batch(self, connection: sa.Connection) -> BatchOutcome:
        outcome = BatchOutcome()
        self._configs.clear()
        taken = store.due(connection, self._clock.now(), BATCH)
        # After the deliveries were read: whatever loop was enabled before one of them was accepted is known by now.
        self._definitions.refresh(connection)
        outcome.taken = len(taken)
        held = {due.id: self._handoff.take(due.id) for due in taken}
        stored = store.bodies(connection, [key for key, value in held.items() if value is None])
        settled: list[Settled] = []
        failed: set[str | None] = set()  # subjects whose later deliveries have to wait
        for due in taken:
            if due.subject is not None and due.subject in failed:
                continue
            came = self._settle(connection, due, held[due.id], stored.get(due.id), outcome)
            if came is None:
                failed.add(due.subject)
            else:
                settled.append(came)
        store.settle(connection, settled)
        return outcome

    def _settle(
        self,
        connection: sa.Connection,
        due: Due,
        held: Held | None,
        stored: tuple[str, bytes] | None,
        outcome: BatchOutcome,
    ) -> Settled | None:
        try:
            if held is not None:
                delivery = _delivery(due, held.headers, held.body)
                return self._dispatch(connection, due, delivery, held.parsed, outcome)
            if stored is None:
                reason = "its body is gone: retention removed it before it was dispatched"
                return Settled(due.id, "quarantined", reason, 0)
            delivery = _delivery(due, json.loads(stored[0]), store.expand(stored[1]))
            return self._dispatch(connection, due, delivery, None, outcome)
        except Exception as error:
            if is_outage(error):
                raise  # the database itself: the whole batch is tried again
            # Whatever else it is, it is this delivery's alone: retried, then quarantined.
            self._failed(connection, due, error, outcome)
            return None

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
        log.warning(
            "dispatch failed; it will be tried again",
            extra={"delivery_id": due.id, "attempt": attempts, "reason": reason},
        )

    def _dispatch(
        self, connection: sa.Connection, due: Due, delivery: Delivery, parsed: object, outcome: BatchOutcome
    ) -> Settled:
        source = self._sources[due.source]
        settings = self._config(connection, due.connection_id)
        events = source.parse(delivery, parsed, settings)
        if not isinstance(events, Ignored) and due.source == POSTHOG:
            events = self._of_people(connection, due, events, settings)
        if due.source == WEBHOOK and not isinstance(events, Ignored) and self._alone(due) is None:
            events = Ignored("the workflow of this webhook is not enabled")
        if isinstance(events, Ignored):
            return Settled(due.id, "ignored", events.reason, 0)
        started, near = 0, 0
        for position, event in enumerate(events):
            verdicts = self._decide(connection, due, event, position)
            started += sum(verdict.passed for verdict in verdicts)
            near += sum(not verdict.passed for verdict in verdicts)
            for verdict in verdicts:
                outcome.stages[verdict.stage] = outcome.stages.get(verdict.stage, 0) + 1
        outcome.runs += started
        if started:
            return Settled(due.id, "dispatched", "", started)
        return Settled(due.id, "ignored", f"no loop started; {near} came near" if near else "no loop listens for it", 0)

    def _of_people(
        self, connection: sa.Connection, due: Due, events: list[Event], settings: Mapping[str, Any]
    ) -> list[Event] | Ignored:
        """The events with their persons and groups, without those that another delivery has brought."""
        came = repeats(connection, due.project_id, due.id, events)
        new = [event for event in events if event.uuid not in came]
        if not new:
            return Ignored(came_before(next(iter(came.values()))) if came else "it holds no event")
        with connection.begin_nested():
            return remembered(connection, due.project_id, new, settings, self._clock.now())

    def _config(self, connection: sa.Connection, connection_id: int) -> Mapping[str, Any]:
        if connection_id not in self._configs:
            row = connections_store.get(connection, connection_id)
            self._configs[connection_id] = {} if row is None else row.config
        return self._configs[connection_id]

    def _decide(self, connection: sa.Connection, due: Due, event: Event, position: int) -> list[Verdict]:
        """Hold an event against the loops; whatever is written is undone together if anything fails."""
        matches = self._matches(due, event)
        if not matches.passed and not matches.missed:
            return []
        with connection.begin_nested():
            if event.properties.get("own_app") is True and event.source != WEBHOOK:
                verdicts = [_own_output(listener) for listener in (*matches.passed, *matches.missed)]
                self._keep(connection, due, event, position, verdicts, body=False)
                return verdicts
            verdicts = [self._brakes_and_start(connection, due, event, listener) for listener in matches.passed]
            for listener, compared in matches.near:
                failed = next((one for one in compared if not one.passed), None)
                reason = failed.words() if failed is not None else "a filter did not match"
                verdicts.append(
                    Verdict(listener.key, listener.version, "filters", passed=False, reason=reason, compared=compared)
                )
            self._keep(connection, due, event, position, verdicts, body=any(one.passed for one in verdicts))
        return verdicts

    def _matches(self, due: Due, event: Event) -> Matches:
        if due.source != WEBHOOK:
            return self._definitions.index.match(due.project_id, event)
        listener = self._alone(due)
        return Matches(event, () if listener is None else (listener,))

    def _alone(self, due: Due) -> Listener | None:
        """The one loop that a webhook's delivery is for."""
        return self._definitions.alone(str(self._configs[due.connection_id].get("workflow")))

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
        if event.claim is not None:
            first = store.claim(connection, listener.key, event.claim, due.id, self._clock.now())
            if first is not None:
                return verdict("claim", f"the same fact came before, in delivery {first}")
        self._start(connection, due, event, listener, state)
        return verdict("start", "every filter and brake passed", passed=True)

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
        )
        if runs_store.insert(connection, run, self._clock.now()):
            self._engine.enqueue(connection, run.id, 0)

    def _keep(
        self, connection: sa.Connection, due: Due, event: Event, position: int, verdicts: list[Verdict], *, body: bool
    ) -> None:
        row = EventRow(
            project_id=due.project_id,
            source=event.source,
            uuid=event.uuid,
            delivery_id=due.id,
            position=position,
            name=event.name,
            verdicts=[verdict.as_json() for verdict in verdicts],
            body=pack(event_json(event)) if body else None,
        )
        store.put_event(connection, row, self._clock.now())


def unverified_reason(writes: Sequence[str]) -> str:
    """Why an event that anybody may have sent does not start a loop that may change something."""
    return (
        "nobody proved to have sent the event (it came unsigned, or with a public key), and the loop may write: "
        f"{'; '.join(writes)}; allow_unverified in its trigger lets such events start it"
    )


def _own_output(listener: Listener) -> Verdict:
    reason = "this installation's own app wrote it: own output never starts a loop"
    return Verdict(listener.key, listener.version, "own_output", passed=False, reason=reason)


def _delivery(due: Due, headers: Mapping[str, str], body: bytes) -> Delivery:
    return Delivery(
        id=due.id,
        project_id=due.project_id,
        connection_id=due.connection_id,
        source=due.source,
        key=due.key,
        name=due.name,
        received_at=due.received_at,
        headers=headers,
        body=body,
        verified=due.verified,
    )


def event_json(event: Event) -> dict[str, Any]:
    """An event as templates and the event's row see it."""
    return {
        "uuid": event.uuid,
        "event": event.name,
        "source": event.source,
        "distinct_id": event.distinct_id,
        "timestamp": event.timestamp.isoformat(),
        "url": event.url,
        "subject": event.subject,
        "properties": dict(event.properties),
        "person": None
        if event.person is None
        else {"id": event.person.id, "name": event.person.name, "properties": dict(event.person.properties)},
        "groups": dict(event.groups),
        "verified": event.verified,
    }
