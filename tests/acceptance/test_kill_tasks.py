"""Killed with -9 at every transition of a task, its rounds and its message: one task, no write twice, never two
messages."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.store import connections
from loops.store.tables import outbox, runs
from loops.store.task_tables import notes, task_rounds, tasks
from server.app import Wiring
from tests.acceptance.victims import OPEN, Places, Victim, free_port, named, together
from tests.doubles.slack import TOKEN, SlackDouble, slack
from tests.doubles.smtp import SmtpDouble, smtp
from tests.integration.running import Running, eventually, issue, running, workflow
from tests.integration.tasking import task_action

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.postgres]


@dataclass
class Reporter:
    """A service whose runs report to a Slack channel, or by mail where the issue is in acme/mailed."""

    victim: Victim
    slack: SlackDouble
    smtp: SmtpDouble

    async def state(self, key: str) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
        (run,) = await self.victim.of(key)
        found = await self.victim.found(sa.select(tasks).where(tasks.c.run_id == run["id"]))
        messages = await self.victim.found(sa.select(outbox).where(outbox.c.run_id == run["id"]))
        return run, found, messages

    async def over(self, key: str) -> None:
        await eventually(lambda: self.victim.of(key), lambda found: found and found[0]["status"] not in OPEN, 60)

    async def one_task(self, key: str) -> None:
        """One task that ended as one that nothing happened to, with each round and each write once."""
        run, found, _ = await self.state(key)
        assert [(task["status"], task["ending"], task["rounds"]) for task in found] == [("completed", "done", 3)]
        query = sa.select(task_rounds.c.number).where(task_rounds.c.task_id == found[0]["id"])
        assert sorted(row["number"] for row in await self.victim.found(query)) == [1, 2, 3]
        written = sa.select(notes.c.text).where(notes.c.task_id == found[0]["id"])
        assert [row["text"] for row in await self.victim.found(written)] == ["Noted once."]
        assert run["restarts"] == 0


def message_action(kind: str, connection: int) -> dict[str, Any]:
    text = "{steps.task.final_message} " + "{event.properties.title}"
    if kind == "slack":
        inputs: Mapping[str, Any] = {
            "slack_workspace": {"value": str(connection)},
            "channel": {"value": "C1"},
            "text": {"value": text},
        }
        config = {"template_id": "template-slack", "inputs": inputs}
        return {"id": "notify", "name": "notify", "type": "function", "config": config}
    mail = {
        "from": {"integrationId": connection},
        "to": {"email": "ada@example.org"},
        "subject": "{{ event.properties.title }}",
        "text": "{{ steps.task.final_message }}",
    }
    config = {"template_id": "template-email", "inputs": {"email": {"value": mail}}}
    return {"id": "notify", "name": "notify", "type": "function_email", "config": config}


async def connect(service: Running, kind: str, config: Mapping[str, str], **secrets: str) -> int:
    sealed = service.services.box.seal(secrets)
    return await service.write(
        lambda connection: connections.insert(
            connection,
            project_id="default",
            kind=kind,
            name=kind,
            config=config,
            secrets=sealed,
            now=service.services.clock.now(),
        )
    )


async def prepared(folder: Path, url: str, slack_url: str, port: int) -> int:
    async with running(folder, url, role="web", wiring=Wiring(dispatching=False)) as service:
        to_slack = await connect(service, "slack", {"api_base_url": slack_url}, bot_token=TOKEN)
        mail = {"host": "127.0.0.1", "port": str(port), "security": "none", "from": "Loops <loops@example.org>"}
        to_mail = await connect(service, "smtp", mail)
        await service.create(workflow("posts", task_action(), message_action("slack", to_slack)))
        await service.create(
            workflow("mails", task_action(), message_action("email", to_mail), repository="acme/mailed")
        )
        return service.hook


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reporters(places: Places, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[Reporter]]:
    """One on SQLite and one on Postgres for each lane, with a Slack of its own and one mail server for all."""
    made: list[Reporter] = []
    async with AsyncExitStack() as opened:
        mails = tmp_path_factory.mktemp("smtp")
        post, _tls = await opened.enter_async_context(smtp(mails, security="none", password=False))
        for folder, address in opened.enter_context(places.opened()):
            double = await opened.enter_async_context(slack())
            hook = await prepared(folder, address, double.url, post.port)
            made.append(Reporter(Victim(folder, address, hook, free_port()), double, post))
            made[-1].victim.begin()
        yield made
        for one in made:
            await one.victim.end()


# In the order in which a task and its message pass them; the number says which passing.
POINTS = [
    ("enqueue_task:after", 1),
    ("park:inside", 1),
    ("park:after", 1),
    ("task_claim:inside", 1),
    ("task_claim:after", 1),
    ("model:1", 1),
    ("round:inside", 1),
    ("round:after", 1),
    ("note:inside", 1),
    ("note:after", 1),
    ("round:inside", 2),
    ("round:after", 2),
    ("round:after", 3),
    ("model:3", 1),
    ("round:after", 4),
    ("task_end:inside", 1),
    ("task_end:after", 1),
    ("make_due:after", 1),
    ("function:resume:end", 1),
    ("park:inside", 2),
    ("park:after", 2),
    ("message_claim:inside", 1),
    ("message_claim:after", 1),
    ("send:before", 1),
    ("send:after", 1),
    ("message_move:inside", 1),
    ("message_move:after", 1),
    ("make_due:after", 2),
    ("function:resume:end", 2),
]


async def killed_at(reporter: Reporter, point: str, nth: int, repository: str) -> str:
    victim, key = reporter.victim, str(uuid.uuid4())
    payload = issue(repository, title=f"Issue {key}")
    await victim.arm(point, nth)
    await victim.accepted(payload, key)
    await victim.died()
    victim.begin()
    await reporter.over(key)
    await reporter.one_task(key)
    return key


@pytest.mark.parametrize("points", together(POINTS), ids=named)
async def test_killed_at_any_point_there_is_one_task_and_its_report_arrives_in_slack_once(reporters, points):
    async def once(reporter: Reporter, point: str, nth: int) -> None:
        key = await killed_at(reporter, point, nth, "acme/widgets")
        run, _, messages = await reporter.state(key)
        assert (run["status"], run["reason"]) == ("completed", "done")
        assert [message["status"] for message in messages] == ["sent"]
        assert [text for text in reporter.slack.texts() if key in text] == [f"Reported. Issue {key}"]

    lanes = [(reporters[2 * lane : 2 * lane + 2], point) for lane, point in enumerate(points)]
    await asyncio.gather(*(once(reporter, *point) for both, point in lanes for reporter in both))


async def test_em_08_a_mail_that_may_have_been_sent_is_not_sent_again_and_says_so(reporters):
    async def at_most_once(reporter: Reporter, point: str) -> None:
        key = await killed_at(reporter, point, 1, "acme/mailed")
        run, _, messages = await reporter.state(key)
        arrived = [mail for mail in reporter.smtp.mails if mail["Subject"] == f"Issue {key}"]
        assert len(arrived) == (point in {"send:after", "message_move:inside"})
        # Beside it stands, once an hour, the notice that the loop fails.
        assert [one["status"] for one in messages if one["step_id"] is not None] == ["uncertain"]
        assert run["status"] == "failed"
        assert "notify" in run["reason"]

    points = ["message_claim:after", "send:before", "send:after", "message_move:inside"]
    lanes = [(reporters[2 * lane : 2 * lane + 2], point) for lane, point in enumerate(points)]
    await asyncio.gather(*(at_most_once(reporter, point) for both, point in lanes for reporter in both))


async def test_after_all_that_nothing_was_posted_or_written_twice(reporters):
    for reporter in reporters:
        posted = [json.dumps(one["metadata"]) for one in reporter.slack.posted["C1"]]
        assert len(posted) == len(set(posted))
        found = await reporter.victim.found(sa.select(runs.c.id, runs.c.status))
        assert {run["status"] for run in found} <= {"completed", "failed"}
