"""A GitHub delivery as a `$github_event_received` event."""

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from loops.event import Delivery, Event, JsonValue
from loops.storable import key_text, storable_text
from triggers.github.kinds import is_push
from triggers.github.payload import Account, Decoded, Payload, Subject
from triggers.json_body import whole
from triggers.properties import LazyProperties
from triggers.source import Topic

EVENT_NAME = "$github_event_received"

MOST_BYTES = 900_000
"""Of an event's properties as JSON; above, `github_event` says only that it was truncated."""

_NAMESPACE = uuid.UUID("2c9f5d71-8e4a-4b6d-9f13-7a5e0c2b8d64").bytes
_INSIDERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
_VISIBILITY: Mapping[bool | None, str | None] = {True: "private", False: "public", None: None}
_NOBODY = Account()
_NOTHING = Subject()


def to_event(delivery: Delivery, decoded: Decoded, settings: Mapping[str, Any]) -> Event:
    """Build the event; never raises, whatever the payload lacks. `settings` may hold the connection's `app_slug`."""
    payload = decoded.payload
    subject = _subject(payload)
    flat = _flat(delivery, payload, subject, str(settings.get("app_slug") or ""))
    for key, value in flat.items():
        if type(value) is str and "\0" in value:
            flat[key] = storable_text(value)
    return Event(
        uuid=event_uuid(delivery.project_id, delivery.connection_id, delivery.key),
        name=EVENT_NAME,
        source=delivery.source,
        distinct_id=storable_text(_actor(payload)),
        timestamp=delivery.received_at,
        properties=LazyProperties(flat, "github_event", lambda: _github_event(delivery.name, decoded.body, flat)),
        subject=subject_key(payload),
        claim=_claim(delivery, payload, subject),
        url=storable_text(subject.html_url) if subject.html_url else None,
        verified=delivery.verified,
    )


def topic(event_type: str, payload: Payload) -> Topic:
    """Where the event will stand in the index."""
    repository = payload.repository
    return Topic(EVENT_NAME, _repository_name(payload), event_type, None, repository.id if repository else None)


def _repository_name(payload: Payload) -> str | None:
    repository = payload.repository
    return storable_text(repository.full_name.lower()) if repository and repository.full_name else None


def event_uuid(project_id: str, connection_id: int, delivery_key: str) -> str:
    """The event's id, the same at every redelivery.

    The connection is part of it, since a delivery's id is only as good as the secret that it came with: whoever knows
    one connection's secret must not be able to take the id of another's event.
    """
    # As str(uuid.uuid5(...)), in a third of its time.
    name = f"{project_id}:{connection_id}:{delivery_key}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha1(_NAMESPACE + name, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def subject_key(payload: Payload) -> str | None:
    """What order is kept for: the issue, pull request or discussion, else the ref, else the repository."""
    repository = payload.repository
    if repository is None or (repository.id is None and repository.full_name is None):
        return None
    place = repository.id if repository.id is not None else (repository.full_name or "").lower()
    topic = _topic(payload)
    if topic.number is not None:
        return key_text(f"{place}#{topic.number}")
    return key_text(f"{place}@{payload.ref}" if payload.ref else f"{place}")


def actor_access(event_type: str, payload: Payload, sender: Account, subject: Subject) -> tuple[str, str]:
    """ "write" or "read", as far as the payload alone tells what the person who acted may do, and what it goes by.

    Only who may write can push, and the body tells that it is a push: the header is not signed. Otherwise
    `author_association` speaks of the subject's author, so it counts when that is who acted.
    """
    if is_push(event_type, payload):
        return "write", "only who may write can push"
    author, association = subject.user or subject.author, subject.author_association
    if author is None or author.login is None or author.login != sender.login:
        return "read", "by the delivery alone: the sender is not known to be the author of the subject"
    access = "write" if association in _INSIDERS else "read"
    return access, f"by the delivery alone: author_association of the sender is {association or 'not told'}"


def _flat(delivery: Delivery, payload: Payload, subject: Subject, app_slug: str) -> dict[str, JsonValue]:
    repository, sender, topic = payload.repository, payload.sender or _NOBODY, _topic(payload)
    event_type, is_bot = delivery.name, sender.type == "Bot"
    access, reason = actor_access(event_type, payload, sender, subject)
    return {
        "integration_id": delivery.connection_id,
        "event_type": event_type,
        "action": payload.action,
        "repository": _repository_name(payload),
        "repository_id": repository.id if repository else None,
        "repository_visibility": _VISIBILITY[repository.private] if repository else None,
        "sender": sender.login,
        "bot_sender": sender.login if is_bot else None,
        "own_app": bool(app_slug) and is_bot and sender.login == f"{app_slug}[bot]",
        "author_association": subject.author_association,
        "actor_access": access,
        "actor_access_reason": reason,
        "title": topic.name if topic.title is None else topic.title,
        "number": topic.number,
        "body": subject.body,
        "url": subject.html_url,
        "review_state": subject.state if event_type == "pull_request_review" else None,
        "ref": payload.ref or "",
        "branch": _branch(payload, subject),
        "installation_id": payload.installation.id if payload.installation else None,
    }


def _subject(payload: Payload) -> Subject:
    """What the event tells of: whose body, author and address it has."""
    return (
        payload.comment
        or payload.review
        or payload.pull_request
        or payload.issue
        or payload.discussion
        or payload.release
        or payload.workflow_run
        or payload.workflow_job
        or payload.check_suite
        or payload.check_run
        or _NOTHING
    )


def _topic(payload: Payload) -> Subject:
    """What it is filed under, and takes title and number from: never a comment or review."""
    return (
        payload.pull_request
        or payload.issue
        or payload.discussion
        or payload.release
        or payload.workflow_run
        or payload.workflow_job
        or payload.check_run
        or _NOTHING
    )


def _branch(payload: Payload, subject: Subject) -> str | None:
    if payload.ref:
        return payload.ref.removeprefix("refs/heads/")
    if payload.pull_request and payload.pull_request.head:
        return payload.pull_request.head.ref
    return subject.head_branch


def _actor(payload: Payload) -> str:
    if payload.sender and payload.sender.login:
        return payload.sender.login
    if payload.installation and payload.installation.id is not None:
        return f"installation:{payload.installation.id}"
    return "unknown"


def _claim(delivery: Delivery, payload: Payload, subject: Subject) -> str:
    """What makes two deliveries the same fact told twice, as `opened` and `labeled` of one new issue are."""
    if delivery.name == "push" and payload.ref and payload.after:
        # With `before`, a branch that returns to an earlier commit is told from a push that comes again.
        return key_text(f"github:{subject_key(payload)}:{payload.before}:{payload.after}")
    if subject.node_id and subject.updated_at is not None:
        # What is deleted keeps the time of its last change.
        gone = ":deleted" if payload.action == "deleted" else ""
        return key_text(f"github:{subject.node_id}:{subject.updated_at}{gone}")
    return f"github:{delivery.key}"


def _github_event(event_type: str, body: bytes, flat: dict[str, JsonValue]) -> JsonValue:
    event = whole(body)
    if event_type == "push" and isinstance(event, dict):
        commits = event.get("commits")
        event = {
            **event,
            "commits": [_only_id(commit) for commit in commits] if isinstance(commits, list) else commits,
            "head_commit": _only_id(event.get("head_commit")),
        }
    size = len(msgspec.json.encode({**flat, "github_event": event}))
    return event if size <= MOST_BYTES else {"truncated": True}


def _only_id(commit: JsonValue) -> JsonValue:
    return {"id": commit.get("id")} if isinstance(commit, dict) else None
