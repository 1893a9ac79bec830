"""Whether the model that is set can be used, as a service asks before it starts, and which loops lack one."""

from collections.abc import Iterable, Mapping
from typing import Any

from loops.agent.models.choice import Models
from loops.definition.stored import stored_actions
from loops.errors import ConfigError
from server.checks.check import Check

_TASK = "template-posthog-create-task"
_NAME = "model"
NO_MODEL_HINT = "set LOOPS_MODEL, as anthropic:claude-…, or name a runner in the step"


def model_check(models: Models, *, needs_price: bool) -> Check:
    """What a service would say of the model before it starts."""
    try:
        models.check(needs_price=needs_price)
    except ConfigError as error:
        first = error.faults[0]
        return Check(_NAME, "failed", f"{first.path}: {first.message}", first.hint)
    return Check(_NAME, "ok", f"{models.default or 'none'} is set")


def lacking_check(models: Models, active: Iterable[Mapping[str, Any]]) -> Check:
    """How many of the definitions of active loops have tasks, where no model is set."""
    count = sum(1 for definition in active if _lacks_model(definition, models))
    if not count:
        return Check(_NAME, "ok", "none is set, and no active loop needs one")
    told = "1 active loop has a task, which fails" if count == 1 else f"{count} active loops have tasks, which fail"
    return Check(_NAME, "warning", f"none is set, and {told} without", NO_MODEL_HINT)


def _lacks_model(definition: Mapping[str, Any], models: Models) -> bool:
    configs = [action.get("config") for action in stored_actions(definition)]
    tasks = [one for one in configs if isinstance(one, Mapping) and one.get("template_id") == _TASK]
    return any(not _is_runner(_choice(one.get("inputs")), models) for one in tasks)


def _is_runner(choice: str, models: Models) -> bool:
    try:
        return models.runner_of(choice) is not None
    except ConfigError:  # a runner that is not set up: no model would help
        return True


def _choice(inputs: object) -> str:
    given = inputs.get("model") if isinstance(inputs, Mapping) else None
    value = given.get("value") if isinstance(given, Mapping) else None
    chosen = value.get("model") if isinstance(value, Mapping) else value
    return chosen if isinstance(chosen, str) else ""
