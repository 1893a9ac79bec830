"""Runs and their steps, as SQL: functions over a connection inside the caller's transaction.

Every write of a segment names its `owner`; a segment that has been taken over changes nothing and gets RunFenced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from loops.errors import RunFenced
from loops.event import JsonValue
from loops.runs.state import Finish, Park, RunState, Wait
from loops.store.once import insert_once
from loops.store.projects import SETTINGS, ProjectSettings, read_settings
from loops.store.tables import events, projects, revisions, run_steps, runs

MOST_RESTARTS = 5
PAGE = 200
"""How many runs one look for what needs mending finds."""
# Written out, not bound: SQLite uses a partial index only for a condition that it can read.
OPEN: tuple[sa.ColumnClause[str], ...] = tuple(
    sa.literal_column(f"'{name}'") for name in ("queued", "running", "waiting")
)
TURN = "turn"
"""The kind of wait of a run that has not begun, since others that it must not overlap are under way."""
_OPEN_NAMES = ("queued", "running", "waiting")


@dataclass(frozen=True, slots=True)
class NewRun:
    """What starts: one workflow revision for one event. One that `waits_for` another run is let
    begin by whoever ends that."""

    id: str
    project_id: str
    workflow_id: str
    version: int
    source: str
    event_uuid: str
    event_name: str
    delivery_id: str | None
    replay: int
    state: RunState
    subject: str | None = None
    waits_for: str | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that a segment now owns, with all that it needs to go on."""

    run_id: str
    project_id: str
    project: ProjectSettings
    workflow_id: str
    version: int
    definition: Mapping[str, Any]
    state: RunState
    seq: int
    wait: Wait | None
    wake: Mapping[str, JsonValue] | None
    cancel_requested: bool
    results: Mapping[str, JsonValue]
    event: bytes | None


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step's record."""

    step_id: str
    type: str
    name: str
    position: int
    status: str
    result: JsonValue
    error: Mapping[str, Any] | None
    log: Sequence[Mapping[str, str]]
    started_at: datetime
    finished_at: datetime | None


def insert(connection: sa.Connection, run: NewRun, now: datetime) -> bool:
    """Insert a run unless its id is known; whether it is new."""
    return connection.execute(insert_once(connection, runs), _values(run, now)).rowcount > 0


def is_known(connection: sa.Connection, run_id: str) -> bool:
    """Whether there is a run with this id."""
    return connection.execute(sa.select(runs.c.id).where(runs.c.id == run_id)).first() is not None


def insert_all(connection: sa.Connection, new: Sequence[NewRun], now: datetime) -> None:
    """Insert runs whose ids are not known."""
    connection.execute(insert_once(connection, runs), [_values(run, now) for run in new])


def _values(run: NewRun, now: datetime) -> dict[str, Any]:
    return {
        "id": run.id,
        "project_id": run.project_id,
        "workflow_id": run.workflow_id,
        "version": run.version,
        "source": run.source,
        "event_uuid": run.event_uuid,
        "event_name": run.event_name,
        "subject": run.subject,
        "delivery_id": run.delivery_id,
        "replay": run.replay,
        "status": "queued" if run.waits_for is None else "waiting",
        "wait": None if run.waits_for is None else {"kind": TURN, "detail": {"run": run.waits_for}},
        "reason": "",
        "seq": 0,
        "restarts": 0,
        "position": run.state.position,
        "state": run.state.as_json(),
        "cost": 0.0,
        "created_at": now,
        "updated_at": now,
    }


