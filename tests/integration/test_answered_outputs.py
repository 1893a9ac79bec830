"""What a person says of an output that is uncertain or was not written: by the API, the page and the command."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from loops.store.outputs import OutputRow, this_output
from server.auth import Role
from tests.doubles.github import says
from tests.doubles.github_repository import NAME
from tests.integration.repository_tasks import Lab, laboratory, outputs_of
from tests.integration.running import eventually
from tests.integration.serving import Api, fresh_token
from tests.integration.test_cli import Cli

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORM = {"Sec-Fetch-Site": "same-origin"}
DENIED = says(403, {"message": "Resource not accessible by personal access token"})


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    async with laboratory(tmp_path_factory.mktemp("lab"), module_database_url) as made:
        yield made


@dataclass
class Desk:
    """Somebody with the API, and with the pages."""

    lab: Lab
    api: Api
    session: aiohttp.ClientSession

    async def left(self, name: str, fault: Any) -> OutputRow:
        """What a task leaves of its one output where GitHub answers its writes so."""
        self.lab.hub.fault = fault
        _, (row,) = await self.lab.worked(name)
        self.lab.hub.fault = None
        return row

    async def says(self, row: OutputRow, what: str, **body: Any) -> tuple[int, Mapping[str, Any]]:
        path = f"tasks/{row.task_id}/outputs/{row.number}/{what}"
        return await self.api.call("POST", path, body)

    async def rests(self, row: OutputRow) -> OutputRow:
        """How it stands once what was asked for came to something."""

        async def found() -> OutputRow:
            return next(one for one in await outputs_of(self.lab.service, row.task_id) if one.number == row.number)

        return await eventually(found, lambda one: one.status != "waiting" and one.due_at is None)


@asynccontextmanager
async def desk_of(lab: Lab, role: Role) -> AsyncIterator[Desk]:
    service = lab.service.service
    async with aiohttp.ClientSession(service.url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        token = await fresh_token(service, "default", role)
        await session.post("/sign-in", data={"token": token}, headers=FORM)
        yield Desk(lab, Api(session, "default", token, service), session)


@pytest_asyncio.fixture(loop_scope="module")
async def desk(lab: Lab) -> AsyncIterator[Desk]:
    for kept in (lab.hub.pulls, lab.hub.comments, lab.hub.issues):
        kept.clear()
    async with desk_of(lab, "editor") as one:
        yield one


async def test_who_looked_says_that_it_is_there_and_nobody_says_otherwise_after_that(lab, desk):
    row = await desk.left("commenting", says(502))
    assert row.status == "uncertain"
    for wrong in ("there", "javascript:alert(1)", "https://ada:secret@github.com/1", "https://github.com/a b"):
        status, told = await desk.says(row, "settle", url=wrong)
        assert (status, told["error"]["path"]) == (400, "url")
    place = "https://github.com/acme/widgets/issues/1#issuecomment-5"
    status, told = await desk.says(row, "settle", url=place)
    assert (status, told["status"], told["url"], told["reason"]) == (200, "written", place, "")
    (answer,) = told["answers"]
    assert (answer["did"], answer["was"]) == ("happened", "uncertain")
    assert (await desk.says(row, "settle", url=place))[0] == 200
    status, told = await desk.says(row, "settle", url=f"{place}0")
    assert (status, f"as {answer['by']} answered at {answer['at']}" in told["error"]["message"]) == (409, True)
    async with desk_of(lab, "editor") as other:
        assert (await other.says(row, "settle", url=place))[0] == 409
        assert (await other.says(row, "send"))[0] == 409
    async with desk_of(lab, "viewer") as viewer:
        assert (await viewer.says(row, "send"))[0] == 403
    assert lab.hub.comments == []


async def test_an_uncertain_one_is_looked_for_before_it_is_written_again_and_written_once(lab, desk):
    row = await desk.left("commenting", says(502))
    first, second = await asyncio.gather(desk.says(row, "send"), desk.says(row, "send"))
    assert 202 in {first[0], second[0]} <= {202, 409}
    assert (await desk.rests(row)).status == "written"
    assert len(lab.hub.comments) == 1
    lost = await desk.left("commenting", says(502))
    marker = f"<!-- loops output={lost.task_id}-{lost.number} -->"
    lab.hub.comments.append({"under": 1, "body": marker, "user": {"login": lab.hub.login}, "html_url": "https://hub/1"})
    await desk.says(lost, "send")
    assert (await desk.rests(lost)).url == "https://hub/1"
    assert len(lab.hub.comments) == 2


async def test_while_it_is_being_sent_nobody_answers_and_who_lost_its_lease_sends_nothing_more(lab, desk):
    row = await desk.left("commenting", DENIED)
    asked = asyncio.Event()

    async def busy(request: web.Request) -> web.Response | None:
        if request.method != "POST" or asked.is_set():
            return None
        asked.set()
        return web.json_response({"message": "secondary rate limit"}, status=429, headers={"Retry-After": "1"})

    lab.hub.fault = busy
    assert (await desk.says(row, "send"))[0] == 202
    await asyncio.wait_for(asked.wait(), 10)
    async with desk_of(lab, "editor") as other:
        for what, body in (("send", {}), ("settle", {"url": "https://hub/1"})):
            status, told = await other.says(row, what, **body)
            assert (status, "is being sent" in told["error"]["message"]) == (409, True)
            assert "ask again after 20" in told["error"]["hint"]
    lapsed = this_output((row.task_id, row.number)).values(due_at=datetime.now(UTC) - timedelta(seconds=1))
    await lab.service.write(lambda connection: connection.execute(lapsed))
    sent = await desk.rests(row)
    # It was begun anew by somebody who looked first, and not by the one whose lease had lapsed.
    assert (sent.status, sent.attempts, len(lab.hub.comments)) == ("written", row.attempts + 2, 1)
    lab.hub.fault = None


async def test_what_was_refused_is_sent_once_its_cause_is_mended_and_its_patch_can_be_had(lab, desk):
    row = await desk.left("pull", DENIED)
    assert (row.status, lab.hub.pulls) == ("refused", [])
    path = f"/api/projects/default/tasks/{row.task_id}/outputs/{row.number}/patch"
    async with desk.session.get(path) as answer:
        assert (answer.status, answer.content_type) == (200, "text/x-diff")
        assert await answer.read() == row.patch
    form = f"/runs/{await _run_of(desk, row)}/outputs/{row.task_id}/{row.number}"
    async with desk.session.get(form.partition("/outputs")[0]) as answer:
        page = await answer.text()
    assert f'action="{form}/send"' in page
    assert f'href="{path}" download' in page
    assert "/settle" not in page
    async with desk.session.post(f"{form}/settle", data={"url": "https://hub/1"}, headers=FORM) as answer:
        assert (answer.status, "there is no doubt of it" in await answer.text()) == (409, True)
    async with desk.session.post(f"{form}/send", headers=FORM, allow_redirects=False) as answer:
        assert answer.status == 303
    sent = await desk.rests(row)
    (pull,) = lab.hub.pulls
    assert (sent.status, sent.url, pull["draft"]) == ("written", pull["html_url"], True)
    assert lab.hub.git.changed(NAME, str(sent.branch)) == ["M src/export.py"]
    async with desk.session.get(form.partition("/outputs")[0]) as answer:
        assert "had it sent at" in await answer.text()


async def test_a_loop_may_leave_the_last_word_to_a_person_who_has_all_that_it_asked_for_sent(lab, desk):
    task, rows = await lab.worked("everything", inputs={"staged": True})
    assert {row.status for row in rows} == {"staged"}
    assert (task.status, task.reason) == ("completed", "the agent finalized; staged: nothing was written")
    assert (lab.hub.pulls, lab.hub.comments, lab.hub.issues) == ([], [], [])
    for row in rows:
        assert (await desk.says(row, "send"))[0] == 202
    assert [(await desk.rests(row)).status for row in rows] == ["written"] * 4
    assert [len(kept) for kept in (lab.hub.pulls, lab.hub.comments, lab.hub.issues)] == [1, 1, 1]


async def test_what_broke_a_rule_breaks_it_again_and_what_is_not_whole_cannot_be_sent(lab, desk):
    row = await desk.left("protected", None)
    assert (await desk.says(row, "send"))[0] == 202
    again = await desk.rests(row)
    assert (again.status, again.reason, len(again.answers)) == ("refused", row.reason, 1)
    assert lab.hub.pulls == []
    masked = await desk.left("spilling", None)
    status, told = await desk.says(masked, "send")
    assert (status, "blotted out of the patch" in told["error"]["message"]) == (409, True)
    empty = await desk.left("empty", None)
    assert (await desk.says(empty, "send"))[0] == 409
    assert (await desk.says(OutputRowOf(row.task_id, 7), "send"))[0] == 404


async def test_the_commands_do_the_same(lab, desk, tmp_path):
    row, service = await desk.left("commenting", says(502)), lab.service.service
    token = await fresh_token(service, "default", "editor")
    cli = Cli(tmp_path, LOOPS_URL=service.url, LOOPS_TOKEN=token)
    this = (row.task_id, str(row.number))
    told = await asyncio.to_thread(cli.done, "output-settle", *this, "https://hub/2")
    assert "comment in acme/widgets: written" in told
    assert "said that it was written at" in told
    kept = await desk.left("pull", DENIED)
    this = (kept.task_id, str(kept.number))
    assert (await asyncio.to_thread(cli.done, "output-patch", *this)).encode() == kept.patch
    assert "pull request in acme/widgets: waiting" in await asyncio.to_thread(cli.done, "output-send", *this)
    assert (await desk.rests(kept)).status == "written"


@dataclass
class OutputRowOf:
    """An output by its place alone."""

    task_id: str
    number: int


async def _run_of(desk: Desk, row: OutputRow) -> str:
    return str((await desk.api.get(f"tasks/{row.task_id}"))["run"])
