"""/deliveries: what arrived, and what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.connections.kinds import KINDS
from loops.event import Delivery
from loops.store import connections as connections_store
from loops.store import deliveries as store
from loops.store import run_queries, task_queries
from loops.store.task_queries import Spent
from loops.threads import off_loop
from loops.webhooks import shown_names
from server.explain import Told, explained
from server.happening import happenings
from server.pages.addresses import delivery_cursor, one_of, path_of, wanted_id
from server.pages.inert import Shown, shown_body
from server.pages.money import brief_cost
from server.pages.visit import Visit
from server.pages.words import Compared, compared, stage_words

PAGE = 50
STATUSES = ("accepted", "dispatched", "ignored", "quarantined")
_MOST_RUNS = 200


@dataclass(frozen=True, slots=True)
class VerdictShown:
    """What was decided about one loop. `run` leads to the run that it started; `again` is the loop's id, where it
    stands here first."""

    workflow: str
    again: str
    version: int
    passed: bool
    stage: str
    reason: str
    compared: tuple[Compared, ...]
    run: str | None


@dataclass(frozen=True, slots=True)
class EventShown:
    """One event of a delivery, without a name the whole delivery.

    `verdicts` are those of the time, the loops that started first. `others` are worked out for the page: loops that
    did not come near, which most loops do not.
    """

    name: str
    uuid: str
    distinct_id: str
    verdicts: tuple[VerdictShown, ...]
    others: tuple[VerdictShown, ...]


@dataclass(frozen=True, slots=True)
class _Listed:
    """What the list shows: deliveries, by id what each cost and tells of, and the names of connections."""

    rows: Sequence[Mapping[str, Any]]
    connections: Sequence[connections_store.ConnectionRow]
    names: Mapping[int, str]
    spent: Mapping[str, Spent]
    whats: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Rest:
    """What the page shows beside the verdicts."""

    connection: str
    runs: Sequence[Mapping[str, Any]]
    whole: Delivery | None
    what: str


async def list_deliveries(visit: Visit) -> web.Response:
    """GET /deliveries"""
    query, project = visit.request.query, visit.who.project_id
    status = one_of(query.get("status"), STATUSES, "status")
    before = delivery_cursor(query.get("before"))

    def read(connection: sa.Connection) -> _Listed:
        rows = store.page(connection, project, limit=PAGE + 1, before=before, status=status)
        spent = task_queries.spent_by_deliveries(connection, [row["id"] for row in rows if row["runs"]])
        told = happenings(connection, [row["id"] for row in rows])
        connections = connections_store.listed(connection, project)
        return _Listed(rows, connections, shown_names(connection, connections), spent, told)

    listed = await visit.services.reader.read(read)
    rows = listed.rows
    older = path_of("deliveries", status=status, before=rows[PAGE - 1]["id"]) if len(rows) > PAGE else None
    return visit.show(
        "deliveries.html",
        rows=rows[:PAGE],
        statuses=STATUSES,
        chosen=status,
        is_first=before is None,
        older=older,
        connections=[
            one for one in listed.connections if one.kind in visit.services.sources and KINDS[one.kind].receives
        ],
        whats=listed.whats,
        names=listed.names,
        costs={delivery: brief_cost(one) for delivery, one in listed.spent.items()},
        public_url=visit.services.public_url(),
    )


async def show_delivery(visit: Visit) -> web.Response:
    """GET /deliveries/{id}, by our id or the sender's"""
    return await delivery_page(visit)


async def delivery_page(visit: Visit, status: int = 200, alert: str = "") -> web.Response:
    """The page of a delivery, with what went wrong where something did."""
    wanted = wanted_id(visit.request.match_info["id"], "delivery")
    project = visit.who.project_id
    explanation = await explained(visit.services, project, wanted)
    row = explanation.delivery
    rest = await visit.services.reader.read(lambda connection: _rest(connection, project, row))
    can_replay = visit.may("editor") and rest.whole is not None and row["status"] != "accepted"
    return visit.show(
        "delivery.html",
        status,
        alert=alert,
        can_replay=can_replay,
        row=row,
        what=rest.what,
        connection=rest.connection,
        events=_events(explanation.verdicts),
        note=explanation.note,
        runs=rest.runs,
        headers=sorted(rest.whole.headers.items()) if rest.whole else [],
        body=None if rest.whole is None else await _body(rest.whole),
    )


def _rest(connection: sa.Connection, project: str, row: Mapping[str, Any]) -> _Rest:
    sender = connections_store.get(connection, row["connection_id"])
    known = [] if sender is None or sender.project_id != project else [sender]
    return _Rest(
        connection=shown_names(connection, known).get(row["connection_id"], "deleted"),
        runs=run_queries.page(connection, project, limit=_MOST_RUNS, delivery_id=row["id"]),
        whole=store.load(connection, row["id"]),
        what=happenings(connection, [row["id"]]).get(row["id"], row["name"]),
    )


async def _body(whole: Delivery) -> Shown:
    content_type = whole.headers.get("content-type", "")
    return await off_loop(lambda: shown_body(whole.body, content_type))


def _events(verdicts: Sequence[Told]) -> list[EventShown]:
    """The verdicts event by event, in the order in which they came."""
    grouped: dict[tuple[str, str], list[Told]] = {}
    for told in verdicts:
        grouped.setdefault((told.event, told.event_uuid), []).append(told)
    return [_event(name, uuid, group) for (name, uuid), group in grouped.items()]


def _event(name: str, uuid: str, group: Sequence[Told]) -> EventShown:
    stored = [told for told in group if not told.recomputed]
    stored.sort(key=lambda told: not told.verdict["passed"])
    seen: set[str] = set()
    shown = [_verdict(told, seen) for told in stored]
    others = tuple(_verdict(told, seen) for told in group if told.recomputed)
    return EventShown(name, uuid, group[0].distinct_id, tuple(shown), others)


def _verdict(told: Told, seen: set[str]) -> VerdictShown:
    """`seen` are the loops that have a verdict above: one way to play again is enough for each."""
    verdict = told.verdict
    again = "" if verdict["workflow"] in seen else str(verdict["workflow"])
    seen.add(str(verdict["workflow"]))
    return VerdictShown(
        workflow=told.workflow_name or verdict["workflow"],
        again=again,
        version=verdict["version"],
        passed=verdict["passed"],
        stage=stage_words(verdict["stage"]),
        reason=verdict["reason"],
        compared=tuple(compared(one) for one in verdict["compared"]),
        run=told.run,
    )
