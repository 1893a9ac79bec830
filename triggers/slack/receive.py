"""Slack over HTTP: verified as bytes, then read; and what a verified socket brings, read the same."""

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from loops.errors import PayloadMalformed
from loops.event import Delivery, Event
from triggers.slack.event import subject_key, to_event, topic
from triggers.slack.ignored import ignored_reason
from triggers.slack.payload import Object, decode, text
from triggers.slack.signature import verify
from triggers.source import Arrival, Ignored, Incoming

_MOST_KEY = 200
_MOST_NAME = 100
_CHECK = "Slack checked this address's certificate"


class SlackSource:
    """Deliveries of the Events API, commands and interactions of one app."""

    name = "slack"
    # Slack's longest messages with all their blocks stay far below.
    limit = 4 * 1024 * 1024
    kept_headers: tuple[str, ...] = ("content-type", "user-agent", "x-slack-retry-num", "x-slack-retry-reason")

    def __init__(self, seconds: Callable[[], float] = time.time) -> None:
        """`seconds` gives the time since 1970, against which a signature's is held."""
        self._seconds = seconds

    def receive(self, incoming: Incoming, secrets: Mapping[str, str]) -> Arrival:
        """Verify with `signing_secret`, then read. The signature comes first: strangers learn nothing else.

        Except the check of the certificate, which Slack may send unsigned: it is answered and leaves nothing behind.
        """
        if _is_certificate_check(incoming):
            return Arrival("ssl_check", "ssl_check", None, None, _CHECK, verified=False, kept=False)
        get = incoming.headers.get
        verify(
            get("x-slack-signature"),
            get("x-slack-request-timestamp"),
            incoming.body,
            secrets.get("signing_secret", ""),
            self._seconds(),
        )
        return self.read(incoming)

    def read(self, incoming: Incoming) -> Arrival:
        """Read what is known to come from Slack. Raises PayloadMalformed for what Slack never sends."""
        payload = decode(incoming.headers, incoming.body)
        name = _name(payload)
        ignored = ignored_reason(payload)
        return Arrival(
            _key(payload, name, incoming.body),
            name[:_MOST_NAME],
            subject_key(payload) if ignored is None else None,
            payload,
            ignored,
            topics=(topic(payload),),
            told=_told(payload, ignored),
        )

    def parse(self, delivery: Delivery, parsed: object, settings: Mapping[str, Any]) -> list[Event] | Ignored:
        """One event, or why there is none."""
        payload = parsed if isinstance(parsed, dict) else decode(delivery.headers, delivery.body)
        reason = ignored_reason(payload)
        return [to_event(delivery, payload, settings)] if reason is None else Ignored(reason)


def _is_certificate_check(incoming: Incoming) -> bool:
    """Only what holds nothing else: a command or an interaction has to be signed."""
    if "x-www-form-urlencoded" not in incoming.headers.get("content-type", "").lower():
        return False
    fields = incoming.body.split(b"&")
    return b"ssl_check=1" in fields and not any(one.startswith((b"payload=", b"command=")) for one in fields)


def _name(payload: Object) -> str:
    """What Slack calls it: an event by its own type. Raises PayloadMalformed where nothing says what it is."""
    outer = text(payload, "type")
    if outer == "event_callback":
        event = payload.get("event")
        if not isinstance(event, dict):
            raise _refused("event", "is missing, or no object", "Slack sends one with every event_callback")
        name = text(event, "type")
        if name is None:
            raise _refused("event.type", "is missing, or no text", "Slack names the type of every event")
        return name
    if outer is not None:
        return outer
    if text(payload, "command"):
        return "slash_command"
    if text(payload, "ssl_check"):
        return "ssl_check"
    raise _refused("type", "is missing, or no text", "Slack names the type of everything but a command")


def _refused(path: str, fault: str, hint: str) -> PayloadMalformed:
    return PayloadMalformed(f"{path} {fault}", path=path, hint=hint)


def _key(payload: Object, name: str, body: bytes) -> str:
    """Slack's id of an event, the same at every try. What has none, or one that nobody could show, is known by its
    bytes, which are the same too."""
    key = text(payload, "event_id")
    if key is None or len(key) > _MOST_KEY or text(payload, "type") != "event_callback":
        return f"{name[:_MOST_NAME]}:{hashlib.sha256(body).hexdigest()[:32]}"
    return key


def _told(payload: Object, ignored: str | None) -> Mapping[str, str]:
    """What Slack wants to read in the answer: the challenge that it sent, or words for who typed a command."""
    if text(payload, "type") == "url_verification":
        challenge = text(payload, "challenge")
        if challenge is None:
            raise _refused("challenge", "is missing, or no text", "Slack sends it with url_verification")
        return {"challenge": challenge}
    if ignored is not None and text(payload, "type") is None and text(payload, "command"):
        return {"response_type": "ephemeral", "text": ignored}
    return {}
