"""What works on tasks in a process: the models, the equipment, the coding agents, put together."""

from dataclasses import dataclass

from config.settings import Settings
from loops.agent.guards import Limits
from loops.agent.models.choice import Models
from loops.agent.models.scripts import SCRIPTS
from loops.agent.prices import Price
from loops.ports import Engine, Writer
from loops.tasks.equipment import Equipment
from loops.tasks.limits import WorkLimits
from loops.tasks.runners.choice import Commands
from loops.tasks.skills import Skills
from loops.tasks.thread.live import TaskThreads
from loops.tasks.work import TaskWorker
from loops.tasks.workspace.sandbox import Sandboxes
from server.quotas import limits_of
from server.repositories import Outlet, RepositoryParts
from server.runners import RUNNERS, by_name, commands
from server.services import Services
from server.wiring import Wiring


def models_of(settings: Settings) -> Models:
    """The models that tasks may name."""
    price = settings.price
    return Models(
        settings.model,
        settings.model_api_key or None,
        settings.model_base_url,
        None if price is None else Price(price.input, price.output),
        SCRIPTS,
        by_name(settings),
    )


@dataclass(frozen=True, slots=True)
class AtWork:
    """What tasks are worked on with. `database` is the writer that nothing stands before; without `sandboxes` there are
    neither repositories nor coding agents."""

    services: Services
    wiring: Wiring
    database: Writer
    outlet: Outlet
    repositories: RepositoryParts | None
    sandboxes: Sandboxes | None
    threads: TaskThreads

    def worker(self, writer: Writer, engine: Engine) -> TaskWorker:
        """Who works on tasks here."""
        services, settings = self.services, self.services.settings
        agent = Limits(max_rounds=settings.task_rounds, wall_clock=float(settings.task_seconds))
        return TaskWorker(
            writer,
            services.reader,
            engine,
            services.clock,
            self.wiring.models(models_of(settings)),
            WorkLimits(agent, settings.task_tokens, settings.task_cost),
            mask=self.outlet.mask,
            link=self.outlet.link,
            over=lambda ending: services.metrics.tasks.labels(ending).inc(),
            tools=self.wiring.tools,
            threads=self.threads,
            equipment=self._equipment(),
            commands=self._commands(),
            quotas=limits_of(settings),
        )

    def _equipment(self) -> tuple[Equipment, ...]:
        """What tasks may be given, in the order in which it is opened."""
        from loops.tasks.connectors import Connectors  # with what reads schemas: only who works on tasks needs it

        services = self.services
        connectors = Connectors(self.database, services.clock, services.book, services.settings.mcp_commands)
        repositories = self.repositories.equipment if self.repositories is not None else ()
        return (*repositories, Skills(services.reader), connectors)

    def _commands(self) -> Commands | None:
        """What starts coding agents; None where there is no sandbox to start one in."""
        if self.sandboxes is None:
            return None
        return commands(self.services.settings.work_dir / RUNNERS, self.sandboxes, self.services.clock)
