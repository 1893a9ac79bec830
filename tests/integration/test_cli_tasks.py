"""Runs with AI tasks on the command line, on a database that no service serves."""

import asyncio
import json
from pathlib import Path

import pytest

from loops.agent.transcript import Transcript
from tests.doubles.site import open_site
from tests.doubles.tasks import REPORT, TaskRows, a_round
from tests.integration.test_cli import Cli

KEY = "k" * 40


async def _a_run(folder: Path, database_url: str) -> TaskRows:
    async with open_site(folder, database_url=database_url) as site:
        workflow = await site.workflow()
        task = TaskRows(
            site.services.writer,
            workflow.project_id,
            workflow.id,
            await site.run(workflow),
            title="Look at \x1b[31mred",
            model="scripted:demo",
        )
        await (await task.create()).begin()
        await task.park_run()
        await task.keep(a_round(1, ("event_read", "{}", '{"ok": true}')), a_round(2, cost=None))
        await task.finish("incomplete", "timeout", "the time of 300 seconds was over")
        await task.end_run("failed")
        return task


@pytest.fixture
def task(tmp_path: Path, database_url: str) -> TaskRows:
    return asyncio.run(_a_run(tmp_path, database_url))


@pytest.fixture
def cli(tmp_path: Path, database_url: str) -> Cli:
    return Cli(tmp_path, LOOPS_DATA_DIR=str(tmp_path / "data"), LOOPS_DATABASE_URL=database_url, LOOPS_SECRET_KEY=KEY)


def test_a_run_is_shown_with_the_rounds_tokens_and_cost_of_its_tasks(cli: Cli, task: TaskRows) -> None:
    shown = cli.done("run-show", task.run_id)
    assert "cost      $0.0000 and an unknown part: a model has no price" in shown
    row = next(line for line in shown.splitlines() if task.id in line)
    assert row.split() == [
        "Look",
        "at",
        "\\x1b[31mred",
        "incomplete",
        "scripted",
        "2",
        "2403",
        "160",
        "unknown",
        task.id,
    ]
    assert "timeout: the time of 300 seconds was over" in shown
    assert "\x1b" not in shown
    (item,) = cli.json("run-show", task.run_id)["tasks"]
    assert (item["rounds"], item["cost"]) == (2, None)


def test_a_run_is_exported_as_one_document_that_holds_its_transcripts(cli: Cli, task: TaskRows) -> None:
    document = json.loads(cli.done("export", "--run", task.run_id))
    assert document["run"]["id"] == task.run_id
    (exported,) = document["tasks"]
    assert Transcript.from_json(exported["transcript"]).rounds == tuple(task.rounds)
    assert exported["result"]["final_message"] == REPORT
    assert "format: loops.run/1" in cli.done("export", "--run", task.run_id, "--yaml")
    assert "there is no run 'none'" in cli.failed("export", "--run", "none")
    assert "not allowed with" in cli.failed("export", "--run", task.run_id, "Report", code=2)
