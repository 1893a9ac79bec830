"""What a test run is told to have happened (`globals`), as an event: checked, and filled in where it says less."""

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from pydantic import Field, JsonValue

from loops.definition.compiled import CompiledWorkflow
from loops.definition.findings import Findings, few_suggestions
from loops.definition.plain import plain_object
from loops.definition.requested import compile_requested
from loops.definition.schema.base import Identifier, Shape
from loops.definition.schema.triggers import GITHUB_EVENT, SLACK_EVENT, RequestedTrigger, Trigger
from loops.definition.schema.validator import Validator
from loops.errors import RequestError
from loops.event import Event, Person
from loops.runs.testing import Sample
from loops.runs.variables import MOST_BYTES
from triggers.manual.event import EVENT as BY_HAND
from triggers.manual.event import read_variables
from triggers.manual.event import to_event as started_by_hand
from triggers.webhook.event import Request, meaning

SCHEDULED = "$scheduled"
WHO = "test run"
_NAMESPACE = uuid.UUID("0a7c0d55-5d3f-5a3c-9a35-2f8f2f7e6b10")
_SOURCES: Mapping[str, str] = {"event": "posthog", "webhook": "webhook", "manual": "manual", "schedule": "schedule"}
_INTERNAL: Mapping[str, str] = {GITHUB_EVENT: "github", SLACK_EVENT: "slack"}
_PATH = "globals"


class _PersonSample(Shape):
    id: Identifier = "test"
    name: str = ""
    url: str | None = None
    properties: dict[str, JsonValue] = Field(default_factory=dict)


class _EventSample(Shape):
    """An event as templates see it."""

    not_here: ClassVar = {
        "elements_chain": "is no part of an event here; elements stand in properties as $elements_chain",
        "captured_at": "is no part of an event here; timestamp is when it happened",
    }

    event: Identifier | None = None
    uuid: Identifier | None = None
    source: Identifier | None = None
    distinct_id: str = ""
    timestamp: str | None = None
    url: str | None = None
    subject: str | None = None
    verified: bool = True
    properties: dict[str, JsonValue] = Field(default_factory=dict)
    person: _PersonSample | None = None
    groups: dict[str, JsonValue] = Field(default_factory=dict)


class _RequestSample(Shape):
    """A request to a webhook, or what starts a workflow by hand."""

    method: str = "POST"
    headers: dict[str, str] = Field(default_factory=dict)
    query: dict[str, JsonValue] = Field(default_factory=dict)
    body: JsonValue = None


class _Globals(Shape):
    not_here: ClassVar = {
        "project": "is known: that of the workflow",
        "source": "is known: the workflow itself",
        "inputs": "are rendered from the workflow",
        "payload": "is the result of the step before; give it as steps.<id>",
    }

    event: _EventSample | None = None
    request: _RequestSample | None = None
    person: _PersonSample | None = None
    groups: dict[str, JsonValue] = Field(default_factory=dict)
    variables: dict[str, JsonValue] = Field(default_factory=dict)
    steps: dict[str, JsonValue] = Field(default_factory=dict)


_GLOBALS: Validator[_Globals] = Validator(_Globals)


def read_sample(raw: JsonValue, compiled: CompiledWorkflow, now: datetime, *, at_trigger: bool) -> Sample:
    """The sample that `globals` describe. What they leave out is filled in the same way each time.

    Raises RequestError with the path of what does not fit; PayloadMalformed where the trigger's templates make no event
    of a request. An action behind the trigger may do without an event.
    """
    given = _validated({} if raw is None else raw)
    variables = _variables(given, compiled, strict=at_trigger)
    trigger = compiled.workflow.trigger.config
    own = str(uuid.uuid5(_NAMESPACE, json.dumps(raw, sort_keys=True)))
    if given.event is not None:
        event = _event(given.event, given, trigger, own, now)
    elif given.request is not None:
        event = _requested(given.request, trigger, own, now)
    else:
        event = _unsaid(compiled, variables, own, now, at_trigger=at_trigger)
    return Sample(event, variables, given.steps)


def with_event(raw: JsonValue, compiled: CompiledWorkflow, event: Event, *, at_trigger: bool) -> Sample:
    """The sample of an event that came. Raises RequestError where `globals` name one too."""
    given = _validated({} if raw is None else raw)
    for key in ("event", "request", "person", "groups"):
        if getattr(given, key):
            raise RequestError(
                f"globals.{key} stands beside a delivery", hint="give one of them", path=f"{_PATH}.{key}"
            )
    return Sample(event, _variables(given, compiled, strict=at_trigger), given.steps)


