"""Runs that send messages, on a real database with an engine that a test plays: one segment at a time."""

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from loops.connections.book import ConnectionBook
from loops.connections.secrets import SecretBox
from loops.errors import StoreBusy
from loops.event import JsonValue
from loops.projects import filters_of
from loops.runs.alerting import Alerting
from loops.runs.interpreter import Interpreter
from loops.runs.load import ProgramLoader
from loops.runs.partial import PartialResults
from loops.runs.settling import Settling
from loops.runs.state import Failed, Outcome, Succeeded, Wait
from loops.runs.step import FunctionTemplate, Mocked, NeverParks, Step, StepContext
from loops.runs.steps.delay import DelayStep
from loops.runs.steps.exit import ExitStep
from loops.runs.steps.function import FunctionStep
from loops.runs.templates.message import MessageTemplate
from loops.store import connections, run_queries, run_requests, runs
from loops.store import outbox as store
from loops.store.database import Database, is_sqlite
from loops.store.outbox import OutboxRow
from loops.store.projects import ProjectSettings
from loops.store.run_requests import CancelRequest
from loops.store.runs import NewRun
from loops.store.tables import runs as runs_table
from loops.store.workflows import WorkflowRow
from loops.workflows import Workflows
from notify.posting import OutboxMessages, make_outbox
from notify.sending import OutboxSender
from tests.unit.definition.documents import EMAIL, changed, loop

T = TypeVar("T")
BOX = SecretBox(["a key that is long enough to be one"])
PROJECT = "default"
SLACK_INPUTS: Mapping[str, JsonValue] = {"slack_workspace": 1, "channel": "C1", "text": "done"}


class SetClock:
    """A clock that a test moves; it begins now, since Slack's double tells the time too."""

    def __init__(self) -> None:
        self.time = datetime.now(UTC)

    def now(self) -> datetime:
        return self.time


class EngineLog:
    """Notes what it is asked for. While it is `away` it cannot be asked."""

    def __init__(self) -> None:
        self.queued: list[tuple[str, int]] = []
        self.woken: list[tuple[str, int]] = []
        self.away = False

    def enqueue(self, connection: sa.Connection, run_id: str, seq: int, *, delay: float = 0.0) -> None:
        self.queued.append((run_id, seq))

    def enqueue_task(self, connection: sa.Connection, task_id: str, seq: int) -> None:
        raise AssertionError(f"nothing begins the task {task_id}")

    async def wake(self, run_id: str, seq: int) -> None:
        if self.away:
            raise StoreBusy("the engine does not answer")
        self.woken.append((run_id, seq))

    async def drop(self, run_id: str, seq: int) -> None:
        raise AssertionError(f"nothing drops {run_id}")


class Reports(NeverParks):
    """An AI task that is over at once, with this report or failure."""

    def __init__(self) -> None:
        self.report = "All is **well**"
        self.failure: Failed | None = None
        self.skipped = ""

    async def run(self, context: StepContext, inputs: Mapping[str, JsonValue]) -> Outcome:
        return self.failure or Succeeded({"final_message": self.report}, referred=True, skipped=self.skipped)

    async def mock(self, context: StepContext, inputs: Mapping[str, JsonValue]) -> Mocked:
        raise AssertionError("no run here is a test run")


