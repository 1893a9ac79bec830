"""What a run does: one class an action type, gathered in Action."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, Field, JsonValue

from loops.definition.findings import Findings, join, shown
from loops.definition.schema.base import Identifier, Kinds, Name, Shape, refused
from loops.definition.schema.parts import Input, OutputMappings
from loops.definition.schema.triggers import TriggerConfig

LONGEST_DELAY = timedelta(days=30)
_DURATION = re.compile(r"([0-9]*\.?[0-9]+)([dhms])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FEWEST_MAPPINGS: tuple[JsonValue, ...] = (None, [])


_A_TRIGGER = "that is a trigger type: it stands in the config of the action of type trigger"
KINDS = Kinds(
    "action type",
    later=frozenset(
        {
            "wait_until_condition",
            "wait_until_time_window",
            "conditional_branch",
            "random_cohort_branch",
            "loop",
            "run_workflow",
            "run_workflows",
            "control_if",
            "control_while",
            "call_subflow",
            "parse_json",
            "script",
            "set_run_env",
            "agent",
            "display",
            "container",
            "approval",
        }
    ),
    never={
        "function_sms": "use function with template-slack, or function_email",
        "function_push": "use function with template-slack, or function_email",
    },
    meant={
        "webhook": _A_TRIGGER,
        "schedule": _A_TRIGGER,
        "manual": _A_TRIGGER,
        "event": _A_TRIGGER,
        "internal-event": _A_TRIGGER,
        "email": "an email is an action of type function_email",
        "slack": "a Slack message is an action of type function with the template_id template-slack",
    },
)


class ActionShape(Shape):
    """The keys that every action has. `slots` is how many branches may leave it; a run that it `ends` goes no
    further."""

    kinds: ClassVar = KINDS
    ends: ClassVar[bool] = False

    id: Identifier
    name: Name = ""
    description: str = ""
    type: str
    on_error: Literal["continue", "abort"] | None = None
    config: Shape
    filters: dict[str, JsonValue] | None = None
    output_variable: OutputMappings = ()
    created_at: JsonValue = None
    updated_at: JsonValue = None

    @property
    def slots(self) -> int:
        return 0

    def inspect(self, path: str, findings: Findings) -> None:
        self.config.inspect(join(path, "config"), findings)
        if any(self.filters.values() if self.filters else ()):
            findings.refuse(
                join(path, "filters"), "conditions on an action are not supported yet", "filter at the trigger"
            )


class TriggerAction(ActionShape):
    """Where a run begins."""

    type: Literal["trigger"]
    config: TriggerConfig


class FunctionConfig(Shape):
    """Which function template runs, and with what."""

    template_id: str
    template_uuid: str | None = None
    inputs: dict[str, Input] = Field(default_factory=dict)
    mappings: JsonValue = None

    def inspect(self, path: str, findings: Findings) -> None:
        if self.mappings not in _FEWEST_MAPPINGS:
            findings.refuse(join(path, "mappings"), "are not supported", "use one action for each call")


class FunctionAction(ActionShape):
    """Runs a function template: the AI task, a Slack message, a log line."""

    type: Literal["function"]
    config: FunctionConfig


class EmailConfig(FunctionConfig):
    """An email. The category and tracking keys belong to PostHog's mailer and change nothing here."""

    template_id: Literal["template-email"] = "template-email"
    message_category_id: str | None = None
    message_category_type: Literal["marketing", "transactional"] | None = None
    tracking_enabled: bool | None = None

    def inspect(self, path: str, findings: Findings) -> None:
        super().inspect(path, findings)
        for key in ("message_category_id", "message_category_type", "tracking_enabled"):
            if getattr(self, key):
                findings.warn(join(path, key), "has no effect: Loops sends plain mail and tracks nobody")


class EmailAction(ActionShape):
    """Sends an email."""

    type: Literal["function_email"]
    config: EmailConfig


def _duration(text: str) -> str:
    if not _DURATION.fullmatch(text):
        raise refused(f'"{shown(text)}" is no duration', 'write a number and s, m, h or d, such as "90m" or "1.5d"')
    if _seconds(text) > LONGEST_DELAY.total_seconds():
        raise refused(f'"{shown(text)}" is over the limit', f"the longest delay is {LONGEST_DELAY.days}d")
    return text


def _seconds(text: str) -> float:
    return float(text[:-1]) * _UNITS[text[-1]]


class DelayConfig(Shape):
    """How long to wait, counted from the moment the action began."""

    not_here: ClassVar[Mapping[str, str]] = {
        "delay_until": "waiting for a date is not supported yet; use delay_duration",
        "max_delay_duration": "belongs to delay_until, which is not supported yet; use delay_duration",
    }

    delay_duration: Annotated[str, AfterValidator(_duration)]

    @property
    def span(self) -> timedelta:
        return timedelta(seconds=_seconds(self.delay_duration))


class DelayAction(ActionShape):
    """Waits."""

    type: Literal["delay"]
    config: DelayConfig


class ExitConfig(Shape):
    """Why the run ends here, for whoever reads it."""

    reason: str | None = None


class ExitAction(ActionShape):
    """Ends the run."""

    ends: ClassVar[bool] = True

    type: Literal["exit"]
    config: ExitConfig = ExitConfig()


Action: TypeAlias = Annotated[
    TriggerAction | FunctionAction | EmailAction | DelayAction | ExitAction,
    Field(discriminator="type"),
]
