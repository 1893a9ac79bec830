"""Triggers that start more often, or for more people, than was probably meant."""

from collections.abc import Iterator

from loops.definition.asked import Listening
from loops.definition.findings import shown
from loops.definition.lint_subject import TASK, Subject
from loops.definition.schema.triggers import GITHUB_EVENT, SLACK_EVENT
from loops.definition.vocabulary import BUSY_EVENTS
from loops.errors import Fault
from loops.event import JsonValue

_PULL_REQUEST, _PUSH = "pull_request", "push"


def without_access(subject: Subject) -> Iterator[Fault]:
    """A task that anybody on GitHub may start."""
    if not any(True for _ in subject.steps(TASK)):
        return
    for one in subject.of(GITHUB_EVENT):
        narrowed = one.speaks_of("actor_access") or one.narrows("sender", "author_association")
        if not narrowed and _event_types(one) != [_PUSH]:
            yield Fault(
                one.filters,
                "no filter on actor_access: whoever may write an issue or a comment starts the task",
                _example("actor_access", "write", "exact"),
            )


def hears_apps(subject: Subject) -> Iterator[Fault]:
    """A loop that alerts of other apps start."""
    for one in subject.of(SLACK_EVENT):
        if not one.speaks_of("bot_id") and not one.narrows("app_id", "user"):
            yield Fault(
                one.filters,
                "no filter on bot_id: what other apps and bots post starts it too",
                f"{_example('bot_id', 'is_not_set', 'is_not_set')}; is_set hears apps alone",
            )


def hears_replies(subject: Subject) -> Iterator[Fault]:
    """A loop that every reply starts."""
    for one in subject.of(SLACK_EVENT):
        if not one.speaks_of("thread_ts", "is_thread_reply"):
            yield Fault(
                one.filters,
                "no filter on thread_ts: every reply in every thread starts it too",
                f"{_example('thread_ts', 'is_not_set', 'is_not_set')}; "
                "to hear replies as well, ask for is_thread_reply with is_set",
            )


def every_push(subject: Subject) -> Iterator[Fault]:
    """A loop on pull requests that each change of them starts."""
    for one in subject.of(GITHUB_EVENT):
        if _PULL_REQUEST in _event_types(one) and not one.speaks_of("action"):
            yield Fault(
                one.filters,
                "no filter on action: every push to an open pull request starts it, and every label and edit",
                _example("action", "opened", "exact"),
            )


def unmasked(subject: Subject) -> Iterator[Fault]:
    """A busy event of which each one starts a run."""
    workflow = subject.workflow
    held = (workflow.trigger_masking, workflow.brakes.rate_limit, workflow.brakes.debounce)
    if any(one is not None for one in held) or workflow.trigger.config.type != "event":
        return
    for one in subject.events:
        if one.name is None or one.name in BUSY_EVENTS:
            said = (
                "every event is heard, and each one" if one.name is None else f"{shown(one.name)} comes often, and each"
            )
            yield Fault(
                one.path,
                f"{said} starts a run: nothing holds repeats back",
                'add "trigger_masking": {"hash": "{person.id}", "ttl": 3600}, which lets one an hour a person pass',
            )


def rate_before_debounce(subject: Subject) -> Iterator[Fault]:
    """A rate limit that a burst uses up before debounce makes one of it."""
    brakes = subject.workflow.brakes
    if brakes.rate_limit is None or brakes.debounce is None:
        return
    yield Fault(
        "trigger_rate_limit",
        f"each event of a burst counts before debounce makes one of them: {brakes.rate_limit.count} use it up, and "
        "what comes after those is dropped, the last one too",
        "leave it out beside trigger_debounce, or set count well above what comes in the busiest period",
    )


def _event_types(one: Listening) -> list[JsonValue]:
    return [value for asked in one.musts("event_type") if asked.any_of for value in asked.values]


def _example(key: str, value: str, operator: str) -> str:
    said = f'["{value}"]' if operator == "exact" else f'"{value}"'
    return f'add {{"key": "{key}", "value": {said}, "operator": "{operator}", "type": "event"}}'
