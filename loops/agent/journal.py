"""Where rounds are kept, and who watches while they happen."""

from typing import Protocol

from loops.agent.transcript import Call, CallResult, Round


class Journal(Protocol):
    """Keeps rounds so that a killed agent goes on without repeating one. Each call returns once it is kept."""

    async def replied(self, one: Round) -> None:
        """The model answered and asked for calls that write: kept before any of them is executed."""

    async def finished(self, one: Round) -> None:
        """The round is over; replaces what `replied` kept under its number."""


class MemoryJournal:
    """Keeps rounds as long as this object lives."""

    def __init__(self) -> None:
        self.rounds: dict[int, Round] = {}

    async def replied(self, one: Round) -> None:
        """See Journal."""
        self.rounds[one.number] = one

    async def finished(self, one: Round) -> None:
        """See Journal."""
        self.rounds[one.number] = one


class Observer(Protocol):
    """Watches an agent live; nothing that it does may take long or raise."""

    def asked(self, number: int) -> None:
        """A request begins; of a round that is asked for again, what was said before is void."""

    def said(self, number: int, text: str) -> None:
        """A piece of text came."""

    def retrying(self, number: int, why: str, seconds: float) -> None:
        """A request failed and is made again after that time."""

    def called(self, number: int, call: Call) -> None:
        """A call begins."""

    def returned(self, number: int, result: CallResult) -> None:
        """A call is over."""


class Unobserved:
    """Nobody watches."""

    def asked(self, number: int) -> None:
        """See Observer."""

    def said(self, number: int, text: str) -> None:
        """See Observer."""

    def retrying(self, number: int, why: str, seconds: float) -> None:
        """See Observer."""

    def called(self, number: int, call: Call) -> None:
        """See Observer."""

    def returned(self, number: int, result: CallResult) -> None:
        """See Observer."""
