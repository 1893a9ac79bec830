"""The stages after a loop's filters, in their order: claim of meaning, mask, rate limit, debounce, overlap, start.

Those after debounce are decided when it lets an event go, on the last one that it held. The loop may be another
by then: whatever starts has passed each check of the definition that it starts with.

What is stopped counts for nothing: a stage that stops an event gives back what those before it have counted. A verified
event takes its fact whatever becomes of it, an unverified one only by starting a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from loops.errors import DefinitionError, RowHeld
from loops.event import Event, event_json
from loops.filters import Comparison
from loops.ports import Clock
from loops.runs.state import RunState
from loops.store import deliveries as store
from loops.store import holds, replays
from loops.store import runs as runs_store
from loops.store.deliveries import Due
from loops.store.holds import HoldRow
from loops.store.runs import NewRun
from triggers.audience import Audience
from triggers.brake_stages import Wanted, put_off, within_limit
from triggers.brakes import Rules, released_words
from triggers.counted import Counted, counted_of
from triggers.definitions import Definitions
from triggers.giving_back import give_back
from triggers.hearing import explain_heard
from triggers.mask_stage import hold as hold_mask
from triggers.masking import Mask
from triggers.matcher import Listener
from triggers.names import other_names
from triggers.overlap_stage import FREE, Admitted, Starting
from triggers.run_ids import run_id
from triggers.starting import event_of
from triggers.terms import LIVE, PERIOD, WORDS, Terms
from triggers.verdict import Verdict, let_go_words, unverified_reason

_GITHUB = "github"
_PASSED = "every filter and brake passed"
REST = timedelta(seconds=10)
"""How long a replay that holds an event may take to come to the rest of its burst."""


@dataclass(frozen=True, slots=True)
class Released:
    """What became of an event that debounce let go."""

    hold: HoldRow
    verdict: Verdict
    run_id: str | None = None


@dataclass(slots=True)
class _Way:
    """What an event has got past: what was said of it, and what counted it."""

    notes: list[str] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)


class Stages:
    """Works in the transaction that decides."""

    def __init__(self, definitions: Definitions, audience: Audience, starting: Starting, clock: Clock) -> None:
        self._definitions = definitions
        self._audience = audience
        self._starting = starting
        self._clock = clock

    def decide(
        self, connection: sa.Connection, due: Due, event: Event, listener: Listener, terms: Terms = LIVE
    ) -> Verdict:
        """What becomes of an event that got past a loop's filters. Raises RowHeld while another process is deciding on
        the same key."""
        compared = listener.filter.explain(event)
        if "enabled" in terms.lifted:
            due = replace(due, epoch=max(due.epoch, listener.since))

        def verdict(stage: str, reason: str, **more: Any) -> Verdict:  # noqa: ANN401
            return Verdict(
                listener.key, listener.version, stage, passed=False, reason=reason, compared=compared, **more
            )

        state = self._ready(connection, due, event, listener, terms)
        if not isinstance(state, RunState):
            return verdict(*state)
        way, now = _Way(), self._clock.now()
        braked = self._braked(connection, due, event, listener, way, terms)
        if braked is not None:
            stage, reason, held_by = braked
            if not held_by:
                give_back(connection, listener.key, way.counted, now)
            return verdict(stage, reason, hold=held_by)
        run = self._new_run(listener, due.project_id, due.id, event, state, terms)
        admitted = self._admitted(connection, run, event, listener, now)
        if not admitted.passes:
            give_back(connection, listener.key, way.counted, now)
            return verdict("overlap", admitted.reason)
        self._begin(connection, run, admitted, _claim_left(event, terms), now)
        reason = "; ".join((self._passed(event, listener, terms), *way.notes, *filter(None, (admitted.reason,))))
        return Verdict(listener.key, listener.version, "start", passed=True, reason=reason, compared=compared).noted()

    def _passed(self, event: Event, listener: Listener, terms: Terms) -> str:
        """What is said of an event that passed: what it was not asked, where that might have stopped it."""
        rules = listener.brakes
        might = {
            "subject_limit": self._audience.limits(event),
            "claim": event.claim is not None,
            "mask": listener.mask is not None,
            "rate_limit": rules is not None and rules.rate_limit is not None,
            "debounce": rules is not None and rules.debounce is not None,
        }
        unasked = [WORDS[stage] for stage, asks in might.items() if asks and stage in terms.lifted]
        return f"every filter passed; not asked: {', '.join(unasked)}" if unasked else _PASSED

    def _ready(
        self, connection: sa.Connection, due: Due, event: Event, listener: Listener, terms: Terms
    ) -> RunState | tuple[str, str]:
        """The state that a run would begin with, or the stage that stops the event and why."""
        if listener.since > due.epoch:
            return "enabled", "the loop was enabled, or enabled again, after this delivery had arrived"
        state = self._allowed(connection, due.project_id, event, listener, terms)
        if isinstance(state, RunState) and event.claim is not None and "claim" not in terms.lifted:
            if event.verified:
                first = store.claim(connection, listener.key, event.claim, due.id, self._clock.now())
            else:
                first = store.claimed(connection, listener.key, event.claim, due.id)
            if first is not None:
                return "claim", f"the same fact came before, in delivery {first}"
        return state

    def _allowed(
        self, connection: sa.Connection, project_id: str, event: Event, listener: Listener, terms: Terms = LIVE
    ) -> RunState | tuple[str, str]:
        """The same, of what holds at any time at which a run may start."""
        try:
            state = self._definitions.initial_state(connection, listener)
            writes = (
                () if event.verified or listener.allows_unverified else self._definitions.writes(connection, listener)
            )
        except DefinitionError as error:  # this loop's alone: others that want the event start
            return "definition", f"its stored definition cannot run: {error.message}"
        if writes:
            return "unverified", unverified_reason(writes)
        if "subject_limit" in terms.lifted:
            return state
        over = self._audience.over_limit(connection, project_id, event, self._clock.now())
        return state if over is None else ("subject_limit", over)

    def _braked(
        self, connection: sa.Connection, due: Due, event: Event, listener: Listener, way: _Way, terms: Terms
    ) -> tuple[str, str, str] | None:
        """The brake that stops the event, why, and what holds it if one does; None once it got past. What those say
        and count that let it pass is added to its way."""
        mask, rules = _asked_brakes(listener, terms)
        if mask is None and rules is None:
            return None
        told = event_json(event)
        if mask is not None:
            # By the time of arrival: a window is about when things happened, not about when they were dispatched.
            masked = hold_mask(connection, listener.key, mask, told, due.received_at)
            if not masked.passes:
                return "mask", masked.reason, ""
            way.notes.append(masked.reason)
            way.counted += masked.counted
        if rules is not None and rules.rate_limit is not None:
            limited = within_limit(connection, listener.key, rules.rate_limit, told, due.received_at)
            if not limited.passes:
                return "rate_limit", limited.reason, ""
            way.notes.append(limited.reason)
            way.counted += limited.counted
        if rules is not None and rules.debounce is not None:
            notes, counted, claim = "; ".join(way.notes), tuple(way.counted), _claim_left(event, terms)
            wanted = Wanted(listener.key, listener.version, event.source, event.uuid, notes, counted, claim)
            rest = self._clock.now() + REST if terms.replay else None
            came = put_off(connection, rules.debounce, wanted, due, told, rest)
            while isinstance(came, HoldRow):
                self.release(connection, came)
                came = put_off(connection, rules.debounce, wanted, due, told, rest)
            if not came.passes:
                return "debounce", came.reason, came.hold
            way.notes.append(came.reason)
        return None

    def _admitted(
        self, connection: sa.Connection, run: NewRun, event: Event, listener: Listener, now: datetime
    ) -> Admitted:
        rule = None if listener.brakes is None else listener.brakes.overlap
        if rule is None or runs_store.is_known(connection, run.id):
            return FREE
        return self._starting.admitted(connection, listener.key, rule, event_json(event), now)

    def _begin(
        self, connection: sa.Connection, run: NewRun, admitted: Admitted, claim: str | None, now: datetime
    ) -> None:
        """Let an admitted run begin, and take the fact that it was left to claim. Raises RowHeld where another process
        has taken that meanwhile."""
        if claim is not None and run.delivery_id is not None:
            first = store.claim(connection, run.workflow_id, claim, run.delivery_id, now)
            if first is not None:
                raise RowHeld(f"the same fact is taken at the same time, in delivery {first}")
        self._starting.begin(connection, run, admitted, now)

    def _new_run(
        self,
        listener: Listener,
        project_id: str,
        delivery_id: str,
        event: Event,
        state: RunState,
        terms: Terms,
    ) -> NewRun:
        return NewRun(
            id=run_id(event, project_id, listener.key, terms.replay),
            project_id=project_id,
            workflow_id=listener.key,
            version=listener.version,
            source=event.source,
            event_uuid=event.uuid,
            event_name=event.name,
            delivery_id=delivery_id,
            replay=terms.replay,
            state=state,
            subject=None if "subject_limit" in terms.lifted else event.subject,
        )

    def release(self, connection: sa.Connection, row: HoldRow) -> Released | None:
        """Let go what is held, once, and take it through the stages after debounce; None where somebody else has."""
        came = self._released(connection, row, _terms_of(holds.held_verdict(connection, row)))
        return came if self.close(connection, came) else None

    def close(self, connection: sa.Connection, came: Released) -> bool:
        """Store what became of what was held, once; False where somebody else has. Raises RowHeld while another process
        is deciding on what counted it."""
        row, now = came.hold, self._clock.now()
        before: Mapping[str, Any] = holds.held_verdict(connection, row) or {}
        terms = _terms_of(before)
        if not holds.release(connection, row.id, now, came.run_id):
            return False
        if came.run_id is None:
            give_back(connection, row.workflow_id, counted_of(row.counted), now)
        told = came.verdict.as_json()
        told["compared"] = told["compared"] or before.get("compared", [])
        if terms.replay:
            told["replay"] = terms.replay
        holds.decide(connection, row, told)
        holds.tell_delivery(connection, row, let_go_words(came.verdict))
        if came.run_id is not None:
            count = replays.tell_started if terms.replay else replays.count_run
            count(connection, row.delivery_id)
        return True

    def _taken(self, connection: sa.Connection, row: HoldRow, brought_by: str) -> str | None:
        """Why the fact of a held event is not left to it; None where it is. Another delivery brings the same event
        only where that is verified and this one is not."""
        if brought_by != row.delivery_id:
            return f"the same event came verified while debounce held this one, in delivery {brought_by}"
        if row.claim is None:
            return None
        first = store.claimed(connection, row.workflow_id, row.claim, row.delivery_id)
        return None if first is None else f"the same fact was taken while debounce held the event, in delivery {first}"

    def _released(self, connection: sa.Connection, row: HoldRow, terms: Terms) -> Released:
        listener = self._definitions.listener(row.workflow_id)
        version = row.version if listener is None else listener.version

        def stopped(stage: str, reason: str) -> Released:
            return Released(row, Verdict(row.workflow_id, version, stage, passed=False, reason=reason))

        broken = self._definitions.broken.get(row.workflow_id)
        if broken is not None:
            return stopped("definition", f"its stored definition cannot run: {broken.reason}")
        if listener is None or listener.since > row.epoch:
            return stopped("enabled", "the loop was disabled, or begun anew, while debounce held the event")
        body, brought_by = holds.held_event(connection, row)
        if body is None:
            return stopped("debounce", "the event was removed while debounce held it")
        last = released_words(row.count, row.shown)
        taken = self._taken(connection, row, brought_by)
        if taken is not None:
            return stopped("claim", f"{taken}; {last}")
        event = event_of(body)
        compared: tuple[Comparison, ...] = ()
        if listener.version != row.version:
            # Not of the same version: what it compared with the time of the match passed at that time.
            again = explain_heard(listener, row.project_id, event, _former(connection, event))
            if not again.passed:
                reason = f"{again.reason}; the loop was changed while debounce held the event; {last}"
                return Released(row, replace(again, reason=reason))
            compared = again.compared
        state = self._allowed(connection, row.project_id, event, listener, terms)
        if not isinstance(state, RunState):
            return stopped(state[0], f"{state[1]}; {last}")
        run = self._new_run(listener, row.project_id, row.delivery_id, event, state, terms)
        now = self._clock.now()
        admitted = self._admitted(connection, run, event, listener, now)
        if not admitted.passes:
            return stopped("overlap", f"{admitted.reason}; {last}")
        self._begin(connection, run, admitted, row.claim, now)
        played = f"replay {terms.replay}: {_PASSED}" if terms.replay else _PASSED
        reason = "; ".join(filter(None, (played, row.notes, last, admitted.reason)))
        verdict = Verdict(row.workflow_id, version, "start", passed=True, reason=reason, compared=compared)
        return Released(row, verdict, run.id)


def _claim_left(event: Event, terms: Terms) -> str | None:
    """The fact that an event takes only by starting a run. Whoever may send what nobody proved to have sent could else
    hold back the verified event by one that a brake stops."""
    return None if event.verified or "claim" in terms.lifted else event.claim


def _terms_of(held: Mapping[str, Any] | None) -> Terms:
    """The terms on which debounce holds an event, from its verdict."""
    return PERIOD.numbered(held["replay"]) if held and held.get("replay") else LIVE


def _asked_brakes(listener: Listener, terms: Terms) -> tuple[Mask | None, Rules | None]:
    """The brakes that hold on these terms."""
    mask, rules = listener.mask, listener.brakes
    if "mask" in terms.lifted:
        mask = None
    if rules is not None and "rate_limit" in terms.lifted:
        rules = replace(rules, rate_limit=None)
    if rules is not None and "debounce" in terms.lifted:
        rules = replace(rules, debounce=None)
    return mask, rules


def _former(connection: sa.Connection, event: Event) -> tuple[str, ...]:
    """The names that the repository of an event of GitHub had before."""
    over = event.properties.get("integration_id")
    return other_names(connection, over, event) if event.source == _GITHUB and isinstance(over, int) else ()
