"""The web application over a real database, without engine and dispatch: a test puts the rows there itself."""

import dataclasses
import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from aiohttp.test_utils import TestClient, TestServer

from config.settings import Settings, ensure_secret_key, read_settings
from loops.connections.book import ConnectionBook
from loops.connections.github import GitHubClients
from loops.connections.github_repositories import GitHubRepositories
from loops.connections.secrets import Mask, SecretBox
from loops.connections.slack_channels import SlackWorkspaces
from loops.own_output import PURPOSE, Marks
from loops.ports import DeliveryRow, Reader
from loops.runs.control import RunControl
from loops.runs.load import ProgramLoader
from loops.runs.state import RunState
from loops.runs.steps import Outside, make_steps
from loops.runs.testing import StepTester
from loops.scheduling import Schedules
from loops.store import connections, deliveries, runs
from loops.store.columns import to_micros
from loops.store.database import DEFAULT_PROJECT, Database, open_database
from loops.store.ids import new_id
from loops.store.runs import NewRun, StepRow
from loops.store.tables import projects
from loops.store.workflows import WorkflowRow
from loops.tasks.allowance import Limits
from loops.tasks.quota import QuotaLimits
from loops.tasks.service import TaskService
from loops.tasks.thread.live import TaskThreads
from loops.threads import off_loop
from loops.webhooks import Webhooks
from loops.workflows import Workflows
from notify.posting import make_outbox
from server.auth import Role, new_token
from server.checks.outside import ChannelLook
from server.metrics import Metrics
from server.services import Services
from server.web import make_app
from triggers.audience import Audience
from triggers.definitions import Definitions
from triggers.forecasting import Forecasts
from triggers.handoff import Handoff
from triggers.intake import Intake
from triggers.manual.receive import ByHand
from triggers.own_output import OwnOutput
from triggers.registry import SOURCES
from triggers.replay import Replays
from triggers.rights import Rights
from triggers.testing import WorkflowTester

NOW = datetime(2026, 7, 6, 12, 0, 0, 123456, tzinfo=UTC)
OWN_FORM = {"Sec-Fetch-Site": "same-origin"}


class SetClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    def forward(self, span: timedelta) -> None:
        self.time += span


class EngineLog:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.woken: list[tuple[str, int]] = []
        self.dropped: list[tuple[str, int]] = []

    def enqueue(self, connection: sa.Connection, run_id: str, seq: int, *, delay: float = 0.0) -> None:
        raise AssertionError(f"nothing starts {run_id}")

    def enqueue_task(self, connection: sa.Connection, task_id: str, seq: int) -> None:
        raise AssertionError(f"nothing creates {task_id}")

    async def wake(self, run_id: str, seq: int) -> None:
        self.woken.append((run_id, seq))

    async def drop(self, run_id: str, seq: int) -> None:
        self.dropped.append((run_id, seq))


@dataclasses.dataclass
class Answer:
    """What a browser got."""

    status: int
    text: str
    headers: Mapping[str, str]
    cookies: Mapping[str, Any]


