"""Who may speak to the task that has a thread: whoever started it, and whoever could have.

Filters say whom a loop listens to by any property, group or expression. So that no part of them has to be taken apart,
a reply is held against all of them as if its sender had written the message that started the task: with that message's
words and place, and the reply's sender. A filter that asks nothing of the sender lets everybody pass.
"""

from collections.abc import Mapping
from dataclasses import replace

from loops.event import Event, JsonValue
from loops.filters import Comparison, Filter

# Words and place of a message. All that is not listed counts as told of its sender.
_FLAT = ("text", "message_text", "ts", "thread_ts", "is_thread_reply", "files", "subtype")
_MESSAGE = "slack_event"
_OF_MESSAGE = frozenset(
    {
        *("type", "subtype", "text", "blocks", "attachments", "files", "upload", "display_as_bot", "metadata"),
        *(
            "ts",
            "event_ts",
            "thread_ts",
            "client_msg_id",
            "parent_user_id",
            "reply_count",
            "reply_users",
            "latest_reply",
        ),
        *("reply_users_count", "is_locked", "subscribed", "last_read", "root", "edited", "reactions", "permalink"),
        "truncated",
    }
)


def as_if_first(reply: Event, first: Event) -> Event:
    """The message that started a task, as if the sender of the reply had written it."""
    properties = dict(reply.properties)
    properties.update((key, first.properties.get(key)) for key in _FLAT)
    properties[_MESSAGE] = _message(reply.properties.get(_MESSAGE), first.properties.get(_MESSAGE))
    return replace(reply, timestamp=first.timestamp, url=first.url, properties=properties)


def _message(reply: JsonValue, first: JsonValue) -> JsonValue:
    told: Mapping[str, JsonValue] = reply if isinstance(reply, Mapping) else {}
    words: Mapping[str, JsonValue] = first if isinstance(first, Mapping) else {}
    return {
        **{key: value for key, value in told.items() if key not in _OF_MESSAGE},
        **{key: value for key, value in words.items() if key in _OF_MESSAGE},
    }


def would_start(wanted: Filter, reply: Event, first: Event) -> tuple[Comparison, ...]:
    """What was compared when a filter was asked whether the reply's sender could have started the task; all of it
    passed exactly when they could."""
    return wanted.explain(as_if_first(reply, first))
