"""What a step came to, stored together with what follows, in one transaction."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.errors import LoopsError
from loops.event import JsonValue
from loops.ports import Clock, Engine
from loops.runs import trace
from loops.runs.acting import Acting
from loops.runs.alert_words import AlertTarget, step_target
from loops.runs.alerting import Alerting, RunEnd
from loops.runs.partial import PartialResults
from loops.runs.state import (
    Cancelled,
    Effect,
    Ended,
    Failed,
    Finish,
    Outcome,
    Park,
    Parked,
    RunState,
    Succeeded,
    Wait,
    judged,
    transition,
)
from loops.runs.step import StepOutcome, Transacted
from loops.runs.succession import run_ended
from loops.store import runs as store
from loops.store.runs import Claimed, StepRow

log = logging.getLogger("loops.runs")

Stop = Callable[[sa.Connection, Wait], bool]


@dataclass(frozen=True, slots=True)
class Settled:
    """What was stored: the state after the step, what follows, and the step's row. `asked` when somebody asked for the
    run's cancellation."""

    state: RunState
    effect: Effect
    row: StepRow
    asked: bool


def nothing_to_stop(_connection: sa.Connection, _wait: Wait) -> bool:
    """The Stop of waits behind which nothing acts."""
    return True


class Settling:
    """Stores outcomes. `stop` stops what a run is about to wait for, when its cancellation was asked for meanwhile."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        stop: Stop = nothing_to_stop,
        partials: PartialResults | None = None,
        alerting: Alerting | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._stop = stop
        self._partials = partials
        self._alerting = alerting

    def settle(self, connection: sa.Connection, acting: Acting, came: StepOutcome) -> Settled:
        """Store the outcome, which a Transacted step decides here. Raises RunFenced, and what the decision raises."""
        program, state = acting.segment.program, acting.state
        outcome = came.decide(connection) if isinstance(came, Transacted) else came
        outcome = judged(program, state, trace.storable_outcome(outcome))
        after, effect = transition(program, state, outcome)
        now = self._clock.now()
        row = step_row(acting, outcome, now)
        claimed, owner = acting.segment.claimed, acting.segment.owner
        run = (connection, claimed.run_id, claimed.seq, owner, after)
        asked = False
        if isinstance(effect, Park):
            asked = store.park(*run, row, effect, now)
            self._park(connection, claimed, effect.wait, asked=asked, now=now)
        elif isinstance(effect, Finish):
            store.finish(*run, row, effect, now)
            run_ended(connection, self._engine, claimed.run_id, now)
            self._tell(connection, acting, outcome, effect, after)
        else:
            asked = store.record(*run, row, now)
        return Settled(after, effect, row, asked)

    def finish(self, connection: sa.Connection, claimed: Claimed, owner: str, state: RunState, effect: Finish) -> None:
        """Store that a run is over without a step. Raises RunFenced."""
        run = (connection, claimed.run_id, claimed.seq, owner, state)
        now = self._clock.now()
        store.finish(*run, None, effect, now)
        run_ended(connection, self._engine, claimed.run_id, now)
        if self._alerting is not None:
            self._alerting.run_over(connection, _end(claimed, effect, state))

    def _tell(
        self, connection: sa.Connection, acting: Acting, outcome: Outcome, effect: Finish, state: RunState
    ) -> None:
        """Send what there is of a result, and tell of the failure whoever was not told by that."""
        sent = None
        if self._partials is not None and isinstance(outcome, Failed) and outcome.told:
            sent = self._partials.put(connection, acting, outcome)
        if self._alerting is None:
            return
        program = acting.segment.program
        told = None if sent is None else _message_target(program.action(sent))
        unsent = isinstance(outcome, Failed) and outcome.code.startswith("message.")
        refused = _message_target(program.action(acting.action_id)) if unsent else None
        end = replace(_end(acting.segment.claimed, effect, state), told=told, refused=refused, is_told=sent is not None)
        self._alerting.run_over(connection, end)

    def _park(self, connection: sa.Connection, claimed: Claimed, wait: Wait, *, asked: bool, now: datetime) -> None:
        """The next segment: at the deadline, or at once where the run is to be cancelled and nothing acts any more."""
        delay = max(0.0, (wait.deadline - now).total_seconds())
        if asked and self._stop(connection, wait):
            delay = 0.0
        self._engine.enqueue(connection, claimed.run_id, claimed.seq + 1, delay=delay)


def _end(claimed: Claimed, effect: Finish, state: RunState) -> RunEnd:
    end = RunEnd(claimed.project_id, claimed.workflow_id, claimed.run_id, effect.status, effect.reason)
    return replace(end, is_skipped=bool(state.skipped))


def _message_target(action: Any) -> AlertTarget | None:  # noqa: ANN401 - one of the schema's action classes
    """Whom an action sends its message to."""
    inputs = getattr(action.config, "inputs", {})
    values = {name: one.value for name, one in inputs.items()}
    return step_target(getattr(action.config, "template_id", None), values)


def failure(error: LoopsError) -> Failed:
    """What an error on purpose means for its step."""
    return Failed(error.code, error.message, error.hint)


def step_row(acting: Acting, came: Outcome, now: datetime) -> StepRow:
    """The record of a step."""
    action = acting.segment.program.action(acting.action_id)
    status, result, error = _told(came)
    return StepRow(
        step_id=acting.action_id,
        type=action.type,
        name=action.name,
        position=acting.state.steps,
        status=status,
        result=trace.bounded(result),
        error=error,
        log=acting.lines.lines,
        started_at=acting.started,
        finished_at=None if isinstance(came, Parked) else now,
    )


def _told(came: Outcome) -> tuple[str, JsonValue, dict[str, Any] | None]:
    match came:
        case Succeeded(result):
            return "completed", result, None
        case Ended(reason):
            return "completed", {"reason": reason}, None
        case Failed(code, message, hint, partial):
            return "failed", partial, {"code": code, "message": message, "hint": hint}
        case Parked():
            return "waiting", None, None
        case Cancelled():
            return "cancelled", None, None
