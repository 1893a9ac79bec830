from pathlib import Path

import pytest

from config.runner_settings import RunnerSettings
from loops.errors import ConfigError
from loops.tasks.runners.program import program_of, version_of
from server.checks.runner import runner_checks


def program(folder: Path, text: str = "echo 'agent 1.2.3 (x)'") -> Path:
    place = folder / "agents"
    place.mkdir(exist_ok=True)
    made = place / "agent"
    made.write_text(f"#!/bin/sh\n{text}\n")
    made.chmod(0o755)
    return made


def test_the_folder_of_a_program_is_all_that_is_shown_of_it(tmp_path):
    made = program(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(made)
    found = program_of(RunnerSettings("mine", link))
    assert (found.path, found.readable) == ("/opt/runner/agent", {"/opt/runner": made.parent})


def test_a_program_in_a_folder_that_is_readable_stands_where_it_is(tmp_path):
    made = program(tmp_path)
    found = program_of(RunnerSettings("mine", made, readable=(tmp_path,)))
    assert (found.path, found.readable) == (str(made), {str(tmp_path): tmp_path})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: RunnerSettings("mine", folder / "absent"), "is not there"),
        (lambda folder: RunnerSettings("mine", folder), "is not there"),
        (lambda folder: RunnerSettings("mine", program(folder), readable=(folder / "x",)), "x is not there"),
    ],
)
def test_what_is_not_there_is_named(make, words, tmp_path):
    with pytest.raises(ConfigError, match=words):
        program_of(make(tmp_path))


@pytest.mark.parametrize(
    ("text", "version", "state", "words"),
    [
        ("echo 'agent 1.2.3 (x)'", "1.2.3", "ok", "version 1.2.3"),
        ("echo 'agent 1.2.3 (x)'", None, "warning", "set version to 1.2.3"),
        ("echo 'agent 1.2.3 (x)'", "1.2.4", "failed", "1.2.3, not 1.2.4"),
        ("echo no", None, "warning", "does not tell"),
        ("echo 1.2.3; exit 1", "1.2.3", "failed", "does not tell"),
    ],
)
async def test_the_doctor_tells_the_version_of_a_runner(text, version, state, words, tmp_path):
    runner = RunnerSettings("codex", program(tmp_path, text), version=version)
    (check,) = await runner_checks([runner], "bwrap")
    assert (check.name, check.state) == ("runner codex", state)
    assert words in f"{check.message} {check.hint}"


async def test_a_command_need_not_tell_its_version(tmp_path):
    (check,) = await runner_checks([RunnerSettings("mine", program(tmp_path, "exit 2"))], "bwrap")
    assert check.state == "ok"


async def test_a_program_is_asked_with_nothing_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("THE_SECRET", "1.9.9")
    assert await version_of(RunnerSettings("mine", program(tmp_path, 'echo "1.0.0$THE_SECRET"'))) == "1.0.0"


async def test_what_cannot_be_started_is_a_failed_check(tmp_path):
    made = program(tmp_path)
    made.chmod(0o644)
    (check,) = await runner_checks([RunnerSettings("mine", made)], "bwrap")
    assert (check.state, "cannot be started" in check.message) == ("failed", True)


async def test_without_a_sandbox_no_runner_works_and_the_doctor_says_so(tmp_path):
    (check,) = await runner_checks([RunnerSettings("mine", program(tmp_path))], "none")
    assert (check.state, check.message) == ("failed", "runner mine needs the sandbox, and LOOPS_SANDBOX is none")
