"""The parts that work on tasks, put together for a process that does."""

from collections.abc import Callable
from dataclasses import dataclass

from config.settings import Settings
from loops.agent.guards import Limits
from loops.agent.models.choice import Models
from loops.agent.models.scripts import SCRIPTS
from loops.agent.prices import Price
from loops.connections.book import ConnectionBook
from loops.ports import Clock, Engine, Reader, Writer
from loops.tasks.connectors import Connectors
from loops.tasks.equipment import Equipment
from loops.tasks.limits import WorkLimits
from loops.tasks.skills import Skills
from loops.tasks.work import TaskWorker
from loops.tasks.workspace.sandbox import Sandboxes
from server.github import GitHubParts
from server.quotas import limits_of
from server.repositories import RepositoryParts, repository_parts
from server.runners import by_name, commands
from server.wiring import Wiring


@dataclass(frozen=True, slots=True)
class Around:
    """What tasks are worked on with: the stores, the connections, and what commands run in."""

    writer: Writer
    reader: Reader
    engine: Engine
    clock: Clock
    book: ConnectionBook
    github: GitHubParts
    sandboxes: Sandboxes


@dataclass(frozen=True, slots=True)
class Watching:
    """Who is told of tasks: `mask` blots out secrets, `link` is the page of a run, `over` counts endings."""

    mask: Callable[[str], str]
    link: Callable[[str], str]
    over: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TaskParts:
    """What works on tasks, and what cleans up after those on repositories."""

    worker: TaskWorker
    repositories: RepositoryParts


def task_parts(settings: Settings, wiring: Wiring, around: Around, watching: Watching) -> TaskParts:
    """The parts of a process."""
    stores = (around.writer, around.reader, around.clock)
    repositories = repository_parts(
        settings, wiring, around.sandboxes, around.github, stores, watching.mask, watching.link
    )
    agent = Limits(max_rounds=settings.task_rounds, wall_clock=float(settings.task_seconds))
    worker = TaskWorker(
        around.writer,
        around.reader,
        around.engine,
        around.clock,
        models_of(settings, wiring),
        WorkLimits(agent, settings.task_tokens, settings.task_cost),
        mask=watching.mask,
        link=watching.link,
        over=watching.over,
        tools=wiring.tools,
        equipment=_equipment(settings, around, repositories),
        commands=commands(settings.work_dir / "runners", around.sandboxes, around.clock),
        quotas=limits_of(settings),
    )
    return TaskParts(worker, repositories)


def models_of(settings: Settings, wiring: Wiring) -> Models:
    """The models that tasks may be worked on with."""
    price = settings.price
    models = Models(
        settings.model,
        settings.model_api_key or None,
        settings.model_base_url,
        None if price is None else Price(price.input, price.output),
        SCRIPTS,
        by_name(settings),
    )
    return wiring.models(models)


def _equipment(settings: Settings, around: Around, repositories: RepositoryParts) -> tuple[Equipment, ...]:
    """What tasks may be given, in the order in which it is opened."""
    connectors = Connectors(around.writer, around.clock, around.book, settings.mcp_commands)
    return (*repositories.equipment, Skills(around.reader), connectors)
