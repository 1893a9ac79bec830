"""Killed with -9 while the outputs of a task are written: one branch, one pull request, one comment."""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa
from aiohttp import web

from loops.clock import SystemClock
from loops.store.database import open_database
from loops.store.output_tables import task_outputs
from loops.store.task_tables import tasks
from loops.tasks.outputs.answers import Person, again
from server.app import Wiring
from tests.acceptance import repository_service
from tests.acceptance.test_kill_threads import Speaker
from tests.acceptance.victims import OPEN, Places, Victim, free_port
from tests.doubles.github_repository import NAME, RepositoryGitHub, repository_github
from tests.doubles.slack import TOKEN, slack
from tests.integration import slack_loops
from tests.integration.github_loops import connect
from tests.integration.repository_tasks import FILES, working
from tests.integration.running import eventually, issue, running
from tests.integration.slack_loops import SECRET
from tests.integration.threading import thread_loop

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.postgres]


@dataclass
class Yard:
    """A service, a GitHub of its own, and somebody who speaks in Slack."""

    victim: Victim
    hub: RepositoryGitHub
    speaker: Speaker

    def killing(self, when: str) -> None:
        """Kill the service after a push, or as GitHub gets a write: `before /comments`, `after /pulls`."""
        moment, _, path = when.partition(" ")

        def kill() -> None:
            self.hub.fault = self.hub.lost = self.hub.git.pushed = None
            assert self.victim.process is not None
            self.victim.process.kill()

        async def answer(request: web.Request) -> web.Response | None:
            if not request.path.endswith(path):
                return None
            kill()
            return web.Response(status=503)

        if moment == "pushed":
            self.hub.git.pushed = kill
        else:
            setattr(self.hub, "fault" if moment == "before" else "lost", answer)

    async def arm(self, point: str) -> None:
        """Have it killed at a point of its own, `round:after/3`, or where GitHub sees it."""
        if ":" in point:
            name, _, nth = point.partition("/")
            await self.victim.arm(name, int(nth or 1))
            return
        await eventually(lambda: self.victim.call("/arm?point=none&nth=1"), lambda status: status == 200)
        self.killing(point)

    async def over(self, key: str) -> dict[str, Any]:
        """The task of a delivery, once its run is over."""
        await eventually(lambda: self.victim.of(key), lambda found: found and found[0]["status"] not in OPEN, 60)
        (run,) = await self.victim.of(key)
        (task,) = await self.victim.found(sa.select(tasks).where(tasks.c.run_id == run["id"]))
        return task


async def prepared(folder: Path, url: str, hub: RepositoryGitHub, slack_url: str) -> tuple[int, int]:
    async with running(folder, url, role="web", wiring=Wiring(dispatching=False)) as started:
        service = await connect(started, **hub.token_settings())
        await service.create(working("everything"))
        spoken = {"signing_secret": SECRET, "bot_token": TOKEN, "api_base_url": slack_url}
        number = await slack_loops.connect(service, "slack", **spoken)
        await service.create(thread_loop("C1", "talking", repository=NAME))
        return service.hook, number


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yards(places: Places, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[Yard]]:
    made: list[Yard] = []
    async with AsyncExitStack() as opened:
        for folder, address in opened.enter_context(places.opened(lanes=1)):
            remote = tmp_path_factory.mktemp("remote")
            hub = await opened.enter_async_context(repository_github(remote))
            hub.git.create(NAME, FILES)
            double = await opened.enter_async_context(slack())
            hook, number = await prepared(folder, address, hub, double.url)
            victim = Victim(folder, address, hook, free_port(), serve=repository_service.serve)
            made.append(Yard(victim, hub, Speaker(victim, double, number)))
            made[-1].victim.begin()
        yield made
        for one in made:
            await one.victim.end()


POINTS = [
    "round:after/3",
    "before /comments",
    "after /comments",
    "pushed",
    "after /pulls",
    "task_end:inside",
]


