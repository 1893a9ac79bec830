"""GitHub webhooks: verified as bytes, then read."""

from collections.abc import Mapping
from typing import Any

from loops.errors import PayloadMalformed
from loops.event import Delivery, Event
from loops.storable import storable_text
from triggers.github.event import subject_key, to_event, topic
from triggers.github.ignored import ignored_reason
from triggers.github.kinds import foreign_field
from triggers.github.payload import Decoded, decode
from triggers.github.signature import verify
from triggers.json_body import from_form
from triggers.source import Arrival, Ignored, Incoming

_MOST_HEADER = 200
_SHOWN = {"x-github-event": "X-GitHub-Event", "x-github-delivery": "X-GitHub-Delivery"}
_CHANGES_RIGHTS = frozenset({"member", "membership", "organization", "repository", "team", "team_add"})


class GitHubSource:
    """Deliveries of a repository's, an organization's or an app's webhook, as JSON or as a form."""

    name = "github"
    # What GitHub itself sends at most.
    limit = 25 * 1024 * 1024
    # Event and delivery id have columns of their own.
    kept_headers: tuple[str, ...] = (
        "content-type",
        "user-agent",
        "x-github-hook-id",
        "x-github-hook-installation-target-id",
        "x-github-hook-installation-target-type",
    )

    def receive(self, incoming: Incoming, secrets: Mapping[str, str]) -> Arrival:
        """Verify with `webhook_secret`, then read. The signature comes first: strangers learn nothing else."""
        headers = incoming.headers
        verify(headers.get("x-hub-signature-256"), incoming.body, secrets.get("webhook_secret", ""))
        name = _required(headers, "x-github-event")
        key = _required(headers, "x-github-delivery")
        decoded = _decoded(headers, incoming.body)
        payload = decoded.payload
        foreign = foreign_field(name, payload)
        if foreign is not None:
            raise _other_event(name, foreign)
        ignored = ignored_reason(name, payload)
        topics, changes = (topic(name, payload),), name in _CHANGES_RIGHTS
        return Arrival(key, name, subject_key(payload), decoded, ignored, topics=topics, changes_rights=changes)

    def parse(self, delivery: Delivery, parsed: object, settings: Mapping[str, Any]) -> list[Event] | Ignored:
        """One event, or why there is none."""
        decoded = parsed if isinstance(parsed, Decoded) else _decoded(delivery.headers, delivery.body)
        reason = ignored_reason(delivery.name, decoded.payload)
        return [to_event(delivery, decoded, settings)] if reason is None else Ignored(reason)


def _decoded(headers: Mapping[str, str], body: bytes) -> Decoded:
    # JSON never begins with this, so a form is known also where its content type was lost.
    if body.startswith(b"payload=") or "x-www-form-urlencoded" in headers.get("content-type", "").lower():
        return decode(from_form(body, "payload"))
    return decode(body)


def _required(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name, "").strip()
    if value and len(value) <= _MOST_HEADER:
        return storable_text(value)
    raise _unfit(value, _SHOWN[name])


def _other_event(name: str, field: str) -> PayloadMalformed:
    message = f"the header X-GitHub-Event says {name}, and the body holds {field!r}, which that event never has"
    return PayloadMalformed(message, path="X-GitHub-Event", hint="send the name that GitHub sent with this body")


def _unfit(value: str, name: str) -> PayloadMalformed:
    if not value:
        hint = "GitHub sends it with every delivery; a proxy on the way must let it through"
        return PayloadMalformed(f"the header {name} is missing", path=name, hint=hint)
    message = f"the header {name} is longer than {_MOST_HEADER} characters"
    return PayloadMalformed(message, path=name, hint="GitHub's are far shorter: send what GitHub sends")
