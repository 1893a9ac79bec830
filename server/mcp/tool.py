"""A tool: one line of the table, and what a call of it asks of the API's handler."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from loops.event import JsonValue
from server.api.routes import ROUTES, Route
from server.auth import ROLES, Role
from server.mcp.schemas import Schema

_PIECE = re.compile(r"\{(\w+)\}")
_BY_PLACE = {(route.method, route.path): route for route in ROUTES}


@dataclass(frozen=True, slots=True)
class Effect:
    """What a call may do, as a client shows it before it asks its person. `destructive`: it may overwrite, end or send
    something. `repeatable`: a second call with the same arguments changes nothing more. `outward`: it reaches other
    services."""

    read_only: bool = False
    destructive: bool = False
    repeatable: bool = False
    outward: bool = False


READS = Effect(read_only=True, repeatable=True)
ASKS_OUTSIDE = Effect(read_only=True, repeatable=True, outward=True)
ADDS = Effect()
SETS = Effect(repeatable=True)
ENDS = Effect(destructive=True, repeatable=True)
OVERWRITES = Effect(destructive=True)
STARTS = Effect(destructive=True, outward=True)


@dataclass(frozen=True, slots=True)
class Tool:
    """`name` and `does` are what an agent chooses by, `takes` the JSON schema of its arguments. `route` answers a call
    and says which role it needs.

    Arguments become what the route reads: pieces of its path, then parameters for GET, else keys of the body;
    `renamed` gives the route's name of an argument where that is another, `headers` the header that it becomes,
    `parameters` those that stand in the query also beside a body. `outside` says that results hold text which people
    outside wrote.
    """

    name: str
    effect: Effect
    route: Route
    does: str
    takes: Schema
    outside: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: frozenset[str] = frozenset()

    def shown_to(self, role: Role, *, read_only: bool) -> bool:
        """Whether somebody of this role may call it; in read-only mode only where it changes nothing."""
        return ROLES.index(role) >= ROLES.index(self.route.role) and (self.effect.read_only or not read_only)


def route(method: str, path: str) -> Route:
    """The API's route below the project. KeyError where there is none."""
    return _BY_PLACE[method, "/projects/{project}" + path]


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """Arguments in the form that a handler of the API reads."""

    match_info: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes

    async def read(self) -> bytes:
        return self.content


def request_of(tool: Tool, arguments: Mapping[str, JsonValue]) -> ToolRequest:
    """What a call with these arguments, which fit the tool's schema, asks of its route."""
    pieces = set(_PIECE.findall(tool.route.path))
    match_info: dict[str, str] = {}
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: dict[str, JsonValue] = {}
    for name, value in _with_defaults(tool, arguments).items():
        theirs = tool.renamed.get(name, name)
        if theirs in pieces:
            match_info[theirs] = str(value)
        elif name in tool.headers:
            headers[tool.headers[name]] = str(value)
        elif tool.route.method == "GET" or name in tool.parameters:
            query[theirs] = str(value)
        else:
            body[theirs] = value
    return ToolRequest(match_info, query, headers, json.dumps(body).encode() if body else b"")


def _with_defaults(tool: Tool, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    usual = {name: one["default"] for name, one in tool.takes["properties"].items() if "default" in one}
    return {**usual, **arguments}
