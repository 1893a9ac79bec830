"""What an agent asks to have written, as a port: it has no token, so others write, once it has ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from loops.event import JsonValue

ProposalKind = Literal["pull_request", "comment", "labels", "issue"]


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposal that was taken down, the `number`-th of its task."""

    number: int


@dataclass(frozen=True, slots=True)
class TooMany:
    """A task may ask for no more than `most` of a kind."""

    most: int


class Proposals(Protocol):
    """What one task asks for. Nothing of it is written before the agent has ended."""

    @property
    def repository(self) -> str:
        """Where it would be written, owner/name."""

    @property
    def subject(self) -> int | None:
        """The issue or pull request that comments and labels go to; None where the event is about none of this
        repository."""

    @property
    def most(self) -> Mapping[ProposalKind, int]:
        """How many of each kind may be asked for."""

    async def add(self, kind: ProposalKind, body: Mapping[str, JsonValue], key: str) -> Proposed | TooMany:
        """Take a proposal down. With the same key again it is the same one."""
