"""What a person starts on a page: a run by hand, a delivery played again."""

from aiohttp import web

from loops.errors import Conflict, DeliveryError, RequestError
from loops.event import JsonValue
from server.api.starts import idempotency_key
from server.pages.addresses import path_of, wanted_id
from server.pages.deliveries import delivery_page
from server.pages.rendering import see_other
from server.pages.visit import Visit
from server.pages.workflow import workflow_page

_FIELD = "var."


async def run_workflow(visit: Visit) -> web.Response:
    """POST /workflows/{id}/run, with the variables as fields; the same form starts one run however often it is sent"""
    workflow_id = wanted_id(visit.request.match_info["id"], "workflow")
    form = await visit.request.post()
    # A field that was left empty is a variable that keeps its default.
    given: dict[str, JsonValue] = {
        name.removeprefix(_FIELD): value
        for name, value in form.items()
        if name.startswith(_FIELD) and isinstance(value, str) and value
    }
    try:
        key = idempotency_key(str(form.get("key", "")))
        started = await visit.services.by_hand.start(visit.who.project_id, workflow_id, given, visit.who.name, key=key)
    except (Conflict, RequestError, DeliveryError) as error:
        return await workflow_page(visit, workflow_id, error.http_status, error.message)
    return see_other(path_of("runs", str(started["run"])))


async def replay_delivery(visit: Visit) -> web.Response:
    """POST /deliveries/{id}/replay, for the workflow of the field"""
    wanted = wanted_id(visit.request.match_info["id"], "delivery")
    workflow = wanted_id(str((await visit.request.post()).get("workflow", "")), "workflow")
    try:
        items = await visit.services.replays.delivery(visit.who.project_id, wanted, workflow)
    except Conflict as error:
        return await delivery_page(visit, error.http_status, error.message)
    started = next((one.run for one in items if one.run is not None), None)
    if started is None:
        reason = items[0].verdict.reason if items else "it means no event"
        return await delivery_page(visit, 409, f"It starts no run: {reason}")
    return see_other(path_of("runs", started))
