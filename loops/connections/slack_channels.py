"""The channels of a Slack workspace: what they are called, and whether the app is in them.

Slack lets nobody ask often, so what it told is kept for a while.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from loops.connections.book import ConnectionBook, OpenConnection
from loops.connections.slack import SECONDS, SLACK_API, SlackClient, api_of, refused, slack_client
from loops.connections.slack_answer import Answer
from loops.connections.sparing import REFUSED_SECONDS, Sparing
from loops.errors import Conflict, ExternalError

LISTED_SECONDS = 60.0
"""For how long a list is good."""
MEMBER_SECONDS = 600.0
"""For how long it is good that the app is in a channel; that it is not is asked anew by whoever posts there."""

_LOOK_SECONDS = 5.0
_PATIENCE = 20.0
_PAGE = 999
_MOST_PAGES = 50
_TYPES = "public_channel,private_channel"
_NAMELESS = "its-name"
_POST_ANYWHERE = "chat:write.public"
_SHORT_WAIT = 1.0
_NOT_FOUND = "channel_not_found"


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as the app sees it. `takes_posts` where the app is in it, or needs not to be."""

    id: str
    name: str
    is_private: bool = False
    is_member: bool = False
    is_shared: bool = False
    is_archived: bool = False
    takes_posts: bool = False

    @property
    def called(self) -> str:
        """How people know it."""
        return f"#{self.name} ({self.id})" if self.name else self.id


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why nothing can be posted to a channel: Slack's word for it, the channel as people know it, and what the app is
    invited by."""

    code: str
    channel: str
    app: str


class SlackWorkspace:
    """What one bot token sees. `seconds` is the limit of one call."""

    def __init__(
        self,
        token: str,
        base_url: str = SLACK_API,
        *,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._token = token
        self._base_url = base_url
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self._asking = asyncio.Lock()
        self._listed: tuple[Channel, ...] | None = None
        self._listed_at = 0.0
        self._refused: ExternalError | None = None
        self._refused_until = 0.0
        self._sparing: Sparing[Obstacle] = Sparing(clock)
        self._open_until: dict[str, float] = {}
        self._name = ""

    async def channels(self) -> tuple[Channel, ...]:
        """Every channel that the app may see, archived ones left out, by name; private ones only with the scope for
        them. Raises ExternalError, its hint says what mends it; Slack is not asked again within a minute of that."""
        async with self._asking:
            now = self._clock()
            if self._listed is not None and now - self._listed_at < LISTED_SECONDS:
                return self._listed
            if self._refused is not None and now < self._refused_until:
                raise self._refused.with_traceback(None)
            try:
                self._listed, self._listed_at = await self._list(), self._clock()
            except ExternalError as error:
                wait = REFUSED_SECONDS if error.retry_after is None else error.retry_after
                if error.retry_after is not None:
                    error.hint = f"ask again in {wait:.0f} seconds"
                self._refused, self._refused_until = error, self._clock() + wait
                raise
            return self._listed

    async def likely_obstacle(self, channel: str) -> Obstacle | None:
        """The same for whoever only wants to know, also of a #name: above so many looks a minute, what was found within
        the last one is all that is known. So nobody uses up what posting needs, and who mended it sees so at once."""
        if self._open_until.get(channel, 0.0) > self._clock():
            return None
        if _is_id(channel) and not self._sparing.take():
            return self._sparing.refused(channel)
        found = await self.obstacle(channel, by_name=True)
        if found is not None:
            self._sparing.refuse(channel, found)
        return found

    async def obstacle(self, channel: str, *, by_name: bool = False) -> Obstacle | None:
        """Why a post to this channel would be refused, as far as Slack tells before; None when nothing speaks against
        it, or when Slack does not tell (no scope to look, not reached). One that is given as #name is looked for only
        `by_name`, since that means reading the whole list."""
        if self._open_until.get(channel, 0.0) > self._clock():
            return None
        if _is_id(channel):
            found = await self._look(channel)
        else:
            found = await self._named(channel) if by_name and channel.startswith("#") else None
        if found is None:
            return None
        if isinstance(found, str):
            return Obstacle(found, channel, await self.app_name())
        if found.is_archived or not found.takes_posts:
            code = "is_archived" if found.is_archived else "not_in_channel"
            return Obstacle(code, found.called, await self.app_name())
        self._open_until[channel] = self._clock() + MEMBER_SECONDS
        self._sparing.forget(channel)
        return None

    def forget(self, channel: str) -> None:
        """What was known of a channel has turned out to be wrong."""
        self._open_until.pop(channel, None)

    async def app_name(self) -> str:
        """What the app is invited by; a word that stands for it where Slack does not tell."""
        if not self._name:
            with suppress(ExternalError):
                async with slack_client(self._token, self._base_url, seconds=self._brief) as client:
                    self._name = (await client.call("auth.test")).text("user")
        return self._name or _NAMELESS

    @property
    def _brief(self) -> float:
        return min(self._seconds, _LOOK_SECONDS)

    async def _look(self, channel: str) -> Channel | str | None:
        """A channel by its id; Slack's word where there is none that the app sees, None where Slack does not tell."""
        try:
            async with slack_client(self._token, self._base_url, seconds=self._brief) as client:
                answer = await client.call("conversations.info", {"channel": channel}, form="query")
        except ExternalError:
            return None
        if not answer.ok:
            return _NOT_FOUND if answer.code == _NOT_FOUND else None
        return _seen(answer)

    async def _named(self, channel: str) -> Channel | str | None:
        try:
            listed = await self.channels()
        except ExternalError:
            return None
        wanted = channel.removeprefix("#").lower()
        return next((one for one in listed if one.name == wanted), _NOT_FOUND)

    async def _list(self) -> tuple[Channel, ...]:
        until = self._clock() + _PATIENCE
        async with slack_client(self._token, self._base_url, seconds=self._seconds) as client:
            try:
                found = await self._pages(client, _TYPES, until)
            except _LacksPrivateError:
                found = await self._pages(client, "public_channel", until)
        return tuple(sorted(found, key=lambda one: (one.name, one.id)))

    async def _pages(self, client: SlackClient, types: str, until: float) -> list[Channel]:
        asked: dict[str, Any] = {"types": types, "limit": _PAGE, "exclude_archived": True}
        found: list[Channel] = []
        for _page in range(_MOST_PAGES):
            answer = await self._patiently(client, asked, until)
            if answer.code == "missing_scope" and "groups:read" in answer.needed and "private" in types:
                raise _LacksPrivateError
            if not answer.ok:
                raise refused("conversations.list", answer)
            listed = answer.body.get("channels")
            found += [_channel(one, answer) for one in listed or [] if isinstance(one, Mapping)]
            details = answer.body.get("response_metadata")
            cursor = details.get("next_cursor") if isinstance(details, Mapping) else None
            if not cursor:
                break
            asked["cursor"] = cursor
        return found

    async def _patiently(self, client: SlackClient, asked: Mapping[str, Any], until: float) -> Answer:
        """One page; a wait that Slack asks for is kept, unless it would be too long."""
        while True:
            answer = await client.call("conversations.list", asked, form="query")
            wait = _SHORT_WAIT if answer.retry_after is None else answer.retry_after
            if not answer.is_limited or self._clock() + wait > until:
                return answer
            await self._sleep(wait)


