"""What events say about persons and groups, and what is known of them when an event is matched.

A person is a distinct id with properties. `$set` sets, `$set_once` sets what is not there yet, `$unset` takes away.
`$identify` gives the identified id what the anonymous one had and it has not; an alias does so both ways. Ids stay
apart otherwise: what is said of one later does not reach the other.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import msgspec

from loops.event import Event, JsonValue, Person

Properties: TypeAlias = Mapping[str, JsonValue]

MOST_BYTES = 64 * 1024
"""Of the properties of one person or group as JSON. A change that would take them over it is not made."""

MOST_GROUPS = 5
"""An event belongs to at most so many groups, as in PostHog."""

LONGEST_KEY = 400
MOST_GROUP_BYTES = 1600
"""Of a group's type and key together, which one index entry has to hold."""

_NAMESPACE = uuid.UUID("3f1c1f0e-7f5f-5d0b-8f36-1d1c5b0f4a10")
_NAMING = ("email", "name", "username")
# Ids that stand for nobody: merging by them would make strangers one person.
_NOBODY = frozenset(
    {
        "", "0", "[object object]", "anonymous", "distinct_id", "distinctid", "email", "false", "guest", "id", "nan",
        "none", "not_authenticated", "null", "true", "undefined", "unknown",
    }
)  # fmt: skip


class Group(NamedTuple):
    """A group: its type, such as `company`, and its key."""

    type: str
    key: str


@dataclass(slots=True)
class People:
    """Persons and groups as they are known, and which of them were changed. `refused` counts the changes that were not
    made because of a size."""

    persons: dict[str, Properties] = field(default_factory=dict)
    groups: dict[Group, Properties] = field(default_factory=dict)
    changed_persons: set[str] = field(default_factory=set)
    changed_groups: set[Group] = field(default_factory=set)
    refused: int = 0

    def set_person(self, distinct_id: str, properties: Properties) -> None:
        """Remember a person, unless that is nothing new or too much."""
        if self._fits(self.persons.get(distinct_id), properties):
            self.persons[distinct_id] = properties
            self.changed_persons.add(distinct_id)

    def set_group(self, group: Group, properties: Properties) -> None:
        """Remember a group, likewise."""
        if self._fits(self.groups.get(group), properties):
            self.groups[group] = properties
            self.changed_groups.add(group)

    def _fits(self, before: Properties | None, properties: Properties) -> bool:
        if properties == (before or {}):
            return False
        if len(msgspec.json.encode(properties)) > MOST_BYTES:
            self.refused += 1
            return False
        return True


@dataclass(frozen=True, slots=True)
class Named:
    """Whom events speak of, and of whom they say something that is to be remembered."""

    persons: frozenset[str]
    groups: frozenset[Group]
    changing_persons: frozenset[str]
    changing_groups: frozenset[Group]


def named(events: Iterable[Event]) -> Named:
    """Whom these events speak of."""
    persons: set[str] = set()
    groups: set[Group] = set()
    changing: set[str] = set()
    changing_groups: set[Group] = set()
    for event in events:
        groups.update(_groups_of(event))
        group = _identified(event)
        if group is not None:
            groups.add(group)
            changing_groups.add(group)
        if _has_person(event):
            ids = {event.distinct_id, *_other_ids(event)}
            persons |= ids
            changing |= ids if _says_something(event) else set()
    return Named(frozenset(persons), frozenset(groups), frozenset(changing), frozenset(changing_groups))


def enriched(events: Iterable[Event], people: People, group_types: tuple[str, ...] = ()) -> list[Event]:
    """The events with their persons and groups, each as known after the event itself; `people` is brought up to date.

    `group_types` are the project's types of groups in the order of PostHog's indexes.
    """
    return [_enriched(event, people, group_types) for event in events]


def _enriched(event: Event, people: People, group_types: tuple[str, ...]) -> Event:
    group = _identified(event)
    if group is not None:
        people.set_group(group, {**people.groups.get(group, {}), **_object(event.properties.get("$group_set"))})
    person = None
    if _has_person(event):
        _remember(event, people)
        person = _person(event, people.persons.get(event.distinct_id, {}))
    return replace(event, person=person, groups=_groups(event, people, group_types))


def _remember(event: Event, people: People) -> None:
    known = people.persons.get(event.distinct_id, {})
    for other in _other_ids(event):
        known = {**people.persons.get(other, {}), **known}
    properties = event.properties
    known = {**_object(properties.get("$set_once")), **known, **_object(properties.get("$set"))}
    unset = properties.get("$unset")
    if isinstance(unset, list):
        gone = {key for key in unset if isinstance(key, str)}
        known = {key: value for key, value in known.items() if key not in gone}
    if event.person is not None:  # PostHog's own word, and the newest
        known = {**known, **event.person.properties}
    people.set_person(event.distinct_id, known)
    if event.name in {"$create_alias", "$merge_dangerously"}:
        for other in _other_ids(event):
            people.set_person(other, {**known, **people.persons.get(other, {})})


def _person(event: Event, known: Properties) -> Person:
    given = event.person or Person("")
    properties = dict(given.properties) if event.person is not None else dict(known)
    name = next((text for key in _NAMING if isinstance(text := properties.get(key), str) and text), event.distinct_id)
    return Person(
        given.id or str(uuid.uuid5(_NAMESPACE, event.distinct_id)),
        given.name or name,
        properties,
    )


def _has_person(event: Event) -> bool:
    return event.properties.get("$process_person_profile") is not False


def _says_something(event: Event) -> bool:
    told = any(event.properties.get(key) for key in ("$set", "$set_once", "$unset"))
    return told or event.person is not None or bool(_other_ids(event))


def _other_ids(event: Event) -> tuple[str, ...]:
    """The other id of a person that an event makes known."""
    key = {"$identify": "$anon_distinct_id", "$create_alias": "alias", "$merge_dangerously": "alias"}.get(event.name)
    other = _key(event.properties.get(key)) if key is not None else None
    ids = {other, event.distinct_id}
    if other is None or len(ids) == 1 or any((one or "").strip().lower() in _NOBODY for one in ids):
        return ()
    return (other,)


def _identified(event: Event) -> Group | None:
    """The group that a `$groupidentify` tells of."""
    if event.name != "$groupidentify":
        return None
    return _group(event.properties.get("$group_type"), event.properties.get("$group_key"))


def _groups_of(event: Event) -> list[Group]:
    """The groups that an event belongs to."""
    told = _object(event.properties.get("$groups"))
    found = [group for kind, value in told.items() if (group := _group(kind, value)) is not None]
    return found[:MOST_GROUPS]


def _group(kind: JsonValue, key: JsonValue) -> Group | None:
    kind, key = _key(kind), _key(key)
    if kind is None or key is None or len(f"{kind}{key}".encode()) > MOST_GROUP_BYTES:
        return None
    return Group(kind, key)


def _groups(event: Event, people: People, types: tuple[str, ...]) -> dict[str, JsonValue]:
    """As templates and filters read them, by type; what the sender told in full stays."""
    groups: dict[str, JsonValue] = {
        group.type: {
            "id": group.key,
            "type": group.type,
            "index": types.index(group.type) if group.type in types else None,
            "properties": dict(people.groups.get(group, {})),
        }
        for group in _groups_of(event)
    }
    return {**groups, **event.groups}


def _key(value: JsonValue) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value)
    return text if 0 < len(text) <= LONGEST_KEY else None


def _object(value: JsonValue) -> Properties:
    return value if isinstance(value, dict) else {}
