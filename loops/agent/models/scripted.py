"""A model that says what a script says: for demos and test runs without a key, and for tests."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from loops.agent.budget import estimate, tokens_of
from loops.agent.model import ModelError, ModelSettings, ToolSpec
from loops.agent.transcript import Assistant, Call, Finish, Message, Reply, Usage
from loops.errors import RequestError


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A call: `arguments` as a value, or as text that stays as it is."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One answer. `pause` in seconds goes before it, `fails` in place of it, as often as it has entries."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    thought: str = ""
    finish: Finish | None = None
    pause: float = 0.0
    usage: Usage | None = None
    fails: tuple[ModelError, ...] = ()


Script: TypeAlias = Sequence[ScriptedTurn | Callable[[Sequence[Message], Sequence[ToolSpec]], ScriptedTurn]]
"""A turn may be worked out from the conversation so far and the tools that are offered."""


class ScriptedModel:
    """Answers by a script; the turn is told from the conversation alone, so that a restart changes nothing.

    What a script asks for beyond its end is a ModelError: it never makes anything up.
    """

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self._script = script
        self._failed: dict[int, int] = {}
        self.seen: list[tuple[Sequence[Message], Sequence[ToolSpec], ModelSettings]] = []

    async def request(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        settings: ModelSettings,
        on_text: Callable[[str], None],
    ) -> Reply:
        """See Model."""
        self.seen.append((messages, tools, settings))
        number = sum(isinstance(message, Assistant) for message in messages)
        if number >= len(self._script):
            raise ModelError(self.name, "refused", f"the script ends after {len(self._script)} turns")
        entry = self._script[number]
        turn = entry if isinstance(entry, ScriptedTurn) else entry(messages, tools)
        if turn.pause:
            await asyncio.sleep(turn.pause)
        failed = self._failed.get(number, 0)
        if failed < len(turn.fails):
            self._failed[number] = failed + 1
            raise turn.fails[failed]
        if turn.text:
            on_text(turn.text)
        return _reply(turn, number, turn.usage or _usage(messages, tools, turn))


def script_from_json(given: Sequence[Mapping[str, Any]]) -> Script:
    """A script from JSON: a list of `{text?, thought?, calls?: [{name, arguments?}], pause?}`. Raises RequestError."""
    return [_turn(entry, index) for index, entry in enumerate(given)]


def _turn(entry: Mapping[str, Any], index: int) -> ScriptedTurn:
    unknown = sorted(set(entry) - {"text", "thought", "calls", "pause"})
    if unknown:
        hint = "a turn has text, thought, calls and pause"
        raise RequestError(f"unknown key {unknown[0]!r}", hint=hint, path=f"script[{index}]")
    calls = tuple(ScriptedCall(call["name"], call.get("arguments", {})) for call in entry.get("calls", ()))
    return ScriptedTurn(entry.get("text", ""), calls, entry.get("thought", ""), pause=entry.get("pause", 0.0))


def _reply(turn: ScriptedTurn, number: int, usage: Usage) -> Reply:
    calls = tuple(
        Call(
            f"scripted_{number}_{index}",
            call.name,
            call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False),
        )
        for index, call in enumerate(turn.calls)
    )
    finish: Finish = turn.finish or ("tool_calls" if calls else "stop")
    return Reply(turn.text, calls, usage, finish, turn.thought)


def _usage(messages: Sequence[Message], tools: Sequence[ToolSpec], turn: ScriptedTurn) -> Usage:
    written = len(turn.text) + sum(len(str(call.arguments)) for call in turn.calls)
    return estimate(messages, tools, tokens_of(written))
