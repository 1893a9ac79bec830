"""What Slack says about a connection's tokens: whose they are, what they may do, and where the socket is."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from loops.errors import ExternalError

SLACK_API = "https://slack.com/api/"
SECONDS = 10.0

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

_ANEW = "copy the present token from the app's settings; after a change of its scopes the app must be installed anew"
_MENDS: Mapping[str, str] = MappingProxyType(
    {
        "invalid_auth": _ANEW,
        "not_authed": _ANEW,
        "account_inactive": _ANEW,
        "token_revoked": _ANEW,
        "token_expired": _ANEW,
        "not_allowed_token_type": "bot_token begins with xoxb-, app_token with xapp-",
        "missing_scope": "an app_token needs the scope connections:write; make a new one with it",
        "forbidden_scope": "an app_token needs the scope connections:write; make a new one with it",
        "too_many_websockets": "Slack allows ten sockets an app: run fewer web processes",
        "ratelimited": "it is tried again later",
    }
)


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
    async with _client(bot_token, base_url, seconds) as client:
        told, headers = await _call(client, "auth.test")
        scopes = next((value for name, value in headers.items() if name.lower() == "x-oauth-scopes"), "")
        bot_id = _text(told, "bot_id")
        return SlackIdentity(
            team_id=_text(told, "team_id"),
            workspace_url=_text(told, "url").rstrip("/"),
            user_id=_text(told, "user_id"),
            bot_id=bot_id,
            app_id=await _app_id(client, bot_id) if bot_id else "",
            scopes=frozenset(scope for one in scopes.split(",") if (scope := one.strip())),
        )


async def _app_id(client: AsyncWebClient, bot_id: str) -> str:
    try:
        told, _ = await _call(client, "bots.info", {"bot": bot_id})
    except ExternalError:  # mostly for want of a scope; Slack names the app with each event as well
        return ""
    bot = told.get("bot")
    return _text(bot, "app_id") if isinstance(bot, dict) else ""


async def open_socket(app_token: str, base_url: str, *, seconds: float = SECONDS) -> str:
    """The address of a new socket, good for one use. Raises ExternalError, its hint says what mends it."""
    async with _client(app_token, base_url, seconds) as client:
        told, _ = await _call(client, "apps.connections.open", {})
    url = _text(told, "url")
    if not url.startswith(("ws://", "wss://")):
        raise ExternalError("Slack", "apps.connections.open gives no address of a socket", hint="check api_base_url")
    return url


def missing_scopes(granted: frozenset[str]) -> list[str]:
    """The scopes that the token lacks, in the order of SCOPES."""
    return [scope for scope in SCOPES if scope not in granted]


@asynccontextmanager
async def _client(token: str, base_url: str, seconds: float) -> AsyncIterator[AsyncWebClient]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session:
        yield AsyncWebClient(token, base_url, session=session, retry_handlers=[])


async def _call(
    client: AsyncWebClient, method: str, params: Mapping[str, str] | None = None
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    try:
        came = await client.api_call(method, data=dict(params or {}))
    except SlackApiError as error:
        raise _refused(method, error) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        told = str(error) or type(error).__name__
        raise ExternalError("Slack", f"cannot be reached for {method}: {told}", hint="check the network") from error
    except (SlackClientError, AttributeError, ValueError) as error:
        message = f"what answers {method} is no API of Slack's"
        raise ExternalError("Slack", message, hint="check api_base_url") from error
    return (came.data if isinstance(came.data, dict) else {}), dict(came.headers)


def _refused(method: str, error: SlackApiError) -> ExternalError:
    response = error.response
    told = getattr(response, "data", None)
    code = _text(told, "error") if isinstance(told, dict) else ""
    status = getattr(response, "status_code", None) or getattr(response, "status", None)
    if not code:
        message = f"what answers {method} is no API of Slack's: status {status}"
        return ExternalError("Slack", message, status=status, hint="check api_base_url")
    message = f"{method} is refused: {code}"
    if isinstance(told, dict) and told.get("needed"):
        message += f", needed {told['needed']}, provided {told.get('provided') or 'none'}"
    wait = next((value for name, value in response.headers.items() if name.lower() == "retry-after"), "")
    after = float(wait) if wait.isascii() and wait.isdigit() else None
    return ExternalError("Slack", message, status=status, retry_after=after, hint=_MENDS.get(code, ""))


def _text(told: Mapping[str, Any], key: str) -> str:
    found = told.get(key)
    return found if isinstance(found, str) else ""