class Site:
    """A running web application, a browser's cookies, and ways to put rows into its database."""

    def __init__(self, services: Services, clock: SetClock, engine: EngineLog, client: TestClient[Any, Any]) -> None:
        self.services = services
        self.clock = clock
        self.engine = engine
        self.client = client

    async def get(self, path: str, **headers: str) -> Answer:
        """Follows no redirect."""
        async with self.client.get(path, allow_redirects=False, headers=headers) as response:
            return Answer(response.status, await response.text(), dict(response.headers), response.cookies)

    async def post(
        self, path: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] = OWN_FORM
    ) -> Answer:
        """A form as a page of ours sends it, unless other headers are given."""
        asked = self.client.post(path, data=dict(form or {}) or {"_": ""}, headers=headers, allow_redirects=False)
        async with asked as response:
            return Answer(response.status, await response.text(), dict(response.headers), response.cookies)

    async def token(self, role: Role = "admin", name: str = "ada", project: str = DEFAULT_PROJECT) -> str:
        """A new token; its id is its name."""
        token, digest = new_token()
        await self.services.writer.run(
            lambda connection: connections.insert_token(
                connection, token_id=name, project_id=project, name=name, role=role, digest=digest, now=NOW
            )
        )
        return token

    async def sign_in(self, role: Role = "admin", name: str = "ada", project: str = DEFAULT_PROJECT) -> None:
        """From here on requests carry the session of a new token."""
        answer = await self.post("/sign-in", {"token": await self.token(role, name, project)})
        assert answer.status == 303

    async def project(self, name: str) -> None:
        """Another project."""
        values = {"id": name, "name": name, "time_zone": "UTC", "created_at": NOW}
        await self.services.writer.run(lambda connection: connection.execute(projects.insert().values(**values)))

    async def connection(self, name: str = "acme", project: str = DEFAULT_PROJECT, kind: str = "github") -> int:
        """A connection without settings; its id."""
        return await self.services.writer.run(
            lambda connection: connections.insert(
                connection, project_id=project, kind=kind, name=name, config={}, secrets="", now=NOW
            )
        )

    async def delivery(
        self,
        connection_id: int,
        *,
        body: bytes = b"{}",
        headers: Mapping[str, str] | None = None,
        settled: tuple[str, str, int] | None = ("ignored", "no loop listens for it", 0),
        **columns: Any,
    ) -> str:
        """A stored delivery; its id."""
        row = DeliveryRow(
            **{
                "id": new_id(),
                "project_id": DEFAULT_PROJECT,
                "connection_id": connection_id,
                "source": "github",
                "key": str(uuid.uuid4()),
                "name": "issues",
                "subject": None,
                "received_at": to_micros(self.clock.now()),
                "verified": True,
                "status": "accepted",
                "reason": "",
                "headers": json.dumps(
                    dict(headers or {"content-type": "application/json", "x-github-event": "issues"})
                ),
                "body": body,
                "size": len(body),
                **columns,
            }
        )
        await self.services.writer.accept(row)
        if settled is not None:
            outcome = deliveries.Settled(row.id, *settled)
            await self.services.writer.run(lambda connection: deliveries.settle(connection, [outcome]))
        return row.id

    async def event(self, delivery_id: str, verdicts: Sequence[Mapping[str, Any]]) -> str:
        """A stored event of a delivery, with its verdicts; its uuid."""
        row = deliveries.EventRow(
            project_id=DEFAULT_PROJECT,
            source="github",
            uuid=str(uuid.uuid4()),
            delivery_id=delivery_id,
            position=0,
            name="$github_event_received",
            verdicts=verdicts,
            body=None,
        )
        await self.services.writer.run(lambda connection: deliveries.put_event(connection, row, NOW))
        return row.uuid

    async def workflow(self, project: str = DEFAULT_PROJECT, **changes: Any) -> WorkflowRow:
        """A stored workflow that logs and then waits."""
        saved = await self.services.workflows.create(project, {**WORKFLOW, **changes}, "ada")
        return saved.row

    async def run(self, workflow: WorkflowRow, **columns: Any) -> str:
        """A queued run; its id."""
        run = NewRun(
            **{
                "id": str(uuid.uuid4()),
                "project_id": workflow.project_id,
                "workflow_id": workflow.id,
                "version": workflow.version,
                "source": "github",
                "event_uuid": str(uuid.uuid4()),
                "event_name": "$github_event_received",
                "delivery_id": None,
                "replay": 0,
                "state": RunState("log"),
                **columns,
            }
        )
        now = self.clock.now()
        await self.services.writer.run(lambda connection: runs.insert(connection, run, now))
        return run.id

    async def act(self, run_id: str, step: StepRow | None = None, position: str | None = "wait", **state: Any) -> None:
        """The run acts: it is claimed, and has taken the step."""
        now = self.clock.now()
        after = RunState(position, 1, state)

        def act(connection: sa.Connection) -> None:
            runs.claim(connection, run_id, 0, OWNER, now)
            runs.record(connection, run_id, 0, OWNER, after, step, now)

        await self.services.writer.run(act)


OWNER = "owner"
SECRET = "hunter2-of-the-site"
MASK = Mask([SECRET])
WORKFLOW: Mapping[str, Any] = {
    "name": "Log opened issues",
    "status": "draft",
    "actions": [
        {
            "id": "trigger",
            "type": "trigger",
            "config": {
                "type": "internal-event",
                "filters": {
                    "events": [{"id": "$github_event_received"}],
                    "properties": [
                        {"key": "repository", "value": ["acme/widgets"], "operator": "exact", "type": "event"},
                        {"key": "event_type", "value": ["issues"], "operator": "exact", "type": "event"},
                        {"key": "action", "value": ["opened", "reopened"], "operator": "exact", "type": "event"},
                    ],
                },
            },
        },
        {
            "id": "log",
            "name": "Write a line",
            "type": "function",
            "config": {"template_id": "template-log", "inputs": {"text": {"value": "seen"}}},
        },
        {"id": "wait", "name": "Wait an hour", "type": "delay", "config": {"delay_duration": "1h"}},
        {"id": "exit", "name": "Exit", "type": "exit", "config": {"reason": "Logged"}},
    ],
    "edges": [
        {"from": "trigger", "to": "log", "type": "continue"},
        {"from": "log", "to": "wait", "type": "continue"},
        {"from": "wait", "to": "exit", "type": "continue"},
    ],
}


