"""The loops of the format's authors, from the JSON to the message: created, tested step by step, enabled, fired by what
really arrives, notified. Over the API, with the tools of an agent, and by `loops apply`; the test run reaches nothing
and keeps nothing."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import sqlalchemy as sa
from sqlmodel import SQLModel

from loops.agent.models.scripted import Script
from server.app import Service, Wiring
from server.cli.entry import run as command
from tests.doubles.github_repository import RepositoryGitHub, repository_github
from tests.doubles.mcp_servers import TOKEN as MCP_TOKEN
from tests.doubles.mcp_servers import Loopback, over_http, sdk_server
from tests.doubles.plain_sandbox import PlainSandboxes
from tests.doubles.slack import TOKEN, SlackDouble, slack
from tests.doubles.slack_socket import until
from tests.doubles.smtp import SmtpDouble, smtp
from tests.integration.agent import agent_at
from tests.integration.running import issue
from tests.integration.serving import SECRET, Api, fresh_project, fresh_token, running, settings_for
from tests.integration.slack_loops import SECRET as SLACK_SECRET
from tests.integration.slack_loops import encoded, post, signed
from tests.integration.tasking import ends, scripted
from tests.integration.test_webhooks import address, send

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOOPS = Path(__file__).parents[1] / "fixtures" / "loops"
REPORT = "It is **urgent**."
SKILL = "---\nname: triage\ndescription: How we sort issues.\n---\n\nAsk for the version first.\n"
MOCKED = "The final message of the task (mocked: a test run creates no task)."
_ts = itertools.count(1)


class Model:
    """The scripted model. While it is `away` whoever asks it fails."""

    def __init__(self) -> None:
        self.output: Mapping[str, Any] = {}
        self.away = False
        self.asked = 0

    def make(self) -> Script:
        self.asked += 1
        assert not self.away, "the model was called"
        return [ends(REPORT, output=dict(self.output)) if self.output else ends(REPORT)]


@dataclass
class World:
    """A service with all that is outside of it, which a test can take away."""

    service: Service
    session: aiohttp.ClientSession
    model: Model
    slack: SlackDouble
    mail: SmtpDouble
    github: RepositoryGitHub
    pages: Loopback

    async def project(self) -> "Project":
        api = await fresh_project(self.service, self.session)
        chat = {"signing_secret": SLACK_SECRET, "bot_token": TOKEN, "api_base_url": self.slack.url}
        made = await api.post("integrations", {"kind": "slack", "name": "chat", "settings": chat})
        server = {"host": "127.0.0.1", "port": str(self.mail.port), "security": "none", "from": "loops@example.org"}
        mail = await api.post("integrations", {"kind": "smtp", "name": "mail", "settings": server})
        code = {"webhook_secret": SECRET, **self.github.token_settings()}
        hub = await api.post("integrations", {"kind": "github", "name": "hub", "settings": code})
        pages = {"url": self.pages.url, "token": MCP_TOKEN}
        connector = await api.post("integrations", {"kind": "mcp", "name": "pages", "settings": pages})
        assert (await api.call("PUT", "skills/triage", {"text": SKILL}))[0] in {200, 201}
        return Project(self, api, made["id"], mail["id"], f"/hooks/github/{hub['id']}", connector["id"])

    def reached(self) -> tuple[int, int, int, int]:
        """How often the model, Slack, the mail server and GitHub were called; but for the look at the token of a new
        connection, which nobody waits for."""
        posts = [name for name, _ in self.slack.calls if name != "auth.test"]
        return self.model.asked, len(posts), len(self.mail.envelopes), self.github.calls["permission"]

    async def rows(self) -> dict[str, int]:
        """How many rows every table has."""

        def count(connection: sa.Connection) -> dict[str, int]:
            tables = SQLModel.metadata.tables.values()
            return {
                one.name: connection.execute(sa.select(sa.func.count()).select_from(one)).scalar_one() for one in tables
            }

        return await self.service.services.reader.read(count)


@dataclass
class Project:
    """A project of its own with a connection to Slack, to the mail server and to GitHub, which knows who may write."""

    world: World
    api: Api
    chat: str
    mail: str
    hub: str
    connector: str

    def document(self, name: str) -> dict[str, Any]:
        """The loop of a fixture, with this project's connections in it."""
        document: dict[str, Any] = json.loads((LOOPS / f"{name}.json").read_text("utf-8"))
        inputs = document["actions"][-2]["config"]["inputs"]
        if "slack_workspace" in inputs:
            inputs["slack_workspace"]["value"] = int(self.chat)
        if "email" in inputs:
            inputs["email"]["value"]["from"]["integrationId"] = int(self.mail)
        task = document["actions"][1]["config"]["inputs"]
        if "connectors" in task:
            task["connectors"]["value"] = [self.connector]
        return document

    async def github(self, _flow: str) -> None:
        await self.api.deliver(self.hub, "issues", issue("acme/widgets", 7))

    async def quiet(self, _flow: str) -> None:
        await self.api.deliver(self.hub, "issues", issue("acme/quiet", 7))

    async def post(self, channel: str) -> None:
        number = next(_ts)
        ts = f"{time.time():.0f}.{number:06d}"
        body = encoded(post(f"Ev{number}", ts, channel=channel, text="the export is on fire"))
        status, told = await self.api.call("POST", f"/hooks/slack/{self.chat}", raw=body, headers=signed(body))
        assert (status, told["status"]) == (200, "accepted") or status == 202, told

    async def alert(self, _flow: str) -> None:
        await self.post("C0ALERTS")

    async def watched(self, _flow: str) -> None:
        await self.post("C0WATCH")

    async def capture(self, _flow: str) -> None:
        made = await self.api.post(
            "integrations", {"kind": "posthog", "name": "capture", "settings": {"api_key": f"phc_{self.api.project}"}}
        )
        assert made["id"]
        batch = [{"event": "account_upgraded", "distinct_id": "acme", "properties": {"seats": 120, "plan": "team"}}]
        body = json.dumps({"api_key": f"phc_{self.api.project}", "batch": batch}).encode()
        headers = {"Content-Type": "application/json"}
        assert (await self.api.call("POST", "/batch/", raw=body, headers=headers))[0] == 200

    async def request(self, flow: str) -> None:
        path = (await address(self.api, flow))["path"]
        status, told = await send(self.api, path, {"event": "order_paid", "customer": "acme", "total": 12})
        assert (status, told["status"]) == (202, "accepted")

    async def due(self, flow: str) -> None:
        """Gives the loop a schedule with one occurrence, which comes at once."""
        starts_at = (datetime.now(UTC) + timedelta(seconds=1.5)).isoformat(timespec="seconds")
        once = {"rrule": "FREQ=DAILY;COUNT=1", "starts_at": starts_at, "timezone": "UTC"}
        await self.api.post(f"workflows/{flow}/schedules", once)

    async def by_hand(self, flow: str) -> None:
        status, told = await self.api.call("POST", f"workflows/{flow}/run", {"variables": {"headline": "Week 28"}})
        assert status == 202, told


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("format")
    model = Model()
    wiring = scripted(model.make, Wiring(sandboxes=PlainSandboxes()))
    (folder / "remote").mkdir()
    settings = settings_for(folder, f"sqlite:///{folder / 'loops.db'}")
    async with AsyncExitStack() as opened:
        chat = await opened.enter_async_context(slack())
        mail, _ = await opened.enter_async_context(smtp(folder, security="none", password=False))
        hub = await opened.enter_async_context(repository_github(folder / "remote"))
        hub.git.create("acme/widgets", {"README.md": "Widgets."})
        pages = await opened.enter_async_context(over_http(sdk_server()))
        chat.posted["C0ALERTS"] = []
        for repository in ("acme/widgets", "acme/quiet"):
            hub.may("ada", "write", repository=repository)
        service = await opened.enter_async_context(running(settings, wiring))
        session = await opened.enter_async_context(aiohttp.ClientSession(service.url))
        yield World(service, session, model, chat, mail, hub, pages)


