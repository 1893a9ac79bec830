"""Definitions as the pure core reads them, without a definition: a dict of nodes and a dict of ways."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from loops.event import JsonValue
from loops.runs.variables import OutputVariable


@dataclass(frozen=True)
class PlainNode:
    on_error: str | None = None
    outputs: tuple[OutputVariable, ...] = ()


@dataclass(frozen=True)
class PlainGraph:
    """`ways` leads from action to action; the trigger is called `trigger`."""

    ways: Mapping[str, str | None]
    nodes: Mapping[str, PlainNode] = field(default_factory=dict)
    variables: Mapping[str, JsonValue] = field(default_factory=dict)

    def start(self) -> str:
        return "trigger"

    def node(self, action: str) -> PlainNode:
        return self.nodes.get(action, PlainNode())

    def after(self, action: str) -> str | None:
        return self.ways.get(action)

    def initial_variables(self) -> Mapping[str, JsonValue]:
        return self.variables


def line(*actions: str, nodes: Mapping[str, PlainNode] | None = None) -> PlainGraph:
    """trigger -> first -> second -> ... -> nothing."""
    names = ["trigger", *actions]
    return PlainGraph(dict(zip(names, [*actions, None], strict=True)), nodes or {})
