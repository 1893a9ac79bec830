"""/integrations/{id}/github_repos: the repositories that a GitHub connection sees."""

from typing import Any

from aiohttp import web

from loops.connections.github_repositories import Repository
from server.api.call import Call, offset_of, sliced


async def listing(call: Call) -> web.Response:
    """The repositories that the token's user or the app's installations see, by name; a list is good for a minute.
    `search` is a part of `owner/name`; `next` is the `offset` to go on with."""
    given = call.query("limit", "offset", "search")
    page, offset = call.page(given, 1), offset_of(given)
    wanted = given.get("search", "").strip().lower()
    found = [
        one
        for one in await call.services.repositories.of(call.project, call.number("id"))
        if wanted in one.full_name.lower()
    ]
    return sliced(found, page.limit, offset, _item)


def _item(one: Repository) -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.full_name.rpartition("/")[2],
        "full_name": one.full_name,
        "private": one.private,
        "archived": one.archived,
        "default_branch": one.default_branch,
        "can_push": one.can_push,
    }
