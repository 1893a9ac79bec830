import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.tasks.runners.claude_code import ClaudeCode
from loops.tasks.runners.codex import Codex
from loops.tasks.runners.command import SCHEMA, CommandLine
from tests.unit.tasks.runners.reading import Reading
from tests.unit.tasks.runners.test_claude_code import errand

DIALECT = CommandLine()
LINES = (
    {"type": "text", "text": "I look."},
    {"type": "thought", "text": "Where is it?"},
    {"type": "call", "id": "1", "name": "grep", "arguments": {"for": "helo"}},
    {"type": "result", "id": "1", "text": "hello.py", "failed": False},
    {"type": "call", "id": "1", "name": "sed"},
    {"type": "result", "id": "1", "text": "no such file", "failed": True},
    {"type": "end", "final_message": "Fixed.", "outcome": "done", "output": {"urgent": True}},
)


def printed(*events):
    return "\n".join(json.dumps(event) for event in events).encode()


async def test_a_plain_text_is_the_report():
    result = await Reading(DIALECT).of(b"\nIt is fixed.\n\n{see} the file\n")
    assert (result.ending, result.message) == ("done", "It is fixed.\n\n{see} the file")
    assert [one.reply.text for one in result.transcript.rounds] == ["It is fixed.\n\n{see} the file"]


async def test_a_plain_text_that_is_one_object_is_a_structured_report():
    text = b'{\n "final_message": "Fixed.",\n "output": {"urgent": false}\n}'
    result = await Reading(DIALECT).of(text, {"urgent": "boolean"})
    assert (result.message, result.output) == ("Fixed.", {"urgent": False})


async def test_events_become_rounds_and_the_end_its_report():
    result = await Reading(DIALECT).of(printed(*LINES), {"urgent": "boolean"})
    assert (result.ending, result.message, result.output) == ("done", "Fixed.", {"urgent": True})
    first, second = result.transcript.rounds
    assert (first.reply.text, first.reply.thought, first.results[0].text) == ("I look.", "Where is it?", "hello.py")
    assert second.results[0].code == "FAILED"
    assert first.reply.calls[0].id != second.reply.calls[0].id


@pytest.mark.parametrize(
    ("output", "code", "ending"),
    [
        (b"", 0, "runner_error"),
        (b"\n \n", 0, "runner_error"),
        (b"Fixed.", 3, "runner_error"),
        (printed(*LINES[:-1]), 0, "runner_error"),
        (printed(LINES[0], {"type": "error", "message": "no model"}), 0, "runner_error"),
        (printed({"type": "end", "final_message": " "}), 0, "invalid_output"),
        (printed({"type": "end", "outcome": "noop"}), 0, "invalid_output"),
    ],
)
async def test_what_is_no_report_is_no_success(output, code, ending):
    assert (await Reading(DIALECT).of(output, code=code)).ending == ending


def test_it_gets_the_model_the_schema_and_the_way_to_its_model():
    made = CommandLine("openai").invocation(
        errand(program="/usr/bin/aider", arguments=("--model", "openai/{model}"), schema={"type": "object"})
    )
    assert made.argv == ("/usr/bin/aider", "--model", "openai/sonnet")
    assert made.environment["OPENAI_BASE_URL"] == "http://127.0.0.1:8080/v1"
    assert made.environment["LOOPS_WHILE_SCHEMA"] == SCHEMA
    assert made.stdin == b"Be good.\n\n--help"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "message", "content", "item", "id", "text", "result", "name", "error", "errors"]),
            inner
            | st.sampled_from(["assistant", "user", "result", "item.completed", "text", "call", "end", "tool_use"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.lists(_json.map(json.dumps) | st.text(max_size=20), max_size=8), st.sampled_from([0, 1]))
async def test_no_output_whatever_breaks_a_reader(lines, code):
    output = "\n".join(lines).encode("utf-8", "surrogatepass")
    for dialect in (ClaudeCode(), Codex(), DIALECT):
        result = await Reading(dialect).of(output, code=code)
        assert not (code and result.ending in ("done", "noop"))
