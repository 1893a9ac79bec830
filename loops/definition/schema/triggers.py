"""What a loop listens to: one class a trigger type, gathered in TriggerConfig."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, JsonValue

from config.closest import closest
from loops.definition.findings import Findings, join, nearest, shown
from loops.definition.schema.base import Kinds, Shape
from loops.definition.schema.parts import Input
from loops.filters.operators import OPERATORS

GITHUB_EVENT = "$github_event_received"
SLACK_EVENT = "$slack_message_received"
INTERNAL_EVENTS = (GITHUB_EVENT, SLACK_EVENT)


KINDS = Kinds(
    "trigger type",
    never={
        "batch": "",
        "tracking_pixel": "use webhook",
        "data-warehouse-table": "",
        "data-warehouse-view": "",
        "github-event": f"use internal-event with the event {GITHUB_EVENT}",
        "slack-message": f"use internal-event with the event {SLACK_EVENT}",
    },
    meant={
        "github": f"use internal-event with the event {GITHUB_EVENT}",
        "slack": f"use internal-event with the event {SLACK_EVENT}",
        "cron": "use schedule, and create a schedule for the workflow",
    },
)


class Trigger(Shape):
    """A trigger's config. `sources` are where its events come from; `has_person`: they are about a person; `maskable`:
    masking applies to them."""

    kinds: ClassVar = KINDS
    sources: ClassVar[frozenset[str]]
    has_person: ClassVar[bool] = False
    maskable: ClassVar[bool] = True

    type: str

    def effective_filters(self) -> Mapping[str, JsonValue] | None:
        """The filters that events are held against; None where nothing is matched, since the events are made for this
        workflow alone."""
        return None


class _Filtered(Trigger):
    filters: dict[str, JsonValue]

    def inspect(self, path: str, findings: Findings) -> None:
        if self.filters.get("data_warehouse"):
            findings.refuse(
                join(path, "filters", "data_warehouse"), "warehouse tables are kept by PostHog", "name events instead"
            )

    def effective_filters(self) -> Mapping[str, JsonValue]:
        return {key: value for key, value in self.filters.items() if key != "data_warehouse"}


class InternalEventTrigger(_Filtered):
    """GitHub and Slack, whose events Loops makes itself."""

    sources: ClassVar = frozenset({"github", "slack"})

    type: Literal["internal-event"]

    def inspect(self, path: str, findings: Findings) -> None:
        super().inspect(path, findings)
        place = join(path, "filters")
        if self.filters.get("source", "internal-events") != "internal-events":
            findings.refuse(join(place, "source"), 'must be "internal-events" for this trigger type')
        if self.filters.get("actions"):
            findings.refuse(
                join(place, "actions"),
                "are not supported for this trigger type: actions are made of what PostHog captures",
                "name the event in `events`, and filter by its properties",
            )
        filters = self.effective_filters()
        events = filters.get("events")
        if not isinstance(events, list) or not events:
            findings.refuse(join(place, "events"), "must name an event", f"one of {', '.join(INTERNAL_EVENTS)}")
            return
        for index, event in enumerate(events):
            if isinstance(event, dict):
                self._inspect_name(event.get("id", ""), join(place, "events", index, "id"), findings)
                _inspect_narrowing(event, filters, join(place, "properties"), findings)

    def _inspect_name(self, name: JsonValue, path: str, findings: Findings) -> None:
        if name is None or (isinstance(name, str) and name.strip() and name not in INTERNAL_EVENTS):
            near = nearest(name or "", INTERNAL_EVENTS)
            findings.refuse(
                path,
                f"{shown(name)} is no event that this trigger type listens to",
                near or f"one of {', '.join(INTERNAL_EVENTS)}; PostHog events have the trigger type event",
            )

    def effective_filters(self) -> Mapping[str, JsonValue]:
        filters = _by_channel_id(super().effective_filters())
        events = filters.get("events")
        if isinstance(events, list):
            filters["events"] = [_by_channel_id(event) if isinstance(event, dict) else event for event in events]
        return {key: value for key, value in filters.items() if key not in ("source", "actions")}


class EventTrigger(_Filtered):
    """A PostHog event."""

    sources: ClassVar = frozenset({"posthog"})
    has_person: ClassVar[bool] = True

    type: Literal["event"]
    filter_test_accounts: bool | None = None
    allow_unverified: bool | None = None

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

    sources: ClassVar = frozenset({"schedule"})
    maskable: ClassVar[bool] = False

    type: Literal["schedule"]
    filters: dict[str, JsonValue] | None = None

    def inspect(self, path: str, findings: Findings) -> None:
        if self.filters:
            findings.warn(join(path, "filters"), "have no effect: every occurrence of a schedule passes")


class RequestedTrigger(Trigger):
    """A trigger that a request fires; `inputs` make its event."""

    type: Literal["manual", "webhook"]
    template_id: Literal["template-source-webhook"] = "template-source-webhook"
    template_uuid: str | None = None
    inputs: dict[str, Input] = Field(default_factory=dict)


class ManualTrigger(RequestedTrigger):
    """A button, an API call or a command."""

    sources: ClassVar = frozenset({"manual"})
    maskable: ClassVar[bool] = False

    type: Literal["manual"]


class WebhookTrigger(RequestedTrigger):
    """A request to the workflow's own URL."""

    sources: ClassVar = frozenset({"webhook"})

    type: Literal["webhook"]
    allow_unverified: bool | None = None


