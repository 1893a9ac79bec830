"""What a loop listens to: one class a trigger type, gathered in TriggerConfig."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, JsonValue

from loops.definition.findings import Findings, join, shown, suggestion
from loops.definition.schema.base import Shape
from loops.definition.schema.parts import Input

GITHUB_EVENT = "$github_event_received"
SLACK_EVENT = "$slack_message_received"
INTERNAL_EVENTS = (GITHUB_EVENT, SLACK_EVENT)
_FILTER_KEYS = ("source", "events", "properties", "actions", "data_warehouse", "filter_test_accounts")


class Trigger(Shape):
    """A trigger's config. `has_person`: its events are about a person; `maskable`: masking applies to them."""

    has_person: ClassVar[bool] = False
    maskable: ClassVar[bool] = True

    type: str

    def effective_filters(self) -> Mapping[str, JsonValue]:
        """The filters as events are held against them; empty when the trigger takes every event that reaches it."""
        return {}


class _Filtered(Trigger):
    filters: dict[str, JsonValue]

    def inspect(self, path: str, findings: Findings) -> None:
        place = join(path, "filters")
        for key in self.filters:
            if key not in _FILTER_KEYS:
                findings.refuse(join(place, key), f'unknown key "{shown(key)}"', suggestion(key, _FILTER_KEYS))
        for key, what in (("actions", "PostHog actions"), ("data_warehouse", "warehouse tables")):
            if self.filters.get(key):
                findings.refuse(
                    join(place, key), f"{what} are kept by PostHog and cannot be asked for here", "name the events"
                )

    def effective_filters(self) -> Mapping[str, JsonValue]:
        return {key: value for key, value in self.filters.items() if key not in ("source", "actions", "data_warehouse")}


class InternalEventTrigger(_Filtered):
    """GitHub and Slack, whose events Loops makes itself."""

    type: Literal["internal-event"]

    def inspect(self, path: str, findings: Findings) -> None:
        super().inspect(path, findings)
        place = join(path, "filters")
        if self.filters.get("source", "internal-events") != "internal-events":
            findings.refuse(join(place, "source"), 'must be "internal-events" for this trigger type')
        events = self.filters.get("events")
        if not isinstance(events, list) or not events:
            findings.refuse(join(place, "events"), "must name an event", f"one of {', '.join(INTERNAL_EVENTS)}")
            return
        for index, event in enumerate(events):
            self._inspect_event(event, join(place, "events", index), findings)
        for name, rule in _RULES.items():
            if any(isinstance(event, dict) and event.get("id") == name for event in events):
                rule(self.filters, place, findings)

    def _inspect_event(self, event: JsonValue, path: str, findings: Findings) -> None:
        if not isinstance(event, dict):
            findings.refuse(path, f'must be an object such as {{"id": "{GITHUB_EVENT}", "type": "events"}}')
        elif event.get("id") not in INTERNAL_EVENTS:
            findings.refuse(
                join(path, "id"),
                f"{shown(event.get('id'))} is no event that this trigger type listens to",
                f"one of {', '.join(INTERNAL_EVENTS)}; PostHog events have the trigger type event",
            )

    def effective_filters(self) -> Mapping[str, JsonValue]:
        filters = dict(super().effective_filters())
        properties = filters.get("properties")
        if isinstance(properties, list):
            filters["properties"] = [_settled(item) for item in properties]
        return filters


class EventTrigger(_Filtered):
    """A PostHog event."""

    has_person: ClassVar[bool] = True

    type: Literal["event"]
    filter_test_accounts: bool | None = None

    def inspect(self, path: str, findings: Findings) -> None:
        super().inspect(path, findings)
        for index, event in enumerate(_list(self.filters.get("events"))):
            if isinstance(event, dict) and event.get("id") in INTERNAL_EVENTS:
                findings.warn(
                    join(path, "filters", "events", index, "id"),
                    f"{event['id']} never arrives as a PostHog event",
                    "use the trigger type internal-event",
                )

    def effective_filters(self) -> Mapping[str, JsonValue]:
        filters = dict(super().effective_filters())
        if self.filter_test_accounts is not None:
            filters.setdefault("filter_test_accounts", self.filter_test_accounts)
        return filters


