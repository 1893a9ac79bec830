import json
import tomllib
from itertools import pairwise

import pytest

from loops.tasks.runners.codex import SCHEMA, Codex
from tests.unit.tasks.runners.reading import Reading, recorded
from tests.unit.tasks.runners.test_claude_code import errand

DIALECT = Codex()


async def read(name, fields=None, **more):
    return await Reading(DIALECT).of(recorded("codex", name), fields, **more)


async def test_its_items_become_rounds():
    result = await read("edit")
    assert (result.ending, result.message, result.edits) == ("done", "Fixed the typo.", 1)
    looks, runs, edits, reports = result.transcript.rounds
    assert (looks.reply.thought, looks.reply.text) == ("The typo is in line 1.", "I look.")
    assert json.loads(looks.reply.calls[0].arguments) == {"command": "/bin/bash -lc 'cat hello.py'"}
    assert (looks.results[0].text, looks.results[0].code) == ('print("helo")\n', "")
    assert (runs.results[0].text, runs.results[0].code) == ("helo\n\n[exit code 1]", "FAILED")
    assert edits.reply.calls[0].name == "file_change"
    assert reports.reply.text == "Fixed the typo."


@pytest.mark.parametrize(
    ("name", "code", "ending", "words"),
    [
        ("turn_failed", 1, "provider_error", "503"),
        ("never_reached", 1, "provider_error", "connection refused"),
        ("empty", 0, "invalid_output", "without a report"),
        ("no_end", 0, "runner_error", "as if all were well"),
        ("edit", 1, "runner_error", "exit code 1"),
    ],
)
async def test_a_success_that_is_none_is_seen_through(name, code, ending, words):
    result = await read(name, code=code)
    assert result.ending == ending
    assert words in result.reason


async def test_what_waited_for_its_server_for_ever_is_stopped_for_want_of_life():
    result = await read("never_reached", code=-9, stopped="idle")
    assert (result.ending, result.fallback) == ("timeout", True)


async def test_an_error_that_it_got_over_is_none():
    assert (await read("recovered")).ending == "done"


async def test_a_report_by_the_schema_is_its_last_text():
    result = await read("structured", {"urgent": "boolean"})
    assert (result.message, result.output) == ("Fixed.", {"urgent": True})


async def test_lines_that_nobody_knows_change_nothing():
    assert (await read("garbage")).message == "Done."


def test_it_is_started_without_its_own_sandbox_and_settings():
    made = DIALECT.invocation(errand(schema={"type": "object"}, system='Say "ü"\nand no more.', effort="low"))
    options = list(made.argv)
    assert {"--ignore-user-config", "--ephemeral", "--json"} < set(options)
    assert options[options.index("-s") + 1] == "danger-full-access"
    assert options[-1] == "-"
    assert made.stdin == b"--help"
    assert json.loads(made.files[SCHEMA]) == {"type": "object"}
    lines = [value for name, value in pairwise(options) if name == "-c" and '="' in value]
    given = tomllib.loads("\n".join(lines))
    assert given["developer_instructions"] == 'Say "ü"\nand no more.'
    assert given["model_providers"]["loops"]["base_url"] == "http://127.0.0.1:8080/v1"
    assert given["model_reasoning_effort"] == "low"
    assert made.environment["LOOPS_WHILE_TOKEN"] == "run-token"