@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_any_point_a_task_goes_on_in_its_checkout_and_each_output_is_written_once(yards, point):
    async def once(yard: Yard) -> None:
        key, hub = str(uuid.uuid4()), yard.hub
        for kept in (hub.pulls, hub.comments, hub.issues):
            kept.clear()
        await yard.arm(point)
        await yard.victim.accepted(issue(NAME), key)
        await yard.victim.died()
        yard.victim.begin()

        task = await yard.over(key)
        assert (task["status"], task["ending"]) == ("completed", "done"), task["reason"]
        rows = await yard.victim.found(sa.select(task_outputs).where(task_outputs.c.task_id == task["id"]))
        assert {row["kind"]: row["status"] for row in rows} == dict.fromkeys(
            ("comment", "labels", "issue", "pull_request"), "written"
        )
        assert [len(kept) for kept in (hub.pulls, hub.comments, hub.issues)] == [1, 1, 1]
        assert task["result"]["pr_urls"] == [hub.pulls[0]["html_url"]]
        assert hub.git.changed(NAME, hub.pulls[0]["head"]["ref"]) == ["M src/export.py"]

    await asyncio.gather(*map(once, yards))
    branches = [branch for branch in yards[0].hub.git.branches(NAME) if branch != "main"]
    assert len(branches) == len(set(branches))


@pytest.mark.parametrize("point", ["before /pulls", "after /pulls"])
async def test_killed_while_it_sends_what_a_person_asked_for_it_is_there_once(yards, point):
    async def once(yard: Yard) -> None:
        key, hub = str(uuid.uuid4()), yard.hub
        for kept in (hub.pulls, hub.comments, hub.issues):
            kept.clear()

        async def refused(request: web.Request) -> web.Response | None:
            return web.Response(status=403) if request.path.endswith("/pulls") else None

        await eventually(lambda: yard.victim.call("/arm?point=none&nth=1"), lambda status: status == 200)
        hub.fault = refused
        await yard.victim.accepted(issue(NAME), key)
        task_id = (await yard.over(key))["id"]
        pull = sa.select(task_outputs).where(task_outputs.c.task_id == task_id, task_outputs.c.branch.is_not(None))
        (row,) = await yard.victim.found(pull)
        assert (row["status"], hub.pulls) == ("refused", [])
        hub.fault = None
        yard.killing(point)
        database = open_database(yard.victim.url)
        who, this = Person("default", "1", "Ada"), (task_id, row["number"])
        await database.writer.run(lambda connection: again(connection, who, this, SystemClock().now()))
        await database.aclose()
        await yard.victim.died()
        yard.victim.begin()
        await eventually(lambda: yard.victim.found(pull), lambda rows: rows[0]["status"] == "written", 60)
        assert [(one["head"]["ref"], one["draft"]) for one in hub.pulls] == [(row["branch"], True)]
        assert len(hub.git.subjects(NAME, row["branch"])) == 1

    await asyncio.gather(*map(once, yards))


@pytest.mark.parametrize("point", ["round:after/2", "pushed", "task_end:inside"])
async def test_killed_at_any_point_of_a_later_turn_its_change_is_one_commit_of_the_same_branch(yards, point):
    async def once(yard: Yard) -> None:
        yard.hub.pulls.clear()
        first = await yard.speaker.say("Raise it.")
        task_id = (await yard.speaker.listens(first, 1))["task_id"]
        (pull,) = yard.hub.pulls
        await yard.arm(point)
        saying = asyncio.create_task(yard.speaker.say("And tell of it.", first))  # who dies may not have answered
        await yard.victim.died()
        yard.victim.begin()
        await saying
        thread = await yard.speaker.listens(first, 2)
        assert [one["ending"] for one in thread["turns"]] == ["done", "done"], thread["turns"]
        rows = await yard.victim.found(sa.select(task_outputs).where(task_outputs.c.task_id == task_id))
        branch = pull["head"]["ref"]
        assert [
            (row["turn"], row["status"], row["url"], row["branch"]) for row in sorted(rows, key=lambda row: row["turn"])
        ] == [(turn, "written", pull["html_url"], branch) for turn in (1, 2)]
        assert yard.hub.git.changed(NAME, branch) == ["A MORE.md", "M src/export.py"]
        assert (len(yard.hub.git.subjects(NAME, branch)), yard.hub.pulls) == (2, [pull])

    await asyncio.gather(*map(once, yards))


async def test_after_all_that_a_start_leaves_nothing_of_tasks_that_are_over(yards):
    for yard in yards:
        left = yard.victim.folder.with_name(f"{yard.victim.folder.name}-work") / "tasks"
        assert list(left.iterdir())
        assert list(left.glob("*/checkout")) == []
        assert yard.victim.process is not None
        yard.victim.process.kill()
        await yard.victim.died()
        yard.victim.begin()

        async def names(folder: Path = left) -> list[str]:
            return await asyncio.to_thread(os.listdir, folder)

        await eventually(names, lambda found: not found)
