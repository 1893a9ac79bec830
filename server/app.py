"""The composition root: the one place where the parts of a process are made and joined.

    service = Service(settings, role)
    await service.start()   # migrated, engine running, listening
    await service.stop()    # drained

What a test may put in place of its parts stands in `server/wiring.py`.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from config.settings import Settings
from loops.connections.book import ConnectionBook
from loops.connections.secrets import SecretBox
from loops.connections.slack_channels import SlackWorkspaces
from loops.ports import Reader
from loops.runs.alerting import Alerting
from loops.runs.control import RunControl
from loops.runs.engine import EngineClient, EngineHost, EngineLimits, prepare_engine
from loops.runs.interpreter import Interpreter
from loops.runs.lease import Leaseholder, SingleProcessLock
from loops.runs.load import ProgramLoader
from loops.runs.partial import PartialResults
from loops.runs.settling import Settling
from loops.runs.steps import Outside, make_steps
from loops.runs.stopping import stops
from loops.runs.sweeper import Sweeper, watch_cancellations
from loops.runs.testing import StepTester
from loops.scheduling import Schedules
from loops.store.database import Database, is_sqlite, open_database
from loops.tasks.named import lacking
from loops.tasks.service import TaskService
from loops.tasks.thread.live import TaskThreads
from loops.tasks.thread.signs import ThreadSigns
from loops.tasks.work import watch_task_cancellations
from loops.tasks.workspace.sandboxes import Found
from loops.threads import on_own_thread
from loops.webhooks import Webhooks
from loops.workflows import Workflows
from notify.posting import make_outbox
from server.checks.outside import ChannelLook, OutsideLook, RepositoryLook
from server.checks.tasks import TaskLook
from server.descriptors import raise_limit, watch_descriptors
from server.github import GitHubParts
from server.housekeeping import first_token, measure, retain, settle_collector
from server.listening import Listening
from server.logs import LogSecrets
from server.metrics import Metrics
from server.quotas import limits_of, needs_price
from server.repositories import Outlet, repository_parts
from server.sandbox import sandbox_of
from server.services import Services
from server.web import make_app, make_health_app
from server.wiring import Role, Wiring
from server.working import AtWork, models_of
from triggers.definitions import Definitions
from triggers.dispatch import Dispatcher
from triggers.forecasting import Forecasts
from triggers.handoff import Handoff
from triggers.intake import Intake
from triggers.manual.receive import ByHand
from triggers.replay import Replays
from triggers.schedule.claim import Occurrences
from triggers.schedule.clock import ScheduleClock
from triggers.slack.handing import Handing
from triggers.slack.receive import SlackSource
from triggers.slack.sessions import SlackSessions
from triggers.testing import WorkflowTester

log = logging.getLogger("loops.app")

_SERVES = frozenset({"all", "web"})
_WORKS = frozenset({"all", "worker"})
_SCHEDULES = frozenset({"all", "scheduler"})


class Service:
    """One process of Loops in a role."""

    def __init__(
        self,
        settings: Settings,
        role: Role = "all",
        wiring: Wiring | None = None,
        log_secrets: LogSecrets | None = None,
    ) -> None:
        """`log_secrets` is told every secret that is opened, so that no log line shows it."""
        self.settings = settings
        self._log_secrets = log_secrets or LogSecrets(settings.secret_values)
        self.role = role
        self.url = settings.public_url
        self.address = ""
        self.new_token: str | None = None
        self.stopping = asyncio.Event()
        self.failed = False
        self._wiring = wiring or Wiring()
        self._sandbox: Found | None = None
        self._opened = AsyncExitStack()

    async def start(self) -> None:
        """Open the database, take up what was left, and listen. Raises LoopsError with what mends it."""
        if self.role in _WORKS:
            self._wiring.models(models_of(self.settings)).check(needs_price=needs_price(self.settings))
        url = self.settings.database_url
        if is_sqlite(url) and self.role in _WORKS:
            lock = SingleProcessLock(_database_file(url))
            self._opened.callback(lock.release)
        if self.role in _WORKS:
            self._sandbox = await sandbox_of(self.settings, self._wiring)
        await self.open()
        self.new_token = await first_token(self._writer, self.services.clock)
        if self.role in _WORKS:
            await self._start_engine()
        self._start_dispatch()
        self._start_slack()
        await self._listen()
        self._start_scheduling()
        settle_collector()
        log.info("ready", extra={"role": self.role, "listens": self.address, "url": self.url})

    async def open(self) -> None:
        """Open the database and put the services over it. Starts nothing."""
        settings, wiring = self.settings, self._wiring
        self._database = await on_own_thread(lambda: _open(settings.database_url))
        self._opened.push_async_callback(self._database.aclose)
        self._client = EngineClient(settings.database_url)
        self._opened.push_async_callback(self._client.aclose)
        self._box = SecretBox(settings.secret_keys)
        self.metrics = Metrics()
        self._github = GitHubParts(self._box, self._log_secrets.add, wiring.clock, self.metrics)
        self._opened.push_async_callback(self._github.aclose)
        self._writer = wiring.writer(self._database.writer)
        self._engine = wiring.engine(self._client)
        self._programs = ProgramLoader()
        self.services = self._compose()
        await self._database.reader.read(self.services.definitions.refresh)

    async def _listen(self) -> None:
        if self.role in _SERVES:
            app = make_app(self.services)
            app.add_routes(self._wiring.routes)
            listening = Listening(self.settings, app)
        else:
            listening = Listening(self.settings, make_health_app(self.services), serves=False)
        self._opened.push_async_callback(listening.close, self.settings.drain_seconds)
        self.url = await listening.open()
        self.address = listening.address

    def _compose(self) -> Services:
        settings, clock = self.settings, self._wiring.clock
        reader: Reader = self._database.reader
        book = ConnectionBook(reader, self._box, self._log_secrets.add)
        self._messages, self._sender = make_outbox(
            self._writer,
            reader,
            self._engine,
            clock,
            book,
            self._log_secrets.mask,
            alone=self._database.is_sqlite,
            around=self._wiring.notifiers,
            page=lambda message_id: f"{self.url}/outbox/{message_id}",
        )
        self._alerting = Alerting(self._messages, clock, self._run_page)
        self._threads = TaskThreads(self._messages, self._engine, clock, settings.thread_seconds)
        self._tasks = TaskService(clock, self._engine, limits_of(settings), lacking, self._threads)
        self._steps = make_steps(Outside(self._messages, self._tasks))
        self._stop = stops(self._tasks, self._messages)
        handoff, webhooks, slack = Handoff(), Webhooks(self._box, clock), SlackWorkspaces(book)
        runs = RunControl(self._writer, reader, self._engine, clock, self._stop, self._threads)
        sources, begin = self._wiring.sources, self._programs.begin
        definitions = Definitions(begin, self._programs.writes)
        audience = self._github.audience(
            definitions, self._writer, lambda: self.dispatcher.wake(), settings.subject_hourly_runs
        )
        self.dispatcher = Dispatcher(
            self._writer,
            reader,
            self._engine,
            clock,
            definitions,
            handoff,
            sources,
            audience,
            handing=Handing(self._threads),
            cancel=runs.replace,
            observe=self.metrics.dispatched,
        )
        self._ticking = ScheduleClock(
            Occurrences(self._writer, reader, self._engine, clock, self.metrics.occurred, runs.replace)
        )
        schedules = Schedules(self._writer, reader, clock, changed=self._ticking.wake)
        return Services(
            settings=settings,
            reader=reader,
            writer=self._writer,
            engine=self._engine,
            clock=clock,
            box=self._box,
            book=book,
            repositories=self._github.repositories(reader),
            slack=slack,
            intake=Intake(
                self._writer,
                clock,
                handoff,
                accepted=self.dispatcher.wake,
                unheard=definitions.unheard if self._wiring.dispatching else lambda *_topics: None,
            ),
            sources=sources,
            definitions=definitions,
            audience=audience,
            workflows=Workflows(
                self._writer,
                reader,
                clock,
                self._changed,
                webhooks.keep,
                runs.cancel_all,
                schedules,
                OutsideLook(ChannelLook(slack), RepositoryLook(self._github.reach(reader))),
                TaskLook(reader, self._wiring.models(models_of(settings)), limits_of(settings)),
            ),
            schedules=schedules,
            webhooks=webhooks,
            by_hand=ByHand(self._writer, self._engine, clock, begin, runs.replace),
            replays=Replays(
                self._writer, reader, self._engine, clock, sources, begin, self._programs.writes, audience, runs.replace
            ),
            forecasts=Forecasts(reader, clock, sources, audience, limits_of(settings), settings.model or ""),
            tester=WorkflowTester(
                StepTester(self._steps, reader, clock), reader, clock, sources, audience, self._log_secrets.mask
            ),
            runs=runs,
            messages=self._messages,
            metrics=self.metrics,
            sandbox=self._sandbox,
            public_url=lambda: self.url,
        )

    def _changed(self) -> None:
        """Definitions were changed in this process."""
        self.dispatcher.wake()
        self._ticking.wake()

    def _run_page(self, run_id: str) -> str:
        return f"{self.url}/runs/{run_id}"

    def _interpreter(self) -> Interpreter:
        clock = self._wiring.clock
        settling = Settling(self._engine, clock, self._stop, PartialResults(self._messages), self._alerting)
        steps = self._wiring.steps(self._steps)
        return Interpreter(
            self._writer, self._engine, clock, steps, self._programs.load, settling, self.metrics.observer()
        )

    async def _start_engine(self) -> None:
        settings, clock, reader = self.settings, self._wiring.clock, self._database.reader
        masks = self._log_secrets.mask, self._log_secrets.mask_values
        outlet = Outlet(self._github.marks, self._run_page, *masks, self._wiring.writing)
        stores, sandboxes = (self._writer, reader, clock), self._sandbox.sandboxes if self._sandbox else None
        repositories = repository_parts(settings, self._github, stores, outlet, sandboxes)
        database = self._database.writer
        at_work = AtWork(self.services, self._wiring, database, outlet, repositories, sandboxes, self._threads)
        interpreter, worker = self._interpreter(), at_work.worker(self._writer, self._engine)
        limits = EngineLimits(runs=settings.runs, tasks=settings.tasks)
        host = EngineHost(settings.database_url, interpreter.advance, worker.work, limits)
        lease = Leaseholder(
            host,
            self._client,
            self._database.writer,
            reader,
            role=self.role,
            single=self._database.is_sqlite,
            on_lost=self._fail,
            on_recovered=self.metrics.engine_recovered.inc,
        )
        await lease.begin()
        self._opened.push_async_callback(lease.end)
        # Stopped only after the engine has drained: what still runs is ours, and may be cancelled.
        self._spawn("lease", lease.beat())
        self._spawn("cancellations", watch_cancellations(interpreter, reader))
        self._spawn("task-cancellations", watch_task_cancellations(worker, reader))
        self._opened.push_async_callback(interpreter.abandon)
        self._opened.push_async_callback(worker.abandon)
        await host.launch()
        self._opened.push_async_callback(host.aclose, timedelta(seconds=settings.drain_seconds))
        sweeper = Sweeper(self._writer, reader, self._client, self._engine, clock, self._alerting, self._threads)
        self._spawn("reaper", lease.watch())
        self._spawn("sweeper", sweeper.forever())
        if repositories is not None:
            self._spawn("repositories", repositories.forever())
            self._spawn("outputs", repositories.sender.forever())
        self._spawn("outbox", self._sender.forever())
        signs = ThreadSigns(self._writer, reader, clock, self.services.book, self._run_page)
        self._spawn("threads", signs.forever())
        self._spawn("retention", retain(self._writer, reader, self._client, clock, settings.keep_days))

    def _start_dispatch(self) -> None:
        if self._wiring.dispatching and self.role != "scheduler":
            self._spawn("dispatch", self.dispatcher.forever())
        self._spawn("measure", measure(self._database, self.metrics))
        self._spawn("descriptors", watch_descriptors())

    def _start_slack(self) -> None:
        """Sockets are a way to receive, so they are held open where deliveries are received."""
        source = self._wiring.sources.get("slack")
        if self.role in _SERVES and isinstance(source, SlackSource):
            one = self.services
            sessions = SlackSessions(one.book, one.box, one.writer, one.clock, one.intake, source, self._wiring.slack)
            self._spawn("slack", sessions.forever())

    def _start_scheduling(self) -> None:
        if self.role in _SCHEDULES:
            self._spawn("schedules", self._ticking.forever())
            redelivery = self._github.redelivery(self.services.reader, lambda: self.url)
            self._spawn("redelivery", redelivery.forever())

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"loops-{name}")
        task.add_done_callback(self._ended)
        self._opened.push_async_callback(_cancel, task)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """A part of the process that ends by an error takes the process with it: half a service is worse."""
        if task.cancelled() or task.exception() is None:
            return
        log.critical("%s ended, so this process stops", task.get_name(), exc_info=task.exception())
        self._fail()

    def _fail(self) -> None:
        """Stop, and let the exit code say that nobody asked for it: a supervisor then starts another."""
        self.failed = True
        self.stopping.set()

    async def stop(self) -> None:
        """Take nothing new, give what runs `drain_seconds` to end, hand over the rest, close. Also after a start that
        failed half way: what was opened last is closed first."""
        await self._opened.aclose()


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _open(url: str) -> Database:
    database = open_database(url)
    prepare_engine(url)
    return database


def _database_file(url: str) -> Path:
    path = Path(sa.make_url(url).database or "")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


async def serve(
    settings: Settings, role: Role, announce: Callable[[Service], None], log_secrets: LogSecrets | None = None
) -> int:
    """Run a service until it is asked to stop (SIGTERM, SIGINT) or has to; the exit code, 1 if it had to."""
    raise_limit()
    service = Service(settings, role, log_secrets=log_secrets)
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, service.stopping.set)
    try:
        await service.start()
        announce(service)
        await service.stopping.wait()
        log.info("stopping")
    finally:
        await service.stop()
    return 1 if service.failed else 0


__all__ = ["Role", "Service", "Wiring", "serve"]
