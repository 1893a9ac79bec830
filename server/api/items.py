"""How rows are shown: the items of the API, which the command line prints as they are."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from loops.definition.form import shape_of
from loops.errors import ScheduleError
from loops.schedules.preview import Previewed
from loops.schedules.wall_clock import zone_of
from loops.scheduling import timing_of
from loops.store.connections import TokenRow
from loops.store.notes import NoteRow
from loops.store.schedules import OccurrenceRow, ScheduleRow
from loops.store.task_queries import Spent
from loops.store.tasks import TaskRow
from loops.store.threads import ThreadRow
from loops.store.workflows import WorkflowRow
from server.happening import run_happening
from server.schedule_words import schedule_words
from server.spaces import space_of_run
from server.trigger_words import trigger_words
from triggers.replay import Replayed

_NOTHING: Mapping[str, str] = {}


def _at(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def workflow_item(row: WorkflowRow) -> dict[str, Any]:
    """A workflow in a list: all but its graph; `starts_on` is its trigger in words, `shape` as where it is shown."""
    actions = row.definition.get("actions", ())
    trigger = next((one.get("config") for one in actions if one.get("type") == "trigger"), None)
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "status": row.status,
        "version": row.version,
        "origin_product": row.origin_product,
        "shape": shape_of(row.definition)[0],
        "trigger": trigger,
        "starts_on": trigger_words(row.definition).kind,
        "created_by": row.created_by,
        "enabled_by": row.enabled_by,
        "space": row.space,
        "created_at": _at(row.created_at),
        "updated_at": _at(row.updated_at),
    }


def delivery_item(row: Mapping[str, Any], told: Mapping[str, str] = _NOTHING) -> dict[str, Any]:
    """`event` is what the sender calls it, `what` what it tells of in words, `key` the sender's id of it."""
    return {
        "id": row["id"],
        "source": row["source"],
        "event": row["name"],
        "what": told.get(row["id"]) or row["name"],
        "key": row["key"],
        "connection": str(row["connection_id"]),
        "subject": row["subject"],
        "received_at": _at(row["received_at"]),
        "verified": bool(row["verified"]),
        "status": row["status"],
        "reason": row["reason"],
        "attempts": row["attempts"],
        "runs": row["runs"],
        "size": row["size"],
    }


def run_item(row: Mapping[str, Any], told: Mapping[str, str] = _NOTHING) -> dict[str, Any]:
    """`event` is the event's name, `what` what happened in words; `waiting_for` and `waiting_until` are null unless it
    waits, `waiting_run` unless it waits for that run to be over. Cost in US dollars."""
    waits, space = row["status"] == "waiting", space_of_run(row)
    return {
        "id": row["id"],
        "workflow": row["workflow_id"],
        "workflow_name": row["workflow_name"],
        "version": row["version"],
        "source": row["source"],
        "event": row["event_name"],
        "what": run_happening(row, told),
        "event_uuid": row["event_uuid"],
        "delivery": row["delivery_id"],
        "replay": row["replay"],
        "space": None if space is None else space.id,
        "status": row["status"],
        "reason": row["reason"],
        "waiting_for": (row["wait"] or {}).get("kind") if waits else None,
        "waiting_until": _at(row["deadline_at"]) if waits else None,
        "waiting_run": ((row["wait"] or {}).get("detail") or {}).get("run") if waits else None,
        "cost": row["cost"],
        "created_at": _at(row["created_at"]),
        "started_at": _at(row["started_at"]),
        "finished_at": _at(row["finished_at"]),
    }


def replayed_item(one: Replayed) -> dict[str, Any]:
    """What playing an event again came to for one workflow: `replay` is its number, `run` null where none began."""
    return {
        "delivery": one.delivery_id,
        "workflow": one.verdict.workflow,
        "workflow_name": one.workflow_name,
        "version": one.verdict.version,
        "event": one.event,
        "event_uuid": one.event_uuid,
        "stage": one.verdict.stage,
        "passed": one.verdict.passed,
        "reason": one.verdict.reason,
        "replay": one.replay,
        "run": one.run,
    }