TriggerConfig: TypeAlias = Annotated[
    InternalEventTrigger | EventTrigger | ScheduleTrigger | ManualTrigger | WebhookTrigger,
    Field(discriminator="type"),
]


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _asks_for(properties: Sequence[JsonValue], key: str) -> bool:
    """Whether some filter wants the event property `key` to be exactly one of some texts, or may have meant to: its
    operator is none, which is a fault of its own."""
    for item in _all_asked(properties):
        if not isinstance(item, dict) or item.get("key") != key or item.get("type", "event") != "event":
            continue
        operator, value = item.get("operator"), item.get("value")
        if operator is not None and (not isinstance(operator, str) or operator not in OPERATORS):
            return True
        values = value if isinstance(value, list) else [value]
        wanted = [one for one in values if isinstance(one, str) and one.strip()]
        if operator in (None, "exact") and wanted and len(wanted) == len(values):
            return True
    return False


def _entries(properties: JsonValue) -> list[JsonValue]:
    """What stands under `properties`, a list or one group."""
    return [properties] if isinstance(properties, dict) else _list(properties)


def _all_asked(properties: Sequence[JsonValue]) -> Iterator[JsonValue]:
    """The filters that must all hold: those of a list, and of the groups in it that are AND."""
    for item in properties:
        if isinstance(item, dict) and item.get("type") == "AND":
            yield from _all_asked(_list(item.get("values")))
        else:
            yield item


def _example(key: str, value: str) -> str:
    return f'add {{"key": "{key}", "value": ["{value}"], "operator": "exact", "type": "event"}}'


# What an event of each kind must be narrowed to, what is said when it is not, and how it is mended.
_REQUIRED: Mapping[str, Mapping[str, tuple[str, str]]] = {
    GITHUB_EVENT: {
        "repository": (
            "no exact filter on repository: the loop has no repository to listen to",
            _example("repository", "owner/name"),
        ),
        "event_type": (
            "no exact filter on event_type: the loop does not know which GitHub events are meant",
            _example("event_type", "issues"),
        ),
    },
    SLACK_EVENT: {
        "channel": (
            "no exact filter on channel: the loop has no channel to listen to",
            f"{_example('channel', 'C0123456789')} with the channel's id",
        ),
    },
}


def _inspect_narrowing(
    event: Mapping[str, JsonValue], filters: Mapping[str, JsonValue], path: str, findings: Findings
) -> None:
    properties = [*_entries(filters.get("properties")), *_entries(event.get("properties"))]
    for key, (missing, example) in _REQUIRED.get(str(event.get("id")), {}).items():
        if not _asks_for(properties, key):
            asked = (item.get("key") for item in _all_asked(properties) if isinstance(item, dict))
            # What begins with it is another property: `repository_id`, `channel_type`.
            other = (one for one in asked if isinstance(one, str) and not one.startswith(key))
            misspelt = next((one for one in other if closest(one, [key])), None)
            meant = f'did you mean "{key}" by the filter on "{shown(misspelt)}"?' if misspelt else example
            findings.refuse(path, missing, meant)


def _by_channel_id(holder: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    properties = holder.get("properties")
    if isinstance(properties, list):
        return {**holder, "properties": [_settled(item) for item in properties]}
    return {**holder, "properties": _settled(properties)} if isinstance(properties, dict) else dict(holder)


def _settled(item: JsonValue) -> JsonValue:
    """A property filter whose channels are given by their ids alone; pickers store `C123|#name`."""
    if isinstance(item, dict) and isinstance(item.get("values"), list):
        return {**item, "values": [_settled(one) for one in _list(item["values"])]}
    if not isinstance(item, dict) or item.get("key") != "channel" or item.get("type", "event") != "event":
        return item
    if item.get("operator") not in _BY_IDENTITY:  # a pattern may have a | of its own
        return item
    value = item.get("value")
    if isinstance(value, list):
        return {**item, "value": [_channel_id(one) if isinstance(one, str) else one for one in value]}
    return {**item, "value": _channel_id(value)} if isinstance(value, str) else item


_BY_IDENTITY = (None, "exact", "is_not", "in", "not_in")


def _channel_id(text: str) -> str:
    return text.split("|")[0].strip()
