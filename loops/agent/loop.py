"""The agent: one conversation, tool calls until `finalize`, and guards around it.

    judge the rounds  ->  ask the model  ->  execute the calls  ->  journal the round  ->  judge again

Nothing is kept beside the transcript: an agent that is given the rounds of one that was killed goes on as that one
would have. A round whose calls write is journalled twice, with the answer before they are executed, so that after a
crash the same calls are made again under the same keys.
"""

import json
from dataclasses import dataclass, field, replace
from datetime import datetime

from loops.agent.arguments import read_arguments
from loops.agent.asking import Asked, Patience
from loops.agent.budget import Budget, Pricing, Refusal, TaskBudget, estimate, tokens_of
from loops.agent.elision import elided
from loops.agent.execution import Execution, Turn, refused
from loops.agent.guards import Force, Limits, Stop, force, judge, reason_of
from loops.agent.inbox import Heard, Inbox, NobodySpeaks
from loops.agent.interruption import Abort, Aborted, Expired, Interrupted
from loops.agent.journal import Journal, Observer, Unobserved
from loops.agent.model import Model, ModelError, ModelSettings
from loops.agent.result import AgentResult
from loops.agent.tools import Toolbox
from loops.agent.tools.finalize import FINALIZE, Final
from loops.agent.tools.tool import ToolError
from loops.agent.transcript import (
    Call,
    CallResult,
    Finish,
    Guard,
    Message,
    Reply,
    Round,
    Transcript,
    Usage,
    cleaned,
    told,
)
from loops.ports import Clock

_FULL = 0.6  # of the context; above it old results leave the conversation


