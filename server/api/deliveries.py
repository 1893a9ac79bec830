"""/deliveries: what arrived, and why it did or did not start each loop."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from loops.store import deliveries as store
from server.api.call import Call, answer, listed, prefix_of
from server.api.items import delivery_item
from server.explain import Told, explained
from server.happening import happenings

_STATUSES = ("accepted", "dispatched", "ignored", "quarantined")


async def listing(call: Call) -> web.Response:
    """Deliveries, the newest first; of one status, or whose ids (ours or the sender's) begin with `prefix`."""
    given = call.query("status", "prefix", page=True)
    page = call.page(given, 1)
    status = call.choice(given, "status", _STATUSES)
    before = None if page.after is None else page.after[0]
    prefix = prefix_of(given)

    def look(connection: sa.Connection) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
        rows = store.page(connection, call.project, limit=page.limit + 1, before=before, status=status, prefix=prefix)
        return rows, happenings(connection, [row["id"] for row in rows])

    rows, told = await call.services.reader.read(look)
    return listed(rows, page.limit, lambda row: (row["id"],), lambda row: delivery_item(row, told))


async def read(call: Call) -> web.Response:
    """One delivery, by our id or the sender's, which may stand behind its source (`github:ID`); 409 where several bear
    it."""
    wanted = call.piece("id")

    def look(connection: sa.Connection) -> dict[str, Any]:
        row = store.find(connection, call.project, wanted)
        return delivery_item(row, happenings(connection, [row["id"]]))

    return answer(await call.services.reader.read(look))


async def verdicts(call: Call) -> web.Response:
    """The verdict of every enabled loop on the delivery, or of one workflow."""
    workflow = call.query("workflow").get("workflow")
    explanation = await explained(call.services, call.project, call.piece("id"), workflow)
    ids = [explanation.delivery["id"]]
    told = await call.services.reader.read(lambda connection: happenings(connection, ids))
    return answer(
        {
            "delivery": delivery_item(explanation.delivery, told),
            "verdicts": [_verdict_item(one) for one in explanation.verdicts],
            "note": explanation.note,
        }
    )


def _verdict_item(told: Told) -> dict[str, object]:
    verdict = told.verdict
    return {
        "workflow": verdict["workflow"],
        "workflow_name": told.workflow_name,
        "version": verdict["version"],
        "event": told.event,
        "event_uuid": told.event_uuid,
        "distinct_id": told.distinct_id,
        "stage": verdict["stage"],
        "passed": verdict["passed"],
        "reason": verdict["reason"],
        "compared": verdict["compared"],
        "recomputed": told.recomputed,
        "run": told.run,
    }
