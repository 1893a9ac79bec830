"""Which thread a Slack event stands in, and who wrote in it: read from the event's properties, trusting nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from loops.event import JsonValue

SLACK_EVENT = "$slack_message_received"
LONGEST_ID = 100
_TS = re.compile(r"[0-9]{1,15}\.[0-9]{1,9}")
# Of what a person has just said; the others are a bot's.
_SPOKEN = frozenset({None, "file_share", "me_message", "thread_broadcast"})


@dataclass(frozen=True, slots=True)
class SlackContext:
    """Where a message stands. `thread_ts` is the first message of its thread, itself where it is one; what Slack does
    not tell is empty."""

    integration_id: int | None
    channel: str
    thread_ts: str
    message_ts: str
    user: str
    team_id: str
    is_ext_shared: bool


def slack_context(event: Mapping[str, JsonValue] | None) -> SlackContext | None:
    """The place of a Slack message; None for every other event, and where channel or ts are missing."""
    properties = (event or {}).get("properties")
    if event is None or event.get("event") != SLACK_EVENT or event.get("source", "slack") != "slack":
        return None
    if not isinstance(properties, Mapping):
        return None
    return context_of(properties)


def context_of(properties: Mapping[str, JsonValue]) -> SlackContext | None:
    """The same of the properties of a Slack message."""
    get = properties.get
    channel, ts = _text(get("channel")), _text(get("ts"))
    thread = _text(get("thread_ts")) or ts
    if not channel or not _TS.fullmatch(ts) or not _TS.fullmatch(thread):
        return None
    number = get("integration_id")
    return SlackContext(
        integration_id=number if isinstance(number, int) and not isinstance(number, bool) else None,
        channel=channel,
        thread_ts=thread,
        message_ts=ts,
        user=_text(get("user")),
        team_id=_text(get("slack_team_id")),
        is_ext_shared=get("is_ext_shared_channel") is True,
    )


def is_spoken(properties: Mapping[str, JsonValue]) -> bool:
    """Whether a person has just said it: no bot, no app, no edit."""
    get = properties.get
    by_machine = get("own_app") is True or get("bot_id") or get("app_id")
    return bool(_text(get("user"))) and not by_machine and get("subtype") in _SPOKEN


def is_external(properties: Mapping[str, JsonValue]) -> bool:
    """Whether who wrote it may be of another organisation: in a channel that is shared with one, whoever is not known
    to be of the workspace."""
    if properties.get("is_ext_shared_channel") is not True:
        return False
    message = properties.get("slack_event")
    told: Mapping[str, JsonValue] = message if isinstance(message, Mapping) else {}
    team = next((found for key in ("user_team", "source_team", "team") if (found := _text(told.get(key)))), "")
    return not team or team != properties.get("slack_team_id")


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) and len(value) <= LONGEST_ID else ""
