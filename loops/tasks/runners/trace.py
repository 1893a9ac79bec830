"""The rounds of the common trace, made of what a command tells as it goes."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from loops.agent.execution import cut
from loops.agent.inbox import NOTHING_HEARD, Heard
from loops.agent.journal import Journal, Observer
from loops.agent.transcript import Call, CallResult, Reply, Round, Transcript, Usage, cleaned
from loops.ports import Clock
from loops.storable import storable_text
from loops.tasks.workspace.sandbox import HOME

FAILED = "FAILED"
"""Code of a call of which the command says that it failed."""
UNTOLD = "NO_RESULT"
"""Code of a call whose result was never told."""

MOST_TEXT = 64_000
MOST_ARGUMENTS = 16_000
MOST_CALLS = 64
_EDITS = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit", "file_change"})
_PATH = re.compile(r'"(?:file_path|notebook_path|path)": "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Spent:
    """What a command used of its model up to now; `cost` in USD, None where a price is unknown."""

    usage: Usage = field(default_factory=Usage)
    cost: Decimal | None = field(default_factory=Decimal)
    requests: int = 0


@dataclass(slots=True)
class _Open:
    """The round that is being told."""

    started_at: datetime
    key: str
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: dict[str, CallResult] = field(default_factory=dict)
    begun: dict[str, datetime] = field(default_factory=dict)

    @property
    def is_settled(self) -> bool:
        return bool(self.calls) and len(self.results) == len(self.calls)


class Trace:
    """Takes texts, calls and results in the order in which they happen, and keeps a round when the next one begins.

    What a round used is what was `spent` since the one before; `size` is how many characters of a result are kept.
    """

    def __init__(
        self,
        transcript: Transcript,
        journal: Journal,
        observer: Observer,
        clock: Clock,
        spent: Callable[[], Spent],
        size: int = 16_000,
        heard: Heard = NOTHING_HEARD,
    ) -> None:
        """`heard` is what people said before this turn."""
        self._heard = heard
        self.transcript = transcript
        self.edits = 0
        self._journal = journal
        self._observer = observer
        self._clock = clock
        self._spent = spent
        self._size = size
        self._counted = Spent()
        self._open: _Open | None = None
        self._began = clock.now()

    @property
    def rounds(self) -> int:
        """How many rounds there are, with the one under way."""
        return len(self.transcript.rounds) + (self._open is not None)

    @property
    def turn_rounds(self) -> int:
        """The same of this turn."""
        return len(self.transcript.current) + (self._open is not None)

    def knows(self, call_id: str) -> bool:
        """Whether a call with this id was begun in the round under way."""
        return self._open is not None and call_id in self._open.begun

    async def said(self, text: str, *, key: str = "") -> None:
        """The model said something; texts of one answer have one key."""
        one = await self._answer(key)
        one.texts.append(text)
        self._observer.said(self.rounds, text)

    async def thought(self, text: str, *, key: str = "") -> None:
        """The same of what it thought."""
        (await self._answer(key)).thoughts.append(text)

    async def called(self, call_id: str, name: str, arguments: str, *, key: str = "") -> None:
        """A call begins. It is kept before its result is there: of a worker that dies it is known that it was begun."""
        if self._open is not None and (call_id in self._open.begun or len(self._open.calls) >= MOST_CALLS):
            await self._close(self._open)
        one = await self._answer(key)
        one.calls.append(Call(call_id, name, cut(arguments, MOST_ARGUMENTS)))
        one.begun[call_id] = self._clock.now()
        self._observer.called(self.rounds, one.calls[-1])
        await self._journal.replied(self._round(one))

    async def returned(self, call_id: str, text: str, code: str = "") -> None:
        """A call is over. What belongs to no call of this round is not kept."""
        one = self._open
        call = next((call for call in one.calls if call.id == call_id), None) if one else None
        if one is None or call is None or call_id in one.results:
            return
        seconds = (self._clock.now() - one.begun[call_id]).total_seconds()
        one.results[call_id] = result = CallResult(
            call_id, call.name, storable_text(cut(text, self._size)), code, seconds
        )
        self.edits += not code and _edits(call)
        self._observer.returned(self.rounds, result)

    async def end(self, cost: Decimal | None = None) -> None:
        """Nothing more comes: keep the round that is under way, and all that was spent after it. `cost` is what the
        command says that it cost: it counts where nobody else knows."""
        if self._open is None and not self.transcript.current and self._spent().usage.total:
            self._open = _Open(self._clock.now(), "")  # what was used counts, also where nothing came of it
        if self._open is not None:
            await self._close(self._open)
        rest, rounds = self._since(), self.transcript.current
        if rounds and rest.requests:
            last = rounds[-1]
            usage, more = last.reply.usage + rest.usage, _sum(last.cost, rest.cost)
            await self._store(replace(last, reply=replace(last.reply, usage=usage), cost=more))
        if rounds and cost is not None and self.transcript.turn_cost is None:
            await self._price(cost)

    async def _price(self, cost: Decimal) -> None:
        """Put a known cost of the whole turn on the last of its rounds, whose prices are unknown."""
        *others, last = self.transcript.current
        priced = (*(replace(one, cost=Decimal(0)) for one in others), replace(last, cost=cost))
        before = tuple(one for one in self.transcript.rounds if one.turn != self.transcript.turn)
        self.transcript = replace(self.transcript, rounds=(*before, *priced))
        for one in priced:
            await self._journal.finished(one)

    async def _answer(self, key: str) -> _Open:
        """The round that this belongs to: a new one where the last has another key, or its calls are over."""
        if self._open is not None and (self._open.key != key or self._open.is_settled):
            await self._close(self._open)
        if self._open is None:
            self._open = _Open(self._clock.now(), key)
            self._observer.asked(self.rounds)
        return self._open

    async def _close(self, one: _Open) -> None:
        for call in one.calls:
            one.results.setdefault(call.id, CallResult(call.id, call.name, "its result was not told", UNTOLD))
        rest = self._since()
        whole = self._round(one)
        reply = replace(whole.reply, usage=rest.usage)
        await self._store(replace(whole, reply=reply, cost=rest.cost, requests=max(rest.requests, 1)))
        self._began = self._clock.now()
        self._open = None

    async def _store(self, one: Round) -> None:
        self.transcript = self.transcript.with_round(one)
        await self._journal.finished(one)

    def _round(self, one: _Open) -> Round:
        taken = [call.id for earlier in self.transcript.rounds for call in earlier.reply.calls]
        number = len(self.transcript.rounds) + 1
        said, thought = (cut("\n\n".join(texts), MOST_TEXT) for texts in (one.texts, one.thoughts))
        reply = Reply(said, tuple(one.calls), finish="tool_calls" if one.calls else "stop", thought=thought)
        reply = cleaned(reply, taken, number)
        results = tuple(
            replace(one.results[told.id], call_id=call.id)
            for told, call in zip(one.calls, reply.calls, strict=True)
            if told.id in one.results
        )
        seconds = (self._clock.now() - self._began).total_seconds()
        heard = NOTHING_HEARD if self.transcript.current else self._heard
        return Round(
            number,
            one.started_at,
            reply,
            results,
            seconds=seconds,
            turn=self.transcript.turn,
            said=heard.text,
            heard=heard.keys,
        )

    def _since(self) -> Spent:
        """What was spent since this was asked last."""
        now, before = self._spent(), self._counted
        self._counted = now
        usage = Usage(
            now.usage.input - before.usage.input,
            now.usage.output - before.usage.output,
            now.usage.cache_read - before.usage.cache_read,
            now.usage.cache_write - before.usage.cache_write,
            now.usage.estimated,
        )
        cost = None if now.cost is None or before.cost is None else now.cost - before.cost
        return Spent(usage, cost, now.requests - before.requests)


def _edits(call: Call) -> bool:
    """Whether a call edits a file of the checkout, going by its name and the paths that it names."""
    if call.name not in _EDITS:
        return False
    paths = _PATH.findall(call.arguments)
    return any(not path.startswith("/") or path.startswith(f"{HOME}/") for path in paths) or not paths


def _sum(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return None if one is None or other is None else one + other
