"""Every way in which Slack may tell an app of what it has posted itself."""

import itertools
from collections.abc import Mapping
from typing import Any

from tests.doubles.slack_socket import IDENTITY

APP = "A0LOOPS"
_numbers = itertools.count(1)
_OWN = {"user": IDENTITY["user_id"], "bot_id": IDENTITY["bot_id"], "app_id": APP, "team": IDENTITY["team_id"]}
_PROFILE = {"id": IDENTITY["bot_id"], "app_id": APP, "name": "Loops", "deleted": False}


def own_events(channel: str, message: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The events of a posted message by a name of each. Those whose name begins with `ignored` are no new messages."""
    kept = ("text", "blocks", "ts", "thread_ts", "username")
    said = {key: message[key] for key in kept if key in message} | {"channel": channel, "event_ts": message["ts"]}
    plain = {**said, **_OWN, "type": "message", "channel_type": "channel", "bot_profile": _PROFILE}
    mentioned = f"<@{IDENTITY['user_id']}> {said['text']}"
    changed = {
        "type": "message",
        "channel": channel,
        "ts": f"{message['ts']}1",
        "hidden": True,
        "channel_type": "channel",
    }
    events = {
        "message": plain,
        "the same under another id": plain,
        "by its bot alone": {**said, "type": "message", "subtype": "bot_message", "bot_id": IDENTITY["bot_id"]},
        "by its app alone": {**said, "type": "message", "bot_id": "B0OTHER", "app_id": APP},
        "by its profile alone": {**said, "type": "message", "bot_profile": _PROFILE},
        "by its user alone": {**said, "type": "message", "user": IDENTITY["user_id"]},
        "app_mention": {**said, **_OWN, "type": "app_mention", "text": mentioned},
        "sent to the channel as well": {**plain, "subtype": "thread_broadcast", "root": {"ts": message["ts"]}},
        "with a file": {**plain, "subtype": "file_share", "files": [{"id": "F1", "name": "report.txt"}]},
        "ignored: unfurled": {**changed, "subtype": "message_changed", "message": plain, "previous_message": plain},
        "ignored: its thread was answered": {**changed, "subtype": "message_replied", "message": plain},
        "ignored: deleted": {**changed, "subtype": "message_deleted", "previous_message": plain},
    }
    return {name: _envelope(event) for name, event in events.items()}


def _envelope(event: Mapping[str, Any]) -> dict[str, Any]:
    team, user = IDENTITY["team_id"], IDENTITY["user_id"]
    return {
        "type": "event_callback",
        "team_id": team,
        "api_app_id": APP,
        "event": event,
        "event_id": f"EvOWN{next(_numbers)}",
        "event_time": 1793610000,
        "authorizations": [{"enterprise_id": None, "team_id": team, "user_id": user, "is_bot": True}],
        "is_ext_shared_channel": False,
    }
