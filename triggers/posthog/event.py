"""What PostHog sends as events: a webhook destination's body is one, what an SDK captured is many."""

import math
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from loops.errors import PayloadMalformed
from loops.event import Delivery, Event, JsonValue, Person
from loops.storable import key_text, storable_text
from triggers.source import Topic

SOURCE = "posthog"
MOST_EVENTS = 5000
LONGEST_NAME = 400
UNNAMED = "$webhook_received"
"""The name of a webhook whose body, in a template of its own, names no event."""

_INTERNAL = ("$github_", "$slack_", "$workflow_")
_SCHEDULED = "$scheduled"
_NAMESPACE = uuid.UUID("8f0f7a50-6a3d-5c1a-9a1e-4e8f6f0f7c55")
_CHANGES = ("$set", "$set_once")
# What an event may be about, in the top level of a webhook's body.
_PARTS = ("event", "person", "groups", "properties")


class Fact(NamedTuple):
    """An event before it belongs to a delivery. `uuid` is None where its sender gave none."""

    name: str
    uuid: str | None
    distinct_id: str
    properties: dict[str, JsonValue]
    timestamp: datetime | None = None
    offset: timedelta | None = None
    url: str | None = None
    person: Person | None = None
    groups: Mapping[str, JsonValue] = {}


def internal(name: str) -> bool:
    """Whether only Loops itself makes events of this name."""
    return name == _SCHEDULED or name.startswith(_INTERNAL)


def internal_reason(name: str) -> str:
    """Why such an event starts nothing."""
    return f"{name[:80]} is an event that only Loops makes: nobody may send it"


# Webhooks


def from_webhook(body: JsonValue) -> Fact:
    """The event of a webhook destination. A body may be any object: what is not recognised becomes its properties.

    Raises PayloadMalformed, naming the field.
    """
    if not isinstance(body, dict):
        hint = 'PostHog\'s default is {"event": "{event}"}'
        raise PayloadMalformed("the body must be a JSON object", path="body", hint=hint)
    told = body.get("event")
    if told is not None and not isinstance(told, dict | str):
        raise _refused("event", "must be an object, or the name of an event", 'PostHog sends "{event}" there')
    event = told if isinstance(told, dict) else body
    # Before 2024 the name stood in event.name.
    name = told if isinstance(told, str) else event.get("event", event.get("name") if event is told else None)
    person = _person(body.get("person"))
    distinct_id = _distinct_id(event.get("distinct_id"), "event.distinct_id")
    properties = dict(_object(event["properties"], "event.properties")) if "properties" in event else _rest(body)
    if event.get("elements_chain"):  # where captures have it
        properties.setdefault("$elements_chain", event["elements_chain"])
    return Fact(
        name=_name(name, "event.event") if name is not None else UNNAMED,
        uuid=_uuid(event.get("uuid")),
        distinct_id=distinct_id or (key_text(person.id) if person else "") or "unknown",
        properties=properties,
        timestamp=_timestamp(event.get("timestamp")),
        url=_text(event.get("url")),
        person=person,
        groups=_groups(body.get("groups")),
    )


