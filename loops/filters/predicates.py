"""The property types of filters: where a key is read. One more type is one more entry in PROPERTY_TYPES."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType
from weakref import WeakValueDictionary

from loops.event import Event, JsonValue
from loops.expressions.coercion import to_text
from loops.filters.comparison import NO_VARIABLES, Predicate, Read, Test, Variables
from loops.filters.elements import CHAIN, elements_of, texts_of
from loops.filters.equality import all_strings
from loops.filters.operator import each
from loops.filters.operators import OPERATORS
from loops.filters.project import ProjectFilters
from loops.filters.scope import GROUPS, group_id, group_of
from loops.filters.selector import compile_selector

_METADATA: Mapping[str, Callable[[Event], JsonValue]] = MappingProxyType(
    {
        "event": lambda event: event.name,
        "distinct_id": lambda event: event.distinct_id,
        "timestamp": lambda event: to_text(event.timestamp),
        "uuid": lambda event: event.uuid,
        "person_id": lambda event: None if event.person is None else event.person.id,
        "elements_chain": lambda event: event.properties.get(CHAIN),
        **{f"$group_{index}": partial(group_id, index=index) for index in GROUPS},
    }
)
_ELEMENT_KEYS = ("tag_name", "text", "href", "selector")

# Two spellings of one repository name are one repository, on GitHub and so here.
_CASELESS_KEY = "repository"
_PATTERNS = ("regex", "not_regex")
_EXACT = ("exact", "in")


@dataclass(frozen=True, slots=True)
class Asked:
    """One property filter as it stands in the JSON, its value as JSON text. `nested` makes a dotted key a path."""

    key: str
    operator: str
    value_json: str
    group: int = 0
    nested: bool = False

    @property
    def value(self) -> JsonValue:
        value: JsonValue = json.loads(self.value_json)
        return value


@dataclass(frozen=True, slots=True)
class PropertyType:
    """`keys` are all that there are, None where any key may be asked for; of those in `only_exact` nothing but `exact`
    and `is_not` may be asked. `grouped` filters name the index of a type of groups; `of_run` is true of what only a
    run has."""

    keys: tuple[str, ...] | None
    predicate: Callable[[Asked, ProjectFilters], Predicate]
    only_exact: tuple[str, ...] = ()
    grouped: bool = False
    of_run: bool = False


def _of_event(asked: Asked, project: ProjectFilters) -> Predicate:
    """Reads a property of the event; a dotted key is the name of one flat property, as PostHog has it."""
    if asked.nested and "." in asked.key:
        return _read_by(asked, project, _at_path(asked.key.split(".")), asked.key)
    key, value = asked.key, asked.value
    caseless = key == _CASELESS_KEY
    wanted = _without_case(asked.operator, value) if caseless else value
    holds = OPERATORS[asked.operator].build(wanted, project)

    def read(event: Event, _variables: Variables = NO_VARIABLES, /) -> JsonValue:
        return event.properties.get(key)

    def test(event: Event, _variables: Variables = NO_VARIABLES, /) -> bool:
        return holds(event.properties.get(key))

    def holds_without_case(event: Event, _variables: Variables = NO_VARIABLES, /) -> bool:
        return holds(_lowered(event.properties.get(key)))

    exact = all_strings(wanted) if asked.operator in _EXACT else None
    return _told(asked, project, holds_without_case if caseless else test, read, key, exact)


def _without_case(operator: str, value: JsonValue) -> JsonValue:
    if operator in _PATTERNS:
        return [f"(?i){to_text(one)}" for one in each(value)]
    return [_lowered(one) for one in each(value)]


def _lowered(value: JsonValue) -> JsonValue:
    return value.lower() if isinstance(value, str) else value


def _at_path(keys: list[str]) -> Read:
    def read(event: Event, _variables: Variables = NO_VARIABLES, /) -> JsonValue:
        found: object = event.properties
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found  # type: ignore[return-value]  # whatever lies in properties is JSON

    return read


def _of_metadata(asked: Asked, project: ProjectFilters) -> Predicate:
    field = _METADATA[asked.key]
    return _read_by(asked, project, lambda event, _variables=NO_VARIABLES: field(event), asked.key)


def _of_person(asked: Asked, project: ProjectFilters) -> Predicate:
    key = asked.key

    def read(event: Event, _variables: Variables = NO_VARIABLES, /) -> JsonValue:
        return None if event.person is None else event.person.properties.get(key)

    return _read_by(asked, project, read, f"person.{key}")


def _of_group(asked: Asked, project: ProjectFilters) -> Predicate:
    key, index = asked.key, asked.group

    def read(event: Event, _variables: Variables = NO_VARIABLES, /) -> JsonValue:
        group = group_of(event, index)
        properties = None if group is None else group.get("properties")
        return properties.get(key) if isinstance(properties, Mapping) else None

    return _read_by(asked, project, read, f"group_{index}.{key}")


def _of_run(asked: Asked, project: ProjectFilters) -> Predicate:
    key = asked.key
    return _read_by(asked, project, lambda _event, variables=NO_VARIABLES: variables.get(key), f"variables.{key}")


def _read_by(asked: Asked, project: ProjectFilters, read: Read, shown_key: str) -> Predicate:
    holds = OPERATORS[asked.operator].build(asked.value, project)

    def test(event: Event, variables: Variables = NO_VARIABLES, /) -> bool:
        return holds(read(event, variables))

    return _told(asked, project, test, read, shown_key)


def _of_element(asked: Asked, project: ProjectFilters) -> Predicate:
    """An event has many elements: a filter holds when it holds for one of them, a negative one when it does for all."""
    key, operator = asked.key, OPERATORS[asked.operator]
    holds, every = operator.build(asked.value, project), bool(operator.negates)
    wanted = each(asked.value) if key == "selector" else []
    selectors = [compile_selector(to_text(one), path="") for one in wanted]

    def read(event: Event, _variables: Variables = NO_VARIABLES, /) -> JsonValue:
        return _element_texts(event, key) or None

    def test(event: Event, _variables: Variables = NO_VARIABLES, /) -> bool:
        return (all if every else any)(holds(text) for text in _element_texts(event, key))

    def holds_selected(event: Event, _variables: Variables = NO_VARIABLES, /) -> bool:
        return any(selector.finds(elements_of(event)) for selector in selectors) is not every

    return _told(asked, project, holds_selected if selectors else test, read, f"element.{key}")


def _element_texts(event: Event, key: str) -> list[JsonValue]:
    elements = elements_of(event)
    if key in ("tag_name", "selector"):
        return [one.tag for one in elements]
    return texts_of(elements, key)


def _told(
    asked: Asked, project: ProjectFilters, test: Test, read: Read, shown_key: str, exact: frozenset[str] | None = None
) -> Predicate:
    """The predicate, together with what it can tell of itself."""
    operator, value = OPERATORS[asked.operator], asked.value
    resolved = operator.resolved
    return Predicate(
        key=shown_key,
        operator=asked.operator,
        expected=value,
        test=test,
        read=read,
        exact=exact,
        trouble=lambda actual: operator.trouble(value, actual),
        resolved=None if resolved is None else lambda: resolved(value, project),
    )


PROPERTY_TYPES: Mapping[str, PropertyType] = MappingProxyType(
    {
        "event": PropertyType(None, _of_event),
        "event_metadata": PropertyType(tuple(_METADATA), _of_metadata),
        "feature": PropertyType(None, _of_event),
        "person": PropertyType(None, _of_person),
        "group": PropertyType(None, _of_group, grouped=True),
        "element": PropertyType(_ELEMENT_KEYS, _of_element, only_exact=("selector", "tag_name")),
        "workflow_variable": PropertyType(None, _of_run, of_run=True),
    }
)


# Of predicates that some filter holds; and what was asked for of late is kept whether or not anybody does.
_living: WeakValueDictionary[tuple[str, Asked, ProjectFilters], Predicate] = WeakValueDictionary()


# Workflows ask the same of their events again and again (`actor_access` is "write"): one predicate serves them all,
# which saves memory, and an index runs it once for all of them.
@lru_cache(maxsize=1024)
def predicate(kind: str, asked: Asked, project: ProjectFilters) -> Predicate:
    """The predicate of one property filter. `project` counts for operators that read it; give all others NO_PROJECT.

    Raises FilterError for a selector that is none.
    """
    key = (kind, asked, project)
    found = _living.get(key)
    if found is None:
        found = _living[key] = PROPERTY_TYPES[kind].predicate(asked, project)
    return found
