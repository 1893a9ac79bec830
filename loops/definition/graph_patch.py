"""Changes of a workflow's graph, as a list of small operations on the document that is stored.

    {"op": "update_action", "id": "create_task", "patch": {"config": {"inputs": {"prompt": {"value": "…"}}}}}

All of them are applied, in their order, or none. What comes of it is a document to be parsed like any other.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from loops.definition.findings import Findings, join, nearest, shown, suggestion
from loops.definition.plain import plain_object
from loops.definition.schema.base import Identifier, Shape
from loops.definition.schema.validator import Validator
from loops.errors import DefinitionError

MOST_OPERATIONS = 200
_PATH = "operations"
_EXAMPLE = 'as {"op": "remove_action", "id": "notify"}'
_EDGE_KEYS = ("from", "to", "type", "index")
_Object = dict[str, JsonValue]


class _Operation(Shape):
    """`op` is what is done."""

    op: str


class UpdateAction(_Operation):
    """Merges `patch` into an action: objects key by key, all else in place of what was there; null removes a key."""

    op: Literal["update_action"]
    id: Identifier
    patch: _Object


class AddAction(_Operation):
    """Adds an action, and the edges that lead to it and away from it."""

    op: Literal["add_action"]
    action: _Object
    edges: list[_Object] = Field(default_factory=list)


class RemoveAction(_Operation):
    """Removes an action. What led to it leads to where it went on first, or goes with it where it went nowhere."""

    op: Literal["remove_action"]
    id: Identifier


class AddEdge(_Operation):
    """Adds an edge."""

    op: Literal["add_edge"]
    edge: _Object


class RemoveEdge(_Operation):
    """Removes an edge, known by its ends, type and index."""

    op: Literal["remove_edge"]
    edge: _Object


class ReplaceActionEdges(_Operation):
    """Puts these in place of all edges that leave an action; those that lead to it stay."""

    op: Literal["replace_action_edges"]
    id: Identifier
    edges: Annotated[list[_Object], Field(max_length=MOST_OPERATIONS)]


class _Graph:
    """The two lists of a document while operations are applied to them."""

    def __init__(self, document: Mapping[str, JsonValue]) -> None:
        self.actions = _objects(document.get("actions"))
        self.edges = _objects(document.get("edges"))

    def place(self, action_id: str, path: str) -> int:
        """Where the action stands. Raises DefinitionError."""
        ids = [str(action.get("id")) for action in self.actions]
        if action_id not in ids:
            hint = nearest(action_id, ids) or f"there are: {', '.join(map(shown, ids))}"
            raise DefinitionError.at(join(path, "id"), f'there is no action "{shown(action_id)}"', hint)
        return ids.index(action_id)

    def leaving(self, action_id: str) -> list[_Object]:
        return [edge for edge in self.edges if edge.get("from") == action_id]

    def update_action(self, asked: UpdateAction, path: str) -> None:
        place = self.place(asked.id, path)
        if asked.patch.get("id", asked.id) != asked.id:
            hint = "add_action and remove_action put another in its place"
            raise DefinitionError.at(join(path, "patch", "id"), "an action keeps its id", hint)
        self.actions[place] = _merged(self.actions[place], asked.patch)

    def add_action(self, asked: AddAction, path: str) -> None:
        new = asked.action.get("id")
        if new in [action.get("id") for action in self.actions]:
            hint = "choose another id, or change it with update_action"
            raise DefinitionError.at(join(path, "action", "id"), f'there is an action "{shown(new)}" already', hint)
        self.actions.append(asked.action)
        self.edges += asked.edges

    def remove_action(self, asked: RemoveAction, path: str) -> None:
        place = self.place(asked.id, path)
        if self.actions[place].get("type") == "trigger":
            hint = "change what starts it with update_action"
            raise DefinitionError.at(join(path, "id"), "a workflow keeps its trigger", hint)
        onward = next((edge.get("to") for edge in self.leaving(asked.id)), None)
        del self.actions[place]
        kept: list[_Object] = []
        for edge in self.edges:
            led_here = edge.get("to") == asked.id
            if edge.get("from") == asked.id or (led_here and onward is None):
                continue
            led = {**edge, "to": onward} if led_here else edge
            if not led_here or led not in (*self.edges, *kept):
                kept.append(led)
        self.edges = kept

    def add_edge(self, asked: AddEdge, _path: str) -> None:
        self.edges.append(asked.edge)

    def remove_edge(self, asked: RemoveEdge, path: str) -> None:
        kept = [edge for edge in self.edges if _identity(edge) != _identity(asked.edge)]
        if len(kept) == len(self.edges):
            near = ", ".join(_told(edge) for edge in self.leaving(str(asked.edge.get("from"))))
            hint = f"these leave it: {near}" if near else "no edge leaves that action"
            raise DefinitionError.at(join(path, "edge"), f"there is no edge {_told(asked.edge)}", hint)
        self.edges = kept

    def replace_action_edges(self, asked: ReplaceActionEdges, path: str) -> None:
        self.place(asked.id, path)
        for index, edge in enumerate(asked.edges):
            if edge.get("from") != asked.id:
                where = join(path, "edges", index, "from")
                raise DefinitionError.at(where, f'does not leave "{shown(asked.id)}"', "use add_edge for others")
        self.edges = [edge for edge in self.edges if edge.get("from") != asked.id] + asked.edges


@dataclass(frozen=True, slots=True)
class _Kind:
    """What an operation takes, and what it does to the graph."""

    validator: Validator[Any]
    apply: Callable[[_Graph, Any, str], None]


OPERATIONS: Mapping[str, _Kind] = {
    "update_action": _Kind(Validator(UpdateAction), _Graph.update_action),
    "add_action": _Kind(Validator(AddAction), _Graph.add_action),
    "remove_action": _Kind(Validator(RemoveAction), _Graph.remove_action),
    "add_edge": _Kind(Validator(AddEdge), _Graph.add_edge),
    "remove_edge": _Kind(Validator(RemoveEdge), _Graph.remove_edge),
    "replace_action_edges": _Kind(Validator(ReplaceActionEdges), _Graph.replace_action_edges),
}


def patched(document: Mapping[str, JsonValue], operations: JsonValue) -> dict[str, JsonValue]:
    """The document after the operations; the one that was given stays as it is.

    Raises DefinitionError, its paths beginning with `operations`: with every fault of their form, or with the first
    that does not fit the graph as it is when its turn comes.
    """
    steps = _read_all(operations)
    graph = _Graph(document)
    for index, (kind, asked) in enumerate(steps):
        kind.apply(graph, asked, join(_PATH, index))
    return {**document, "actions": [*graph.actions], "edges": [*graph.edges]}


def _read_all(operations: JsonValue) -> list[tuple[_Kind, Any]]:
    if not isinstance(operations, list) or not operations:
        raise DefinitionError.at(_PATH, "must be a list of at least one operation", _EXAMPLE)
    if len(operations) > MOST_OPERATIONS:
        raise DefinitionError.at(_PATH, f"holds {len(operations)} operations", f"at most {MOST_OPERATIONS} at once")
    findings = Findings()
    plain = plain_object({_PATH: operations}, findings).get(_PATH)
    found = plain if isinstance(plain, list) else []
    read = [_read(one, join(_PATH, index), findings) for index, one in enumerate(found)]
    if findings.faults:
        raise DefinitionError(findings.faults)
    return [step for step in read if step is not None]


def _read(raw: JsonValue, path: str, findings: Findings) -> tuple[_Kind, Any] | None:
    if not isinstance(raw, dict):
        findings.refuse(path, "an operation is an object", _EXAMPLE)
        return None
    name = raw.get("op")
    kind = OPERATIONS.get(str(name))
    if kind is None:
        what = "is required" if name is None else f'there is no operation "{shown(name)}"'
        findings.refuse(join(path, "op"), what, suggestion(str(name), list(OPERATIONS)))
        return None
    value = kind.validator.validate(raw, path, findings).value
    return None if value is None else (kind, value)


def _objects(value: JsonValue) -> list[_Object]:
    found = copy.deepcopy(value)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _merged(before: Mapping[str, JsonValue], patch: Mapping[str, JsonValue]) -> _Object:
    merged = dict(before)
    for key, value in patch.items():
        there = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merged(there if isinstance(there, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def _identity(edge: Mapping[str, JsonValue]) -> tuple[str, ...]:
    return tuple(repr(edge.get(key)) for key in _EDGE_KEYS)


def _told(edge: Mapping[str, JsonValue]) -> str:
    index = "" if edge.get("index") is None else f" {shown(edge.get('index'))}"
    return f"{shown(edge.get('from'))} -> {shown(edge.get('to'))} ({shown(edge.get('type'))}{index})"
