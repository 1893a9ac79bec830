"""What Slack sends and no loop starts by, each with the reason that is recorded."""

from collections.abc import Mapping
from types import MappingProxyType

from triggers.slack.payload import Object, inner, text

MESSAGES = frozenset({"message", "app_mention"})
NEW_MESSAGES = frozenset({"bot_message", "file_share", "me_message", "thread_broadcast"})
"""Subtypes of what somebody has just posted; a message without a subtype is one too."""

NO_COMMANDS = "Loops has no slash commands: a loop starts by a message in its channel"
NO_INTERACTION = "nothing that Loops posts can be pressed or filled in yet"

_ENVELOPES: Mapping[str, str] = MappingProxyType(
    {
        "url_verification": "the challenge by which Slack checks this address: answered",
        "app_rate_limited": "Slack held events back: over 30,000 came in an hour, and those of this minute are lost",
    }
)
_INTERACTIONS = frozenset(
    {
        "block_actions",
        "block_suggestion",
        "dialog_cancellation",
        "dialog_submission",
        "dialog_suggestion",
        "interactive_message",
        "message_action",
        "shortcut",
        "view_closed",
        "view_submission",
        "workflow_step_edit",
    }
)
_SUBTYPES: Mapping[str, str] = MappingProxyType(
    {
        "message_changed": "an edit, an unfurled link or a change of the thread's counts is no new message",
        "message_deleted": "a message was deleted: that is no new message",
        "message_replied": "a thread got a reply: the reply itself arrives as a message",
        "channel_join": "somebody joined the channel: that is no message",
        "channel_leave": "somebody left the channel: that is no message",
        "group_join": "somebody joined the channel: that is no message",
        "group_leave": "somebody left the channel: that is no message",
    }
)
_EVENTS: Mapping[str, str] = MappingProxyType(
    {
        "channel_rename": "channels are known by their ids: a new name changes nothing",
        "group_rename": "channels are known by their ids: a new name changes nothing",
        "app_uninstalled": "the app was uninstalled from the workspace: install it anew to go on",
        "tokens_revoked": "tokens of the app were revoked: put a new bot_token into the connection",
    }
)


def ignored_reason(payload: Object) -> str | None:
    """Why a payload means no event; None for one that does. The payload is one that `kind` has a name for."""
    outer = text(payload, "type")
    if outer == "event_callback":
        return _of_event(inner(payload, "event"))
    if outer is None:
        return NO_COMMANDS if text(payload, "command") else "Slack checked this address's certificate"
    if outer in _INTERACTIONS:
        return NO_INTERACTION
    return _ENVELOPES.get(outer) or f"{_shown(outer)} is nothing that Loops listens to"


def _of_event(event: Object) -> str | None:
    name = text(event, "type") or ""
    if name not in MESSAGES:
        return _EVENTS.get(name) or f"{_shown(name)} starts nothing: only messages do"
    subtype = text(event, "subtype")
    if subtype is not None and subtype not in NEW_MESSAGES:
        return _SUBTYPES.get(subtype) or f"{_shown(subtype)} is no new message"
    if name == "app_mention" and inner(event, "edited"):
        return "an edit is no new message"
    return None


def _shown(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:79]}…"
