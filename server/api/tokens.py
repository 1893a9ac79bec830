"""/tokens: who may use the API. A token is shown once, when it is made."""

from aiohttp import web

from loops.connections.kinds import check_name
from loops.errors import RequestError, StoreError
from loops.store import connections as store
from loops.store.ids import new_id
from server.api.call import Call, answer, instant_after, instant_key, listed
from server.api.items import token_item
from server.auth import ROLES, new_token, parse_role


async def listing(call: Call) -> web.Response:
    """Tokens, the newest first, revoked ones with their time."""
    page = call.page(call.query(page=True), 2)
    rows = await call.services.reader.read(lambda connection: store.listed_tokens(connection, call.project))
    rows.sort(key=lambda row: (row.created_at, row.id), reverse=True)
    before = instant_after(page)
    if before is not None:
        rows = [row for row in rows if (row.created_at, row.id) < before]
    return listed(rows, page.limit, lambda row: instant_key(row.created_at, row.id), token_item)


async def create(call: Call) -> web.Response:
    """Make a token of a role; the answer holds it, for the only time."""
    body = await call.document("role", "name")
    if not isinstance(body.get("role"), str):
        raise RequestError("a role is missing", hint=f"one of {', '.join(ROLES)}", path="role")
    role = parse_role(str(body["role"])[:60])
    name = check_name(body.get("name", role))
    token, digest = new_token()
    token_id, now = new_id(), call.services.clock.now()
    made = await call.services.writer.run(
        lambda connection: store.insert_token(
            connection, token_id=token_id, project_id=call.project, name=name, role=role, digest=digest, now=now
        )
    )
    if not made:
        raise StoreError("the token could not be stored", hint="ask once more")
    told = {"id": token_id, "name": name, "role": role, "created_at": now.isoformat(), "token": token}
    return answer(told, 201)


async def revoke(call: Call) -> web.Response:
    """Revoke a token; its sessions end with it."""
    token_id, now = call.piece("id"), call.services.clock.now()
    await call.services.writer.run(lambda connection: store.revoke_token(connection, call.project, token_id, now))
    return web.Response(status=204)
