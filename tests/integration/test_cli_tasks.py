"""Runs with AI tasks on the command line, on a database that no service serves."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from loops.agent.transcript import Transcript
from loops.store.database import open_database
from tests.doubles.messages import stored
from tests.doubles.site import open_site
from tests.doubles.tasks import BEGAN, REPORT, TaskRows, a_round
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
    assert "cost      cost unknown: no price is known for this model; LOOPS_PRICE sets one" in shown
    row = next(line for line in shown.splitlines() if task.id in line)
    assert row.split() == [
        "Look",
        "at",
        "\\x1b[31mred",
        "incomplete",
        "scripted:demo",
        "2",
        "2403",
        "160",
        "unknown",
        task.id,
    ]
    for words in (
        "round 1  -  [1201 tokens in, 80 out, $0.0125]",
        "event_read({}) -> ok",
        "round 2  -  [1202 tokens in, 80 out]",
        "timeout: the time of 300 seconds was over",
        f"    | {REPORT}",
    ):
        assert words in shown
    assert "\x1b" not in shown
    found = cli.json("run-show", task.run_id)
    (item,) = found["tasks"]
    assert (item["rounds"], item["cost"], found["messages"]) == (2, None, [])
    assert [one["number"] for one in item["trace"]["rounds"]] == [1, 2]
    assert item["trace"]["request"]["prompt"]


def test_a_run_is_shown_with_its_messages_and_what_keeps_them(cli: Cli, task: TaskRows) -> None:
    url, run_id = str(cli.environ["LOOPS_DATABASE_URL"]), task.run_id

    async def put(status: str, **columns: Any) -> str:
        database = open_database(url)
        try:
            made = await stored(database.writer, BEGAN, status, run_id=run_id, step_id="tell", **columns)
        finally:
            await database.aclose()
        return made

    first = asyncio.run(put("shown", reason="this project has no Slack connection", mend="make one"))
    asyncio.run(put("retry", reason="rate limited"))
    shown = cli.done("run-show", run_id)
    for words in (
        "slack to C1  shown here alone: this project has no Slack connection",
        "what mends it: make one",
        f"page: /outbox/{first}",
        "slack to C1  retry, not sent yet: rate limited",
    ):
        assert words in shown
    told = cli.json("run-show", run_id)["messages"]
    assert [(one["status"], one["to"]) for one in told] == [("shown", "C1"), ("retry", "C1")]


def test_an_id_may_be_cut_as_long_as_it_is_one_alone(cli: Cli, task: TaskRows, database_url: str) -> None:
    assert cli.json("run-show", task.run_id[:8])["id"] == task.run_id
    assert "there is no run" in cli.failed("run-show", task.run_id[:5])

    async def another() -> str:
        async with open_site(cli.folder, database_url=database_url) as site:
            workflow = await site.workflow(name="Another")
            return await site.run(workflow, id=task.run_id[:12] + "0" * 8)

    other = asyncio.run(another())
    refused = cli.failed("cancel", task.run_id[:10])
    assert f"2 runs have an id that begins with '{task.run_id[:10]}'" in refused
    assert other in refused
    assert task.run_id in refused


def test_a_run_is_exported_as_one_document_that_holds_its_transcripts(cli: Cli, task: TaskRows) -> None:
    document = json.loads(cli.done("export", "--run", task.run_id))
    assert document["run"]["id"] == task.run_id
    (exported,) = document["tasks"]
    assert Transcript.from_json(exported["transcript"]).rounds == tuple(task.rounds)
    assert exported["result"]["final_message"] == REPORT
    assert "format: loops.run/1" in cli.done("export", "--run", task.run_id, "--yaml")
    assert "there is no run 'none'" in cli.failed("export", "--run", "none")
    assert "not allowed with" in cli.failed("export", "--run", task.run_id, "Report", code=2)
