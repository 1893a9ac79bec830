"""What an agent came to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from loops.agent.guards import Ending
from loops.agent.transcript import Guard, Transcript, Usage
from loops.event import JsonValue


@dataclass(frozen=True, slots=True)
class AgentResult:
    """How it ended, in a word and in words, and what is there.

    `message` is the agent's own report; with `fallback` it is the last natural text of an agent that made none. `guard`
    names the guard that forced it to finalize. After `cancelled` there is no message. `cost` is in USD, None where a
    price is unknown. `edits` counts the edits of files of which an agent that was started as a command says that they
    succeeded.
    """

    ending: Ending
    reason: str
    transcript: Transcript
    message: str = ""
    fallback: bool = False
    output: Mapping[str, JsonValue] = field(default_factory=dict)
    guard: Guard | None = None
    edits: int = 0

    @property
    def usage(self) -> Usage:
        """All tokens."""
        return self.transcript.usage

    @property
    def cost(self) -> Decimal | None:
        """What it cost."""
        return self.transcript.cost

    @property
    def rounds(self) -> int:
        """How many rounds it took."""
        return len(self.transcript.rounds)