class _LacksPrivateError(Exception):
    """The token may not see private channels."""


class SlackWorkspaces:
    """The workspaces of the stored connections, seen anew when those change."""

    def __init__(self, book: ConnectionBook) -> None:
        self._book = book
        self._made: dict[int, tuple[OpenConnection, SlackWorkspace]] = {}

    async def of(self, project_id: str, connection_id: int) -> SlackWorkspace:
        """The workspace of a Slack connection. Raises NotFound, or Conflict where it has no bot_token."""
        opened = await self._book.of_project(project_id, connection_id, "slack")
        token = opened.secrets.get("bot_token")
        if not token:
            mend = f"loops integrations update {opened.id} --set bot_token=…"
            raise Conflict(f"the Slack connection {opened.name!r} has no bot_token", hint=mend)
        known = self._made.get(opened.id)
        if known is not None and known[0] is opened:
            return known[1]
        workspace = SlackWorkspace(token, api_of(opened.config))
        self._made[opened.id] = (opened, workspace)
        return workspace


def _is_id(channel: str) -> bool:
    return channel[:1] in {"C", "G"} and channel.isalnum() and channel.isupper()


def _seen(answer: Answer) -> Channel | None:
    channel = answer.body.get("channel")
    return _channel(channel, answer) if isinstance(channel, Mapping) else None


def _channel(told: Mapping[str, Any], answer: Answer) -> Channel:
    is_private, is_direct = bool(told.get("is_private")), bool(told.get("is_im") or told.get("is_mpim"))
    # Only what Slack says stands in the way does: a word that is left out tells nothing.
    is_open = is_direct or told.get("is_member") is not False or (not is_private and _POST_ANYWHERE in answer.scopes)
    return Channel(
        id=str(told.get("id") or ""),
        name=str(told.get("name") or ""),
        is_private=is_private,
        is_member=told.get("is_member") is True,
        is_shared=bool(told.get("is_ext_shared")),
        is_archived=bool(told.get("is_archived")),
        takes_posts=is_open,
    )
