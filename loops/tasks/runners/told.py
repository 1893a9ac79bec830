"""What a command tells of itself, as a port: lines in, rounds and an end out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from config.runner_settings import Api
from loops.agent.guards import Ending
from loops.tasks.runners.trace import Trace


@dataclass(frozen=True, slots=True)
class Errand:
    """What a command is asked to do. `schema` is that of a structured report, None where a text is wanted. `base_url`
    and `token` lead to its model, where its dialect has an API. `program` is where it stands inside.
    """

    task_id: str
    program: str
    model: str
    system: str
    prompt: str
    schema: Mapping[str, Any] | None
    max_rounds: int
    base_url: str
    token: str = field(repr=False)
    effort: str | None = None
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Invocation:
    """How it is started. `files` are readable inside, by path; `folders` are made first."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """How a command says that it ended. `structured` is the report by the schema. `cost` is in USD, None where it does
    not say or does not know. `refused` are tools that its own permissions did not let it use."""

    ending: Ending
    reason: str = ""
    message: str = ""
    structured: Mapping[str, Any] | None = None
    cost: Decimal | None = None
    refused: tuple[str, ...] = ()


class Reader(Protocol):
    """Reads what one command prints."""

    async def line(self, line: bytes) -> None:
        """One whole line of its stdout."""

    async def end(self) -> None:
        """Nothing more comes."""

    def told(self) -> Told | None:
        """How it says that it ended; None where it said nothing of an end."""


class Dialect(Protocol):
    """How one kind of command is started and understood. The same value serves every task."""

    @property
    def api(self) -> Api | None:
        """What it speaks to its model; None where it is not led to one."""

    def invocation(self, errand: Errand) -> Invocation:
        """How it is started for an errand."""

    def reader(self, trace: Trace) -> Reader:
        """What reads its output into `trace`."""
