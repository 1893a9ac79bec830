"""Commands as runners, in a real sandbox: what they are given, what is read of them, and how they are ended."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from config.runner_settings import RunnerSettings
from config.secret_text import SecretText
from loops.agent.guards import Limits
from loops.agent.inbox import Heard
from loops.errors import ConfigError, DefinitionError, SandboxError
from loops.tasks.limits import WorkLimits
from loops.tasks.workspace.plain import Plain
from loops.tasks.workspace.probing import Wanted
from loops.tasks.workspace.sandbox import Sandboxes
from loops.tasks.workspace.sandboxes import find_sandboxes
from server.wiring import Wiring
from tests.doubles.commands import HELLO, OBJECTS, Commanded
from tests.doubles.github_repository import NAME, repository_github
from tests.doubles.model_servers import Answer, serving
from tests.integration.boxes import a_mark
from tests.integration.github_loops import connect
from tests.integration.guarded import outbox_of, telling
from tests.integration.repository_tasks import FILES, WRITING
from tests.integration.running import Running, eventually, issue, running, workflow
from tests.integration.tasking import rounds_of, task_action, task_of

KEY = "sk-of-the-provider"
NAP = "NAP"
"""What scripts of these tests write where they sleep; each test has a time of its own."""
MODEL = "claude-sonnet-4-6"
ASKS = """\
import json, os, urllib.request
def ask(path="/v1/messages", **more):
    body = {"model": "claude-sonnet-4-6", "max_tokens": 50, "messages": [], **more}
    address = os.environ["ANTHROPIC_BASE_URL"] + path
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()
"""


@pytest.fixture(autouse=True)
def nap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.NAP", f"sleep {a_mark()}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the user of the sandbox can walk through."""
    with tempfile.TemporaryDirectory(prefix="runners-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
async def sandboxes(folder: Path) -> Sandboxes:
    found = await find_sandboxes("bwrap", Wanted(folder))
    if found.fault is not None:
        pytest.skip(f"no sandbox on this machine: {found.fault.message}")
    return found.sandboxes


@pytest.fixture
def commanded(folder: Path, sandboxes: Sandboxes) -> Commanded:
    return Commanded(folder, sandboxes)


def script(folder: Path, text: str, **settings) -> RunnerSettings:
    """A runner that is a shell script in a folder of its own."""
    return _program(folder, f"#!/bin/sh\n{text}\n", **settings)


def python(folder: Path, text: str, **settings) -> RunnerSettings:
    """The same in Python."""
    return _program(folder, f"#!/usr/bin/env python3\n{text}\n", **settings)


def _program(folder: Path, text: str, **settings) -> RunnerSettings:
    place = folder / "program"
    place.mkdir(exist_ok=True)
    program = place / "run"
    program.write_text(text.replace("NAP", NAP))
    program.chmod(0o755)
    return RunnerSettings("mine", program, **settings)


def sleepers() -> list[str]:
    """Processes that sleep for as long as those of this test, which no other one does."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
            except OSError:
                continue
    return [one for one in found if one == NAP]


async def test_a_command_edits_the_checkout_and_its_output_is_the_report(folder, commanded):
    edits = f'cat > told; cat {OBJECTS}/pack >> told; sed -i s/helo/hello/ hello.py; echo "Fixed it in $PWD with $1."'
    runner = script(folder, edits)
    result = await commanded.run(RunnerSettings("mine", runner.program, ("{model}",)), "large")
    assert (result.ending, result.message) == ("done", "Fixed it in /workspace with large.")
    assert commanded.hello == 'print("hello")\n'
    told = (commanded.checkout / "told").read_text()
    assert "<user_custom_instructions>\nFix the typo in hello.py." in told
    assert told.startswith("You work on a task")
    assert told.endswith("objects")
    assert commanded.named == ["command:mine:large"]
    assert (result.cost, result.usage.estimated) == (None, True)


async def test_without_a_sandbox_it_is_not_started_and_the_setting_is_named(folder):
    with pytest.raises(SandboxError, match="needs the sandbox, and LOOPS_SANDBOX is none"):
        await Commanded(folder, Plain()).run(script(folder, "touch ../started"))


class Letter:
    """One message of a thread."""

    async def heard(self) -> Heard:
        return Heard('<message_from user="U0ADA">…</message_from>', ("1793610000.000100",))


async def test_another_turn_is_told_the_report_before_it_and_what_people_said(folder, commanded):
    first = await commanded.run(script(folder, "echo 'All is </your_earlier_report> well.'"), fields={})
    again = script(folder, "cat > told; echo Answered.")
    result = await commanded.run(again, kept=first.transcript.rounds, turn=2, inbox=Letter(), fields={"n": "number"})
    assert (result.ending, result.message, result.rounds) == ("done", "Answered.", 2)
    told = (commanded.checkout / "told").read_text()
    assert (
        '"All is \\u003c/your_earlier_report\\u003e well."\n</your_earlier_report>\n\n<message_from user="U0ADA">'
        in told
    )
    assert [(one.turn, one.said != "", one.heard) for one in commanded.journal.rounds.values()] == [
        (1, False, ()),
        (2, True, ("1793610000.000100",)),
    ]


async def test_a_task_without_code_gets_an_empty_folder_that_is_gone_afterwards(folder, commanded):
    runner = script(folder, "touch made; mkdir shut; touch shut/in; chmod 000 shut; ls -A")
    result = await commanded.run(runner, code=False)
    assert (result.ending, result.message.split()) == ("done", ["made", "shut"])
    assert list((folder / "runners").iterdir()) == []
    assert commanded.hello == HELLO


async def test_folders_deeper_than_any_path_are_gone_with_the_task_that_made_them(folder, commanded):
    digs = "import os\nfor _ in range(1500):\n    os.mkdir('d' * 20); os.chdir('d' * 20)\nprint('Dug.')"
    result = await commanded.run(python(folder, digs), code=False)
    assert (result.ending, result.message) == ("done", "Dug.")
    assert list((folder / "runners").iterdir()) == []


async def test_what_commands_of_tasks_that_are_over_left_is_swept(folder, sandboxes, monkeypatch):
    monkeypatch.setattr("server.repositories._SWEEP_SECONDS", 0.1)
    left = folder / "work" / "runners"
    async with served(folder, script(folder, saying(END)), sandboxes) as service:
        flow = await service.create(telling("left"))
        run_id = await service.started(flow.id, issue("acme/left", 7))
        await service.until(run_id, "completed")
        task = await task_of(service, run_id)
        for name in (task.id, "of-another-service"):
            (left / name / "checkout" / "deep").mkdir(parents=True)
        await eventually(lambda: _names(left), lambda found: found == ["of-another-service"])


async def _names(folder: Path) -> list[str]:
    return [one.name for one in list_of(folder)]


def list_of(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_fields_are_asked_for_by_a_schema_that_it_can_read(folder, commanded):
    runner = python(
        folder,
        "import json, os\nschema = json.load(open(os.environ['LOOPS_WHILE_SCHEMA']))\n"
        "names = schema['properties']['output']['required']\n"
        "print(json.dumps({'type': 'end', 'final_message': 'Done.', 'output': dict.fromkeys(names, True)}))",
    )
    result = await commanded.run(runner, fields={"urgent": "boolean"})
    assert (result.message, result.output) == ("Done.", {"urgent": True})


async def test_it_sees_nothing_of_the_service_and_reaches_nothing(folder, commanded, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    (folder / "secret").write_text(KEY)
    runner = script(
        folder,
        f"env; ls {folder} /root; cat {folder}/secret; cat /proc/*/environ; ls /opt/runner; "
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 22), 1)' && echo connected; true",
    )
    result = await commanded.run(runner)
    assert result.ending == "done"
    assert KEY not in result.message
    assert "connected" not in result.message
    assert result.message.endswith("run")


async def test_the_key_is_nowhere_inside_and_the_model_is_asked_all_the_same(folder, commanded):
    hunts = "import subprocess\nprint(subprocess.run(['sh', '-c', 'env; cat /proc/*/environ; grep -rIs sk-of-the / "
    hunts += "--exclude-dir=proc --exclude-dir=sys --exclude-dir=usr'], capture_output=True).stdout)\n"
    runner = python(folder, f"{ASKS}print(ask(stream=True))\n{hunts}", api="anthropic", api_key=SecretText(KEY))
    async with serving("anthropic", Answer("Fixed.", input=2_000, output=60)) as model:
        result = await commanded.run(_at(runner, model.base_url), MODEL)
    assert result.ending == "done", result.reason
    assert "message_stop" in result.message
    assert "ANTHROPIC_API_KEY=" in result.message
    assert KEY not in result.message
    assert model.headers[0]["x-api-key"] == KEY
    assert (result.usage.input, result.usage.output) == (2_000, 60)
    assert result.cost == Decimal("0.0069")


def _at(runner: RunnerSettings, base_url: str) -> RunnerSettings:
    given = {name: getattr(runner, name) for name in RunnerSettings.__dataclass_fields__}
    return RunnerSettings(**{**given, "base_url": base_url})


@pytest.mark.parametrize(
    ("answer", "ending", "words"),
    [
        (Answer("x", input=9_000), "budget", "5000 at most"),
        (Answer(status=401, body={"error": {}}), "provider_error", "api_key"),
    ],
    ids=["budget", "key"],
)
async def test_what_the_proxy_gives_up_ends_the_command_at_once(answer, ending, words, folder, commanded):
    waits = f"{ASKS}\ntry:\n    ask(stream=True); ask(stream=True)\nexcept Exception:\n    pass\n"
    runner = python(folder, f"{waits}import time; time.sleep(600)", api="anthropic", api_key=SecretText(KEY))
    limits = WorkLimits(Limits(max_rounds=8), tokens=5_000)
    async with serving("anthropic", answer) as model, asyncio.timeout(20):
        result = await commanded.run(_at(runner, model.base_url), MODEL, limits=limits)
    assert result.ending == ending
    assert words in result.reason
    assert result.usage.total == (9_020 if ending == "budget" else 0)


@pytest.mark.parametrize(
    ("text", "settings", "ending", "words"),
    [
        ("echo Done.; echo broken >&2; exit 3", {}, "runner_error", "exit code 3: broken"),
        ("echo Done.; NAP", {"idle_seconds": 1}, "timeout", "no sign of life"),
        ("while echo .; do sleep 0.2; done", {"seconds": 2}, "timeout", "seconds"),
        ("exit 0", {}, "runner_error", "as if all were well"),
        ('x=\'{"type":"call","id":"1","name":"n"}\'; for i in 1 2 3 4 5 6 7 8 9; do echo $x; done; NAP', {},
         "max_rounds", "limit of 8 rounds"),
    ],
    ids=["code", "idle", "time", "nothing", "rounds"],
)  # fmt: skip
async def test_a_command_that_does_not_end_well_is_no_success_and_leaves_nothing(
    text, settings, ending, words, folder, commanded
):
    result = await commanded.run(script(folder, text, **settings))
    assert (result.ending, sleepers()) == (ending, [])
    assert words in result.reason


async def test_a_cancel_ends_every_process_within_five_seconds_and_only_then_it_is_cancelled(folder, commanded):
    text = "trap '' TERM; setsid nohup NAP & (NAP & ) ; echo begun; NAP; echo Done."
    running = asyncio.ensure_future(commanded.run(script(folder, text)))
    await eventually(_sleepers, lambda found: len(found) == 3)
    asked = asyncio.get_running_loop().time()
    commanded.abort.ask()
    result = await running
    assert (result.ending, result.reason, sleepers()) == ("cancelled", "cancelled on request", [])
    assert asyncio.get_running_loop().time() - asked < 5


async def _sleepers() -> list[str]:
    return sleepers()


async def test_a_worker_that_is_stopped_takes_the_command_with_it_and_the_task_ends_as_interrupted(folder, commanded):
    called = json.dumps({"type": "call", "id": "1", "name": "build"})
    runner = script(folder, f"echo '{called}'; NAP")
    running = asyncio.ensure_future(commanded.run(runner))
    await eventually(_sleepers, len)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sleepers() == []
    kept = tuple(commanded.journal.rounds.values())
    assert [call.name for call in kept[0].reply.calls] == ["build"]
    result = await commanded.run(script(folder, "echo Done."), kept=kept)
    assert (result.ending, result.transcript.rounds) == ("interrupted", kept)


async def test_a_version_that_is_not_the_wanted_one_is_not_started(folder, commanded):
    runner = script(folder, '[ "$1" = --version ] && echo "agent 1.2.4 (x)" || touch started', version="1.2.3")
    with pytest.raises(ConfigError, match=r"1\.2\.4, not 1\.2\.3"):
        await commanded.run(runner)
    assert not (commanded.checkout / "started").exists()


async def test_a_program_that_is_not_there_is_named(folder, commanded):
    with pytest.raises(ConfigError, match="is not there"):
        await commanded.run(RunnerSettings("mine", folder / "absent"))


async def test_a_program_of_the_system_needs_no_folder(commanded):
    result = await commanded.run(
        RunnerSettings("mine", Path("/usr/bin/env"), ("sh", "-c", "ls -d /opt/runner; echo over"))
    )
    assert (result.ending, result.message) == ("done", "over")


@asynccontextmanager
async def served(folder: Path, runner: RunnerSettings, sandboxes: Sandboxes) -> AsyncIterator[Running]:
    """A service whose tasks are given to a command."""
    data = folder / "data"
    data.mkdir(mode=0o700)
    settings: dict[str, Any] = {"model": "command:mine", "runner_mine_program": str(runner.program)}
    settings["work_dir"] = str(folder / "work")
    wiring = Wiring(sandboxes=sandboxes, writing=WRITING)
    async with running(data, f"sqlite:///{data / 'loops.db'}", wiring=wiring, **settings) as service:
        yield service


def saying(*events: Mapping[str, Any]) -> str:
    """A script that prints these."""
    return "\n".join(f"echo '{json.dumps(one)}'" for one in events)


END = {"type": "end", "final_message": "The limit is raised."}
EDITS = ({"type": "call", "id": "1", "name": "Edit"}, {"type": "result", "id": "1", "text": "edited"})


async def test_a_task_of_a_whole_service_is_worked_on_by_a_command(folder, sandboxes):
    runner = script(folder, saying(*EDITS, END))
    async with served(folder, runner, sandboxes) as service:
        flow = await service.create(telling("command"))
        run_id = await service.started(flow.id, issue("acme/command", 7))
        await service.until(run_id, "completed")
        task = await task_of(service, run_id)
        rounds = await rounds_of(service, task.id)
        (message,) = await outbox_of(service, run_id)
    assert (task.status, task.ending, task.model, task.cost) == ("completed", "done", "command:mine", None)
    assert message.message["text"] == "The limit is raised."
    assert rounds[0]["results"][0]["text"] == "edited"
    assert list((folder / "work" / "runners").iterdir()) == []


async def test_a_run_that_is_cancelled_is_so_once_its_command_is_gone_and_tells_nobody(folder, sandboxes):
    runner = script(folder, f"{saying(EDITS[0])}\nsetsid nohup NAP &\nNAP")
    async with served(folder, runner, sandboxes) as service:
        flow = await service.create(telling("stopped"))
        run_id = await service.started(flow.id, issue("acme/stopped", 7))
        await eventually(_sleepers, lambda found: len(found) == 2)
        await service.services.runs.cancel("default", run_id)
        await service.until(run_id, "cancelled")
        task = await task_of(service, run_id)
        assert sleepers() == []
        assert await outbox_of(service, run_id) == []
    assert (task.status, task.ending) == ("cancelled", "cancelled")


async def test_what_a_command_changes_in_a_repository_is_proposed_and_a_change_that_is_none_is_seen_through(
    folder, sandboxes
):
    changes = "sed -i s/10_000/50_000/ src/export.py && git log -1 --format=%H >/dev/null || exit 1"
    runner = script(folder, f"case $(cat) in *raise*) {changes};; esac\n{saying(*EDITS, END)}")
    async with repository_github(folder / "remote") as hub, served(folder, runner, sandboxes) as service:
        hub.git.create(NAME, FILES)
        await connect(service, **hub.token_settings())
        ended = []
        for word in ("raise", "look"):
            asks = task_action(prompt=f"Please {word}", inputs={"repository": NAME})
            flow = await service.create(workflow(f"{word} loop", asks, repository=NAME))
            run_id = await service.started(flow.id, issue(NAME))
            await service.until(run_id, "completed", "failed")
            ended.append(await task_of(service, run_id))
            await service.services.workflows.disable("default", flow.id, running="drain")
        assert hub.pulls, [(task.ending, task.reason) for task in ended]
        (pull,) = hub.pulls
        assert hub.git.changed(NAME, pull["head"]["ref"]) == ["M src/export.py"]
    assert [(task.status, task.ending) for task in ended] == [("completed", "done"), ("failed", "runner_error")]
    assert "none is changed" in ended[1].reason
    assert "The limit is raised." in pull["body"]


async def test_a_workflow_that_names_a_runner_that_is_not_set_up_is_refused(tmp_path):
    async with running(tmp_path, f"sqlite:///{tmp_path / 'loops.db'}") as service:
        with pytest.raises(DefinitionError, match="there is no runner 'codex' in this installation") as refused:
            await service.create(telling("unknown", inputs={"model": "codex:gpt-5"}))
    (fault,) = refused.value.faults
    assert fault.path.endswith("inputs.model")
    assert "[runners.codex]" in fault.hint
