"""/integrations/{id}/channels: where a Slack app could post, and whether it is there."""

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from loops.connections.slack_channels import Channel
from server.api.call import Call, offset_of, sliced


async def listing(call: Call) -> web.Response:
    """Slack's channels as the app sees them, by name, archived ones left out; a list is good for a minute. `is_member`
    is false where the app has to be invited before it hears anything, `takes_posts` where it has to be to post.
    `search` is a part of the name, or an id; `next` is the `offset` to go on with."""
    given = call.query("limit", "offset", "search")
    page, offset = call.page(given, 1), offset_of(given)
    workspace = await call.services.slack.of(call.project, call.number("id"))
    found = _matching(await workspace.channels(), given.get("search", ""))
    return sliced(found, page.limit, offset, channel_item)


def _matching(channels: Sequence[Channel], search: str) -> list[Channel]:
    wanted = search.strip().removeprefix("#").lower()
    return [one for one in channels if wanted in one.name or wanted == one.id.lower()]


def channel_item(one: Channel) -> dict[str, Any]:
    """A channel as it is listed."""
    return {
        "id": one.id,
        "name": one.name,
        "is_private": one.is_private,
        "is_member": one.is_member,
        "is_ext_shared": one.is_shared,
        "takes_posts": one.takes_posts,
    }