def claim(connection: sa.Connection, run_id: str, seq: int, owner: str, now: datetime) -> Claimed | None:
    """Take the run for this segment; None when the segment is stale (woken before, over, or cancelled)."""
    row = connection.execute(sa.select(runs).where(runs.c.id == run_id).with_for_update()).mappings().first()
    if row is None or row["seq"] != seq or row["status"] not in _OPEN_NAMES:
        return None
    connection.execute(
        runs.update()
        .where(runs.c.id == run_id)
        .values(
            status="running",
            owner=owner,
            started_at=sa.func.coalesce(runs.c.started_at, now_value(now)),
            updated_at=now,
        )
    )
    definition, *settings = connection.execute(
        sa.select(revisions.c.definition, *SETTINGS)
        .outerjoin(projects, projects.c.id == row["project_id"])
        .where(revisions.c.workflow_id == row["workflow_id"], revisions.c.version == row["version"])
    ).one()
    return Claimed(
        run_id=run_id,
        project_id=row["project_id"],
        project=read_settings(*settings),
        workflow_id=row["workflow_id"],
        version=row["version"],
        definition=definition,
        state=RunState.from_json(row["state"]),
        seq=seq,
        wait=read_wait(row["wait"], row["deadline_at"]),
        wake=row["wake"],
        cancel_requested=row["cancel_requested_at"] is not None,
        results=_results(connection, run_id),
        event=_event_body(connection, row),
    )


def now_value(now: datetime) -> Any:  # noqa: ANN401
    """A bound instant for use inside a SQL expression."""
    return sa.literal(now, runs.c.updated_at.type)


def _results(connection: sa.Connection, run_id: str) -> dict[str, JsonValue]:
    found = connection.execute(sa.select(run_steps.c.step_id, run_steps.c.result).where(run_steps.c.run_id == run_id))
    return {row[0]: row[1] for row in found}


def _event_body(connection: sa.Connection, row: sa.RowMapping) -> bytes | None:
    body: bytes | None = connection.execute(
        sa.select(events.c.body).where(
            events.c.project_id == row["project_id"],
            events.c.source == row["source"],
            events.c.uuid == row["event_uuid"],
        )
    ).scalar()
    return body


def read_wait(stored: Mapping[str, Any] | None, deadline: datetime | None) -> Wait | None:
    """The wait of a run's row, None where it has none."""
    if stored is None or deadline is None:
        return None
    return Wait(stored["kind"], deadline, stored.get("detail", {}))


def record(
    connection: sa.Connection, run_id: str, seq: int, owner: str, state: RunState, step: StepRow | None, now: datetime
) -> bool:
    """Store what a step came to and where the run stands now. Whether somebody asked for its cancellation.

    Raises RunFenced, and stores nothing, when another segment owns the run.
    """
    # The wait is over with the step that waited: whoever takes the run over after a crash must not resume the next one.
    values = {"state": state.as_json(), "position": state.position, "wait": None, "wake": None, "deadline_at": None}
    asked = _guarded(connection, run_id, owner, values, now)
    if step is not None:
        _put_step(connection, run_id, seq, step)
    return asked


def park(
    connection: sa.Connection,
    run_id: str,
    seq: int,
    owner: str,
    state: RunState,
    step: StepRow,
    effect: Park,
    now: datetime,
) -> bool:
    """Store the wait; the segment after this one may act from now on. Whether somebody asked for the run's
    cancellation. Raises RunFenced."""
    wait = effect.wait
    values = {
        "state": state.as_json(),
        "status": "waiting",
        "seq": seq + 1,
        "owner": None,
        "wait": {"kind": wait.kind, "detail": dict(wait.detail)},
        "wake": None,
        "deadline_at": wait.deadline,
    }
    asked = _guarded(connection, run_id, owner, values, now)
    _put_step(connection, run_id, seq, step)
    return asked


def finish(
    connection: sa.Connection,
    run_id: str,
    seq: int,
    owner: str,
    state: RunState,
    step: StepRow | None,
    effect: Finish,
    now: datetime,
) -> None:
    """Store the end. Raises RunFenced."""
    values = {
        "state": state.as_json(),
        "position": None,
        "status": effect.status,
        "reason": effect.reason,
        "owner": None,
        "wait": None,
        "wake": None,
        "deadline_at": None,
        "finished_at": now,
    }
    _guarded(connection, run_id, owner, values, now)
    if step is not None:
        _put_step(connection, run_id, seq, step)
    else:
        end_waiting(connection, run_id, "cancelled" if effect.status == "cancelled" else "failed", now)


