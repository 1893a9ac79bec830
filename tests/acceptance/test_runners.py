"""Claude Code and Codex themselves, as runners in a real sandbox, with a model that is played: they edit a file."""

import asyncio
import json
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.runner_settings import RunnerSettings
from config.secret_text import SecretText
from loops.agent.guards import Limits
from loops.tasks.limits import WorkLimits
from loops.tasks.runners.verdict import unmasked
from loops.tasks.workspace.probing import Wanted
from loops.tasks.workspace.sandboxes import find_sandboxes
from tests.doubles.agents import agent
from tests.doubles.commands import HELLO, Commanded
from tests.doubles.model_servers import Answer, Wire, serving

KEY = "sk-of-the-provider"
NAMES = {"claude-code": "claude", "codex": "codex"}
WIRES: dict[str, Wire] = {"claude-code": "anthropic", "codex": "responses"}
MODELS = {"claude-code": "claude-sonnet-4-6", "codex": "gpt-5"}
FIXED = 'print("hello")\n'
REPORT = "Fixed the typo."
RUNNERS = pytest.mark.parametrize("name", NAMES)
HUNT = "env; grep -rIs sk-of-the /workspace /tmp /run /home /opt /etc; true"


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="runners-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


async def commanded(folder: Path) -> Commanded:
    found = await find_sandboxes("bwrap", Wanted(folder))
    if found.fault is not None:
        pytest.skip(f"no sandbox on this machine: {found.fault.message}")
    return Commanded(folder, found.sandboxes)


def runner(name: str, base_url: str, **changes: object) -> RunnerSettings:
    given = {
        "api_key": SecretText(KEY),
        "base_url": base_url,
        "seconds": 60,
        "idle_seconds": 30,
        "hosts": ("pypi.test:443",),
        **changes,
    }
    return RunnerSettings(name, agent(NAMES[name]), **given)  # type: ignore[arg-type]


def shell(name: str, command: str) -> tuple[str, str]:
    """A call of its shell."""
    if name == "codex":
        return "exec_command", json.dumps({"cmd": command})
    return "Bash", json.dumps({"command": command, "description": "a command"})


def edits(name: str) -> list[Answer]:
    """What the model says so that it edits the file and looks around."""
    if name == "codex":
        change = shell(name, "sed -i s/helo/hello/ hello.py")
    else:
        change = ("Edit", json.dumps({"file_path": "/workspace/hello.py", "old_string": "helo", "new_string": "hello"}))
    read = (
        ("Read", json.dumps({"file_path": "/workspace/hello.py"})) if name != "codex" else shell(name, "cat hello.py")
    )
    return [
        Answer("I look.", [read], input=1_000),
        Answer("I edit.", [change], input=1_200),
        Answer("", [shell(name, HUNT)], input=1_300),
    ]


@RUNNERS
async def test_it_edits_a_file_and_reports_and_its_tokens_and_cost_are_counted(name, folder):
    task = await commanded(folder)
    async with serving(WIRES[name], *edits(name), Answer(REPORT, input=1_400)) as model:
        result = await task.run(runner(name, model.base_url), MODELS[name])
    assert (result.ending, result.message) == ("done", REPORT), result.reason
    assert task.hello == FIXED
    assert unmasked(result, changed=True) is result
    texts = [one.reply.text for one in result.transcript.rounds]
    assert [text for text in texts if text] == ["I look.", "I edit.", REPORT]
    assert len(model.requests) == 4
    assert (result.usage.input, result.usage.output) == (4_900, 80)
    assert result.cost is not None
    assert result.cost > 0
    shown = json.dumps(result.transcript.as_json())
    assert "HOME=/tmp/home" in shown
    assert KEY not in shown
    assert KEY in str(model.headers[0])


@RUNNERS
async def test_fields_come_back_by_the_schema(name, folder):
    task = await commanded(folder)
    report = {"final_message": REPORT, "outcome": "done", "reason": "", "output": {"urgent": True}}
    end = Answer("", [("StructuredOutput", json.dumps(report))]) if name != "codex" else Answer(json.dumps(report))
    async with serving(WIRES[name], end) as model:
        result = await task.run(runner(name, model.base_url), MODELS[name], fields={"urgent": "boolean"})
    assert (result.ending, result.message, result.output) == ("done", REPORT, {"urgent": True}), result.reason


@RUNNERS
async def test_a_model_that_answers_with_an_error_is_no_success(name, folder):
    task = await commanded(folder)
    failed = Answer(
        status=400, body={"type": "error", "error": {"type": "invalid_request_error", "message": "no such"}}
    )
    async with serving(WIRES[name], failed) as model:
        result = await task.run(runner(name, model.base_url), MODELS[name])
    assert result.ending == "provider_error"
    assert "no such" in result.reason


@RUNNERS
async def test_it_goes_on_until_its_budget_is_used_up_and_no_further(name, folder):
    task = await commanded(folder)
    limits = WorkLimits(Limits(max_rounds=8), tokens=40_000)
    async with serving(WIRES[name], Answer("I look.", [shell(name, "cat hello.py")], input=20_000)) as model:
        result = await task.run(runner(name, model.base_url), MODELS[name], limits=limits)
    assert result.ending == "budget"
    assert len(model.requests) < 4
    assert task.hello == HELLO


@RUNNERS
async def test_it_may_take_no_more_rounds_than_others(name, folder):
    task = await commanded(folder)
    limits = WorkLimits(Limits(max_rounds=2))
    async with serving(WIRES[name], Answer("I look.", [shell(name, "cat hello.py")])) as model:
        result = await task.run(runner(name, model.base_url), MODELS[name], limits=limits)
    assert result.ending == "max_rounds", result.reason


@RUNNERS
async def test_a_cancel_while_its_shell_works_ends_everything_within_five_seconds(name, folder):
    task = await commanded(folder)
    mark = f"model-{secrets.token_hex(8)}"  # in the arguments of all that is looked for
    waits = f"nohup sh -c 'touch begun; tail -f /dev/null; : {mark}' & sh -c 'tail -f /dev/null; : {mark}'"
    async with serving(WIRES[name], Answer("I wait.", [shell(name, waits)])) as model:
        running = asyncio.ensure_future(task.run(runner(name, model.base_url), mark))
        async with asyncio.timeout(30):
            while not (task.checkout / "begun").exists():  # noqa: ASYNC110 - a file of another process
                await asyncio.sleep(0.05)
        assert len([one for one in _commands() if mark in one]) >= 3
        asked = asyncio.get_running_loop().time()
        task.abort.ask()
        result = await running
        assert asyncio.get_running_loop().time() - asked < 5
    assert result.ending == "cancelled"
    assert [one for one in _commands() if mark in one] == []


def _commands() -> Iterator[str]:
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                yield (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