class ScheduleTrigger(Trigger):
    """The occurrences of the schedules that the workflow has."""

    maskable: ClassVar[bool] = False

    type: Literal["schedule"]
    filters: dict[str, JsonValue] | None = None

    def inspect(self, path: str, findings: Findings) -> None:
        if self.filters:
            findings.warn(join(path, "filters"), "have no effect: an occurrence of a schedule has no properties")


class _Requested(Trigger):
    template_id: Literal["template-source-webhook"] = "template-source-webhook"
    template_uuid: str | None = None
    inputs: dict[str, Input] = Field(default_factory=dict)


class ManualTrigger(_Requested):
    """A button, an API call or a command."""

    maskable: ClassVar[bool] = False

    type: Literal["manual"]


class WebhookTrigger(_Requested):
    """A request to the workflow's own URL."""

    type: Literal["webhook"]


TriggerConfig: TypeAlias = Annotated[
    InternalEventTrigger | EventTrigger | ScheduleTrigger | ManualTrigger | WebhookTrigger,
    Field(discriminator="type"),
]

# Types that are known elsewhere, and what to do about each.
NOT_HERE: Mapping[str, str] = {
    "batch": "",
    "tracking_pixel": "",
    "data-warehouse-table": "",
    "data-warehouse-view": "",
    "github-event": f"use internal-event with the event {GITHUB_EVENT}",
    "slack-message": f"use internal-event with the event {SLACK_EVENT}",
}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _exact(filters: Mapping[str, JsonValue], key: str) -> Iterator[list[JsonValue]]:
    """The values of every filter that asks for exactly these values of the event property `key`."""
    for item in _list(filters.get("properties")):
        if isinstance(item, dict) and item.get("key") == key and item.get("type", "event") == "event":
            if item.get("operator") in (None, "exact"):
                value = item.get("value")
                yield value if isinstance(value, list) else [value]


def _asks_for(filters: Mapping[str, JsonValue], key: str) -> bool:
    return any(
        values and all(isinstance(value, str) and value.strip() for value in values) for values in _exact(filters, key)
    )


def _github_rule(filters: Mapping[str, JsonValue], path: str, findings: Findings) -> None:
    place = join(path, "properties")
    if not _asks_for(filters, "repository"):
        findings.refuse(
            place,
            "no exact filter on repository: the loop would have no repository to listen to",
            'add {"key": "repository", "value": ["owner/name"], "operator": "exact", "type": "event"}',
        )
    if not _asks_for(filters, "event_type"):
        findings.refuse(
            place,
            "no exact filter on event_type: the loop would not know which GitHub event is meant",
            'add {"key": "event_type", "value": ["issues"], "operator": "exact", "type": "event"}',
        )


def _slack_rule(filters: Mapping[str, JsonValue], path: str, findings: Findings) -> None:
    if not _asks_for(filters, "channel"):
        findings.refuse(
            join(path, "properties"),
            "no exact filter on channel: the loop would have no channel to listen to",
            'add {"key": "channel", "value": ["C0123456789"], "operator": "exact", "type": "event"} with the channel\'s id',
        )


_RULES = {GITHUB_EVENT: _github_rule, SLACK_EVENT: _slack_rule}


def _settled(item: JsonValue) -> JsonValue:
    """A property filter with its value in the form in which events carry it: repositories in lower case, a channel
    by its id alone (`C123|#name` comes from pickers)."""
    if not isinstance(item, dict) or item.get("type", "event") != "event":
        return item
    if item.get("key") == "channel":
        return {**item, "value": _each(item.get("value"), lambda text: text.split("|")[0].strip())}
    if item.get("key") == "repository" and item.get("operator") not in ("regex", "not_regex"):
        return {**item, "value": _each(item.get("value"), str.lower)}
    return item


def _each(value: JsonValue, change: Any) -> JsonValue:
    if isinstance(value, list):
        return [change(one) if isinstance(one, str) else one for one in value]
    return change(value) if isinstance(value, str) else value