def _validated(raw: JsonValue) -> _Globals:
    findings = Findings()
    value = None
    with few_suggestions():
        whole = plain_object({_PATH: raw}, findings)
        if not findings.faults:
            value = _GLOBALS.validate(whole[_PATH], _PATH, findings).value
    if value is None:
        fault = findings.faults[0]
        raise RequestError(f"{fault.path}: {fault.message}", hint=fault.hint, path=fault.path)
    return value


def _variables(given: _Globals, compiled: CompiledWorkflow, *, strict: bool) -> Mapping[str, JsonValue]:
    """As a run would begin with them; behind the trigger, whatever steps may have made of them."""
    if strict:
        try:
            return read_variables(compiled.workflow.document, given.variables)
        except RequestError as error:
            raise RequestError(error.message, hint=error.hint, path=f"{_PATH}.{error.path}") from error
    size = len(json.dumps(given.variables, ensure_ascii=False, separators=(",", ":")).encode())
    if size > MOST_BYTES:
        hint = "give long results as steps.<id>, and let the variables be made of them"
        raise RequestError(
            f"the variables take {size} bytes as JSON; {MOST_BYTES} is the limit", hint=hint, path=f"{_PATH}.variables"
        )
    return given.variables


def _event(said: _EventSample, given: _Globals, trigger: Trigger, own: str, now: datetime) -> Event:
    names = _names(trigger)
    name = said.event or (names[0] if len(names) == 1 else "")
    if not name:
        hint = f"one of {', '.join(names)}" if names else "the name of the event"
        raise RequestError("globals.event.event is missing", hint=hint, path=f"{_PATH}.event.event")
    person = said.person or given.person
    return Event(
        uuid=said.uuid or own,
        name=name,
        source=said.source or _INTERNAL.get(name) or _SOURCES.get(trigger.type, "posthog"),
        distinct_id=said.distinct_id or (person.id if person else WHO),
        timestamp=now if said.timestamp is None else _instant(said.timestamp),
        properties=said.properties,
        subject=said.subject,
        url=said.url,
        person=None if person is None else Person(person.id, person.name, person.properties),
        groups=said.groups or given.groups,
        verified=said.verified,
    )


def _instant(text: str) -> datetime:
    path = f"{_PATH}.event.timestamp"
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise RequestError(f"{path} has no offset", hint="as 2026-11-30T09:00:00Z", path=path)
        return found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise RequestError(f"{path} is no instant", hint="as 2026-11-30T09:00:00Z", path=path) from error


def _requested(said: _RequestSample, trigger: Trigger, own: str, now: datetime) -> Event:
    if not isinstance(trigger, RequestedTrigger):
        hint = "give globals.event"
        message = f"a trigger of type {trigger.type} is started by no request"
        raise RequestError(message, hint=hint, path=f"{_PATH}.request")
    headers = {name.lower(): value for name, value in said.headers.items()}
    request = Request(said.method, headers, said.query, said.body)
    meant = meaning(request, compile_requested(trigger.model_dump(by_alias=True)))
    return Event(own, meant.name, trigger.type, meant.distinct_id, now, meant.properties)


def _unsaid(
    compiled: CompiledWorkflow, variables: Mapping[str, JsonValue], own: str, now: datetime, *, at_trigger: bool
) -> Event:
    """The event where none is given: of a schedule and of a start by hand what they always say; of all others none,
    which an action behind the trigger takes for one without properties."""
    trigger = compiled.workflow.trigger.config
    names = _names(trigger)
    if trigger.type == "manual":
        return started_by_hand(trigger.model_dump(by_alias=True), variables, WHO, own, now)
    if at_trigger and trigger.type != "schedule":
        raise RequestError("globals.event is missing", hint=_example(compiled), path=f"{_PATH}.event")
    name = names[0] if names else "$unknown"
    return Event(own, name, _INTERNAL.get(name) or _SOURCES.get(trigger.type, "posthog"), WHO, now, {})


def _names(trigger: Trigger) -> list[str]:
    """The names of events that the trigger may be meant for."""
    if trigger.type == "schedule":
        return [SCHEDULED]
    if trigger.type == "manual":
        return [BY_HAND]
    filters = trigger.effective_filters() or {}
    events = filters.get("events")
    named = [one.get("id") for one in events if isinstance(one, dict)] if isinstance(events, list) else []
    return [name for name in named if isinstance(name, str)]


def _example(compiled: CompiledWorkflow) -> str:
    """What would fit, as far as exact filters tell."""
    trigger = compiled.workflow.trigger.config
    if trigger.type == "webhook":
        return 'give the request: {"request": {"body": {…}}}, or name a delivery'
    exact: Mapping[str, Any] = {} if compiled.filter is None else compiled.filter.exact
    properties = {key: min(values) for key, values in exact.items()}
    event = {"event": (_names(trigger) or ["…"])[0], "properties": properties}
    return f"as {json.dumps({'event': event}, ensure_ascii=False)}, or name a delivery"
