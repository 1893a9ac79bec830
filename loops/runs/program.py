"""A compiled definition as the interpreter uses it: the graph, the actions, their inputs, the scope of templates."""

from collections.abc import Mapping
from typing import Any, Protocol

from loops.event import JsonValue
from loops.runs.state import Graph


class ClaimedEvent(Protocol):
    """The part of a claimed run that the scope of its templates is made of."""

    @property
    def run_id(self) -> str: ...
    @property
    def project_id(self) -> str: ...
    @property
    def event(self) -> bytes | None: ...


class Program(Graph, Protocol):
    """What the interpreter needs of a definition."""

    def action(self, action_id: str) -> Any: ...  # noqa: ANN401 - one of the schema's action classes
    def render(self, action_id: str, scope: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]: ...
    def fields(self, action_id: str) -> Mapping[str, str]: ...
    def scope(self, claimed: ClaimedEvent) -> Mapping[str, JsonValue]: ...
