"""PostHog: verified where it can be, then read.

A delivery is either one event of a webhook destination or what an SDK captured; its name begins with which of the two.
"""

import secrets as random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from loops.errors import PayloadMalformed
from loops.event import Delivery, Event, JsonValue
from loops.storable import storable_text
from triggers.posthog.body import LIMIT, WEBHOOK_LIMIT, decode, unpack
from triggers.posthog.event import (
    SOURCE,
    Fact,
    from_capture,
    from_webhook,
    internal,
    internal_reason,
    is_migration,
    subject_of,
    to_events,
    topics_of,
)
from triggers.posthog.signature import ID, SIGNATURE, verify
from triggers.source import Arrival, Ignored, Incoming

WEBHOOK, CAPTURE = "webhook", "capture"
MIGRATION = "a historical migration tells of the past, so it starts nothing"
_NO_EVENTS = "the batch holds no events"
_LONGEST_KEY = 200
_SHOWN_NAMES = 3
_LONGEST_SHOWN = 200
# What unpacks to many times its size is not kept decoded in memory until it is dispatched.
_MOST_TIMES = 8


class PostHogSource:
    """Webhook destinations at a connection's hook, and captures by project API key."""

    name = SOURCE
    limit = WEBHOOK_LIMIT
    kept_headers: tuple[str, ...] = ("content-type", "content-encoding", "user-agent")

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """`now` is what the time in a signature is held against."""
        self._now = now

    def receive(self, incoming: Incoming, secrets: Mapping[str, str]) -> Arrival:
        """A webhook destination's delivery. A connection with a `webhook_secret` takes nothing that does not prove it;
        without one the delivery is taken and is not verified."""
        secret = secrets.get("webhook_secret", "")
        if secret:
            verify(incoming.headers, incoming.body, secret, self._now())
        fact = from_webhook(decode(unpack(incoming.body, WEBHOOK_LIMIT)))
        signed = bool(secret) and SIGNATURE in incoming.headers
        own_id = incoming.headers.get(ID, "").strip() if signed else ""
        key = _checked_key(own_id) if own_id else fact.uuid or random.token_hex(16)
        return _arrival(key, WEBHOOK, [fact], verified=bool(secret))

    def captured(self, body: JsonValue, raw_size: int, json_size: int) -> Arrival:
        """What an SDK captured, already decoded; never verified, as the key that it came with is public.

        `raw_size` and `json_size` in bytes, as it came and unpacked. Raises PayloadMalformed, naming the field.
        """
        facts = from_capture(body)
        arrival = _arrival(_batch_key(facts), CAPTURE, facts, verified=False)
        if is_migration(body):
            arrival = arrival._replace(ignored=MIGRATION)
        return arrival if json_size <= _MOST_TIMES * raw_size else arrival._replace(parsed=None)

    def parse(
        self,
        delivery: Delivery,
        parsed: object,
        settings: Mapping[str, Any],  # noqa: ARG002 - the connection changes nothing about its events
    ) -> list[Event] | Ignored:
        """Its events, or why there are none."""
        if isinstance(parsed, list):
            facts: list[Fact] = parsed
        else:
            body = decode(unpack(delivery.body, LIMIT))
            if is_migration(body) and not _is_webhook(delivery):
                return Ignored(MIGRATION)
            facts = [from_webhook(body)] if _is_webhook(delivery) else from_capture(body)
        reason = _ignored_reason(facts)
        return to_events(delivery, facts) if reason is None else Ignored(reason)


def _is_webhook(delivery: Delivery) -> bool:
    return delivery.name.partition(" ")[0] == WEBHOOK


def _arrival(key: str, way: str, facts: list[Fact], *, verified: bool) -> Arrival:
    return Arrival(
        key,
        _shown_name(way, facts),
        subject_of(facts),
        facts,
        _ignored_reason(facts),
        verified=verified,
        topics=topics_of(facts),
    )


def _shown_name(way: str, facts: list[Fact]) -> str:
    """As `capture $pageview, signed_up and 5 more`."""
    names = list(dict.fromkeys(fact.name for fact in facts))
    rest = len(names) - _SHOWN_NAMES
    shown = ", ".join(names[:_SHOWN_NAMES]) + (f" and {rest} more" if rest > 0 else "")
    return storable_text(f"{way} {shown}"[:_LONGEST_SHOWN])


def _ignored_reason(facts: list[Fact]) -> str | None:
    """Why the delivery starts nothing; None for one that may."""
    if not facts:
        return _NO_EVENTS
    if all(internal(fact.name) for fact in facts):
        return internal_reason(facts[0].name)
    return None


def _batch_key(facts: list[Fact]) -> str:
    """The same for a batch that an SDK sends again, by the ids of its events.

    Where one has none, nothing tells a repetition from a second batch that looks the same: it counts as another.
    """
    ids = [fact.uuid for fact in facts]
    if not ids or None in ids:
        own = random.token_hex(16)
    elif len(ids) == 1:
        own = str(ids[0])
    else:
        own = sha256("".join(map(str, ids)).encode()).hexdigest()
    # Apart from the keys of webhooks: what anybody may send must not make a verified delivery a duplicate.
    return f"{CAPTURE}:{own}"


def _checked_key(key: str) -> str:
    if len(key) > _LONGEST_KEY:
        message = f"the header {ID} is longer than {_LONGEST_KEY} characters"
        raise PayloadMalformed(message, path=ID, hint="send a shorter id, the same at every try")
    return storable_text(key)
