import json
from decimal import Decimal

import pytest

from loops.agent.transcript import Usage
from loops.tasks.runners.claude_code import ClaudeCode
from loops.tasks.runners.told import Errand
from loops.tasks.runners.verdict import Stop, unmasked
from tests.unit.tasks.runners.reading import Reading, recorded

DIALECT = ClaudeCode()


async def read(name, fields=None, price=Decimal("0.01"), **more):
    return await Reading(DIALECT, price).of(recorded("claude_code", name), fields, **more)


async def test_its_events_become_rounds_with_texts_thoughts_calls_and_results():
    result = await read("edit")
    assert (result.ending, result.message, result.edits) == ("done", "Fixed the typo.", 1)
    first, second, third = result.transcript.rounds
    assert (first.reply.thought, first.reply.text) == ("The typo is in line 1.", "I look.")
    (call,) = first.reply.calls
    assert (call.name, json.loads(call.arguments)) == ("Read", {"file_path": "/workspace/hello.py"})
    assert [(one.name, one.code) for one in second.results] == [("Edit", ""), ("Bash", "FAILED")]
    assert second.results[1].text == "Exit code 1\nhelo"
    assert (third.reply.text, third.reply.calls, third.reply.finish) == ("Fixed the typo.", (), "stop")
    assert "sub-agent" not in json.dumps(result.transcript.as_json())


async def test_the_rounds_add_up_to_all_that_was_metered():
    reading = Reading(DIALECT)
    result = await reading.of(recorded("claude_code", "edit"))
    assert result.usage == Usage(100 * reading.lines, 10 * reading.lines)
    assert result.cost == Decimal("0.01") * reading.lines


async def test_a_call_is_kept_before_its_result_is_there():
    reading = Reading(DIALECT)
    output = b"\n".join(recorded("claude_code", "edit").splitlines()[:4])
    result = await reading.of(output, stop=Stop("timeout", "stopped"))
    (one,) = result.transcript.rounds
    assert (one.results[0].code, one.settled) == ("NO_RESULT", True)
    assert (result.ending, result.message, result.fallback) == ("timeout", "I look.", True)


@pytest.mark.parametrize(
    ("name", "code", "ending", "words"),
    [
        ("max_turns", 1, "max_rounds", "maximum number of turns"),
        ("max_budget", 1, "budget", "maximum budget"),
        ("api_error", 1, "provider_error", "529"),
        ("prompt_too_long", 1, "provider_error", "too long"),
        ("execution_error", 1, "runner_error", "TypeError"),
        ("edit", 1, "runner_error", "exit code 1: it said this at last"),
        ("edit", -9, "runner_error", "signal 9"),
        ("denied", 0, "runner_error", "not allowed to use Edit"),
        ("empty", 0, "invalid_output", "without a report"),
        ("no_result", 0, "runner_error", "as if all were well"),
        ("no_result", 143, "runner_error", "exit code 143"),
    ],
)
async def test_a_success_that_is_none_is_seen_through(name, code, ending, words):
    result = await read(name, code=code)
    assert (result.ending, result.fallback) == (ending, True)
    assert words in result.reason


@pytest.mark.parametrize(
    ("stopped", "ending"),
    [("timeout", "timeout"), ("idle", "timeout"), ("memory", "runner_error"), ("output", "runner_error")],
)
async def test_what_the_sandbox_stopped_has_not_succeeded_whatever_it_says(stopped, ending):
    result = await read("edit", code=-9, stopped=stopped)
    assert result.ending == ending
    assert result.message == "Fixed the typo."


async def test_an_error_in_the_shape_of_an_answer_is_none_and_what_was_used_meanwhile_counts():
    result = await read("api_error", code=1)
    (one,) = result.transcript.rounds
    assert (one.reply.text, result.message) == ("", "")
    assert result.usage.total > 0


async def test_a_structured_report_gives_fields_of_their_types():
    result = await read("structured", {"urgent": "boolean"})
    assert (result.ending, result.message, result.output) == ("done", "Fixed.", {"urgent": True})


@pytest.mark.parametrize(
    ("name", "message"), [("edit", "Fixed the typo."), ("structured_wrong", "Fixed.")], ids=["none", "wrong"]
)
async def test_a_report_without_the_fields_that_were_asked_for_is_no_success(name, message):
    result = await read(name, {"urgent": "boolean"})
    assert (result.ending, result.message, result.output) == ("invalid_output", message, {})


async def test_nothing_to_do_is_told_with_its_reason():
    result = await read("noop")
    assert (result.ending, result.reason) == ("noop", "the typo is gone already")


async def test_lines_that_nobody_knows_change_nothing():
    result = await read("garbage")
    assert (result.ending, result.message, result.rounds) == ("done", "Done.", 1)


async def test_its_own_dollars_count_only_where_nobody_else_knows_and_it_knows_itself():
    assert (await read("edit", price=None)).cost == Decimal("0.0114")
    assert (await read("unknown_price", price=None)).cost is None


async def test_an_edit_that_left_no_trace_in_the_checkout_is_no_success():
    result = await read("edit")
    assert unmasked(result, changed=True) is result
    seen = unmasked(result, changed=False)
    assert (seen.ending, seen.message) == ("runner_error", "Fixed the typo.")
    assert "none is changed" in seen.reason
    report = await read("noop")
    assert unmasked(report, changed=False) is report


@pytest.mark.parametrize(
    ("path", "count"), [("/workspace/a.py", 1), ("a.py", 1), ("/tmp/a.py", 0), ("/workspacex/a", 0)]
)
async def test_only_edits_of_the_checkout_count_as_such(path, count):
    edit = {"type": "tool_use", "id": "t", "name": "Write", "input": {"content": "x", "file_path": path}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "written"}
    lines = [
        {"type": "assistant", "message": {"id": "m", "content": [edit]}},
        {"type": "user", "message": {"content": [result]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "Done."},
    ]
    output = "\n".join(map(json.dumps, lines)).encode()
    assert (await Reading(DIALECT).of(output)).edits == count


def errand(**changes):
    given = {
        "task_id": "t1", "program": "/opt/runner/claude", "model": "sonnet", "system": "Be good.", "prompt": "--help",
        "schema": None, "max_rounds": 8, "base_url": "http://127.0.0.1:8080", "token": "run-token",
    }  # fmt: skip
    return Errand(**{**given, **changes})


def test_it_is_started_with_its_settings_off_and_the_prompt_on_its_stdin():
    made = DIALECT.invocation(errand(effort="high", schema={"type": "object"}, arguments=("--betas", "x")))
    options = list(made.argv)
    assert options[:3] == ["/opt/runner/claude", "--betas", "x"]
    assert made.stdin == b"--help"
    assert "--help" not in options
    for name, value in {
        "--model": "sonnet", "--max-turns": "8", "--setting-sources": "", "--effort": "high",
        "--json-schema": '{"type": "object"}', "--permission-mode": "bypassPermissions",
    }.items():  # fmt: skip
        assert options[options.index(name) + 1] == value
    assert made.environment["ANTHROPIC_API_KEY"] == "run-token"


def test_an_effort_that_it_does_not_know_is_left_out():
    assert "--effort" not in DIALECT.invocation(errand(effort="none")).argv


def test_its_side_errands_go_to_the_model_of_the_task_and_a_short_name_is_never_sent():
    small = {"ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"}
    other = DIALECT.invocation(errand(model="claude-opus-5")).environment
    assert {name: other[name] for name in small} == dict.fromkeys(small, "claude-opus-5")
    assert not small & DIALECT.invocation(errand(model="haiku")).environment.keys()
