"""template-posthog-create-task: an AI task that nobody watches."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from loops.definition.findings import shown
from loops.definition.inputs.base import Inputs, Names, References, Templated, Text
from loops.definition.schema.base import NotStrict, Shape, refused, whole

MOST_SKILLS = 10
LONGEST_TITLE = 255
PARALLEL_TASKS = (1, 100)
Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
"""How hard a model thinks; what each comes to is the provider's."""
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_STATUS_CLASSES = ("4xx", "5xx")


class ModelChoice(Shape):
    """Which model works, `provider:name` or a name alone, and how hard it thinks."""

    model: Text
    reasoning_effort: Effort | None = None


def _choice(given: object) -> object:
    return {"model": given} if isinstance(given, str) else given


def _repository(text: str) -> str:
    if not _REPOSITORY.fullmatch(text):
        raise refused(f'"{shown(text)}" is no repository', "write owner/name; templates are not rendered here")
    return text


def _space(text: str) -> str:
    if not text.split("|")[0].strip():
        raise refused("names no space", "write <space id>|<space name>")
    return text


def _status(given: object) -> int | str:
    if isinstance(given, str) and given.lower() in _STATUS_CLASSES:
        return given.lower()
    if isinstance(given, int) and not isinstance(given, bool) and 400 <= given <= 599:
        return given
    raise refused(f"{shown(given)} is no status code", 'a number from 400 to 599, "4xx" or "5xx"')


class CreateTaskInputs(Inputs):
    """`prompt` and `title` are instructions: they take literals and variables, never text of the event."""

    prompt: Annotated[Text, Templated(guarded=True)]
    title: Annotated[str | None, Field(max_length=LONGEST_TITLE), Templated(guarded=True)] = None
    model: Annotated[ModelChoice, BeforeValidator(_choice)] | None = None
    repository: Annotated[str, AfterValidator(_repository)] | None = None
    staged: bool = False
    connectors: References = ()
    skills: Annotated[Names, Field(max_length=MOST_SKILLS)] = ()
    posthog_mcp_scopes: Literal["read_only", "full"] = "read_only"
    channel: Annotated[Text, AfterValidator(_space)] | None = None
    reply_in_slack_thread: bool = True
    allow_external_users: bool = False
    allow_everyone_in_thread: bool = False
    max_parallel_tasks: Annotated[int, whole(*PARALLEL_TASKS)] = 5
    non_failure_status_codes: Annotated[tuple[Annotated[int | str, BeforeValidator(_status)], ...], NotStrict] = (409,)