class Office:
    """A database, runs whose tasks come to `reports.report`, and the outbox that their messages go through. With
    `alerts` what a failed run leaves is sent, and people are told of it."""

    def __init__(self, database: Database, *, alerts: bool = False) -> None:
        self.database = database
        self.clock, self.engine, self.reports = SetClock(), EngineLog(), Reports()
        self.book = ConnectionBook(database.reader, BOX)
        self.messages, self.sender = self.outbox()
        templates: Mapping[str, FunctionTemplate] = {
            "template-posthog-create-task": self.reports,
            "template-slack": MessageTemplate("slack", self.messages),
            "template-email": MessageTemplate("email", self.messages),
        }
        function = FunctionStep(templates)
        steps: Mapping[str, Step] = {
            "function": function,
            "function_email": function,
            "delay": DelayStep(),
            "exit": ExitStep(),
        }
        self.programs = ProgramLoader()
        self.alerting = Alerting(self.messages, self.clock, "https://loops.example.org/runs/{}".format)
        settling = Settling(
            self.engine,
            self.clock,
            partials=PartialResults(self.messages) if alerts else None,
            alerting=self.alerting if alerts else None,
        )
        self.interpreter = Interpreter(database.writer, self.engine, self.clock, steps, self.programs.load, settling)
        self.workflows = Workflows(database.writer, database.reader, self.clock)

    def outbox(self, mask: Callable[[str], str] = str) -> tuple[OutboxMessages, OutboxSender]:
        writer, reader = self.database.writer, self.database.reader
        return make_outbox(writer, reader, self.engine, self.clock, self.book, mask, alone=is_sqlite(self.database.url))

    async def write(self, fn: Callable[[sa.Connection], T]) -> T:
        return await self.database.writer.run(fn)

    async def connect(self, kind: str, config: Mapping[str, str], project: str = PROJECT, **secrets: str) -> int:
        name, sealed, now = uuid.uuid4().hex, BOX.seal(secrets), self.clock.now()
        return await self.write(
            lambda connection: connections.insert(
                connection, project_id=project, kind=kind, name=name, config=config, secrets=sealed, now=now
            )
        )

    async def start(self, document: Mapping[str, Any]) -> str:
        """A new run of a new workflow; its id."""
        row = (await self.workflows.create(PROJECT, {**document, "name": uuid.uuid4().hex}, "test")).row
        return await self.begin(row)

    async def begin(self, row: WorkflowRow) -> str:
        """A new run of a workflow; its id."""
        run = NewRun(
            id=str(uuid.uuid4()),
            project_id=PROJECT,
            workflow_id=row.id,
            version=row.version,
            source="github",
            event_uuid=str(uuid.uuid4()),
            event_name="$github_event_received",
            delivery_id=None,
            replay=0,
            state=self.programs.begin(row.id, row.version, filters_of(ProjectSettings()), lambda: row.definition),
        )
        now = self.clock.now()
        await self.write(lambda connection: runs.insert(connection, run, now))
        return run.id

    async def advance(self, run_id: str) -> Mapping[str, Any]:
        """Let the run act; where it stands then."""
        await self.interpreter.advance(run_id, (await self.run(run_id))["seq"], "owner")
        return await self.run(run_id)

    async def to_its_message(self, document: Mapping[str, Any]) -> str:
        """A run that waits for its message; its id."""
        return await self._to_its_message(await self.start(document))

    async def to_its_message_of(self, row: WorkflowRow) -> str:
        """The same of a workflow that is there."""
        self.reports.failure = None
        return await self._to_its_message(await self.begin(row))

    async def _to_its_message(self, run_id: str) -> str:
        run = await self.advance(run_id)
        assert (run["status"], run["wait"]["kind"]) == ("waiting", "message"), run["reason"]
        return run_id

    async def run(self, run_id: str) -> Mapping[str, Any]:
        query = sa.select(runs_table).where(runs_table.c.id == run_id)
        return await self.database.reader.read(lambda connection: dict(connection.execute(query).mappings().one()))

    async def step(self, run_id: str, step_id: str = "notify") -> Mapping[str, Any]:
        rows = await self.database.reader.read(lambda connection: run_queries.steps(connection, run_id))
        return next(row for row in rows if row["step_id"] == step_id)

    async def of(self, run_id: str) -> list[OutboxRow]:
        """The messages of a run."""
        return await self.database.reader.read(lambda connection: store.listed(connection, PROJECT, run_id=run_id))

    async def cancel(self, run_id: str) -> CancelRequest:
        """As whoever cancels a run does."""
        now = self.clock.now()

        def stop(connection: sa.Connection, wait: Wait) -> bool:
            return wait.kind != "message" or self.messages.withdraw(connection, str(wait.detail["message"]))

        return await self.write(lambda connection: run_requests.request_cancel(connection, run_id, now, stop))


def slack_loop(connection_id: int | str, **inputs: Any) -> dict[str, Any]:
    said = {
        "slack_workspace": connection_id,
        "channel": "C1|#general",
        "text": "{variables.task_final_message}",
        **inputs,
    }
    document: dict[str, Any] = changed(
        loop("github", "slack"), "actions.2.config.inputs", {name: {"value": value} for name, value in said.items()}
    )
    return document


def email_loop(connection_id: int, **parts: Any) -> dict[str, Any]:
    mail = {**EMAIL["inputs"]["email"]["value"], "from": {"integrationId": connection_id}, **parts}
    document: dict[str, Any] = changed(loop("github", "email"), "actions.2.config.inputs.email.value", mail)
    return document
