"""A request to a workflow's own address, and the event that the workflow's templates make of it."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loops.definition.requested import Requested, compile_requested
from loops.errors import DefinitionError, PayloadMalformed, TemplateError
from loops.event import Delivery, Event, JsonValue
from loops.storable import storable, storable_text
from triggers.posthog.event import internal, internal_reason
from triggers.webhook.body import fields, read_body

SOURCE = "webhook"
METHOD, QUERY = ":method", ":query"
"""Where a stored delivery keeps what is no header: names that no header can have."""

LONGEST_TEXT = 400
_NAMESPACE = uuid.UUID("3b0a1f0e-6d5b-5a0f-9f0b-52c4b5f0a8d1")
_TRIGGER = "trigger"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as templates see it. `headers` are those that may be kept, by their names in lower case."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, JsonValue]
    body: JsonValue

    def as_scope(self) -> dict[str, JsonValue]:
        """What `request` is in a template."""
        return {
            "method": self.method,
            "headers": {name: value for name, value in self.headers.items() if not name.startswith(":")},
            "query": dict(self.query),
            "body": self.body,
        }


@dataclass(frozen=True, slots=True)
class Meant:
    """What a workflow's templates make of a request."""

    name: str
    distinct_id: str
    properties: Mapping[str, JsonValue]

    @property
    def ignored(self) -> str | None:
        """Why it starts nothing; None for what may."""
        return internal_reason(self.name) if internal(self.name) else None


def request_of(method: str, headers: Mapping[str, str], query_string: str, body: bytes) -> Request:
    """Raises PayloadMalformed where query or body cannot be read."""
    query = fields(query_string, "query")
    return Request(method, headers, query, read_body(body, headers.get("content-type", "")))


def stored_request(delivery: Delivery) -> Request:
    """The request of a stored delivery."""
    headers = delivery.headers
    return request_of(headers.get(METHOD, "POST"), headers, headers.get(QUERY, ""), delivery.body)


def requested(settings: Mapping[str, Any]) -> Requested:
    """The trigger that a webhook's connection holds. Raises PayloadMalformed where this release cannot use it."""
    try:
        return compile_requested(settings.get(_TRIGGER) or {})
    except DefinitionError as error:
        message = f"the webhook's trigger cannot be used: {error.message}"
        hint = "save the workflow anew: that names each fault"
        raise PayloadMalformed(message, path=error.path, hint=hint) from error


def meaning(request: Request, trigger: Requested) -> Meant:
    """Raises PayloadMalformed, naming what of the request makes no event."""
    try:
        rendered = trigger.render(request.as_scope())
    except TemplateError as error:
        message = f"no event can be made of the request: {error.message}"
        hint = error.hint or "look at the workflow's trigger, and at what the request holds"
        raise PayloadMalformed(message, path=error.path, hint=hint) from error
    properties = dict(request.query)
    given = storable(rendered["properties"]) if "properties" in rendered else request.body
    if isinstance(given, dict):
        properties |= given
    elif "properties" in rendered and given is not None:
        hint = "look at the template of `properties` in the workflow's trigger"
        raise PayloadMalformed("properties must be an object", path="properties", hint=hint)
    elif given is not None:
        properties["body"] = given
    return Meant(_text(rendered, "event"), _text(rendered, "distinct_id"), properties)


def to_event(delivery: Delivery, meant: Meant) -> Event:
    """The event, whose id is its delivery's."""
    own = f"{delivery.project_id}:{delivery.connection_id}:{delivery.key}"
    return Event(
        uuid=str(uuid.uuid5(_NAMESPACE, own)),
        name=meant.name,
        source=SOURCE,
        distinct_id=meant.distinct_id,
        timestamp=delivery.received_at,
        properties=meant.properties,
        verified=delivery.verified,
    )


def _text(rendered: Mapping[str, JsonValue], name: str) -> str:
    """A rendered input that has to be text, and may be a number."""
    value = rendered.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    hint = f"look at the template of `{name}` in the workflow's trigger, and at what the request holds there"
    if value is None or (isinstance(value, str) and not value.strip()):
        raise PayloadMalformed(f"{name} is empty", path=name, hint=hint)
    if not isinstance(value, str):
        kind = {bool: "a boolean", list: "a list"}.get(type(value), "an object")
        raise PayloadMalformed(f"{name} must be text, got {kind}", path=name, hint=hint)
    if len(value) > LONGEST_TEXT:
        raise PayloadMalformed(f"{name} is longer than {LONGEST_TEXT} characters", path=name, hint=hint)
    return storable_text(value.strip())
