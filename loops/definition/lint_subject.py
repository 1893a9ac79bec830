"""A workflow as lint looks at it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from loops.definition.asked import Listening, listening
from loops.definition.findings import join
from loops.definition.schema.actions import Action, FunctionConfig
from loops.definition.workflow import Workflow

TASK = "template-posthog-create-task"
MESSAGES = frozenset({"template-slack", "template-email"})


@dataclass(frozen=True, slots=True)
class Outside:
    """What only others could tell: of a connection and a channel that it posts to, why nothing can be posted and what
    mends it; of a repository that its tasks work on, in lower case, the same. What nobody was asked about is not
    there."""

    channels: Mapping[tuple[int, str], tuple[str, str]] = field(default_factory=dict)
    repositories: Mapping[str, tuple[str, str]] = field(default_factory=dict)


NOTHING_KNOWN = Outside()


@dataclass(frozen=True)
class Subject:
    """A workflow that was accepted, and what is known from outside."""

    workflow: Workflow
    outside: Outside = NOTHING_KNOWN

    @cached_property
    def events(self) -> tuple[Listening, ...]:
        """What its trigger listens to."""
        trigger = self.workflow.trigger
        return listening(trigger.config, join("actions", self.workflow.actions.index(trigger), "config"))

    def of(self, name: str) -> list[Listening]:
        """The same, of events with this name."""
        return [one for one in self.events if one.name == name]

    def steps(self, *templates: str) -> Iterator[tuple[str, Action, FunctionConfig]]:
        """The actions of these templates, each with the place of its inputs."""
        for index, action in enumerate(self.workflow.actions):
            config = action.config
            if isinstance(config, FunctionConfig) and config.template_id in templates:
                yield join("actions", index, "config", "inputs"), action, config