def step_row(**columns: Any) -> StepRow:
    """A step that has written a line."""
    line = {"at": NOW.isoformat(), "text": "ada opened issue 42"}
    return StepRow(
        **{
            "step_id": "log",
            "type": "function",
            "name": "Write a line",
            "position": 0,
            "status": "completed",
            "result": {"text": "ada opened issue 42"},
            "error": None,
            "log": [line],
            "started_at": NOW,
            "finished_at": NOW + timedelta(milliseconds=42),
            **columns,
        }
    )


@asynccontextmanager
async def open_site(
    folder: Path,
    public_url: str = "http://loops.example.org",
    reader: Reader | None = None,
    database_url: str | None = None,
) -> AsyncIterator[Site]:
    """A site on an empty database, in the folder if no other is named; `reader` takes the place of the database's."""
    named = {} if database_url is None else {"LOOPS_DATABASE_URL": database_url, "LOOPS_SECRET_KEY": "k" * 40}
    read = read_settings(None, {"LOOPS_DATA_DIR": str(folder / "data"), **named})
    assert isinstance(read, Settings)
    settings = ensure_secret_key(read)
    assert isinstance(settings, Settings)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    database = await off_loop(lambda: open_database(settings.database_url))
    clock, engine = SetClock(), EngineLog()
    services = _services(settings, database, clock, engine, public_url)
    if reader is not None:
        services = dataclasses.replace(services, reader=reader)
    async with TestClient(TestServer(make_app(services))) as client:
        yield Site(services, clock, engine, client)
    await database.aclose()


def _audience(box: SecretBox, database: Database, clock: SetClock, definitions: Definitions) -> Audience:
    clients = GitHubClients(box)
    rights = Rights(clients, database.writer, clock, answered=lambda: None)
    return Audience(definitions, rights, OwnOutput(Marks(box.derive_all(PURPOSE))), clients, 0)


def _forecasts(database: Database, clock: SetClock, audience: Audience) -> Forecasts:
    return Forecasts(database.reader, clock, SOURCES, audience, Limits(), "")


def _services(settings: Settings, database: Database, clock: SetClock, engine: EngineLog, public_url: str) -> Services:
    box = SecretBox(settings.secret_keys)
    book = ConnectionBook(database.reader, box)
    webhooks, programs, slack = Webhooks(box, clock), ProgramLoader(), SlackWorkspaces(book)
    schedules = Schedules(database.writer, database.reader, clock)
    messages, _ = make_outbox(database.writer, database.reader, engine, clock, book, mask=lambda text: text, alone=True)
    threads = TaskThreads(messages, engine, clock, 600)
    runs = RunControl(database.writer, database.reader, engine, clock, threads=threads)
    steps = make_steps(Outside(messages, TaskService(clock, engine, QuotaLimits())))
    definitions = Definitions(lambda *_revision: RunState(None), lambda *_revision: ())
    audience = _audience(box, database, clock, definitions)
    return Services(
        settings=settings,
        reader=database.reader,
        writer=database.writer,
        engine=engine,
        clock=clock,
        box=box,
        book=book,
        repositories=GitHubRepositories(database.reader, GitHubClients(box)),
        slack=slack,
        sandbox=None,
        intake=Intake(database.writer, clock, Handoff(), accepted=lambda: None, unheard=lambda *_topics: None),
        sources=SOURCES,
        definitions=definitions,
        audience=audience,
        workflows=Workflows(
            database.writer,
            database.reader,
            clock,
            saved=webhooks.keep,
            cancel=runs.cancel_all,
            schedules=schedules,
            outside=ChannelLook(slack),
        ),
        schedules=schedules,
        webhooks=webhooks,
        by_hand=ByHand(database.writer, engine, clock, programs.begin),
        replays=Replays(
            database.writer, database.reader, engine, clock, SOURCES, programs.begin, programs.writes, audience
        ),
        forecasts=_forecasts(database, clock, audience),
        tester=WorkflowTester(
            StepTester(steps, database.reader, clock), database.reader, clock, SOURCES, audience, MASK
        ),
        runs=runs,
        messages=messages,
        metrics=Metrics(),
        public_url=lambda: public_url,
    )
