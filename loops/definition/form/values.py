"""What a person edits of a loop: the values of its form. Values only; each knows nothing of the JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from loops.event import JsonValue

Inputs: TypeAlias = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class StepNames:
    """How a step is called. Its id is what templates and edges name it by."""

    id: str
    name: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class ScheduleStart:
    """On the schedules that the workflow has; they are no part of it."""

    kind: ClassVar = "schedule"


@dataclass(frozen=True, slots=True)
class GitHubStart:
    """On GitHub events. No actions: on every action. `writers_only` leaves out who may not write to the repository;
    `more` are further property filters, as they stand in the JSON."""

    kind: ClassVar = "github"

    repositories: tuple[str, ...]
    event_types: tuple[str, ...]
    actions: tuple[str, ...] = ()
    writers_only: bool = True
    more: tuple[JsonValue, ...] = ()


@dataclass(frozen=True, slots=True)
class SlackStart:
    """On messages in channels, named by id. `people_only` leaves out apps and bots, `top_level` what is written in
    threads; `more` as for GitHub."""

    kind: ClassVar = "slack"

    channels: tuple[str, ...]
    people_only: bool = True
    top_level: bool = True
    more: tuple[JsonValue, ...] = ()


@dataclass(frozen=True, slots=True)
class PostHogStart:
    """On PostHog events by name; none: on every event. `more` are all property filters."""

    kind: ClassVar = "event"

    events: tuple[str, ...]
    more: tuple[JsonValue, ...] = ()
    without_test_accounts: bool = False
    allow_unverified: bool | None = None


@dataclass(frozen=True, slots=True)
class WebhookStart:
    """On requests to an address of its own; `inputs` make an event of one."""

    kind: ClassVar = "webhook"

    inputs: Inputs = field(default_factory=dict)
    allow_unverified: bool | None = None


@dataclass(frozen=True, slots=True)
class ManualStart:
    """By hand."""

    kind: ClassVar = "manual"

    inputs: Inputs = field(default_factory=dict)


Start: TypeAlias = ScheduleStart | GitHubStart | SlackStart | PostHogStart | WebhookStart | ManualStart


@dataclass(frozen=True, slots=True)
class Mask:
    """See trigger_masking."""

    hash: str
    ttl: int | None = None
    threshold: int | None = None


@dataclass(frozen=True, slots=True)
class RateLimit:
    """See trigger_rate_limit."""

    count: int
    period: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Debounce:
    """See trigger_debounce."""

    quiet: int
    longest: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Overlap:
    """See trigger_overlap. `maximum` is that of `queue` and `parallel`; the others have none."""

    policy: Literal["skip", "queue", "restart", "parallel"]
    maximum: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A variable that the task sets: what lies at `path` of its result, such as `final_message`, `pr_urls` or
    `output.severity`. An empty `type` is that of a variable which is not declared."""

    key: str
    path: str
    type: Literal["string", "number", "boolean", ""] = "string"
    default: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """A further variable, such as one that is set when the loop is started by hand."""

    key: str
    type: Literal["string", "number", "boolean"]
    default: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """The AI task. Empty and None: not said."""

    prompt: str
    title: str = ""
    model: str = ""
    effort: str = ""
    repository: str = ""
    connectors: tuple[JsonValue, ...] = ()
    skills: tuple[str, ...] = ()
    scopes: Literal["read_only", "full"] = "read_only"
    space: str = ""
    reply_in_thread: bool | None = None
    external_users: bool | None = None
    everyone_in_thread: bool | None = None
    staged: bool | None = None
    most_at_once: int | None = None
    non_failures: tuple[JsonValue, ...] = (409,)
    outputs: tuple[Output, ...] = (Output("task_final_message", "final_message"),)


@dataclass(frozen=True, slots=True)
class SlackNotice:
    """A message to a channel. `connection` in the form in which it was given, 7 or "7"; `more` are the inputs that the
    form does not show."""

    kind: ClassVar = "slack"

    connection: JsonValue
    channel: str
    text: str
    thread: str = ""
    more: Inputs = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmailNotice:
    """An email. `sender_email` and `sender_name` take the place of the connection's own; `more` are keys of the step
    that the form does not show."""

    kind: ClassVar = "email"

    connection: JsonValue
    to: str
    subject: str
    text: str = ""
    html: str = ""
    to_name: str = ""
    sender_name: str = ""
    sender_email: str = ""
    more: Inputs = field(default_factory=dict)


Notice: TypeAlias = SlackNotice | EmailNotice


NOTICE_NAMES = StepNames("notify", "Notify")


@dataclass(frozen=True, slots=True)
class LoopForm:
    """A loop in its canonical shape: it starts on something, creates a task, may send a message, and ends."""

    name: str
    start: Start
    task: Task
    notice: Notice | None = None
    description: str = ""
    mask: Mask | None = None
    rate_limit: RateLimit | None = None
    debounce: Debounce | None = None
    overlap: Overlap | None = None
    variables: tuple[Declared, ...] = ()
    reason: str | None = "Task finished"
    start_names: StepNames = StepNames("trigger", "Trigger")
    task_names: StepNames = StepNames("create_task", "Create AI task")
    notice_names: StepNames = NOTICE_NAMES
    exit_names: StepNames = StepNames("exit", "Exit")
