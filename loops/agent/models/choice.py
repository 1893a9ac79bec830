"""Which model a task works with: the installation's, or another of the same provider that its step names."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from config.runner_settings import RunnerSettings
from config.secret_text import SecretText
from loops.agent.budget import Pricing
from loops.agent.model import Model
from loops.agent.models.opening import model_access, open_model
from loops.agent.models.runners import Chosen, chosen, settings_of
from loops.agent.models.scripted import Script, ScriptedModel
from loops.agent.prices import list_price, priced
from loops.agent.transcript import Usage
from loops.errors import ConfigError, Fault

SCRIPTED = "scripted"
_NO_MODEL = Fault("LOOPS_MODEL", "no model is set, so no task can run", "set provider:name, as anthropic:claude-…")


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model that answers, its name `provider:name`, and what its tokens cost."""

    name: str
    model: Model
    pricing: Pricing


def _free(_usage: Usage) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Models:
    """The models of an installation. `default` is `provider:name`, `price` takes the place of the list price, and
    `scripts` are what `scripted:<name>` says: a function, so that each task has a script of its own. `runners` are the
    coding agents that may stand in for a model, by name."""

    default: str | None = None
    api_key: SecretText | None = field(default=None, repr=False)
    base_url: str | None = None
    price: Pricing | None = None
    scripts: Mapping[str, Callable[[], Script]] = field(default_factory=dict)
    runners: Mapping[str, RunnerSettings] = field(default_factory=dict)

    def check(self, *, needs_price: bool = False) -> None:
        """Raises ConfigError where no task could run with these settings; no model at all is allowed.

        With `needs_price` there is a limit in money, which only a known price can hold.
        """
        if self.default is None:
            return
        provider, _, model = self.default.partition(":")
        if provider == SCRIPTED:
            self._script(model)
        elif self.runner_of("") is None:
            model_access(self.default, self.api_key, self.base_url)
        if needs_price and not self.knows_price(""):
            hint = "set LOOPS_PRICE (dollars a million tokens, input/output), or LOOPS_TASK_TOKENS in its place"
            raise ConfigError([Fault("LOOPS_TASK_COST", f"no price is known for {self.default}", hint)])

    def runner_of(self, choice: str) -> tuple[Chosen, RunnerSettings] | None:
        """The runner that a step chose, and how it is set up; None for a model. Raises ConfigError where it is not."""
        one = chosen(choice, self.default)
        return None if one is None else (one, settings_of(one, self.runners))

    def knows_price(self, choice: str) -> bool:
        """Whether what a step chose has a price, so that a limit in money can hold it. Raises ConfigError."""
        runner = self.runner_of(choice)
        price = self.price if runner is None else runner[1].price
        provider, _, model = self.name_of(choice).partition(":")
        return price is not None or (provider != SCRIPTED and priced(provider, model))

    def name_of(self, choice: str) -> str:
        """`provider:name` for what a step chose. Raises ConfigError where that cannot work."""
        runner = self.runner_of(choice)
        if runner is not None:
            return runner[0].name
        if self.default is None:
            raise ConfigError([_NO_MODEL])
        provider, _, _ = self.default.partition(":")
        if not choice or provider == SCRIPTED:
            return self.default
        if choice.startswith(f"{provider}:"):
            return choice
        # A name may hold a colon itself (llama3:8b): what stands before it is a provider only where we know it as one.
        if choice.partition(":")[0] in {"openai", "anthropic"} and ":" in choice:
            hint = f"this installation works with {provider}: choose {provider}:<name>"
            raise ConfigError([Fault("model", f"{choice!r} is of a provider that is not set up", hint)])
        return f"{provider}:{choice}"

    @asynccontextmanager
    async def open(self, choice: str) -> AsyncIterator[OpenModel]:
        """The model for what a step chose, to be used inside. Raises ConfigError."""
        name = self.name_of(choice)
        provider, _, model = name.partition(":")
        if provider == SCRIPTED:
            yield OpenModel(name, ScriptedModel(self._script(model)), self.price or _free)
            return
        access = model_access(name, self.api_key, self.base_url)
        async with open_model(access) as opened:
            yield OpenModel(name, opened, self.price or list_price(provider, model))

    def _script(self, name: str) -> Script:
        make = self.scripts.get(name)
        if make is None:
            known = ", ".join(sorted(self.scripts)) or "none"
            raise ConfigError([Fault("LOOPS_MODEL", f"there is no script {name!r}", f"known are: {known}")])
        return make()
