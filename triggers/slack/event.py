"""A Slack delivery as a `$slack_message_received` event."""

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from loops.event import Delivery, Event, JsonValue
from loops.storable import key_text
from triggers.properties import LazyProperties
from triggers.slack.payload import Object, inner, items, text
from triggers.slack.words import message_text
from triggers.source import Topic

EVENT_NAME = "$slack_message_received"

MOST_BYTES = 900_000
"""Of an event's properties as JSON; above, `slack_event` says only that it was truncated."""

_NAMESPACE = uuid.UUID("6f1a4b3c-0d2e-4f6a-9b5c-8e7d1a2f3b4c")
_FILE = ("id", "name", "title", "mimetype", "filetype", "size", "is_external", "permalink")


def to_event(delivery: Delivery, payload: Object, settings: Mapping[str, Any]) -> Event:
    """Build the event; never raises, whatever the payload lacks.

    `settings` may hold what the connection's own app is known by: `app_id`, `bot_id`, `user_id`; and `workspace_url`.
    """
    message = inner(payload, "event")
    flat = _flat(delivery, payload, message, settings)
    author = text(message, "user") or flat["bot_id"] or flat["channel"] or flat["slack_team_id"]
    return Event(
        uuid=event_uuid(delivery.project_id, delivery.connection_id, delivery.key),
        name=EVENT_NAME,
        source=delivery.source,
        distinct_id=str(author or "unknown"),
        timestamp=delivery.received_at,
        properties=LazyProperties(flat, "slack_event", lambda: _slack_event(message, flat)),
        subject=subject_key(payload),
        claim=_claim(delivery, payload),
        url=_address(message, settings),
        verified=delivery.verified,
    )


def topic(payload: Object) -> Topic:
    """Where the event will stand in the index."""
    return Topic(EVENT_NAME, channel=text(inner(payload, "event"), "channel"))


def event_uuid(project_id: str, connection_id: int, delivery_key: str) -> str:
    """The event's id, the same at every redelivery. The connection is part of it: see GitHub's."""
    return str(uuid.uuid5(_NAMESPACE, f"{project_id}:{connection_id}:{delivery_key}"))


def team(payload: Object) -> str | None:
    """The workspace whose installation of the app hears this.

    Not that of the author, who may write from another through a shared channel; and of an organization's installation
    the workspace that the event comes from.
    """
    for authorization in items(payload, "authorizations"):
        found = text(authorization, "team_id")
        if found is not None:
            return found
    return text(payload, "team_id") or text(payload, "context_team_id") or text(payload, "enterprise_id")


def subject_key(payload: Object) -> str | None:
    """What order is kept for: the thread, of which every message of a channel may become the first."""
    message = inner(payload, "event")
    channel, thread = text(message, "channel"), text(message, "thread_ts") or text(message, "ts")
    if channel is None or thread is None:
        return None
    return key_text(f"slack:{team(payload)}:{channel}:{thread}")


def _claim(delivery: Delivery, payload: Object) -> str:
    """What makes two deliveries the same fact told twice, as `message` and `app_mention` of one post are."""
    message = inner(payload, "event")
    channel, ts = text(message, "channel"), text(message, "ts")
    if channel is None or ts is None:
        return f"slack:{delivery.key}"
    return key_text(f"slack:{team(payload)}:{channel}:{ts}")


def _flat(delivery: Delivery, payload: Object, message: Object, settings: Mapping[str, Any]) -> dict[str, JsonValue]:
    profile = inner(message, "bot_profile")
    ts, thread = text(message, "ts"), text(message, "thread_ts")
    bot_id, app_id = text(message, "bot_id") or text(profile, "id"), text(message, "app_id") or text(profile, "app_id")
    return {
        "integration_id": delivery.connection_id,
        "channel": text(message, "channel"),
        "channel_type": text(message, "channel_type"),
        "slack_team_id": team(payload),
        "user": text(message, "user"),
        "bot_id": bot_id,
        "app_id": app_id,
        "own_app": _is_own(payload, settings, app_id=app_id, bot_id=bot_id, user=text(message, "user")),
        "subtype": text(message, "subtype"),
        "text": _raw_text(message),
        "message_text": message_text(message),
        "ts": ts,
        "thread_ts": thread,
        "is_thread_reply": thread is not None and thread != ts,
        "is_ext_shared_channel": payload.get("is_ext_shared_channel") is True,
        "files": [_file(one) for one in items(message, "files") if isinstance(one, dict)],
    }


def _is_own(
    payload: Object, settings: Mapping[str, Any], *, app_id: str | None, bot_id: str | None, user: str | None
) -> bool:
    """Whether the connection's own app wrote it, by what was learned of it or by what Slack says with the event."""
    known = ((app_id, "app_id"), (bot_id, "bot_id"), (user, "user_id"))
    if any(found is not None and found == settings.get(name) for found, name in known):
        return True
    if app_id is not None and app_id == text(payload, "api_app_id"):
        return True
    bots = [one for one in items(payload, "authorizations") if isinstance(one, dict) and one.get("is_bot") is True]
    return user is not None and any(text(bot, "user_id") == user for bot in bots)


def _raw_text(message: Object) -> str | None:
    found = message.get("text")
    return found if isinstance(found, str) else None


def _file(file: Object) -> JsonValue:
    """What a file is, without its content: nothing is fetched."""
    return {key: value for key in _FILE if not isinstance(value := file.get(key), dict | list)}


def _address(message: Object, settings: Mapping[str, Any]) -> str | None:
    """The message's page; None where the workspace's address is not known."""
    workspace, channel, ts = settings.get("workspace_url"), text(message, "channel"), text(message, "ts")
    if not isinstance(workspace, str) or channel is None or ts is None:
        return None
    if not (channel.isascii() and channel.isalnum() and ts.replace(".", "").isdecimal() and ts.isascii()):
        return None
    return f"{workspace.rstrip('/')}/archives/{channel}/p{ts.replace('.', '')}"


def _slack_event(message: Object, flat: dict[str, JsonValue]) -> JsonValue:
    size = len(msgspec.json.encode({**flat, "slack_event": message}))
    return message if size <= MOST_BYTES else {"truncated": True}
