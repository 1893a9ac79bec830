"""What Hog expressions in filters see of an event. Nothing is made before it is asked for."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

from loops.event import Event, JsonValue
from loops.expressions import to_text
from loops.expressions.evaluation import CLOCK
from loops.filters.comparison import Variables
from loops.filters.elements import CHAIN, NAMED_TAGS, elements_of, texts_of
from loops.filters.project import ProjectFilters

GROUPS = range(5)
"""The indexes that types of groups can have."""


def group_of(event: Event, index: int) -> Mapping[str, JsonValue] | None:
    """The group with this index, as `{"id", "index", "properties"}`; None where the event belongs to none."""
    for group in event.groups.values():
        if isinstance(group, Mapping) and group.get("index") == index:
            return group
    return None


def group_id(event: Event, index: int) -> JsonValue:
    """The id of the group with this index, else null."""
    group = group_of(event, index)
    return event.properties.get(f"$group_{index}") if group is None else group.get("id")


def _group_properties(event: Event, index: int) -> object:
    group = group_of(event, index)
    properties = None if group is None else group.get("properties")
    return {"properties": properties if isinstance(properties, Mapping) else {}}


def _person(event: Event) -> object:
    return None if event.person is None else {"id": event.person.id, "properties": event.person.properties}


def _pdi(event: Event) -> object:
    if event.person is None:
        return None
    return {"distinct_id": event.distinct_id, "person_id": event.person.id, "person": _person(event)}


def _chain(event: Event) -> object:
    chain = event.properties.get(CHAIN)
    return chain if isinstance(chain, str) else None


def _href(event: Event) -> object:
    return next(iter(texts_of(elements_of(event), "href")), "")


def _tags(event: Event) -> object:
    return [*dict.fromkeys(one.tag for one in elements_of(event) if one.tag in NAMED_TAGS)]


_ROOTS: Mapping[str, Callable[[Event], object]] = MappingProxyType(
    {
        "event": lambda event: event.name,
        "uuid": lambda event: event.uuid,
        "timestamp": lambda event: to_text(event.timestamp),
        "distinct_id": lambda event: event.distinct_id,
        "properties": lambda event: event.properties,
        "person": _person,
        "pdi": _pdi,
        "elements_chain": _chain,
        "elements_chain_href": _href,
        "elements_chain_texts": lambda event: texts_of(elements_of(event), "text"),
        "elements_chain_ids": lambda event: texts_of(elements_of(event), "attr_id"),
        "elements_chain_elements": _tags,
        **{f"$group_{index}": partial(group_id, index=index) for index in GROUPS},
        **{f"group_{index}": partial(_group_properties, index=index) for index in GROUPS},
    }
)

EVENT_ROOTS = frozenset(_ROOTS)
"""The names that an expression in a filter may read."""
VARIABLES = "variables"
"""The one more that it may read where there is a run."""


class FilterScope(Mapping[str, object]):
    """The names of an expression, for one event."""

    __slots__ = ("_event", "_project", "_variables")

    def __init__(self, event: Event, variables: Variables, project: ProjectFilters) -> None:
        self._event = event
        self._variables = variables
        self._project = project

    def __getitem__(self, name: str) -> object:
        if name == VARIABLES:
            return self._variables
        return self._project.now() if name == CLOCK else _ROOTS[name](self._event)

    def __iter__(self) -> Iterator[str]:
        return iter((*_ROOTS, VARIABLES, CLOCK))

    def __len__(self) -> int:
        return len(_ROOTS) + 2
