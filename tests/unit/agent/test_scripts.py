"""What the script of the demonstration says of each source's events."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from loops.agent.models.scripted import ScriptedTurn
from loops.agent.models.scripts import SCRIPTS
from loops.agent.tools.event import event_tools
from loops.agent.tools.finalize import FINALIZE
from loops.agent.tools.tool import CallContext
from loops.agent.transcript import Assistant, Call, Message, ToolReturn

CONTEXT = CallContext("t", 1, 0)


async def told(event: Mapping[str, Any]) -> tuple[str, str]:
    """What is noted, where it is asked to remember nothing, and the report: over what event_read really returned."""
    (reading,) = event_tools(event)
    script = SCRIPTS["demo"]()
    first = script[0]
    assert isinstance(first, ScriptedTurn)
    calls = [Call(f"c{number}", one.name, json.dumps(one.arguments)) for number, one in enumerate(first.calls)]
    read = [await reading.call(json.loads(call.arguments), CONTEXT) for call in calls]
    messages: list[Message] = [
        Assistant(first.text, tuple(calls)),
        *(
            ToolReturn(call.id, call.name, json.dumps({"ok": True, "result": one}))
            for call, one in zip(calls, read, strict=True)
        ),
    ]
    turns = [entry(messages, ()) for entry in script[1:3] if not isinstance(entry, ScriptedTurn)]
    assert [turn.calls[0].name for turn in turns] == ["event_read", FINALIZE]
    arguments = turns[1].calls[0].arguments
    assert isinstance(arguments, Mapping)
    return turns[0].thought, str(arguments["final_message"])


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (
            {
                "source": "github",
                "properties": {
                    "event_type": "issues", "action": "opened", "number": 7, "title": "It breaks", "sender": "ada",
                    "body": "since\nnoon",
                },
            },
            ["**#7 It breaks**", "- issues opened by ada: since noon"],
        ),
        (
            {"source": "github", "properties": {"event_type": "push", "action": None, "sender": "ada", "body": None}},
            ["**an event**", "- push by ada: nothing"],
        ),
        (
            {
                "source": "schedule",
                "properties": {
                    "weekday": "Monday", "local_time": "2026-06-15T09:00:00+02:00", "timezone": "Europe/Berlin",
                },
            },
            ["**The run of Monday**", "- started by its schedule: it is 2026-06-15T09:00:00+02:00 in Europe/Berlin"],
        ),
        (
            {"source": "slack", "properties": {"channel": "C1", "user": "U1", "message_text": "is it on?"}},
            ["**is it on?**", "- written in C1 by U1: is it on?"],
        ),
        (
            {
                "source": "posthog", "event": "signed_up", "distinct_id": "d1",
                "properties": {"plan": "pro", "$browser": "x", "seats": 5}, "person": {"name": "ada@example.com"},
            },
            ["**signed_up: ada@example.com**", "- signed_up by ada@example.com: plan pro, seats 5"],
        ),
        (
            {"source": "webhook", "event": "paid", "distinct_id": "ada", "properties": {}, "person": None},
            ["**paid: ada**", "- paid by ada: nothing"],
        ),
        (
            {"source": "github", "properties": {"body": "x" * 20_000}},
            ["**an event**", "- an event by somebody: nothing"],
        ),
    ],
    ids=["an issue", "a push", "a schedule", "a message", "a sign-up", "a webhook", "too large to be read whole"],
)  # fmt: skip
async def test_the_script_repeats_what_it_read_and_says_that_it_is_a_script(
    event: Mapping[str, Any], lines: list[str]
) -> None:
    thought, report = await told(event)
    ends = "- written by the scripted model: it only repeats what the tools returned"
    assert report.splitlines() == [lines[0], "", lines[1], ends]
    assert lines[0].strip("*") in thought
