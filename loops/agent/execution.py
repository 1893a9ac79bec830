"""The calls of one round: reading ones beside each other, writing ones in order, each with a result in the end."""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import monotonic
from typing import Any

from loops.agent.arguments import read_arguments
from loops.agent.guards import Limits
from loops.agent.journal import Observer
from loops.agent.tools.finalize import FINALIZE
from loops.agent.tools.tool import CallContext, Tool, ToolError, TypedTool
from loops.agent.transcript import NO_CODE, Call, CallResult
from loops.errors import LoopsError, RunFenced
from loops.event import JsonValue
from loops.storable import storable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Turn:
    """Which round's calls these are. `again` where they may have been executed before a crash."""

    task_id: str
    number: int
    again: bool = False
    only_finalize: bool = False


class Execution:
    """Executes a round's calls. Whatever interrupts it, `results` has one for every call."""

    def __init__(self, tools: Mapping[str, Tool], limits: Limits, observer: Observer, turn: Turn) -> None:
        self._tools = tools
        self._limits = limits
        self._observer = observer
        self._turn = turn
        self._done: dict[int, CallResult] = {}
        self._begun: set[int] = set()
        self._over = False

    async def run(self, calls: Sequence[Call]) -> None:
        """Execute them all; after an accepted `finalize`, or what nothing can go on after, none is begun."""
        for reading, group in groupby(enumerate(calls), key=lambda numbered: self._reads(numbered[1])):
            numbered = list(group)
            if reading:
                await self._together(numbered)
            else:
                for index, call in numbered:
                    await self._one(index, call)

    async def _together(self, numbered: Sequence[tuple[int, Call]]) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for index, call in numbered:
                    tasks.create_task(self._one(index, call))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    def results(self, calls: Sequence[Call], code: str = "NOT_RUN", words: str = "") -> tuple[CallResult, ...]:
        """One result a call; those that have none are told `code`."""
        return tuple(
            self._done.get(index) or self._missing(index, call, code, words) for index, call in enumerate(calls)
        )

    def _missing(self, index: int, call: Call, code: str, words: str) -> CallResult:
        if index not in self._begun:
            return failure(call, "NOT_RUN", words or "the task ended before this call", "")
        tool = self._tools.get(call.name)
        may_have = "" if tool is None or tool.effect == "read" else "; it may have taken effect"
        return failure(call, code, f"{words}{may_have}", "")

    def _reads(self, call: Call) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and tool.effect == "read"

    async def _one(self, index: int, call: Call) -> None:
        if self._over:
            self._done[index] = failure(call, "NOT_RUN", "the task ended before this call", "")
            return
        self._begun.add(index)
        self._observer.called(self._turn.number, call)
        began = monotonic()
        text, code, fatal = await self._outcome(index, call)
        result = CallResult(call.id, call.name, cut(text, self._limits.result_size), code, monotonic() - began, fatal)
        self._done[index] = result
        self._over = self._over or fatal or (call.name == FINALIZE and not code)
        self._observer.returned(self._turn.number, result)

    async def _outcome(self, index: int, call: Call) -> tuple[str, str, bool]:
        try:
            value = await self._call(index, call)
            return _text(value), NO_CODE, False
        except ToolError as error:
            return _failure_text(error.code, error.message, error.hint), error.code, error.fatal
        except RunFenced:
            raise
        except LoopsError as error:
            return _failure_text(error.code, error.message, error.hint), error.code, False
        except Exception as error:
            # A fault in a tool is no mistake of the model's: the task ends, and the traceback is the operator's.
            log.exception("tool raised", extra={"tool": call.name, "task_id": self._turn.task_id})
            words = f"internal error: {type(error).__name__}: {error}"
            return _failure_text("INTERNAL", words, ""), "INTERNAL", True

    async def _call(self, index: int, call: Call) -> JsonValue:
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError("UNKNOWN_TOOL", f"there is no tool {call.name!r}", f"tools: {', '.join(self._tools)}")
        if self._turn.only_finalize and call.name != FINALIZE:
            raise ToolError("NOT_RUN", "only finalize is executed now", "call finalize")
        if index >= self._limits.calls_per_round:
            most = self._limits.calls_per_round
            raise ToolError("TOO_MANY_CALLS", f"at most {most} calls in a round are executed", "call it in a later one")
        context = CallContext(self._turn.task_id, self._turn.number, index, self._turn.again)
        arguments = read_arguments(call.arguments)
        if context.again and tool.effect == "write":
            hint = "find out whether it took effect before it is called again"
            raise ToolError("UNCERTAIN", "the service was restarted while this call may have been executed", hint)
        return await self._timed(tool, arguments, context)

    async def _timed(self, tool: Tool, arguments: Mapping[str, Any], context: CallContext) -> JsonValue:
        limit = max(self._limits.tool_timeout, tool.seconds if isinstance(tool, TypedTool) else 0.0)
        try:
            async with asyncio.timeout(limit) as timer:
                return await tool.call(arguments, context)
        except TimeoutError:
            if not timer.expired():
                raise ToolError("TIMEOUT", "something that the tool waited for took too long") from None
            may_have = "" if tool.effect == "read" else "; it may have taken effect"
            raise ToolError(
                "TIMEOUT", f"no result within {limit:g} seconds{may_have}", "ask for less at once"
            ) from None


def refused(calls: Sequence[Call], code: str, message: str, hint: str) -> tuple[CallResult, ...]:
    """The same failure for every call, none of which is executed."""
    return tuple(failure(call, code, message, hint) for call in calls)


def failure(call: Call, code: str, message: str, hint: str) -> CallResult:
    """The result of a call that failed before it could say anything itself."""
    return CallResult(call.id, call.name, _failure_text(code, message, hint), code)


def cut(text: str, most: int) -> str:
    """The text, or its beginning with a marker that says how long it was. Never longer than `most` and the marker."""
    if len(text) <= most:
        return text
    return f"{text[:most]} [truncated: {most} of {len(text)} characters; ask for less, or for a later piece]"


def _text(value: JsonValue) -> str:
    if isinstance(value, dict) and "ok" in value:
        return _dumped(value)
    return _dumped({"ok": True} if value is None else {"ok": True, "result": value})


def _failure_text(code: str, message: str, hint: str) -> str:
    error: dict[str, JsonValue] = {"code": code, "message": message, **({"hint": hint} if hint else {})}
    return _dumped({"ok": False, "error": error})


def _dumped(value: JsonValue) -> str:
    return json.dumps(storable(value), ensure_ascii=False, allow_nan=False)
