"""What `scripted:<name>` says: one function and one line a script.

The scripted model thinks nothing up. It takes its words from what the tools really returned, so that a demonstration
without a key still goes through the whole agent loop.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loops.agent.model import ToolSpec
from loops.agent.models.scripted import Script, ScriptedCall, ScriptedTurn
from loops.agent.tools.finalize import FINALIZE
from loops.agent.transcript import Message, ToolReturn, User

_PAUSE = 0.6
_LONGEST_QUOTE = 160
_TURNS = 20
"""How often it answers in a thread."""
_SAID = re.compile(r"<message_from user=[^\n]*>\n(\{[^\n]*\})\n</message_from>")


def demo() -> Script:
    """Reads the event, leaves a note where it may, and reports what was read."""
    return [
        ScriptedTurn(
            "I look at what happened.",
            (ScriptedCall("event_read"), ScriptedCall("event_read", {"path": "properties"})),
            thought="The event is data from outside; I read it with the tool instead of trusting the prompt's cut.",
            pause=_PAUSE,
        ),
        _remember,
        _report,
        *[_answer] * _TURNS,
    ]


def _remember(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ScriptedTurn:
    told = _told(messages)
    thought = f"It is about {told.subject}. Whoever works on this next should know that it was seen."
    if all(tool.name != "note_open" for tool in tools):
        return ScriptedTurn("Nothing is to be remembered here.", (ScriptedCall("event_read"),), thought, pause=_PAUSE)
    note = {"text": f"{told.subject}: seen, not confirmed. Look what became of it."}
    return ScriptedTurn(
        "I note it for the next run on this subject.", (ScriptedCall("note_open", note),), thought, pause=_PAUSE
    )


def _report(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ScriptedTurn:
    told = _told(messages)
    said = " ".join(told.said.split())[:_LONGEST_QUOTE] or "nothing"
    lines = [
        f"**{told.subject}**",
        "",
        f"- {told.happened} by {told.who or 'somebody'}: {said}",
        "- written by the scripted model: it only repeats what the tools returned",
    ]
    arguments: dict[str, Any] = {"final_message": "\n".join(lines)}
    fields = _fields(tools)
    if fields:
        arguments["output"] = fields
    return ScriptedTurn("I report what I have read.", (ScriptedCall(FINALIZE, arguments),), pause=_PAUSE)


def _answer(messages: Sequence[Message], _tools: Sequence[ToolSpec]) -> ScriptedTurn:
    """Repeats what was asked last in the thread."""
    asked = [found for message in messages if isinstance(message, User) for found in _SAID.findall(message.text)]
    said = _text(_mapping(json.loads(asked[-1])), "text") if asked else ""
    lines = [
        f"You ask: {' '.join(said.split())[:_LONGEST_QUOTE] or 'nothing'}",
        "",
        "- the scripted model cannot say more",
    ]
    call = ScriptedCall(FINALIZE, {"final_message": "\n".join(lines)})
    return ScriptedTurn("Somebody asks more.", (call,), pause=_PAUSE)


@dataclass(frozen=True, slots=True)
class _Told:
    """What an event tells, in words."""

    subject: str
    happened: str
    who: str
    said: str


def _told(messages: Sequence[Message]) -> _Told:
    event = _read(messages)
    source, properties = event.get("source"), _mapping(event.get("properties"))
    if source == "github":
        title, happened = _text(properties, "title"), [_text(properties, "event_type"), _text(properties, "action")]
        number = f"#{properties['number']} " if properties.get("number") else ""
        who, said = _text(properties, "sender"), _text(properties, "body")
        return _Told(f"{number}{title}".strip() or "an event", " ".join(filter(None, happened)), who, said)
    if source == "slack":
        said = _text(properties, "message_text")
        return _Told(
            said.strip() or "a message", f"written in {properties.get('channel')}", _text(properties, "user"), said
        )
    if source == "schedule":
        told = f"it is {_text(properties, 'local_time')} in {_text(properties, 'timezone')}"
        return _Told(f"The run of {_text(properties, 'weekday')}", "started", "its schedule", told)
    name = _text(event, "event") or "an event"
    who = _text(_mapping(event.get("person")), "name") or _text(event, "distinct_id")
    plain = [f"{key} {value}" for key, value in properties.items() if not key.startswith("$")]
    return _Told(f"{name}: {who}" if who else name, name, who, ", ".join(plain))


def _read(messages: Sequence[Message]) -> Mapping[str, Any]:
    """The event as the tool returned it, empty where it was too large to be returned whole."""
    for message in messages:
        if isinstance(message, ToolReturn) and message.name == "event_read":
            return _mapping(json.loads(message.text).get("result", {}).get("value"))
    return {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    return "" if value is None else str(value)


def _fields(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """A value of the right type for each field that is asked for."""
    asked: Mapping[str, Any] = {}
    for tool in tools:
        if tool.name == FINALIZE:
            asked = tool.parameters["properties"].get("output", {}).get("properties", {})
    samples: Mapping[str, Any] = {"string": "scripted", "number": 1, "boolean": True}
    return {name: samples[schema["type"]] for name, schema in asked.items()}


SCRIPTS: Mapping[str, Callable[[], Script]] = {"demo": demo}
