"""A message as it would be sent, for a person to look at before anything is. Nothing here sends or stores."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from loops.event import JsonValue
from loops.ports import Posted, Preview
from notify.message import EmailTarget, Message, SlackTarget, Unconnected
from notify.slack_blocks import parts

ID = "mocked"


def previewed(message: Message, missing: Unconnected | None) -> Preview:
    """What sending it would come to where every service takes it; `missing` is why it could not leave."""
    told, refs = _told(message)
    if missing is None:
        return Preview(Posted(ID, "sent", rests=True, refs=refs), told)
    status = "shown" if missing.alone else "refused"
    return Preview(Posted(ID, status, rests=True, code="no_connection", reason=missing.reason, mend=missing.mend), told)


def _told(message: Message) -> tuple[Mapping[str, JsonValue], tuple[str, ...]]:
    """What would be sent, and what the service would call its parts."""
    target = message.target
    match target:
        case SlackTarget():
            posts = [{"text": part.text, "blocks": [*part.blocks], "cut": part.kept or None} for part in parts(message)]
            told: dict[str, Any] = {
                "kind": target.kind,
                "connection": target.connection_id,
                "channel": target.channel,
                "thread_ts": target.thread or None,
                "username": target.username or None,
                "icon_emoji": target.icon_emoji or None,
                "text": message.text,
                "parts": posts,
            }
            return told, tuple(f"1000000000.{number:06d}" for number in range(1, len(posts) + 1))
        case EmailTarget():
            told = {
                "kind": target.kind,
                "connection": target.connection_id,
                "from": None if target.sender is None else asdict(target.sender),
                "to": [asdict(one) for one in target.to],
                "subject": message.subject,
                "text": message.text,
                "html": message.html,
            }
            return told, (f"<{ID}@loops>",)
    return {"kind": target.kind, "text": message.text}, ()