@pytest_asyncio.fixture(loop_scope="module")
async def project(world: World) -> Project:
    return await world.project()


Fire = Callable[[Project, str], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    """A loop, a sample that starts it and one that does not with the property that says why, what really starts it, and
    what is told in the end: by a test run, and by a run."""

    fire: Fire
    fits: Mapping[str, Any]
    fits_not: Mapping[str, Any] | None = None
    because: str = ""
    notify: str | None = None
    mocked: str = ""
    said: str = ""
    output: Mapping[str, Any] | None = None
    thread: str = ""


def github(repository: str, action: str = "opened", access: str = "write") -> dict[str, Any]:
    properties = {"repository": repository, "event_type": "issues", "action": action, "actor_access": access}
    return {"event": {"event": "$github_event_received", "properties": properties}}


def message(channel: str, **more: Any) -> dict[str, Any]:
    return {"event": {"event": "$slack_message_received", "properties": {"channel": channel, "text": "fire", **more}}}


def upgrade(seats: int) -> dict[str, Any]:
    return {"event": {"event": "account_upgraded", "properties": {"seats": seats}}, "person": {"id": "acme"}}


CASES = {
    "github__structured": Case(
        Project.github,
        github("acme/widgets"),
        github("acme/widgets", access="read"),
        "actor_access",
        "slack",
        f"Triage issues finished (…, 0 alike, bug: false): {MOCKED}",
        "Triage issues finished (high, 3 alike, bug: true): It is *urgent*.",
        {"severity": "high", "duplicates": 3, "is_bug": True},
    ),
    "github__nobody": Case(Project.quiet, github("acme/quiet"), github("acme/widgets"), "repository"),
    "slack__thread": Case(
        Project.alert,
        message("C0ALERTS", ts="1.2"),
        message("C0ALERTS", ts="1.2", bot_id="B1"),
        "bot_id",
        thread="It is *urgent*.",
    ),
    "slack__slack": Case(
        Project.watched,
        message("C0WATCH"),
        message("C0WATCH", thread_ts="1.2"),
        "thread_ts",
        "slack",
        f"Watch alerts finished: {MOCKED}",
        "Watch alerts finished: It is *urgent*.",
    ),
    "event__email": Case(Project.capture, upgrade(51), upgrade(50), "seats", "email", MOCKED, REPORT),
    "webhook__slack": Case(
        Project.request,
        {"request": {"body": {"event": "order_paid", "customer": "acme"}}},
        notify="slack",
        mocked=f"Read orders finished: {MOCKED}",
        said="Read orders finished: It is *urgent*.",
    ),
    "manual__email": Case(
        Project.by_hand, {"variables": {"headline": "Week 28"}}, notify="email", mocked=MOCKED, said=REPORT
    ),
    "schedule__slack": Case(
        Project.due,
        {"event": {"event": "$scheduled"}},
        notify="slack",
        mocked=f"Morning report finished: {MOCKED}",
        said="Morning report finished: It is *urgent*.",
    ),
}


async def test_every_fixture_is_a_case() -> None:
    assert {path.stem for path in LOOPS.glob("*.json")} == set(CASES)


@contextmanager
def away(world: World) -> Iterator[None]:
    """Whoever is called outside fails the test."""
    before = world.reached()
    world.model.away = True
    world.slack.faults = [_must_not_be_called] * 100
    world.mail.sender_answer = "554 must not be called"
    world.github.always = _must_not_be_called
    yield
    world.model.away, world.slack.faults, world.mail.sender_answer, world.github.always = False, [], "", None
    assert world.reached() == before


async def _must_not_be_called(_request: Any) -> Any:
    raise AssertionError("a service outside was called")


async def walked(tested: Callable[[Mapping[str, Any]], Awaitable[Any]], case: Case) -> None:
    """The test run of a loop, step by step as its authors say, on nothing but the event; `tested` asks for a step."""

    async def test(action: str | None = None, **changes: Any) -> Any:
        named = {} if action is None else {"current_action_id": action}
        return await tested({"globals": case.fits, **named, **changes})

    started = await test()
    assert (started["status"], started["nextActionId"]) == ("success", "create_task"), started
    if case.fits_not is not None:
        stopped = await test(globals=case.fits_not)
        assert (stopped["status"], stopped["nextActionId"]) == ("skipped", None)
        failed = [one for one in stopped["verdict"]["compared"] if not one["passed"]]
        assert [one["key"] for one in failed] == [case.because]
        assert case.because in stopped["reason"]

    after_task = "exit" if case.notify is None else "notify"
    task = await test("create_task")
    assert (task["status"], task["nextActionId"]) == ("success", after_task), task
    assert (task["result"]["status"], task["variables"]["task_final_message"]) == ("completed", MOCKED)
    (call,) = task["calls"]
    assert call["kind"] == "task"
    assert call["first_message"].startswith("<user_custom_instructions>\n" + task["inputs"]["prompt"])
    assert "<triggering_event>" in call["first_message"]
    assert call["answers_in"] == ({"channel": "C0ALERTS", "thread_ts": "1.2"} if case.thread else None)
    assert (await test("create_task"))["result"] == task["result"]  # the same each time

    if case.notify is not None:
        told = await test("notify")
        assert (told["status"], told["nextActionId"]) == ("success", "exit"), told
        (call,) = told["calls"]
        assert (call["kind"], call["text"]) == (case.notify, case.mocked)
        if case.notify == "slack":
            assert call["parts"][0]["blocks"][0]["text"]["text"] == case.mocked
        else:
            assert (call["to"], call["html"]) == ([{"email": "ada@example.com", "name": ""}], "")
    end = await test("exit")
    assert (end["status"], end["nextActionId"], end["reason"]) == ("success", None, "Task finished")


async def fired(project: Project, flow: str, case: Case) -> Any:
    """What really arrives starts the loop, and its result comes back; the run."""
    world, api = project.world, project.api
    world.model.output = case.output or {}
    posted, mails = len(world.slack.texts()), len(world.mail.mails)
    await case.fire(project, flow)
    runs = await api.until(f"runs?workflow={flow}", lambda page: page["items"])
    run = await api.until(f"runs/{runs['items'][0]['id']}", lambda one: one["status"] in {"completed", "failed"})
    assert (run["status"], run["reason"]) == ("completed", "Task finished"), run
    assert world.slack.texts()[posted:] == ([case.said] if case.notify == "slack" else [])
    if case.thread:
        await answered_in_thread(project, run, case.thread)
    texts = [mail.get_content().strip() for mail in world.mail.mails[mails:]]
    assert texts == ([case.said] if case.notify == "email" else [])
    return run


async def answered_in_thread(project: Project, run: Any, text: str) -> None:
    """The result stands in the thread of the message, which has eyes, and the task listens there."""
    (task,) = run["tasks"]
    thread = (await project.api.until(f"tasks/{task['id']}", lambda one: one["thread"]["reaction"]))["thread"]
    assert (thread["status"], thread["turn"], thread["reaction"]) == ("listening", 1, "shown")
    double = project.world.slack
    place = (thread["channel"], thread["thread_ts"])
    await until(lambda: [one for one in double.posted[place[0]] if one.get("thread_ts") == place[1]])
    (told,) = [one for one in double.posted[place[0]] if one.get("thread_ts") == place[1]]
    assert [block["text"]["text"] for block in told["blocks"]] == [text]
    assert (*place, "eyes") in double.reactions


@pytest.mark.parametrize("name", CASES)
async def test_a_loop_is_created_tested_step_by_step_enabled_fired_and_told(project: Project, name: str) -> None:
    case, api = CASES[name], project.api
    made = await api.post("workflows", project.document(name))
    assert (made["status"], made["shape"]) == ("draft", "loop")
    before = await project.world.rows()
    with away(project.world):
        await walked(lambda asked: api.post(f"workflows/{made['id']}/test-run", asked), case)
    assert await project.world.rows() == before
    assert (await api.post(f"workflows/{made['id']}/enable"))["status"] == "active"
    run = await fired(project, made["id"], case)
    if run["delivery"] is None:  # it was started by hand
        return
    with away(project.world):
        again = await api.post(f"workflows/{made['id']}/test-run", {"delivery": run["delivery"]})
    assert (again["status"], again["nextActionId"], again["event"]["uuid"]) == (
        "success",
        "create_task",
        run["event_uuid"],
    )


@pytest.mark.parametrize("name", CASES)
async def test_an_agent_creates_the_same_loop_with_its_tools_tests_and_enables_it(project: Project, name: str) -> None:
    case, service = CASES[name], project.world.service
    editor = await fresh_token(service, project.api.project, "editor")
    async with agent_at(service.url, editor) as agent:
        made = await agent.call("workflows-create", **project.document(name))
        assert (made["status"], made["shape"]) == ("draft", "loop")
        with away(project.world):
            await walked(lambda asked: agent.call("workflows-test-run", id=made["id"], **asked), case)
        assert (await agent.call("workflows-enable", id=made["id"]))["status"] == "active"
        run = await fired(project, made["id"], case)
        told = await agent.call("workflows-get-invocation", id=run["id"])
        assert (told["status"], told["reason"]) == ("completed", "Task finished")


@pytest.mark.parametrize("name", CASES)
async def test_the_same_loop_as_a_file_is_applied_tested_enabled_and_fired(
    project: Project, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case, file = CASES[name], tmp_path / "loop.json"
    document = project.document(name)
    file.write_text(json.dumps(document), "utf-8")
    monkeypatch.setenv("LOOPS_URL", project.world.service.url)
    monkeypatch.setenv("LOOPS_TOKEN", project.api.token)

    async def cli(*arguments: str) -> Any:
        code = await asyncio.to_thread(command, [*arguments, "--project", project.api.project, "--json"])
        told = capsys.readouterr()
        assert code == 0, told.err
        return json.loads(told.out)

    (applied,) = (await cli("apply", "-f", str(file)))["workflows"]
    assert (applied["status"], applied["change"]) == ("draft", "created")
    with away(project.world):
        steps = (await cli("test-run", str(file), "--all", "--globals", json.dumps(case.fits)))["steps"]
        assert [step["action"]["id"] for step in steps] == [action["id"] for action in document["actions"]]
        assert {step["status"] for step in steps} == {"success"}
    (enabled,) = (await cli("apply", "-f", str(file), "--enable"))["workflows"]
    assert (enabled["id"], enabled["status"], enabled["change"]) == (applied["id"], "active", "unchanged")
    await fired(project, applied["id"], case)
