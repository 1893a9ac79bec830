"""What people start, beside what arrives: runs by hand, deliveries played again, and where a webhook is reached."""

from aiohttp import web

from loops.errors import RequestError
from loops.webhooks import Address
from server.api.call import Call, answer, instant
from server.api.items import replayed_item

_LONGEST_KEY = 200


async def run(call: Call) -> web.Response:
    """Start a run by hand, of a workflow whose trigger is manual or schedule; the same Idempotency-Key within 24 hours
    is answered as at first."""
    body = await call.document("variables")
    variables = body.get("variables", {})
    if not isinstance(variables, dict):
        raise RequestError("variables are no object", hint='as {"customer": "acme"}', path="variables")
    key = idempotency_key(call.request.headers.get("Idempotency-Key", ""))
    started = await call.services.by_hand.start(call.project, call.piece("id"), variables, call.principal.name, key=key)
    return answer(dict(started), 202)


def idempotency_key(text: str) -> str:
    """A key as it was sent, empty where none was. RequestError for what is none."""
    key = text.strip()
    if len(key) > _LONGEST_KEY or not key.isprintable():
        raise RequestError(
            "the Idempotency-Key does not fit", hint=f"at most {_LONGEST_KEY} characters", path="Idempotency-Key"
        )
    return key


async def replay(call: Call) -> web.Response:
    """Play a delivery again: for `workflow`, or for every enabled workflow whose filters it passes now. 202 where that
    started a run."""
    body = await call.document("workflow")
    workflow = body.get("workflow")
    if workflow is not None and not isinstance(workflow, str):
        raise RequestError("workflow is no text", hint="the id of a workflow", path="workflow")
    items = await call.services.replays.delivery(call.project, call.piece("id"), workflow)
    status = 202 if any(one.run is not None for one in items) else 200
    return answer({"items": [replayed_item(one) for one in items]}, status)


async def replay_missed(call: Call) -> web.Response:
    """Play again what the workflow missed of a period: deliveries that would start it now, started no run of it and
    were not held back. Done in parts: `next` is the cursor of the part after this, null when all is done."""
    body = await call.document("since", "until", "cursor")
    since = instant(body.get("since"), "since")
    until = call.services.clock.now() if body.get("until") is None else instant(body["until"], "until")
    cursor = body.get("cursor", "")
    if not isinstance(cursor, str) or not cursor.isprintable():
        raise RequestError("the cursor is none of ours", hint="pass `next` of the part before", path="cursor")
    missed = await call.services.replays.missed(call.project, call.piece("id"), (since, until), cursor)
    items = [replayed_item(one) for one in missed.items]
    return answer({"items": items, "looked_at": missed.looked_at, "next": missed.next})


async def webhook(call: Call) -> web.Response:
    """The address of a workflow whose trigger is a webhook. Whoever knows it can send to it."""
    workflow, services = call.piece("id"), call.services
    address = await services.writer.run(
        lambda connection: services.webhooks.address(connection, call.project, workflow)
    )
    return answer(_address_item(call, address))


async def rotate_webhook(call: Call) -> web.Response:
    """Give the webhook another address; the former answers 404 from then on."""
    workflow, services = call.piece("id"), call.services
    await call.document()
    address = await services.writer.run(
        lambda connection: services.webhooks.address(connection, call.project, workflow, rotate=True)
    )
    return answer(_address_item(call, address))


def _address_item(call: Call, address: Address) -> dict[str, object]:
    return {
        "url": f"{call.services.public_url()}/hooks/in/{address.token}",
        "method": address.method,
        "verified": address.verified,
        "connection": str(address.connection_id),
    }
