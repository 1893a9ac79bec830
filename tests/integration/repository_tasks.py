"""Loops whose tasks work on a repository, and an agent that works in its checkout by a script."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from loops.agent.model import ToolSpec
from loops.agent.models.scripted import Script, ScriptedTurn
from loops.agent.tools.tool import CallContext, Effect
from loops.agent.transcript import Assistant, Message, User
from loops.event import JsonValue
from loops.store import outputs as store
from loops.store.outputs import OutputRow
from loops.store.tasks import TaskRow
from loops.tasks.outputs.writing import WritingRules
from server.app import Wiring
from tests.doubles.github_repository import NAME, RepositoryGitHub, repository_github
from tests.doubles.plain_sandbox import PlainSandboxes
from tests.integration.github_loops import connect
from tests.integration.running import Running, issue, running, workflow
from tests.integration.tasking import calls, ends, scripted, task_action, task_of

FILES = {"README.md": "Widgets.\n", "src/export.py": "LIMIT = 10_000\n", "run.sh": "#!/bin/sh\n"}
REPORT = "The export stops at 10,000 rows since its query has a limit. I raised it."
EDIT = "sed -i s/10_000/50_000/ src/export.py"
PULL = {"title": "Raise the limit of the export", "body": "The query had a limit.\n\nFixes #1. Thanks @ada!"}
COMMENT = {"body": "It is the limit; see the pull request, @ada/team."}
ISSUE = {"title": "Other limits", "body": "There are more of them."}


class Shell:
    """Runs a command in the checkout of the task that calls it."""

    effect: Effect = "write"
    spec = ToolSpec("sh", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})

    def __init__(self, sandboxes: PlainSandboxes) -> None:
        self._sandboxes = sandboxes

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> JsonValue:
        (room,) = {r.checkout for r in self._sandboxes.rooms if context.task_id in r.checkout.parts}
        process = await asyncio.create_subprocess_exec("sh", "-ec", arguments["command"], cwd=room)
        return {"code": await process.wait()}


def edits(command: str = EDIT) -> ScriptedTurn:
    return calls("sh", {"command": command})


SCRIPTS: Mapping[str, Sequence[ScriptedTurn]] = {
    "pull": [edits(), calls("propose_pull_request", PULL), ends(REPORT)],
    "everything": [
        edits(),
        calls("propose_comment", COMMENT),
        calls("propose_labels", {"labels": ["bug"]}),
        calls("propose_issue", ISSUE),
        calls("propose_pull_request", {**PULL, "commit_message": "Raise it [skip ci]\n\nAll of it."}),
        calls("propose_comment", {"body": "One more."}),
        ends(REPORT),
    ],
    "silent": [edits(), ends(REPORT)],
    "reading": [calls("event_read"), ends(REPORT)],
    "empty": [calls("propose_pull_request", PULL), ends(REPORT)],
    "noop": [
        edits(),
        calls("propose_comment", COMMENT),
        calls("finalize", {"outcome": "noop", "reason": "Nothing is wrong."}),
    ],
    "protected": [
        edits("mkdir -p .github/workflows && echo x > .github/workflows/ci.yml && echo y > CLAUDE.md"),
        calls("propose_pull_request", PULL),
        ends(REPORT),
    ],
    "commenting": [calls("propose_comment", COMMENT), ends(REPORT)],
    "opening": [calls("propose_issue", ISSUE), ends(REPORT)],
    "labelling": [calls("propose_labels", {"labels": ["no-such-label"]}), ends(REPORT)],
    "idle": [edits(), ScriptedTurn("One."), ScriptedTurn("Two."), ScriptedTurn("Three.")],
    "holding": [edits(), calls("propose_comment", COMMENT), ScriptedTurn("Long.", pause=60)],
}


def script() -> Script:
    """For every task: its turns are those of the last word of its prompt."""

    def turn(messages: Sequence[Message], _tools: Sequence[ToolSpec]) -> ScriptedTurn:
        said = [message.text for message in messages if isinstance(message, User)]
        if "Call finalize now" in said[-1]:
            return ScriptedTurn("")
        words = said[0].split("</user_custom_instructions>")[0].split()[-1]
        return SCRIPTS[words][sum(isinstance(message, Assistant) for message in messages)]

    return [turn] * 100


def working(name: str, repository: str = NAME, **more: Any) -> dict[str, Any]:
    """A loop whose task works on the repository as a script says."""
    inputs = {"repository": repository, **more.pop("inputs", {})}
    return workflow(f"{name} loop", task_action(prompt=f"Work as {name}", inputs=inputs, **more), repository=NAME)


async def outputs_of(service: Running, task_id: str) -> list[OutputRow]:
    return await service.read(lambda connection: store.of_task(connection, task_id))


WRITING = WritingRules(pauses=(0.01, 0.01), settle=timedelta())


class Lab:
    """A service over one GitHub with one repository."""

    def __init__(self, service: Running, hub: RepositoryGitHub, work: Path) -> None:
        self.service = service
        self.hub = hub
        self.work = work

    async def worked(self, name: str, **more: Any) -> tuple[TaskRow, list[OutputRow]]:
        """A task of this script, once it is over, and its outputs."""
        flow = await self.service.create(working(name, **more))
        try:
            run_id = await self.service.started(flow.id, issue(NAME))
            await self.service.until(run_id, "completed", "failed", "cancelled")
            task = await task_of(self.service, run_id)
            return task, await outputs_of(self.service, task.id)
        finally:
            await self.service.services.workflows.disable("default", flow.id, running="drain")


@asynccontextmanager
async def laboratory(folder: Path, url: str, **changes: str) -> AsyncIterator[Lab]:
    """One, with commands that run in no sandbox."""
    sandboxes = PlainSandboxes()
    wiring = replace(scripted(script, Wiring(sandboxes=sandboxes, writing=WRITING)), tools=(Shell(sandboxes),))
    (folder / "remote").mkdir()
    async with repository_github(folder / "remote") as hub:
        hub.git.create(NAME, FILES)
        async with running(folder / "d", url, wiring=wiring, **changes) as started:
            yield Lab(await connect(started, **hub.token_settings()), hub, folder / "d-work")
