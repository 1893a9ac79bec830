"""What `scripted:<name>` says: one function and one line a script.

The scripted model thinks nothing up. It takes its words from what the tools really returned, so that a demonstration
without a key still goes through the whole agent loop.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loops.agent.model import ToolSpec
from loops.agent.models.scripted import Script, ScriptedCall, ScriptedTurn
from loops.agent.tools.finalize import FINALIZE
from loops.agent.transcript import Message, ToolReturn

_PAUSE = 0.6
_LONGEST_QUOTE = 160


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
    ]


def _remember(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ScriptedTurn:
    properties = _read(messages)
    body = str(properties.get("body") or "")
    thought = f"The text has {len(body)} characters and names {_subject(properties)}."
    if all(tool.name != "note_open" for tool in tools):
        return ScriptedTurn("Nothing is to be remembered here.", (ScriptedCall("event_read"),), thought, pause=_PAUSE)
    note = {"text": f"{_subject(properties)}: reported, not confirmed. Look whether it was mended."}
    return ScriptedTurn(
        "I note it for the next run on this subject.", (ScriptedCall("note_open", note),), thought, pause=_PAUSE
    )


def _report(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ScriptedTurn:
    properties = _read(messages)
    body = " ".join(str(properties.get("body") or "nothing").split())[:_LONGEST_QUOTE]
    lines = [
        f"**{_subject(properties)}**",
        "",
        f"- what happened: {properties.get('event_type')} {properties.get('action') or ''}".rstrip(),
        f"- who did it: {properties.get('actor') or properties.get('sender') or 'somebody'}",
        f"- what was said: {body}",
        "- written by the scripted model: it only repeats what the tools returned",
    ]
    arguments: dict[str, Any] = {"final_message": "\n".join(lines)}
    fields = _fields(tools)
    if fields:
        arguments["output"] = fields
    return ScriptedTurn("", (ScriptedCall(FINALIZE, arguments),), pause=_PAUSE)


def _read(messages: Sequence[Message]) -> Mapping[str, Any]:
    """The event's properties, as the tool returned them."""
    for message in messages:
        if isinstance(message, ToolReturn) and message.name == "event_read":
            value = json.loads(message.text).get("result", {}).get("value")
            if isinstance(value, dict):
                found = value.get("properties", value)
                if isinstance(found, dict):
                    return found
    return {}


def _subject(properties: Mapping[str, Any]) -> str:
    number, title = properties.get("number"), properties.get("title") or properties.get("text") or "the event"
    return f"#{number} {title}" if number else str(title)


def _fields(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """A value of the right type for each field that is asked for."""
    asked: Mapping[str, Any] = {}
    for tool in tools:
        if tool.name == FINALIZE:
            asked = tool.parameters["properties"].get("output", {}).get("properties", {})
    samples: Mapping[str, Any] = {"string": "scripted", "number": 1, "boolean": True}
    return {name: samples[schema["type"]] for name, schema in asked.items()}


SCRIPTS: Mapping[str, Callable[[], Script]] = {"demo": demo}
