"""A GitHub delivery as a `$github_event_received` event."""

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from loops.event import Delivery, Event, JsonValue
from triggers.github.payload import Account, Decoded, Payload, Subject
from triggers.json_body import whole
from triggers.properties import LazyProperties
from triggers.storable import storable_text

EVENT_NAME = "$github_event_received"
MOST_BYTES = 900_000
"""Of an event's properties as JSON; above, `github_event` is only marked as truncated."""

_NAMESPACE = uuid.UUID("2c9f5d71-8e4a-4b6d-9f13-7a5e0c2b8d64").bytes
_INSIDERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
_VISIBILITY = {True: "private", False: "public", None: None}
_NOBODY = Account()
_NOTHING = Subject()


def to_event(delivery: Delivery, decoded: Decoded, settings: Mapping[str, Any]) -> Event:
    """Build the event; never raises, whatever the payload lacks. `settings` may hold the connection's `app_slug`."""
    payload = decoded.payload
    subject, topic = _subject(payload), _topic(payload)
    flat = _flat(delivery, payload, subject, topic, str(settings.get("app_slug") or ""))
    for key, value in flat.items():
        if type(value) is str and (not value.isascii() or "\0" in value):
            flat[key] = storable_text(value)
    sender = payload.sender or _NOBODY
    return Event(
        uuid=event_uuid(delivery),
        name=EVENT_NAME,
        source=delivery.source,
        distinct_id=storable_text(sender.login or _installation(payload)),
        timestamp=delivery.received_at,
        properties=LazyProperties(flat, "github_event", lambda: _github_event(delivery.name, decoded.body, flat)),
        subject=subject_key(payload),
        claim=_claim(delivery, payload, subject),
        url=_string(flat["url"]),
        verified=delivery.verified,
    )