def schedule_item(row: ScheduleRow, workflow: WorkflowRow) -> dict[str, Any]:
    """A schedule; `when` is its rule in words. `next_run_at` is null while nothing is to fire, and `fault` says why it
    cannot."""
    return {
        "id": row.id,
        "workflow": row.workflow_id,
        "workflow_name": workflow.name,
        "workflow_status": workflow.status,
        "when": schedule_words(timing_of(row)),
        "rrule": row.rrule,
        "cron": row.cron,
        "starts_at": row.starts_at,
        "timezone": row.timezone,
        "variables": dict(row.variables),
        "catch_up": row.catch_up,
        "status": row.status,
        "next_run_at": _at(row.next_due),
        "next_local": _at(local_next(row)),
        "fault": row.fault,
        "created_at": _at(row.created_at),
        "updated_at": _at(row.updated_at),
    }


def local_next(row: ScheduleRow) -> datetime | None:
    """The next occurrence in its zone; None where there is none, or the zone is not known any more."""
    try:
        return None if row.next_due is None else row.next_due.astimezone(zone_of(row.timezone))
    except ScheduleError:
        return None


def previewed_item(one: Previewed) -> dict[str, Any]:
    """An occurrence that lies ahead; `mark` is skipped, doubled or changed where clocks change, else null."""
    return {"at": _at(one.at), "local": _at(one.local), "mark": one.mark, "note": one.note}


def occurrence_item(row: OccurrenceRow) -> dict[str, Any]:
    """An occurrence that is over. `run` is null where none began."""
    return {
        "at": _at(row.due_at),
        "outcome": row.outcome,
        "reason": row.reason,
        "run": row.run_id,
        "decided_at": _at(row.decided_at),
    }


def step_item(row: Mapping[str, Any]) -> dict[str, Any]:
    """What one step of a run came to."""
    return {
        "id": row["step_id"],
        "type": row["type"],
        "name": row["name"],
        "status": row["status"],
        "result": row["result"],
        "error": row["error"],
        "log": row["log"] or [],
        "started_at": _at(row["started_at"]),
        "finished_at": _at(row["finished_at"]),
    }


def task_item(row: TaskRow, spent: Spent | None = None, thread: ThreadRow | None = None) -> dict[str, Any]:
    """A task in a list; `spent` is what it has spent so far, where it is not over. `cost` is null as long as a part of
    it has no known price, which LOOPS_PRICE would be. `thread` is null where it answers in no Slack thread."""
    return {
        "id": row.id,
        "workflow": row.workflow_id,
        "run": row.run_id,
        "step": row.step_id,
        "title": row.title,
        "model": row.model,
        "status": row.status,
        "ending": row.ending,
        "reason": row.reason,
        "activity": row.activity,
        "rounds": row.rounds,
        "input_tokens": row.input_tokens if spent is None else spent.input,
        "output_tokens": row.output_tokens if spent is None else spent.output,
        "cost": row.cost if spent is None else spent.known,
        "created_at": _at(row.created_at),
        "started_at": _at(row.started_at),
        "finished_at": _at(row.finished_at),
        "thread": None if thread is None else thread_item(thread),
    }


def thread_item(row: ThreadRow) -> dict[str, Any]:
    """The Slack thread that a task answers in: `working`, `listening` or `closed`, the turn that it is at, and those
    that are over. `reaction` is `shown`, or why the message that started it has none."""
    return {
        "connection": str(row.connection_id),
        "channel": row.channel,
        "thread_ts": row.thread_ts,
        "status": row.status,
        "reason": row.reason,
        "turn": row.turn,
        "turns": list(row.turns),
        "listens_until": _at(row.listens_until),
        "reaction": row.reaction,
    }


def note_item(row: NoteRow) -> dict[str, Any]:
    """A note; `reason` is why it was closed."""
    return {
        "id": row.id,
        "workflow": row.workflow_id,
        "subject": row.subject,
        "task": row.task_id,
        "text": row.text,
        "status": "open" if row.closed_at is None else "closed",
        "reason": row.reason,
        "created_at": _at(row.created_at),
        "closed_at": _at(row.closed_at),
    }


def token_item(row: TokenRow) -> dict[str, Any]:
    """A token without the token itself, which nobody has but its holder."""
    return {
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "created_at": _at(row.created_at),
        "revoked_at": _at(row.revoked_at),
    }
