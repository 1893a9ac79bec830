"""A run that is cancelled while its agent's command runs is over when no process is left, and not before."""

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest_asyncio

from loops.agent.model import ToolSpec
from loops.agent.tools.shell import shell_tools
from loops.agent.tools.tool import CallContext, Effect
from loops.event import JsonValue
from loops.tasks.workspace.bwrap import Bwrap
from loops.tasks.workspace.sandbox import Room
from loops.tasks.workspace.workspace import Workspace
from tests.conftest import new_sqlite
from tests.integration.boxes import a_mark, living, until
from tests.integration.guarded import outbox_of, telling
from tests.integration.running import Running, issue, running
from tests.integration.tasking import calls, ends, scripted, task_of

MARK = a_mark()
SCRIPT = f"trap '' TERM; touch begun; (setsid nohup sleep {MARK} &) ; sleep {MARK}; touch over"


class Shell:
    """The shell of an agent, in a sandbox that is opened for each call."""

    effect: Effect = "write"

    def __init__(self, made_by: Bwrap, checkout: Path) -> None:
        self._made_by = made_by
        self._checkout = checkout

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec("shell_run", "Run a command.", {"type": "object"})

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> JsonValue:
        async with self._made_by.open(Room(self._checkout)) as sandbox:
            (tool,) = shell_tools(Workspace(sandbox, self._checkout))
            return await tool.call(arguments, context)


@pytest_asyncio.fixture
async def service(bwrap: Bwrap, checkout: Path, sqlite_template: Path, tmp_path: Path) -> AsyncIterator[Running]:
    words = [calls("shell_run", {"command": SCRIPT}), ends()]
    wiring = replace(scripted(lambda: words), tools=(Shell(bwrap, checkout),))
    async with running(tmp_path / "d", new_sqlite(sqlite_template, tmp_path), wiring=wiring) as started:
        yield started


async def test_a_cancel_during_a_command_waits_for_its_last_process(service: Running, checkout: Path) -> None:
    flow = await service.create(telling("sandbox"))
    run_id = await service.started(flow.id, issue("acme/sandbox"))
    await until(checkout / "begun")
    assert living(MARK)
    began = time.monotonic()
    status = await service.services.runs.cancel("default", run_id)
    assert not living(MARK)
    assert time.monotonic() - began < 5
    task = await task_of(service, run_id)
    assert (status, task.status, task.ending) == ("cancelled", "cancelled", "cancelled")
    assert not (checkout / "over").exists()
    assert await outbox_of(service, run_id) == []