def _no_price(_usage: Usage) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent and what it works with."""

    task_id: str
    model: Model
    toolbox: Toolbox
    journal: Journal
    clock: Clock
    limits: Limits = field(default_factory=Limits)
    settings: ModelSettings = field(default_factory=ModelSettings)
    pricing: Pricing = _no_price
    budget: Budget | None = None
    observer: Observer = field(default_factory=Unobserved)
    patience: Patience | None = None
    inbox: Inbox = field(default_factory=NobodySpeaks)

    async def run(self, transcript: Transcript, abort: Abort) -> AgentResult:
        """Work on the transcript's turn until it ends. `transcript` holds the rounds that were journalled, none for a
        new task.

        When the caller itself is cancelled nothing more is journalled, and the agent can be run again from its rounds;
        when `abort` is asked for, it ends as `cancelled`.
        """
        return await _Work(self, transcript, abort).run()


class _Work:
    """One agent at work."""

    def __init__(self, agent: Agent, transcript: Transcript, abort: Abort) -> None:
        self._agent = agent
        self._transcript = transcript
        self._abort = abort
        self._began = agent.clock.now()
        self._spent = transcript.seconds
        self._budget = agent.budget or TaskBudget(agent.pricing, spent=transcript.usage)
        self._patience = agent.patience or Patience(agent.limits.requests)
        self._specs = [tool.spec for tool in agent.toolbox.tools.values()]

    async def run(self) -> AgentResult:
        await self._take_up()
        while True:
            if self._abort.asked:
                return self._cancelled()
            if (ended := self._ended()) is not None:
                return ended
            judgement = judge(self._transcript.current, self._agent.limits, self._left())
            if isinstance(judgement, Stop):
                return self._stopped(judgement)
            guard = judgement.guard if isinstance(judgement, Force) else None
            stop = await self._round(judgement.notice, guard)
            if stop is not None:
                return self._cancelled() if self._abort.asked else self._stopped(stop)

    def _left(self) -> float:
        """Seconds of the wall clock that are left. The time between a crash and its resumption counts for nobody."""
        here = (self._agent.clock.now() - self._began).total_seconds()
        return self._agent.limits.wall_clock - self._spent - here

    async def _take_up(self) -> None:
        """Finish the round that a killed agent had journalled before its calls were executed."""
        last = self._transcript.rounds[-1] if self._transcript.rounds else None
        if last is not None and not last.settled:
            await self._act(last, self._agent.clock.now(), again=True)

    def _ended(self) -> AgentResult | None:
        """The result, when the last round brought the end itself."""
        if not self._transcript.current:
            return None
        last = self._transcript.current[-1]
        for call, result in zip(last.reply.calls, last.results, strict=True):
            if result.fatal:
                return self._stopped(Stop("tool_error", f"{result.name}: {_message_in(result)}"))
            if call.name == FINALIZE and not result.code:
                return self._finished(call, last)
        return None

    def _finished(self, call: Call, last: Round) -> AgentResult:
        final = self._agent.toolbox.finalize.read(read_arguments(call.arguments))
        reason = final.reason if final.outcome == "noop" else "the agent finalized"
        if last.guard:
            reason = f"{reason}, since {reason_of(last.guard, self._agent.limits)}"
        return AgentResult(
            final.outcome, reason, self._transcript, final.message, output=final.output, guard=last.guard
        )

    def _cancelled(self) -> AgentResult:
        return AgentResult("cancelled", "cancelled on request", self._transcript)

    def _stopped(self, stop: Stop) -> AgentResult:
        """The end without a result: what the agent last said stands in for it."""
        unaccepted = self._unaccepted()
        text = unaccepted.message or self._transcript.last_text
        return AgentResult(stop.ending, stop.reason, self._transcript, text, fallback=True, output=unaccepted.output)

    def _unaccepted(self) -> Final:
        """What there is of the last `finalize` that was not accepted."""
        for one in reversed(self._transcript.current):
            for call in reversed(one.reply.calls):
                if call.name == FINALIZE:
                    try:
                        return self._agent.toolbox.finalize.partial(read_arguments(call.arguments))
                    except ToolError:
                        continue
        return Final("")

    async def _round(self, notice: str, guard: Guard | None) -> Stop | None:
        """One round. The reason to stop where it brought none that could be judged."""
        started = self._agent.clock.now()
        number = len(self._transcript.rounds) + 1
        # Not before a forced end: who speaks then is heard in the next turn.
        heard = Heard() if guard is not None else await self._agent.inbox.heard()
        messages, trimmed = self._messages(told(heard.text, notice))
        settings = self._settings(guard)
        most = estimate(messages, self._specs, settings.max_tokens)
        refusal = await self._budget.reserve(f"{number}", most)
        if refusal is not None:
            return await self._refused(refusal, guard)
        one = Round(
            number,
            started,
            Reply(),
            notice=notice,
            guard=guard,
            elided=trimmed,
            turn=self._transcript.turn,
            said=heard.text,
            heard=heard.keys,
        )
        asked = Asked()
        try:
            reply = await self._ask(messages, settings, number, guard, asked)
        except Interrupted as interrupted:
            finish: Finish = "cancelled" if isinstance(interrupted, Aborted) else "expired"
            await self._broken(one, asked, most, finish)
            return None
        except ModelError as error:
            await self._broken(one, asked, most, "error")
            return Stop(guard or "provider_error", error.message)
        taken = [call.id for earlier in self._transcript.rounds for call in earlier.reply.calls]
        reply = cleaned(reply, taken, number)
        await self._budget.settle(f"{number}", reply.usage)
        cost = self._agent.pricing(reply.usage)
        await self._act(replace(one, reply=reply, requests=asked.requests, cost=cost), started)
        return None

    async def _refused(self, refusal: Refusal, guard: Guard | None) -> Stop | None:
        """A last, shorter request may still fit the budget."""
        if guard is not None:
            return Stop(guard, f"{reason_of(guard, self._agent.limits)}; {refusal.reason}")
        return await self._round(force("budget", self._agent.limits).notice, "budget")

    def _settings(self, guard: Guard | None) -> ModelSettings:
        settings = replace(self._agent.settings, cache_key=self._agent.task_id)
        if guard is None:
            return settings
        most = min(settings.max_tokens, self._agent.limits.finalize_tokens)
        return replace(settings, force=FINALIZE, max_tokens=most)

    def _messages(self, notice: str) -> tuple[tuple[Message, ...], bool]:
        messages = self._transcript.messages(notice)
        if estimate(messages, self._specs, 0).input <= _FULL * self._agent.limits.context:
            return messages, False
        return elided(messages, self._fresh(notice)), True

    def _fresh(self, notice: str) -> int:
        """How many messages at the end belong to the last round and stay whole."""
        rounds = self._transcript.rounds
        return len(rounds[-1].results) + bool(notice) if rounds else 0

    async def _ask(
        self, messages: tuple[Message, ...], settings: ModelSettings, number: int, guard: Guard | None, asked: Asked
    ) -> Reply:
        """The reply. One that does not fit the model's context is asked for once more without the older results."""
        try:
            return await self._request(messages, settings, number, guard, asked)
        except ModelError as error:
            shorter = elided(messages, 0)
            if error.kind != "context_overflow" or shorter == messages:
                raise
        return await self._request(shorter, settings, number, guard, asked)

    async def _request(
        self, messages: tuple[Message, ...], settings: ModelSettings, number: int, guard: Guard | None, asked: Asked
    ) -> Reply:
        agent = self._agent
        seconds = self._left() - (0.0 if guard else agent.limits.kept_back)
        request = (messages, self._specs, settings)
        work = self._patience.ask(agent.model, request, seconds, number, agent.observer, asked)
        return await self._abort.within(work, seconds)

    async def _broken(self, one: Round, asked: Asked, most: Usage, finish: Finish) -> None:
        """Keep a round whose answer never came whole, with what is known of it.

        A provider that answered with an error, or was never reached, has worked on nothing and charges nothing.
        """
        text = "".join(asked.text)
        charged = finish != "error" or bool(text)
        usage = Usage(most.input, tokens_of(len(text)) if text else 0, estimated=True) if charged else Usage()
        await self._budget.settle(f"{one.number}", usage)
        reply = cleaned(Reply(text, usage=usage, finish=finish), (), one.number)
        cost = self._agent.pricing(usage)
        seconds = self._since(one.started_at)
        await self._keep(replace(one, reply=reply, requests=asked.requests, cost=cost, seconds=seconds))

    async def _act(self, one: Round, started: datetime, *, again: bool = False) -> None:
        """Execute the calls of an answer and keep the round."""
        if not again and self._writes(one.reply):
            await self._agent.journal.replied(replace(one, seconds=self._since(started)))
        results = await self._results(one, again=again)
        await self._keep(replace(one, results=results, seconds=one.seconds + self._since(started)))

    def _writes(self, reply: Reply) -> bool:
        tools = self._agent.toolbox.tools
        return any(
            call.name != FINALIZE and call.name in tools and tools[call.name].effect != "read" for call in reply.calls
        )

    async def _results(self, one: Round, *, again: bool) -> tuple[CallResult, ...]:
        calls = one.reply.calls
        if one.reply.finish == "length":
            hint = "write a shorter call"
            return refused(
                calls, "TRUNCATED_CALL", "the answer was cut at the output limit; nothing was executed", hint
            )
        agent = self._agent
        turn = Turn(agent.task_id, one.number, again, only_finalize=one.guard is not None)
        execution = Execution(agent.toolbox.tools, agent.limits, agent.observer, turn)
        seconds = self._left() - (0.0 if one.guard else agent.limits.kept_back)
        try:
            await self._abort.within(execution.run(calls), seconds)
        except Aborted:
            return execution.results(calls, "CANCELLED", "cancelled on request")
        except Expired:
            return execution.results(calls, "TIMEOUT", "the time of the task was over")
        return execution.results(calls)

    async def _keep(self, one: Round) -> None:
        await self._agent.journal.finished(one)
        self._transcript = self._transcript.with_round(one)

    def _since(self, started: datetime) -> float:
        return (self._agent.clock.now() - started).total_seconds()


def _message_in(result: CallResult) -> str:
    """What a failure says; its whole text where that was cut."""
    try:
        message = json.loads(result.text)["error"]["message"]
    except ValueError:
        message = result.text
    return str(message)
