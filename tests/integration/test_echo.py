"""T10: a GitHub and a Slack that feed back everything that the service writes, while it goes on. One act, one run.

Each window lasts until everything is quiet and two seconds more; LOOPS_TEST_ECHO_SECONDS makes it longer.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import sqlalchemy as sa

from loops.agent.model import ToolSpec
from loops.agent.tools.tool import CallContext, Effect
from loops.event import JsonValue
from loops.own_output import PURPOSE, Marks, OwnMark, Place
from loops.store import deliveries, outbox, run_queries, tables
from loops.store import tasks as task_store
from server.app import Wiring
from tests.conftest import ECHO_SECONDS as SECONDS
from tests.doubles.github import TOKEN as GITHUB_TOKEN
from tests.doubles.github_writes import LOGIN, REPOSITORY_ID, WritableGitHub, writable_github
from tests.doubles.slack import TOKEN, serving
from tests.doubles.slack_echo import own_events
from tests.doubles.slack_socket import SlackSocketDouble
from tests.integration import github_loops, slack_loops
from tests.integration.running import PROJECT, Running, eventually, running, signed, workflow
from tests.integration.tasking import calls, ends, scripted, task_action
from tests.integration.test_slack_sockets import FAST

CHANNEL = "C1"
BRANCH = "loops/fix-7"
WRITTEN = ("issue_comment", "issues", "create", "push", "pull_request")
LONG = "A report of some length, as agents write them.\n\n" * 400

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120 + 3 * SECONDS)]


@dataclass
class Told:
    """A webhook that was sent back, and what it was answered with."""

    name: str
    http: int
    answer: Mapping[str, Any]


class EchoingSlack(SlackSocketDouble):
    """Keeps what is posted for the echo."""

    def __init__(self, echo: "Echo") -> None:
        super().__init__()
        self._sent_back = echo

    def post(self, channel: str, asked: dict[str, Any]) -> dict[str, Any]:
        message = super().post(channel, asked)
        self._sent_back.posted(channel, message)
        return message


@dataclass
class Echo:
    """Sends every writing back at once, twice, and again under other ids as often as it is asked."""

    client: aiohttp.ClientSession
    github_hook: str = ""
    slack_hook: str = ""
    told: list[Told] = field(default_factory=list)
    _slack: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    _github: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    _under_way: list["asyncio.Task[None]"] = field(default_factory=list)

    def posted(self, channel: str, message: Mapping[str, Any]) -> None:
        made = [*own_events(channel, message).items()]
        self._slack += made
        self._under_way += [asyncio.create_task(self._to_slack_hook(*one)) for one in (*made, *made)]

    async def written(self, event: str, payload: dict[str, Any]) -> None:
        """See Tell."""
        self._github.append((event, payload))
        key = str(uuid.uuid4())
        self._under_way += [asyncio.create_task(self._to_github_hook(event, payload, key)) for _ in range(2)]

    async def again(self) -> None:
        """Everything that was ever written, as new deliveries."""
        slack = [self._to_slack_hook(name, {**told, "event_id": f"Ev{uuid.uuid4().hex}"}) for name, told in self._slack]
        github = [self._to_github_hook(event, told, str(uuid.uuid4())) for event, told in self._github]
        await asyncio.gather(*slack, *github)

    async def quiet(self) -> None:
        """Once what is under way has been answered."""
        while self._under_way:
            await self._under_way.pop()

    async def _to_slack_hook(self, name: str, payload: Mapping[str, Any]) -> None:
        body = slack_loops.encoded(payload)
        await self._send(f"slack {name}", self.slack_hook, body, slack_loops.signed(body))

    async def _to_github_hook(self, event: str, payload: Mapping[str, Any], key: str) -> None:
        await self._send(f"github {event}", self.github_hook, *signed(payload, key, event))

    async def _send(self, name: str, hook: str, body: bytes, headers: Mapping[str, str]) -> None:
        async with self.client.post(hook, data=body, headers=headers) as response:
            self.told.append(Told(name, response.status, await response.json()))


class WritesToGitHub:
    """The agent's tool: writes to GitHub all that an installation with a personal token may write."""

    effect: Effect = "write"
    spec = ToolSpec("write", "Writes to GitHub.", {"type": "object", "properties": {}})

    def __init__(self, hub: WritableGitHub) -> None:
        self.live: Running | None = None
        self._hub = hub

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> JsonValue:
        assert self.live is not None
        task = await self.live.read(lambda connection: task_store.get(connection, context.task_id))
        marks, mark = Marks(self.live.services.box.derive_all(PURPOSE)), OwnMark(task.run_id, 1)

        def marked(text: str, number: int | None) -> str:
            return f"{text}\n\n{marks.make(mark, Place(REPOSITORY_ID, number, LOGIN))}"

        headers = {"Authorization": f"token {GITHUB_TOKEN}"}
        async with aiohttp.ClientSession(headers=headers, raise_for_status=True) as client:

            async def write(method: str, path: str, **asked: str) -> Any:
                url = f"{self._hub.url}/repos/acme/widgets/{path}"
                async with client.request(method, url, json=asked) as response:
                    return await response.json()

            made = await write("POST", "issues/42/comments", body=marked("I look into it.", 42))
            await write("PATCH", f"issues/comments/{made['id']}", body=marked("It was the limit.", 42))
            await write("POST", "issues", title="A finding", body=marked("There is more.", None))
            await write("POST", "git/refs", ref=f"refs/heads/{BRANCH}", sha="a" * 40)
            await write("POST", "pulls", title="Mend it", head=BRANCH, body=marked("Mended.", None))
        return {"written": 5}


