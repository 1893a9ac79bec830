"""/deliveries: what arrived, and why it did or did not start each loop."""

from aiohttp import web

from loops.store import deliveries as store
from server.api.call import Call, answer, listed
from server.api.items import delivery_item
from server.explain import Told, explained

_STATUSES = ("accepted", "dispatched", "ignored", "quarantined")


async def listing(call: Call) -> web.Response:
    """Deliveries, the newest first; of one status."""
    given = call.query("status", page=True)
    page = call.page(given, 1)
    status = call.choice(given, "status", _STATUSES)
    before = None if page.after is None else page.after[0]
    rows = await call.services.reader.read(
        lambda connection: store.page(connection, call.project, limit=page.limit + 1, before=before, status=status)
    )
    return listed(rows, page.limit, lambda row: (row["id"],), delivery_item)


async def read(call: Call) -> web.Response:
    """One delivery, by our id or the sender's."""
    wanted = call.piece("id")
    row = await call.services.reader.read(lambda connection: store.find(connection, call.project, wanted))
    return answer(delivery_item(row))


async def verdicts(call: Call) -> web.Response:
    """The verdict of every enabled loop on the delivery, or of one workflow."""
    workflow = call.query("workflow").get("workflow")
    explanation = await explained(call.services, call.project, call.piece("id"), workflow)
    return answer(
        {
            "delivery": delivery_item(explanation.delivery),
            "verdicts": [_verdict_item(told) for told in explanation.verdicts],
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
        "stage": verdict["stage"],
        "passed": verdict["passed"],
        "reason": verdict["reason"],
        "compared": verdict["compared"],
        "recomputed": told.recomputed,
        "run": told.run,
    }
