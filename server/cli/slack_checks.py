"""What the doctor asks Slack: whether the tokens of each connection work, and what the bot may do."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from loops.connections.slack import SCOPES, api_of, identify, missing_scopes, open_socket
from loops.errors import ExternalError
from server.cli.checks import Check

SECONDS = 5.0


class Tokens(NamedTuple):
    """A Slack connection with its secrets opened."""

    name: str
    config: Mapping[str, Any]
    secrets: Mapping[str, Any]


def slack_checks(found: Sequence[Tokens]) -> Iterator[Check]:
    """The checks of every connection; all are asked at once, each for five seconds at most."""
    if found:
        yield from asyncio.run(_asked(found))


async def _asked(found: Sequence[Tokens]) -> list[Check]:
    asked = [_bot(one) for one in found if one.secrets.get("bot_token")]
    asked += [_socket(one) for one in found if one.secrets.get("app_token")]
    return await asyncio.gather(*asked)


async def _bot(one: Tokens) -> Check:
    name = f"slack {one.name}, bot token"
    try:
        identity = await identify(str(one.secrets["bot_token"]), api_of(one.config), seconds=SECONDS)
    except ExternalError as error:
        return Check(name, "failed", error.message, error.hint)
    missing = missing_scopes(identity.scopes)
    if missing:
        told = "; ".join(f"{scope}, to {SCOPES[scope]}" for scope in missing)
        mend = "what you need of them, add under OAuth & Permissions, then install the app anew: only that grants them"
        return Check(name, "warning", f"it lacks scopes: {told}", mend)
    return Check(name, "ok", f"it is {identity.user_id} in {identity.workspace_url}, with every scope")


async def _socket(one: Tokens) -> Check:
    name = f"slack {one.name}, app token"
    try:
        await open_socket(str(one.secrets["app_token"]), api_of(one.config), seconds=SECONDS)
    except ExternalError as error:
        return Check(name, "failed", error.message, error.hint)
    return Check(name, "ok", "Socket Mode can be opened with it")
