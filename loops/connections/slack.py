"""Calls of Slack's Web API with a connection's tokens, and what Slack says about those: whose they are, what they may
do, and where the socket is."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from loops.connections.slack_answer import SCOPE_MEND, TOKEN_MENDS, Answer
from loops.errors import ExternalError, Unreached

SLACK_API = "https://slack.com/api/"
SECONDS = 10.0
CONNECT_SECONDS = 5.0
# What goes wrong before anything was sent.
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

Form: TypeAlias = Literal["form", "json", "query"]
"""How arguments travel: as a form or JSON by POST, or in the address by GET. Not every method takes each."""

SCOPES: Mapping[str, str] = MappingProxyType(
    {
        "app_mentions:read": "hear of mentions of the app",
        "channels:history": "hear messages in public channels",
        "groups:history": "hear messages in private channels",
        "im:history": "hear direct messages to the app",
        "mpim:history": "hear messages in group conversations",
        "channels:read": "see names and membership of public channels",
        "groups:read": "see names and membership of private channels",
        "chat:write": "post messages",
        "chat:write.customize": "post under another name and icon",
        "im:write": "write to a person",
        "reactions:write": "mark the message that started a run",
        "users:read": "learn its own app id",
        "users:read.email": "find a person by email address",
    }
)
"""What each scope of the bot token is for."""

_SOCKET = "apps.connections.open"
_CONNECTIONS_WRITE = "an app_token needs the scope connections:write; make a new one with it"
_MENDS: Mapping[str, str] = MappingProxyType(
    {
        **TOKEN_MENDS,
        "missing_scope": SCOPE_MEND,
        "too_many_websockets": "Slack allows ten sockets an app: run fewer web processes",
        "ratelimited": "it is tried again later",
    }
)
_SOCKET_MENDS: Mapping[str, str] = MappingProxyType(
    {**_MENDS, "missing_scope": _CONNECTIONS_WRITE, "forbidden_scope": _CONNECTIONS_WRITE}
)


def api_of(config: Mapping[str, Any]) -> str:
    """Where the API is that a connection's tokens are for."""
    return str(config.get("api_base_url") or SLACK_API)


class SlackClient:
    """Calls with one token; see `slack_client`."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client

    async def call(self, method: str, asked: Mapping[str, Any] | None = None, *, form: Form = "form") -> Answer:
        """What Slack, or whatever stands in its place, answers. Raises Unreached where nothing does."""
        given = dict(asked or {})
        try:
            if form == "query":
                came = await self._client.api_call(method, http_verb="GET", params=given)
            elif form == "json":
                came = await self._client.api_call(method, json=given)
            else:
                came = await self._client.api_call(method, data=given)
        except SlackApiError as error:
            return _answer(error.response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            told = str(error) or type(error).__name__
            raise Unreached("Slack", method, told, sent=not isinstance(error, _NOT_SENT)) from error
        except (SlackClientError, AttributeError, ValueError):
            return Answer(200, {}, {})  # an answer with status 200 that is no JSON object
        return _answer(came)


def _answer(came: AsyncSlackResponse | aiohttp.ClientResponse) -> Answer:
    if isinstance(came, aiohttp.ClientResponse):  # whose body was no JSON
        return Answer(came.status, dict(came.headers), {})
    return Answer(came.status_code, dict(came.headers), came.data if isinstance(came.data, dict) else {})


@asynccontextmanager
async def slack_client(
    token: str, base_url: str = SLACK_API, *, seconds: float = SECONDS
) -> AsyncIterator[SlackClient]:
    """A client for as long as it is used; `seconds` is the limit of one call.

    No call is repeated by the library: its default is to send again after a lost connection, which may post twice.
    """
    timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(CONNECT_SECONDS, seconds))
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield SlackClient(AsyncWebClient(token, base_url, session=session, retry_handlers=[]))


@dataclass(frozen=True, slots=True)
class SlackIdentity:
    """Whose a bot token is. What Slack does not tell is empty; `scopes` are what the token may do."""

    team_id: str
    workspace_url: str
    user_id: str
    bot_id: str
    app_id: str
    scopes: frozenset[str]

    def settings(self) -> dict[str, str]:
        """What is kept with the connection: see the settings of the kind."""
        names = ("team_id", "workspace_url", "user_id", "bot_id", "app_id")
        return {name: value for name in names if (value := getattr(self, name))}


async def identify(bot_token: str, base_url: str, *, seconds: float = SECONDS) -> SlackIdentity:
    """Ask Slack whose the token is. Raises ExternalError, its hint says what mends it.

    The app's id is told only with the scope users:read; it is left empty without.
    """
    async with slack_client(bot_token, base_url, seconds=seconds) as client:
        told = await _told(client, "auth.test")
        bot_id = told.text("bot_id")
        return SlackIdentity(
            team_id=told.text("team_id"),
            workspace_url=told.text("url").rstrip("/"),
            user_id=told.text("user_id"),
            bot_id=bot_id,
            app_id=await _app_id(client, bot_id) if bot_id else "",
            scopes=told.scopes,
        )


async def _app_id(client: SlackClient, bot_id: str) -> str:
    try:
        told = await _told(client, "bots.info", {"bot": bot_id})
    except ExternalError:  # mostly for want of a scope; Slack names the app with each event as well
        return ""
    bot = told.body.get("bot")
    found = bot.get("app_id") if isinstance(bot, dict) else None
    return found if isinstance(found, str) else ""


async def open_socket(app_token: str, base_url: str, *, seconds: float = SECONDS) -> str:
    """The address of a new socket, good for one use. Raises ExternalError, its hint says what mends it."""
    async with slack_client(app_token, base_url, seconds=seconds) as client:
        url = (await _told(client, _SOCKET)).text("url")
    if not url.startswith(("ws://", "wss://")):
        raise ExternalError("Slack", f"{_SOCKET} gives no address of a socket", hint="check api_base_url")
    return url


def missing_scopes(granted: frozenset[str]) -> list[str]:
    """The scopes that the token lacks, in the order of SCOPES."""
    return [scope for scope in SCOPES if scope not in granted]


async def _told(client: SlackClient, method: str, asked: Mapping[str, str] | None = None) -> Answer:
    answer = await client.call(method, asked)
    if not answer.ok:
        raise refused(method, answer)
    return answer


def refused(method: str, answer: Answer) -> ExternalError:
    """The error that an answer which is not ok makes."""
    if not answer.code:
        message = f"what answers {method} is no API of Slack's: status {answer.status}"
        return ExternalError("Slack", message, status=answer.status, hint="check api_base_url")
    message = f"{method} is refused: {answer.code}"
    if answer.needed:
        message += f", needed {answer.needed}, provided {answer.provided}"
    mend = (_SOCKET_MENDS if method == _SOCKET else _MENDS).get(answer.code, "")
    hint = mend.format(needed=answer.needed or "that it lacks", provided=answer.provided)
    return ExternalError("Slack", message, status=answer.status, retry_after=answer.retry_after, hint=hint)
