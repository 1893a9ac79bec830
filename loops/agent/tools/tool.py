"""What every tool offers, what it is handed, and how it says that it could not do its work."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from loops.agent.model import ToolSpec
from loops.event import JsonValue

Effect = Literal["read", "keyed_write", "write"]
"""`read` may run beside others and again. `keyed_write` runs in order, and again with the same key it writes nothing
more. `write` runs in order and never again: after a crash it is told to the model as uncertain."""


class ToolError(Exception):
    """A tool could not do what was asked; the model is told, and goes on unless it is `fatal`."""

    def __init__(self, code: str, message: str, hint: str = "", *, fatal: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.fatal = fatal


@dataclass(frozen=True, slots=True)
class CallContext:
    """Which call this is. `again` is set where it may have been executed before a crash."""

    task_id: str
    round: int
    index: int
    again: bool = False

    @property
    def key(self) -> str:
        """The same whenever this call of this task is made again: the idempotency key of what it writes."""
        return f"{self.task_id}:{self.round}:{self.index}"


class Tool(Protocol):
    """One tool."""

    @property
    def spec(self) -> ToolSpec: ...
    @property
    def effect(self) -> Effect: ...

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> JsonValue:
        """The result, as JSON. Raises ToolError, also for arguments that do not fit."""


class Arguments(BaseModel):
    """Base of a tool's arguments: what is not declared is refused, and no type is turned into another."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True)
class TypedTool(Generic[A]):
    """A tool made of a function: the schema is that of `arguments`, and what does not fit it never reaches `run`.

    `seconds` is how long a call may take where that is longer than other tools have.
    """

    name: str
    description: str
    arguments: type[A]
    run: Callable[[A, CallContext], Awaitable[JsonValue]]
    effect: Effect = "read"
    seconds: float = 0.0

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, schema_of(self.arguments))

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> JsonValue:
        """See Tool."""
        return await self.run(fitting(self.arguments, arguments), context)


def fitting(model: type[A], arguments: Mapping[str, Any]) -> A:
    """The arguments as a value. Raises ToolError naming each one that does not fit."""
    try:
        return model.model_validate(dict(arguments))
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in error.errors()[:10]]
        expected = ", ".join(model.model_fields) or "none"
        raise ToolError("BAD_ARGUMENTS", "; ".join(faults), f"arguments of this tool: {expected}") from None


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model without the titles, which only cost tokens."""
    schema = model.model_json_schema()
    schema.pop("title")
    schema.pop("description", None)
    for argument in schema["properties"].values():
        argument.pop("title", None)
    return schema
