"""What is asked of Slack about a connection: whether its tokens work, whether the bot may do what the loops that are
active need of it, and whether the app is in the channels that they post to."""

import asyncio
from collections.abc import Iterable, Sequence

from loops.connections.book import OpenConnection
from loops.connections.slack import SCOPES, SlackIdentity, api_of, identify, missing_scopes, open_socket
from loops.connections.slack_answer import CHANNEL_WORDS
from loops.connections.slack_channels import SlackWorkspace
from loops.connections.uses import SlackUse
from loops.errors import ExternalError
from server.checks.check import Check, State

SECONDS = 5.0
MOST_CHANNELS = 40
"""Slack lets about fifty be looked at a minute."""

_INSTALL = "add it under OAuth & Permissions, then install the app anew: only that grants it"
_OPTIONAL = "what you need of them, add under OAuth & Permissions, then install the app anew: only that grants them"
_SPARED = frozenset({"chat:write.customize", "reactions:write"})
"""Without these a message is posted all the same, in a plainer form, or without eyes on what it answers."""


async def slack_checks(one: OpenConnection, uses: Sequence[SlackUse]) -> list[Check]:
    """The checks of a connection, of which each takes some seconds at most; none where it has no token to ask with."""
    asked = []
    if one.secrets.get("bot_token"):
        asked += [_bot(one, uses), _channels(one, uses)]
    if one.secrets.get("app_token"):
        asked.append(_socket(one))
    return [check for checks in await asyncio.gather(*asked) for check in checks]


async def _bot(one: OpenConnection, uses: Sequence[SlackUse]) -> list[Check]:
    name = f"slack {one.name}, bot token"
    try:
        identity = await identify(one.secrets["bot_token"], api_of(one.config), seconds=SECONDS)
    except ExternalError as error:
        return [Check(name, "failed", error.message, error.hint)]
    lacking = list(_lacking(identity.scopes, uses))
    if lacking:
        provided = ",".join(sorted(identity.scopes)) or "none"
        state: State = "warning" if all(scope in _SPARED for scope, _told in lacking) else "failed"
        told = "; ".join(told for _scope, told in lacking)
        return [Check(name, state, f"it lacks {told}; provided: {provided}", _INSTALL)]
    return [_unneeded(name, identity)]


def _unneeded(name: str, identity: SlackIdentity) -> Check:
    missing = missing_scopes(identity.scopes)
    if missing:
        told = "; ".join(f"{scope}, to {SCOPES[scope]}" for scope in missing)
        return Check(name, "warning", f"it lacks scopes: {told}", _OPTIONAL)
    return Check(name, "ok", f"it is {identity.user_id} in {identity.workspace_url}, with every scope")


def _lacking(granted: frozenset[str], uses: Iterable[SlackUse]) -> Iterable[tuple[str, str]]:
    """Each scope that a loop needs and the bot lacks, once, and what is said of it."""
    said: set[str] = set()
    for use in uses:
        if use.any_of and use.scopes & granted:
            continue
        missing = sorted(use.scopes - granted)
        for scope in missing[:1] if use.any_of else missing:
            if scope not in said:
                said.add(scope)
                yield scope, f"{scope}, which {use.loop!r} needs to {SCOPES[scope]}"


async def _channels(one: OpenConnection, uses: Sequence[SlackUse]) -> list[Check]:
    name = f"slack {one.name}, channels"
    loops: dict[str, str] = {}
    for use in uses:
        if use.channel:
            loops.setdefault(use.channel, use.loop)
    workspace = SlackWorkspace(one.secrets["bot_token"], api_of(one.config), seconds=SECONDS)
    looked_at = list(loops)[:MOST_CHANNELS]
    found = await asyncio.gather(*(workspace.obstacle(channel, by_name=True) for channel in looked_at))
    checks = []
    for channel, obstacle in zip(looked_at, found, strict=True):
        if obstacle is not None:
            reason, mend = (words.format(channel=obstacle.channel, app=obstacle.app)
                            for words in CHANNEL_WORDS[obstacle.code])  # fmt: skip
            checks.append(Check(name, "failed", f"{reason}, where {loops[channel]!r} posts", mend))
    if looked_at and not checks:
        more = f"; {len(loops) - len(looked_at)} more were not looked at" if len(loops) > len(looked_at) else ""
        checks.append(Check(name, "ok", f"nothing speaks against posting to {', '.join(looked_at)}{more}"))
    return checks


async def _socket(one: OpenConnection) -> list[Check]:
    name = f"slack {one.name}, app token"
    try:
        await open_socket(one.secrets["app_token"], api_of(one.config), seconds=SECONDS)
    except ExternalError as error:
        return [Check(name, "failed", error.message, error.hint)]
    return [Check(name, "ok", "Socket Mode can be opened with it")]