@dataclass
class Office:
    """The service between its GitHub and its Slack, and the two loops that listen to both and write to both."""

    live: Running
    echo: Echo
    slack: SlackSocketDouble
    comments: str
    messages: str

    async def runs(self) -> list[str]:
        """The workflow of every run of the project."""
        rows = await self.live.read(lambda connection: run_queries.page(connection, PROJECT, limit=100))
        return sorted(row["workflow_id"] for row in rows)

    async def comment(self, login: str, body: str) -> None:
        """Somebody comments on the issue 42."""
        answer = await self.live.post(github_loops.comment(login, comment__body=body), event="issue_comment")
        assert answer["http"] == 202, answer

    async def say(self, ts: str, **event: str) -> None:
        """Somebody writes into the channel."""
        body = slack_loops.encoded(slack_loops.post(f"Ev{uuid.uuid4().hex}", ts, channel=CHANNEL, **event))
        async with self.echo.client.post(self.echo.slack_hook, data=body, headers=slack_loops.signed(body)) as response:
            assert response.status == 202

    async def watch(self, expected: list[str]) -> None:
        """The runs that there are, and no others, from now until the window ends: all of them over, all messages sent,
        everything sent back again meanwhile."""
        await eventually(self.runs, lambda found: len(found) >= len(expected))
        await self._quiet()
        until = time.monotonic() + SECONDS
        while True:
            await self.echo.again()
            await self._quiet()
            assert await self.runs() == sorted(expected)
            if time.monotonic() >= until:
                return
            await asyncio.sleep(min(5.0, SECONDS))

    async def _quiet(self) -> None:
        busy = {"queued", "running", "waiting"}

        async def unsettled() -> list[Any]:
            await self.echo.quiet()
            runs = await self.live.read(lambda connection: run_queries.page(connection, PROJECT, limit=100))
            messages = await self.live.read(lambda connection: outbox.listed(connection, PROJECT, limit=100))
            waiting = [row["status"] for row in runs if row["status"] in busy]
            waiting += [row.status for row in messages if row.status not in {"sent", "shown"}]
            accepted = await self.live.read(
                lambda connection: deliveries.page(connection, PROJECT, limit=10, status="accepted")
            )
            return waiting + [row["status"] for row in accepted]

        await eventually(unsettled, lambda found: not found)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def office(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    async with AsyncExitStack() as opened:
        echo = Echo(await opened.enter_async_context(aiohttp.ClientSession()))
        hub = await opened.enter_async_context(writable_github(echo.written))
        slack = EchoingSlack(echo)
        await opened.enter_async_context(serving(slack))
        writes = WritesToGitHub(hub)
        wiring = replace(scripted(lambda: [calls("write"), ends(LONG)], Wiring(slack=FAST)), tools=(writes,))
        folder = tmp_path_factory.mktemp("echo")
        started = await opened.enter_async_context(running(folder, module_database_url, wiring=wiring, runs="4"))
        live = await github_loops.connected(started, hub)
        number = await slack_loops.connect(
            live, "slack", signing_secret=slack_loops.SECRET, bot_token=TOKEN, api_base_url=slack.url
        )
        await eventually(lambda: slack_loops.config_of(live, number), lambda found: "bot_id" in found)
        writes.live = live
        echo.github_hook = f"{live.service.url}/hooks/github/{live.hook}"
        echo.slack_hook = f"{live.service.url}/hooks/slack/{number}"
        comments = (await live.create(on_comments(number))).id
        messages = (await live.create(on_messages(number))).id
        yield Office(live, echo, slack, comments, messages)


def posting(name: str, connection: int, text: str, **inputs: str) -> dict[str, Any]:
    given = {"slack_workspace": connection, "channel": CHANNEL, "text": text, **inputs}
    config = {"template_id": "template-slack", "inputs": {key: {"value": value} for key, value in given.items()}}
    return {"id": name, "name": name, "type": "function", "config": config}


def on_comments(connection: int) -> dict[str, Any]:
    """Whatever is written in the repository: a task writes there too, and reports to the channel and a thread of it."""
    document = workflow(
        "comments",
        task_action(output_variable={"key": "report", "result_path": "final_message"}),
        posting("report", connection, "{variables.report}"),
        posting("more", connection, "more <@U0LOOPS>", thread_ts="{steps.report.refs[1]}"),
        variables=[{"key": "report", "type": "string", "default": ""}],
    )
    document["actions"][0]["config"]["filters"]["properties"] = [
        github_loops.exact("repository", "acme/widgets"),
        github_loops.exact("event_type", *WRITTEN),
    ]
    return document


def on_messages(connection: int) -> dict[str, Any]:
    """Whatever is written in the channel is answered in it, and in its thread."""
    document = workflow(
        "messages",
        posting("channel", connection, "heard {event.properties.text}"),
        posting("thread", connection, "here too", thread_ts="{event.properties.thread_ts ?? event.properties.ts}"),
    )
    document["actions"][0]["config"]["filters"] = slack_loops.listening(channel=CHANNEL)["actions"][0]["config"][
        "filters"
    ]
    return document


async def test_one_act_starts_one_run_however_often_its_writings_come_back(office: Office) -> None:
    await office.comment("ada", "please look")
    await office.watch([office.comments])
    posts = office.slack.posted[CHANNEL]
    assert len(posts) == 3  # two parts of the report, a word in its thread
    assert [bool(one.get("thread_ts")) for one in posts] == [False, True, True]

    # What people write is none of ours: in the channel, in a thread that the service began, and by the very account
    # that the service writes with.
    await office.say("1793610000.000100", text="is it mended?")
    await office.say("1793610060.000200", text="and this?", thread_ts=posts[0]["ts"])
    await office.comment(LOGIN, "I look at it myself")
    await office.watch([office.comments] * 2 + [office.messages] * 2)
    assert len(posts) == 3 + 3 + 2 * 2

    await everything_that_came_back_was_known(office)


async def everything_that_came_back_was_known(office: Office) -> None:
    heard = {"slack": office.messages, "github": office.comments}
    told = {one.answer["delivery"]: one.name for one in office.echo.told}
    assert {one.http for one in office.echo.told} == {200, 202}
    assert {f"slack {name}" for name in own_events(CHANNEL, {"text": "", "ts": "1.2"})} <= {*told.values()}
    assert {f"github {event}" for event in WRITTEN} <= {*told.values()}
    for row, verdicts in await office.live.read(lambda connection: decided(connection, [*told])):
        name = told.pop(row["id"])
        assert (row["status"], row["runs"]) == ("ignored", 0), name
        stages = [(verdict["workflow"], verdict["stage"], verdict["passed"]) for verdict in verdicts]
        expected = [] if " ignored" in name else [(heard[row["source"]], "own_output", False)]
        assert stages == expected, (name, verdicts)
    assert not told


def decided(connection: sa.Connection, ids: Sequence[str]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Deliveries with the verdicts on their events."""
    at_hand = tables.deliveries.c.id.in_(ids)
    rows = connection.execute(sa.select(tables.deliveries).where(at_hand)).mappings()
    found = {row["id"]: (dict(row), list[dict[str, Any]]()) for row in rows}
    events = sa.select(tables.events.c.delivery_id, tables.events.c.verdicts)
    for delivery_id, verdicts in connection.execute(events.where(tables.events.c.delivery_id.in_(ids))):
        found[delivery_id][1].extend(verdicts)
    return [*found.values()]
