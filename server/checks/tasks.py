"""What the tasks of a workflow name: held against what the project has and what is configured, where one is saved."""

from collections.abc import Iterator

from loops.agent.models.choice import Models
from loops.agent.prices import priced
from loops.definition import Workflow
from loops.definition.findings import join
from loops.definition.schema.actions import FunctionConfig
from loops.errors import ConfigError, Fault
from loops.ports import Reader
from loops.tasks.allowance import Allowances, Limits
from loops.tasks.named import named_faults, task_steps
from loops.threads import off_loop
from server.checks.model import NO_MODEL_HINT
from server.quotas import limits_of_project

_LISTED = frozenset({"openai", "anthropic"})
_PRICE_HINT = "set LOOPS_PRICE (dollars a million tokens, input/output), or a limit in tokens beside that in money"


class TaskLook:
    """Faults and warnings for a workflow of a project, each at the input that it is about."""

    def __init__(self, reader: Reader, models: Models, limits: Limits) -> None:
        self._reader = reader
        self._models = models
        self._limits = limits

    async def __call__(self, project_id: str, workflow: Workflow) -> tuple[tuple[Fault, ...], tuple[Fault, ...]]:
        """Both, in the order of the steps."""
        steps = list(task_steps(workflow))
        if not steps:
            return (), ()
        faults, warnings = await self._reader.read(lambda connection: named_faults(connection, project_id, workflow))
        limits = await self._reader.read(lambda connection: limits_of_project(connection, project_id, self._limits))
        # The list of prices is loaded with the first model that is looked up in it.
        found = await off_loop(lambda: [self._model(path, config, limits.spending) for path, config in steps])
        return (*faults, *(one for more, _ in found for one in more)), (
            *warnings,
            *(one for _, more in found for one in more),
        )

    def _model(self, path: str, config: FunctionConfig, spending: Allowances) -> tuple[list[Fault], list[Fault]]:
        place, chosen = join(path, "model"), _choice(config)
        lacking = self._lacking(path, config, chosen)
        if lacking[0]:
            return lacking
        try:
            # No fault: this process may not be the one that works on the task.
            if self._models.default is None and self._models.runner_of(chosen) is None:
                return [], [Fault(place, "this service has no model, so the task will fail", NO_MODEL_HINT)]
            name, has_price = self._models.name_of(chosen), self._models.knows_price(chosen)
        except ConfigError as error:
            return [Fault(place, one.message, one.hint) for one in error.faults], []
        provider, _, model = name.partition(":")
        if spending.limits_cost and not spending.limits_tokens and not has_price:
            return [Fault(place, f"no price is known for {name}, and there is a limit in money", _PRICE_HINT)], []
        return [], [*lacking[1], *self._unknown(place, chosen, provider, model)]

    def _lacking(self, path: str, config: FunctionConfig, chosen: str) -> tuple[list[Fault], list[Fault]]:
        """What a command that works in place of the built-in agent is not given."""
        if not self._is_command(chosen):
            return [], []
        faults, warnings = [], []
        if _says(config, "connectors"):
            words = f"{chosen or 'the model'} is a command, which has no connectors"
            faults.append(Fault(join(path, "connectors"), words, "leave them out, or name a model"))
        if _says(config, "skills"):
            words = (
                f"{chosen or 'the model'} is a command, which reads no skill but those that it finds in its repository"
            )
            warnings.append(Fault(join(path, "skills"), words, "put into the prompt what it has to know"))
        return faults, warnings

    def _is_command(self, chosen: str) -> bool:
        try:
            return self._models.runner_of(chosen) is not None
        except ConfigError:  # told of the model itself
            return False

    def _unknown(self, place: str, chosen: str, provider: str, model: str) -> Iterator[Fault]:
        if chosen and provider in _LISTED and self._models.base_url is None and not priced(provider, model):
            yield Fault(
                place, f"{provider} is not known to have a model {model!r}", "see that it is written as they do"
            )


def _says(config: FunctionConfig, name: str) -> bool:
    given = config.inputs.get(name)
    return given is not None and bool(given.value)


def _choice(config: FunctionConfig) -> str:
    given = config.inputs.get("model")
    value = None if given is None else given.value
    chosen = value.get("model") if isinstance(value, dict) else value
    return chosen if isinstance(chosen, str) else ""