def _guarded(connection: sa.Connection, run_id: str, owner: str, values: Mapping[str, Any], now: datetime) -> bool:
    changed = connection.execute(
        runs.update()
        .where(runs.c.id == run_id, runs.c.owner == owner, runs.c.status == "running")
        .values(updated_at=now, **values)
        .returning(runs.c.cancel_requested_at)
    ).first()
    if changed is None:
        raise RunFenced(f"run {run_id} has been taken over by another worker")
    return changed[0] is not None


def _put_step(connection: sa.Connection, run_id: str, seq: int, step: StepRow) -> None:
    values = {
        "seq": seq,
        "position": step.position,
        "type": step.type,
        "name": step.name,
        "status": step.status,
        "result": step.result,
        "error": step.error,
        "log": list(step.log) or None,
        "started_at": step.started_at,
        "finished_at": step.finished_at,
    }
    if _update_waiting(connection, run_id, step, values):
        return
    connection.execute(run_steps.insert().values(run_id=run_id, step_id=step.step_id, **values))


def _update_waiting(connection: sa.Connection, run_id: str, step: StepRow, values: Mapping[str, Any]) -> bool:
    """A step that had parked keeps its row, its start, and what it logged before."""
    here = (run_steps.c.run_id == run_id, run_steps.c.step_id == step.step_id)
    columns = (run_steps.c.log, run_steps.c.started_at, run_steps.c.status)
    before = connection.execute(sa.select(*columns).where(*here)).first()
    if before is None:
        return False
    # A row that is not waiting was stored by a commit whose answer was lost: it is the same row again.
    earlier = (before[0] or []) if before[2] == "waiting" else []
    kept = {"log": [*earlier, *step.log] or None, "started_at": before[1]}
    connection.execute(run_steps.update().where(*here).values({**values, **kept}))
    return True


def woken(connection: sa.Connection, *, before: datetime) -> list[tuple[str, int]]:
    """Runs that were woken before then and have not begun to act."""
    rows = connection.execute(
        sa.select(runs.c.id, runs.c.seq)
        .where(runs.c.status == "queued", runs.c.wake.is_not(None), runs.c.updated_at < before)
        .limit(PAGE)
    )
    return [(row[0], row[1]) for row in rows]


def quiet(connection: sa.Connection, *, since: datetime, after: str) -> list[tuple[str, int]]:
    """Open runs with an id above `after` that have not moved since then, and are not waiting for a later time."""
    rows = connection.execute(
        sa.select(runs.c.id, runs.c.seq)
        .where(runs.c.status.in_(OPEN), runs.c.id > after, runs.c.updated_at < since)
        .where(sa.or_(runs.c.status != "waiting", runs.c.deadline_at < since))
        .order_by(runs.c.id)
        .limit(PAGE)
    )
    return [(row[0], row[1]) for row in rows]


def restart_segment(connection: sa.Connection, run_id: str, seq: int, now: datetime) -> int | None:
    """Give the run a new segment after its engine row was lost; the new seq, None when it moved meanwhile or has had
    its share of new segments."""
    row = connection.execute(
        runs.update()
        .where(runs.c.id == run_id, runs.c.seq == seq, runs.c.status.in_(OPEN), runs.c.restarts < MOST_RESTARTS)
        .values(seq=seq + 1, restarts=runs.c.restarts + 1, owner=None, updated_at=now)
        .returning(runs.c.seq)
    ).first()
    return None if row is None else row[0]


def give_up(connection: sa.Connection, run_id: str, seq: int, reason: str, now: datetime) -> bool:
    """End a run that cannot go on, unless it moved meanwhile; whether it was ended."""
    ended = connection.execute(
        runs.update()
        .where(runs.c.id == run_id, runs.c.seq == seq, runs.c.status.in_(OPEN))
        .values(
            status="failed", reason=reason, owner=None, finished_at=now, updated_at=now, wait=None, deadline_at=None
        )
    )
    if ended.rowcount:
        end_waiting(connection, run_id, "failed", now)
    return ended.rowcount > 0


def end_waiting(connection: sa.Connection, run_id: str, status: str, now: datetime) -> None:
    """The step that waited ends with its run."""
    connection.execute(
        run_steps.update()
        .where(run_steps.c.run_id == run_id, run_steps.c.status == "waiting")
        .values(status=status, finished_at=now)
    )
