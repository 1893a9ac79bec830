"""The conversation of one agent as values: what was said, called, answered and spent, round by round.

A transcript is the whole state of an agent: every guard is judged from it, the next request is built from it, and an
agent that was killed goes on from the one that was journalled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from loops.event import JsonValue
from loops.storable import storable, storable_text

Finish = Literal["stop", "tool_calls", "length", "filtered", "error", "expired", "cancelled"]
"""Why a reply ended. `expired` and `cancelled` are ours: the clock ran out or somebody cancelled while it came."""

Guard = Literal["timeout", "max_rounds", "no_tool", "stuck", "budget"]
"""What ends an agent that does not end by itself."""

NO_CODE = ""
MOST_TOKENS = 1_000_000_000
"""Of one answer; more is a fault of whoever counted."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the model wrote it: `arguments` is its own text, which may be no JSON at all."""

    id: str
    name: str
    arguments: str

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Call":
        return cls(stored["id"], stored["name"], stored["arguments"])


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens: `input` is all of the input, cached parts included. `estimated` where the provider did not say."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    estimated: bool = False

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.estimated or other.estimated,
        )

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered. `native` is the provider's own form, to be sent back unchanged (signed thoughts)."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage()
    finish: Finish = "stop"
    thought: str = ""
    native: JsonValue = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Reply":
        return cls(
            text=stored["text"],
            calls=tuple(Call.from_json(call) for call in stored["calls"]),
            usage=Usage(**stored["usage"]),
            finish=stored["finish"],
            thought=stored["thought"],
            native=stored["native"],
        )


