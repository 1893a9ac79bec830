"""/deliveries: what arrived, and what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.errors import NotFound
from loops.event import Delivery
from loops.store import connections as connections_store
from loops.store import deliveries as store
from loops.store import run_queries
from loops.store import workflows as workflows_store
from loops.threads import off_loop
from server.pages.addresses import delivery_cursor, one_of, path_of, wanted_id
from server.pages.inert import Shown, shown_body
from server.pages.visit import Visit
from server.pages.words import Compared, compared, stage_words

PAGE = 50
STATUSES = ("accepted", "dispatched", "ignored", "quarantined")
_MOST_EVENTS = 100
_MOST_RUNS = 200


@dataclass(frozen=True, slots=True)
class VerdictShown:
    """What was decided about one loop. `run` leads to the run that it started."""

    workflow: str
    version: int
    passed: bool
    stage: str
    reason: str
    compared: tuple[Compared, ...]
    run: str | None


@dataclass(frozen=True, slots=True)
class EventShown:
    """One event of a delivery, with the loops that it was held against: those that started first."""

    name: str
    uuid: str
    verdicts: tuple[VerdictShown, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    row: Mapping[str, Any]
    connection: str
    events: tuple[EventShown, ...]
    hidden_events: int
    runs: Sequence[Mapping[str, Any]]
    whole: Delivery | None


async def list_deliveries(visit: Visit) -> web.Response:
    """GET /deliveries"""
    query, project = visit.request.query, visit.who.project_id
    status = one_of(query.get("status"), STATUSES, "status")
    before = delivery_cursor(query.get("before"))

    def read(connection: sa.Connection) -> tuple[list[Mapping[str, Any]], list[connections_store.ConnectionRow]]:
        rows = store.page(connection, project, limit=PAGE + 1, before=before, status=status)
        return rows, connections_store.listed(connection, project)

    rows, connections = await visit.services.reader.read(read)
    older = path_of("deliveries", status=status, before=rows[PAGE - 1]["id"]) if len(rows) > PAGE else None
    return visit.show(
        "deliveries.html",
        rows=rows[:PAGE],
        statuses=STATUSES,
        chosen=status,
        is_first=before is None,
        older=older,
        connections=[one for one in connections if one.kind in visit.services.sources],
        names={one.id: one.name for one in connections},
        public_url=visit.services.settings.public_url,
    )


async def show_delivery(visit: Visit) -> web.Response:
    """GET /deliveries/{id}, by our id or the sender's"""
    wanted = wanted_id(visit.request.match_info["id"], "delivery")
    project = visit.who.project_id
    found = await visit.services.reader.read(lambda connection: _find(connection, project, wanted))
    whole = found.whole
    body: Shown | None = None
    if whole is not None:
        content_type = whole.headers.get("content-type", "")
        body = await off_loop(lambda: shown_body(whole.body, content_type))
    return visit.show(
        "delivery.html",
        row=found.row,
        connection=found.connection,
        events=found.events,
        hidden_events=found.hidden_events,
        runs=found.runs,
        headers=sorted(whole.headers.items()) if whole else [],
        body=body,
        now=visit.services.clock.now(),
    )


def _find(connection: sa.Connection, project: str, wanted: str) -> _Found:
    row = store.find(connection, project, wanted)
    runs = run_queries.page(connection, project, limit=_MOST_RUNS, delivery_id=row["id"])
    stored = store.events_of(connection, row["id"])
    names = _names(connection, project, stored[:_MOST_EVENTS])
    by_cause = {(run["event_uuid"], run["workflow_id"]): run["id"] for run in reversed(runs)}
    events = tuple(_event(one, names, by_cause) for one in stored[:_MOST_EVENTS])
    sender = connections_store.get(connection, row["connection_id"])
    return _Found(
        row=row,
        connection=sender.name if sender is not None and sender.project_id == project else "deleted",
        events=events,
        hidden_events=max(0, len(stored) - _MOST_EVENTS),
        runs=runs,
        whole=store.load(connection, row["id"]),
    )


def _names(connection: sa.Connection, project: str, events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The names that the workflows of these verdicts have now; a deleted one has none."""
    names: dict[str, str] = {}
    for workflow in {verdict["workflow"] for event in events for verdict in event["verdicts"] or ()}:
        try:
            names[workflow] = workflows_store.get(connection, project, workflow).name
        except NotFound:
            continue
    return names


def _event(
    stored: Mapping[str, Any], names: Mapping[str, str], runs: Mapping[tuple[str, str], str]
) -> EventShown:
    verdicts = [
        VerdictShown(
            workflow=names.get(verdict["workflow"]) or verdict["workflow"],
            version=verdict["version"],
            passed=verdict["passed"],
            stage=stage_words(verdict["stage"]),
            reason=verdict["reason"],
            compared=tuple(compared(one) for one in verdict["compared"]),
            run=runs.get((stored["uuid"], verdict["workflow"])) if verdict["passed"] else None,
        )
        for verdict in stored["verdicts"] or ()
    ]
    return EventShown(stored["name"], stored["uuid"], tuple(sorted(verdicts, key=lambda one: not one.passed)))