def _rest(body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A body in a template of its own: what lies in `event` beside everything else."""
    event = body.get("event")
    inner = event if isinstance(event, dict) else {}
    return {**{key: value for key, value in body.items() if key not in _PARTS}, **inner}


def _person(value: JsonValue) -> Person | None:
    if not isinstance(value, dict):
        return None
    found = value.get("id", value.get("uuid"))
    properties = value.get("properties")
    person_id = str(found) if isinstance(found, str | int) else ""
    name = _text(value.get("name")) or person_id
    return Person(person_id, name, properties if isinstance(properties, dict) else {})


def _groups(value: JsonValue) -> Mapping[str, JsonValue]:
    """Groups as PostHog's template variable `groups` gives them."""
    if not isinstance(value, dict):
        return {}
    return {kind: group for kind, group in value.items() if isinstance(group, dict)}


# Captures


def api_key(body: JsonValue) -> str | None:
    """The project API key in a captured body, None where there is none."""
    for holder in _holders(body):
        for name in ("api_key", "token"):
            key = holder.get(name)
            if isinstance(key, str) and key:
                return key
    return None


def _holders(body: JsonValue) -> Iterator[Mapping[str, JsonValue]]:
    """Where a key may stand: in the body, and in its first event and that one's properties."""
    if isinstance(body, dict):
        yield body
    first = next(iter(_entries(body)), None)
    if isinstance(first, dict):
        yield first
        properties = first.get("properties")
        if isinstance(properties, dict):
            yield properties


def _entries(body: JsonValue) -> list[JsonValue]:
    if isinstance(body, list):
        return body
    batch = body.get("batch") if isinstance(body, dict) else None
    return batch if isinstance(batch, list) else [body]


def is_migration(body: JsonValue) -> bool:
    """Whether a batch tells of the past: an import."""
    return isinstance(body, dict) and body.get("historical_migration") is True


def from_capture(body: JsonValue) -> list[Fact]:
    """The events of a captured body, each once. Raises PayloadMalformed, naming the field and its place."""
    if isinstance(body, dict) and "batch" in body and not isinstance(body["batch"], list):
        raise _refused("batch", "must be a list of events", "send a single event without it")
    if not isinstance(body, dict | list):
        message = "the body must be an event, a list of events, or an object with a batch of them"
        raise PayloadMalformed(message, path="body", hint='send {"api_key": …, "batch": […]}')
    entries = _entries(body)
    if len(entries) > MOST_EVENTS:
        raise _refused("batch", f"holds {len(entries)} events; {MOST_EVENTS} is the limit", "send fewer at once")
    single = isinstance(body, dict) and entries == [body]
    facts: list[Fact] = []
    known: set[str] = set()
    for number, entry in enumerate(entries):
        fact = _captured(entry, "" if single else f"batch[{number}].")
        if fact.uuid is None or fact.uuid not in known:
            facts.append(fact)
        if fact.uuid is not None:
            known.add(fact.uuid)
    return facts


def _captured(entry: JsonValue, place: str) -> Fact:
    if not isinstance(entry, dict):
        raise _refused(place.rstrip("."), "must be an object", "an event is an object with event and distinct_id")
    properties = dict(_object(entry.get("properties"), f"{place}properties"))
    for key in _CHANGES:
        # SDKs write them beside the properties, where PostHog too puts them in.
        if entry.get(key) is not None:
            properties[key] = _merged(properties.get(key), entry[key])
    told = entry.get("distinct_id", properties.get("distinct_id", properties.get("$distinct_id")))
    distinct_id = _distinct_id(told, f"{place}distinct_id")
    if not distinct_id:
        raise _refused(f"{place}distinct_id", "is missing", "every event is about somebody")
    if "event" not in entry:
        raise _refused(f"{place}event", "is missing", "it is the event's name")
    name = _name(entry["event"], f"{place}event")
    own = _uuid(entry.get("uuid"))
    properties.pop("token", None)  # the key is no property of the event
    return Fact(
        name=name,
        uuid=own or _of_insert_id(properties.get("$insert_id"), distinct_id),
        distinct_id=distinct_id,
        properties=properties,
        timestamp=_timestamp(entry.get("timestamp")),
        offset=_offset(entry.get("offset")),
        url=_text(properties.get("$current_url")),
    )


def _of_insert_id(value: JsonValue, distinct_id: str) -> str | None:
    """What older SDKs give instead of a uuid."""
    if not isinstance(value, str) or not value:
        return None
    return str(uuid.uuid5(_NAMESPACE, f"insert:{distinct_id}:{value}"))


# From facts to events


def to_events(delivery: Delivery, facts: list[Fact]) -> list[Event]:
    """The events of a delivery, in its order; an event without a uuid of its own gets one made of the delivery's."""
    return [_event(delivery, fact, place) for place, fact in enumerate(facts) if not internal(fact.name)]


def _event(delivery: Delivery, fact: Fact, place: int) -> Event:
    made = f"{delivery.project_id}:{delivery.connection_id}:{delivery.key}:{place}"
    own = fact.uuid or str(uuid.uuid5(_NAMESPACE, made))
    sent = delivery.received_at - fact.offset if fact.offset is not None else delivery.received_at
    return Event(
        uuid=own,
        name=fact.name,
        source=SOURCE,
        distinct_id=fact.distinct_id,
        timestamp=fact.timestamp or sent,
        properties=fact.properties,
        subject=subject_of([fact]),
        # However it came, by webhook or capture: it is the same fact.
        claim=f"{SOURCE}:{own}",
        url=fact.url,
        person=fact.person,
        groups=fact.groups,
        verified=delivery.verified,
    )


def subject_of(facts: list[Fact]) -> str | None:
    """What order is kept for: the person, where all events are about one."""
    ids = {fact.distinct_id for fact in facts}
    return f"person:{ids.pop()}" if len(ids) == 1 else None


def topics_of(facts: list[Fact]) -> tuple[Topic, ...] | None:
    """Where the events stand in the index of loops; None where that cannot be told, or is not enough: an event that
    changes a person or a group has its effect whether or not a loop listens for it."""
    topics: set[Topic] = set()
    for fact in facts:
        fields = [fact.properties.get(key) for key in ("repository", "event_type", "channel")]
        if changes_somebody(fact) or not all(field is None or isinstance(field, str) for field in fields):
            return None
        repository, event_type, channel = (field if isinstance(field, str) else None for field in fields)
        topics.add(Topic(fact.name, repository.lower() if repository is not None else None, event_type, channel))
    return tuple(topics)


def changes_somebody(fact: Fact) -> bool:
    """Whether the event says anything about its person or a group that is to be remembered."""
    named = fact.name in {"$identify", "$create_alias", "$merge_dangerously", "$groupidentify"}
    return named or fact.person is not None or any(fact.properties.get(key) for key in (*_CHANGES, "$unset"))


# Fields


def _refused(path: str, fault: str, hint: str) -> PayloadMalformed:
    return PayloadMalformed(f"{path} {fault}", path=path, hint=hint)


def _object(value: JsonValue, path: str) -> Mapping[str, JsonValue]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _refused(path, "must be an object", "it holds the event's properties by name")
    return value


def _merged(inner: JsonValue, outer: JsonValue) -> JsonValue:
    """The outer one goes before; what is no object changes nobody, and stays what it is."""
    return {**inner, **outer} if isinstance(inner, dict) and isinstance(outer, dict) else outer


def _name(value: JsonValue, path: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _refused(path, "must be the name of an event", "send a text that is not empty")
    return _short(value, path)


def _distinct_id(value: JsonValue, path: str) -> str:
    """As text, what is none as its JSON; empty where there is none."""
    return "" if value is None else _short(_as_text(value), path)


def _short(text: str, path: str) -> str:
    if len(text) > LONGEST_NAME:
        raise _refused(path, f"is longer than {LONGEST_NAME} characters", "send a shorter one")
    return text


def _as_text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    # A number as Python writes it: that is how ids of captures have always been kept.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else msgspec.json.encode(value).decode()


def _uuid(value: JsonValue) -> str | None:
    """As a UUID, also where anything else stands in for one; None where there is none."""
    if value is None or value == "":
        return None
    text = _as_text(value)
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return str(uuid.uuid5(_NAMESPACE, f"uuid:{text}"))


def _timestamp(value: JsonValue) -> datetime | None:
    """The instant of a timestamp; None where it cannot be read: the event then counts from its arrival."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _offset(value: JsonValue) -> timedelta | None:
    """How long before it was sent something happened, given in milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return timedelta(milliseconds=value) if 0 <= value <= timedelta(days=3650) / timedelta(milliseconds=1) else None


def _text(value: JsonValue) -> str | None:
    return storable_text(value) if isinstance(value, str) and value else None
