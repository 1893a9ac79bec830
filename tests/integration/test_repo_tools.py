"""The tools of an agent that works on code, in a real sandbox."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loops.agent.execution import Execution, Turn
from loops.agent.guards import Limits
from loops.agent.journal import Unobserved
from loops.agent.tools import Resources, toolbox
from loops.agent.tools.tool import CallContext, ToolError
from loops.agent.transcript import Call
from loops.tasks.workspace.bwrap import Bwrap
from loops.tasks.workspace.workspace import Workspace
from tests.integration.boxes import SMALL, a_mark, box, living, until

FIRST = CallContext("t", 1, 0)


@dataclass
class Hands:
    """The tools of one agent."""

    tools: Mapping[str, Any]

    async def call(self, name: str, context: CallContext = FIRST, **arguments: object) -> Any:
        return await self.tools[name].call(arguments, context)

    async def refusal(self, name: str, context: CallContext = FIRST, **arguments: object) -> str:
        with pytest.raises(ToolError) as refused:
            await self.call(name, context, **arguments)
        return refused.value.code


@pytest.fixture
async def hands(bwrap: Bwrap, checkout: Path):
    async with box(bwrap, checkout, SMALL) as inside:
        yield Hands(toolbox(Resources(workspace=Workspace(inside.sandbox, checkout))).tools)


async def test_an_agent_finds_reads_edits_and_runs_code(hands: Hands, checkout: Path) -> None:
    await hands.call("repo_write", path="src/app.py", content="import sys\n\nprint('helo', sys.argv[1:])\n")
    assert (await hands.call("repo_list", depth=2))["entries"] == ["hello.txt 6", "src/", "src/app.py 40"]
    found = await hands.call("repo_search", pattern=r"hel+o['\b]")
    assert found == {"matches": ["src/app.py:3:print('helo', sys.argv[1:])"], "more": False}
    assert await hands.call("repo_edit", path="src/app.py", old="helo", new="hello") == {"replaced": 1}
    assert (await hands.call("repo_read", path="src/app.py", first_line=3))["text"] == "print('hello', sys.argv[1:])\n"
    ran = await hands.call("shell_run", command="cat app.py | grep -c hello && echo done >&2", folder="src")
    assert (ran["exit_code"], ran["stdout"], ran["stderr"]) == (0, "1\n", "done\n")


async def test_a_long_file_is_read_in_pieces(hands: Hands, checkout: Path) -> None:
    (checkout / "long").write_text("".join(f"{number}: {'x' * 90}\n" for number in range(1, 501)))
    first = await hands.call("repo_read", path="long")
    assert (first["lines"], first["text"][:3]) == (500, "1: ")
    assert len(first["text"]) <= 12_000
    then = await hands.call("repo_read", path="long", first_line=first["next_line"], lines=2)
    assert then["text"].startswith(f"{first['next_line']}: x")
    assert (await hands.call("repo_read", path="long", first_line=500))["next_line"] is None
    assert await hands.refusal("repo_read", path="long", first_line=501) == "REPO_NO_SUCH_LINE"


async def test_an_edit_needs_the_exact_text_once(hands: Hands, checkout: Path) -> None:
    (checkout / "a").write_bytes(b"one two two \xff\r\n")
    assert await hands.refusal("repo_edit", path="a", old="three", new="x") == "REPO_NO_MATCH"
    assert await hands.refusal("repo_edit", path="a", old="two", new="x") == "REPO_SEVERAL_MATCHES"
    assert await hands.call("repo_edit", path="a", old="two", new="2", everywhere=True) == {"replaced": 2}
    assert (checkout / "a").read_bytes() == b"one 2 2 \xff\r\n", "what is no text of ours stays as it is"


async def test_an_edit_made_before_a_crash_is_not_made_twice(hands: Hands, checkout: Path) -> None:
    again = CallContext("t", 1, 0, again=True)
    await hands.call("repo_edit", path="hello.txt", old="hello", new="good day")
    assert (await hands.call("repo_edit", again, path="hello.txt", old="hello", new="good day"))["replaced"] == 0
    assert (checkout / "hello.txt").read_text() == "good day\n"
    assert await hands.refusal("repo_edit", again, path="hello.txt", old="other", new="x") == "REPO_NO_MATCH"


async def test_links_that_an_agent_makes_lead_its_tools_nowhere(hands: Hands, checkout: Path, work_dir: Path) -> None:
    (work_dir / "secret-of-service").write_text("x")
    await hands.call("shell_run", command=f"ln -s {work_dir}/secret-of-service file; ln -s /etc folder; mkfifo pipe")
    assert await hands.refusal("repo_read", path="file") == "REPO_IS_LINK"
    assert await hands.refusal("repo_write", path="file", content="x") == "REPO_IS_LINK"
    assert await hands.refusal("repo_read", path="folder/passwd") == "REPO_NOT_A_FOLDER"
    assert await hands.refusal("repo_read", path="pipe") == "REPO_NOT_A_FILE"
    assert await hands.refusal("repo_read", path="../secret-of-service") == "REPO_BAD_PATH"
    assert (await hands.call("repo_list"))["entries"] == ["file@", "folder@", "hello.txt 6", "pipe?"]


async def test_a_search_leaves_out_what_git_ignores_and_says_what_is_wrong(hands: Hands, checkout: Path) -> None:
    (checkout / ".gitignore").write_text("built/\n")
    (checkout / "built").mkdir()
    (checkout / "built/x").write_text("hello\n")
    assert (await hands.call("repo_search", pattern="HELLO", ignore_case=True))["matches"] == ["hello.txt:1:hello"]
    await hands.call("shell_run", command="git init -q .")
    assert (await hands.call("repo_search", pattern="hello"))["matches"] == ["hello.txt:1:hello"]
    assert (await hands.call("repo_search", pattern="h.llo", literal=True))["matches"] == []
    assert await hands.refusal("repo_search", pattern="(") == "REPO_SEARCH_FAILED"
    assert (await hands.call("repo_search", pattern="hello", path="*.py"))["matches"] == []


async def test_a_search_in_a_poisoned_repository_runs_nothing_outside(
    hands: Hands, checkout: Path, work_dir: Path
) -> None:
    proof = work_dir / "poisoned"
    await hands.call("shell_run", command=f"git init -q .; git config core.fsmonitor 'touch {proof}; touch inside; :'")
    await hands.call("repo_search", pattern="hello")
    assert not proof.exists()


async def test_a_command_out_of_time_is_told_with_what_it_wrote(hands: Hands) -> None:
    ran = await hands.call("shell_run", command="echo so far; sleep 60", seconds=1)
    assert (ran["stdout"], ran["exit_code"]) == ("so far\n", -9)
    assert "out of time" in ran["stopped"]


async def test_a_long_output_keeps_both_ends(hands: Hands) -> None:
    ran = await hands.call("shell_run", command="echo first; seq 4000; echo last")
    assert ran["stdout"].startswith("first\n")
    assert ran["stdout"].endswith("last\n")
    assert "left out" in ran["stdout"]
    assert len(ran["stdout"]) < 9_200


async def test_who_may_not_change_the_checkout_has_no_tool_for_it(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        tools = toolbox(Resources(workspace=Workspace(inside.sandbox, checkout, writable=False))).tools
    assert list(tools) == ["finalize", "repo_list", "repo_read", "repo_search"]


async def test_tools_of_a_task_without_a_workspace_are_not_there() -> None:
    assert list(toolbox(Resources()).tools) == ["finalize"]


async def test_a_tool_switched_off_is_not_there(bwrap: Bwrap, checkout: Path) -> None:
    async with box(bwrap, checkout) as inside:
        made = toolbox(Resources(workspace=Workspace(inside.sandbox, checkout)), {"shell": {"run": False}})
    assert "shell_run" not in made.tools
    assert "repo_edit" in made.tools


async def test_a_command_may_take_longer_than_other_tools_have(hands: Hands) -> None:
    execution = Execution(hands.tools, Limits(tool_timeout=0.5), Unobserved(), Turn("t", 1))
    call = Call("1", "shell_run", json.dumps({"command": "sleep 0.8; echo waited"}))
    await execution.run([call])
    assert "waited" in execution.results([call])[0].text


async def test_a_cancel_during_a_command_leaves_no_process(hands: Hands, checkout: Path) -> None:
    mark = a_mark()
    call = asyncio.create_task(hands.call("shell_run", command=f"touch begun; trap '' TERM; sleep {mark} & wait"))
    await until(checkout / "begun")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not living(mark)