@dataclass(frozen=True, slots=True)
class CallResult:
    """What the model is told of one call. `code` is empty for a success, `fatal` means that nothing can go on."""

    call_id: str
    name: str
    text: str
    code: str = NO_CODE
    seconds: float = 0.0
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """One request and the calls that it asked for. `notice` is what the agent was told before it was asked, `said` what
    people said (`heard` are the keys of their messages). `turn` counts the times that the agent was set to work.

    `guard` names the guard that forced `finalize` in this round. `requests` counts retries too. `cost` is in USD, None
    where nobody knows the price. A round that is not `settled` was journalled before its calls were executed.
    """

    number: int
    started_at: datetime
    reply: Reply
    results: tuple[CallResult, ...] = ()
    seconds: float = 0.0
    notice: str = ""
    guard: Guard | None = None
    requests: int = 1
    cost: Decimal | None = None
    elided: bool = False
    turn: int = 1
    said: str = ""
    heard: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """All that the agent was told before it was asked."""
        return told(self.said, self.notice)

    @property
    def settled(self) -> bool:
        """Whether every call has its result."""
        return len(self.results) == len(self.reply.calls)

    def as_json(self) -> dict[str, Any]:
        """The stored and exported form."""
        reply = self.reply
        return {
            "number": self.number,
            "started_at": self.started_at.isoformat(),
            "reply": {
                "text": reply.text,
                "thought": reply.thought,
                "finish": reply.finish,
                "calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.calls],
                "usage": usage_json(reply.usage),
                "native": reply.native,
            },
            "results": [
                {
                    "call_id": result.call_id,
                    "name": result.name,
                    "text": result.text,
                    "code": result.code,
                    "seconds": result.seconds,
                    "fatal": result.fatal,
                }
                for result in self.results
            ],
            "seconds": self.seconds,
            "notice": self.notice,
            "guard": self.guard,
            "requests": self.requests,
            "cost": None if self.cost is None else str(self.cost),
            "elided": self.elided,
            "turn": self.turn,
            "said": self.said,
            "heard": list(self.heard),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Round":
        """The value of a stored form."""
        return cls(
            number=stored["number"],
            started_at=datetime.fromisoformat(stored["started_at"]),
            reply=Reply.from_json(stored["reply"]),
            results=tuple(CallResult(**result) for result in stored["results"]),
            seconds=stored["seconds"],
            notice=stored["notice"],
            guard=stored["guard"],
            requests=stored["requests"],
            cost=None if stored["cost"] is None else Decimal(stored["cost"]),
            elided=stored["elided"],
            turn=stored.get("turn", 1),  # of an earlier release without turns
            said=stored.get("said", ""),
            heard=tuple(stored.get("heard", ())),
        )


@dataclass(frozen=True, slots=True)
class System:
    """Who the agent is and how it works."""

    text: str


@dataclass(frozen=True, slots=True)
class User:
    """The task, and what the service says along the way."""

    text: str


@dataclass(frozen=True, slots=True)
class Assistant:
    """An answer of the model."""

    text: str
    calls: tuple[Call, ...] = ()
    native: JsonValue = None


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """The result of one call."""

    call_id: str
    name: str
    text: str


Message: TypeAlias = System | User | Assistant | ToolReturn


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation so far: the system text, the first user message, and the rounds of every turn.

    An agent works on the turn `turn`; what came before it is only remembered.
    """

    system: str
    opening: str
    rounds: tuple[Round, ...] = ()
    turn: int = 1

    @property
    def current(self) -> tuple[Round, ...]:
        """The rounds of this turn."""
        return tuple(one for one in self.rounds if one.turn == self.turn)

    def with_round(self, latest: Round) -> "Transcript":
        """The same with `latest` as the last round, in place of one with its number."""
        kept = tuple(one for one in self.rounds if one.number != latest.number)
        return replace(self, rounds=(*kept, latest))

    def messages(self, notice: str = "") -> tuple[Message, ...]:
        """What a model is shown, with `notice` said last. A settled transcript answers every call that it shows."""
        shown: list[Message] = [System(self.system)] if self.system else []
        shown.append(User(self.opening))
        for one in self.rounds:
            shown += round_messages(one)
        if notice:
            shown.append(User(notice))
        return tuple(shown)

    @property
    def usage(self) -> Usage:
        """All tokens so far."""
        return sum((one.reply.usage for one in self.rounds), Usage())

    @property
    def seconds(self) -> float:
        """How long the rounds of this turn took, without the time between a crash and what went on."""
        return sum(one.seconds for one in self.current)

    @property
    def cost(self) -> Decimal | None:
        """All that was spent in USD; None as soon as one part is unknown."""
        return _cost(self.rounds)

    @property
    def turn_cost(self) -> Decimal | None:
        """The same of this turn."""
        return _cost(self.current)

    @property
    def last_text(self) -> str:
        """The last natural text of the agent in this turn."""
        return next((one.reply.text for one in reversed(self.current) if one.reply.text.strip()), "")

    def as_json(self) -> dict[str, Any]:
        """The stored and exported form."""
        return {"system": self.system, "opening": self.opening, "rounds": [one.as_json() for one in self.rounds]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Transcript":
        """The value of a stored form."""
        return cls(stored["system"], stored["opening"], tuple(Round.from_json(one) for one in stored["rounds"]))


def told(said: str, notice: str) -> str:
    """What people said and what the service says, as the agent is told it."""
    return "\n\n".join(text for text in (said, notice) if text)


def _cost(rounds: Sequence[Round]) -> Decimal | None:
    known = [one.cost for one in rounds if one.cost is not None]
    return sum(known, Decimal(0)) if len(known) == len(rounds) else None


def round_messages(one: Round) -> list[Message]:
    """What one round adds to a conversation. An answer without any content is none that a provider takes back."""
    shown: list[Message] = [User(one.told)] if one.told else []
    if one.reply.text or one.reply.calls:
        shown.append(Assistant(one.reply.text, one.reply.calls, one.reply.native))
    shown += [ToolReturn(result.call_id, result.name, result.text) for result in one.results]
    return shown


def usage_json(usage: Usage) -> dict[str, Any]:
    """The stored form of a usage."""
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "estimated": usage.estimated,
    }


def cleaned(reply: Reply, taken: Sequence[str], number: int) -> Reply:
    """The reply with storable text, and with call ids that are unique in the conversation (`taken` are in use).

    Some servers send empty ids or the same one twice; a result could not be told to belong to either.
    """
    used = set(taken)
    calls = []
    for index, call in enumerate(reply.calls):
        unique, again = storable_text(call.id), 0
        while not unique or unique in used:
            unique, again = f"call_{number}_{index}" + (f"_{again}" if again else ""), again + 1
        used.add(unique)
        calls.append(Call(unique, storable_text(call.name), storable_text(call.arguments)))
    return replace(
        reply,
        text=storable_text(reply.text),
        thought=storable_text(reply.thought),
        calls=tuple(calls),
        usage=_counted(reply.usage),
        native=_native(reply.native),
    )


def _counted(usage: Usage) -> Usage:
    """Whole numbers that a request can have: some servers count in fractions, or below nothing."""
    given = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    whole = tuple(min(max(0, int(count)), MOST_TOKENS) for count in given)
    return Usage(whole[0], whole[1], whole[2], whole[3], usage.estimated or whole != given)


def _native(value: JsonValue) -> JsonValue:
    """The provider's own form with storable text; None where it is nested deeper than can be stored."""
    try:
        return storable(value)
    except RecursionError:
        return None
