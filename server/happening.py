"""What happened, in words, where the name of an event alone says nothing: `issues opened #42`, `push main`."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa
import zstandard

from loops.store import deliveries
from loops.store.deliveries import Brief

MOST_BYTES = 200_000
"""Bodies above are not read for a word: a list may hold many of them."""

_EVENTS = {
    "$github_event_received": "GitHub",
    "$slack_message_received": "Slack message",
    "$scheduled": "its schedule",
}
_LONGEST = 80
_SEVERAL = "posthog"


class _Inner(msgspec.Struct):
    type: str | None = None
    channel: str | None = None


class _Head(msgspec.Struct):
    """What is looked at of a body; the rest is passed over."""

    action: str | None = None
    event: _Inner | None = None


def happenings(connection: sa.Connection, delivery_ids: Iterable[str]) -> dict[str, str]:
    """What each of these deliveries tells of; those that are no longer kept are left out."""
    return {one.id: happening(one) for one in deliveries.briefs(connection, sorted(set(delivery_ids)), MOST_BYTES)}


def run_happening(run: Mapping[str, Any], told: Mapping[str, str]) -> str:
    """What started a run: what its delivery tells of, else the event's name, in words where it has some. A delivery of
    PostHog's may bring many events, so there a run is called by its own."""
    name = str(run["event_name"])
    if run.get("source") == _SEVERAL:
        return _brief(name)
    return told.get(run["delivery_id"] or "") or _EVENTS.get(name, name)


def happening(brief: Brief) -> str:
    """What a delivery tells of, as far as its name, its subject and the beginning of its body say."""
    head = _head(brief.body)
    if brief.source == "slack" and head.event is not None and head.event.type:
        place = f" in {head.event.channel}" if head.event.channel else ""
        return _brief(f"{head.event.type}{place}")
    words = [brief.name, head.action if brief.source == "github" else None, _subject(brief.subject)]
    return _brief(" ".join(word for word in words if word))


def _subject(subject: str | None) -> str:
    """`#42` of `77#42`, `main` of `77@refs/heads/main`: what of a GitHub repository it is about."""
    if subject is None:
        return ""
    _place, number, topic = subject.partition("#")
    if number and topic.isdigit():
        return f"#{topic}"
    ref = subject.partition("@")[2]
    return ref.removeprefix("refs/heads/").removeprefix("refs/tags/")


def _head(body: bytes | None) -> _Head:
    if body is None:
        return _Head()
    try:
        return msgspec.json.decode(deliveries.expand(body), type=_Head)
    except (msgspec.DecodeError, zstandard.ZstdError, UnicodeDecodeError, RecursionError):
        return _Head()  # what cannot be read has its name all the same


def _brief(words: str) -> str:
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
