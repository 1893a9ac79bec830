"""What starts a loop: the config of its trigger, to and from the values of the form."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from loops.definition.findings import Findings, join
from loops.definition.form.inputs import written, written_out
from loops.definition.form.values import (
    GitHubStart,
    ManualStart,
    PostHogStart,
    ScheduleStart,
    SlackStart,
    Start,
    WebhookStart,
)
from loops.definition.schema.triggers import (
    GITHUB_EVENT,
    SLACK_EVENT,
    EventTrigger,
    InternalEventTrigger,
    RequestedTrigger,
    ScheduleTrigger,
    Trigger,
    WebhookTrigger,
)
from loops.event import JsonValue

Config: TypeAlias = dict[str, JsonValue]

_EMPTY: tuple[JsonValue, ...] = (None, [], {}, False)
_SOURCE_TEMPLATE = "template-source-webhook"
_PROPERTY_KEYS = frozenset({"key", "value", "operator", "type"})


def config_of(start: Start) -> Config:
    """The trigger's config."""
    match start:
        case ScheduleStart():
            return {"type": "schedule"}
        case GitHubStart():
            return _internal(GITHUB_EVENT, _github_properties(start))
        case SlackStart():
            return _internal(SLACK_EVENT, _slack_properties(start))
        case PostHogStart():
            return _posthog(start)
        case WebhookStart() | ManualStart():
            return _requested(start)


def start_of(trigger: Trigger, path: str, findings: Findings) -> Start | None:
    """What the form shows of a trigger whose config stands at `path`; None, with the reason in `findings`, where it
    cannot show it whole."""
    match trigger:
        case ScheduleTrigger():
            _only(trigger.filters or {}, (), join(path, "filters"), findings)
            return ScheduleStart()
        case InternalEventTrigger():
            return _internal_start(trigger, join(path, "filters"), findings)
        case EventTrigger():
            return _event_start(trigger, join(path, "filters"), findings)
        case RequestedTrigger():
            return _requested_start(trigger, path, findings)
    findings.refuse(path, f"the form shows no trigger of type {trigger.type}")
    return None


# The JSON


def _internal(event: str, properties: list[JsonValue]) -> Config:
    events: list[JsonValue] = [{"id": event, "type": "events"}]
    filters: Config = {"source": "internal-events", "events": events, "properties": properties}
    return {"type": "internal-event", "filters": filters}


def _github_properties(start: GitHubStart) -> list[JsonValue]:
    asked = [_exact("repository", start.repositories), _exact("event_type", start.event_types)]
    if start.actions:
        asked.append(_exact("action", start.actions))
    if start.writers_only:
        asked.append(_exact("actor_access", ("write",)))
    return [*asked, *start.more]


def _slack_properties(start: SlackStart) -> list[JsonValue]:
    asked = [_exact("channel", start.channels)]
    asked += [_unset(key) for key, wanted in (("bot_id", start.people_only), ("thread_ts", start.top_level)) if wanted]
    return [*asked, *start.more]


def _posthog(start: PostHogStart) -> Config:
    events: list[JsonValue] = [
        {"id": name, "name": name, "type": "events", "order": order, "properties": []}
        for order, name in enumerate(start.events)
    ]
    filters: Config = {
        "events": events,
        "properties": [*start.more],
        "filter_test_accounts": start.without_test_accounts,
    }
    config: Config = {"type": "event", "filters": filters}
    return config if start.allow_unverified is None else {**config, "allow_unverified": start.allow_unverified}


def _requested(start: WebhookStart | ManualStart) -> Config:
    config: Config = {"type": start.kind, "template_id": _SOURCE_TEMPLATE, "inputs": written_out(start.inputs)}
    allowed = start.allow_unverified if isinstance(start, WebhookStart) else None
    return config if allowed is None else {**config, "allow_unverified": allowed}


def _exact(key: str, values: Sequence[str]) -> JsonValue:
    return {"key": key, "value": list(values), "operator": "exact", "type": "event"}


def _unset(key: str) -> JsonValue:
    return {"key": key, "value": "is_not_set", "operator": "is_not_set", "type": "event"}


# The form


def _internal_start(trigger: InternalEventTrigger, path: str, findings: Findings) -> Start | None:
    filters = trigger.filters
    _only(filters, ("source", "events", "properties"), path, findings)
    names = _event_names(filters.get("events"), join(path, "events"), findings)
    properties = _properties(filters, path, findings)
    if names == (GITHUB_EVENT,):
        return _github_start(properties)
    if names == (SLACK_EVENT,):
        return _slack_start(properties)
    findings.refuse(join(path, "events"), "the form shows one kind of event: GitHub's or Slack's")
    return None


def _github_start(properties: list[JsonValue]) -> GitHubStart:
    taken = {key: _taken(properties, key, _texts) or () for key in ("repository", "event_type", "action")}
    return GitHubStart(
        repositories=taken["repository"],
        event_types=taken["event_type"],
        actions=taken["action"],
        writers_only=_taken(properties, "actor_access", _write) is not None,
        more=tuple(properties),
    )


def _slack_start(properties: list[JsonValue]) -> SlackStart:
    return SlackStart(
        channels=_taken(properties, "channel", _texts) or (),
        people_only=_taken(properties, "bot_id", _is_unset) is not None,
        top_level=_taken(properties, "thread_ts", _is_unset) is not None,
        more=tuple(properties),
    )


def _event_start(trigger: EventTrigger, path: str, findings: Findings) -> PostHogStart:
    filters = trigger.effective_filters()
    _only(filters, ("events", "properties", "filter_test_accounts"), path, findings)
    return PostHogStart(
        events=_event_names(filters.get("events"), join(path, "events"), findings),
        more=tuple(_properties(filters, path, findings)),
        without_test_accounts=filters.get("filter_test_accounts") is True,
        allow_unverified=trigger.allow_unverified,
    )


def _requested_start(trigger: RequestedTrigger, path: str, findings: Findings) -> Start:
    if trigger.template_uuid is not None:
        findings.refuse(join(path, "template_uuid"), "the form shows no saved template")
    inputs = written(trigger.inputs, join(path, "inputs"), findings)
    if isinstance(trigger, WebhookTrigger):
        return WebhookStart(inputs, trigger.allow_unverified)
    return ManualStart(inputs)


def _only(filters: Mapping[str, JsonValue], known: Sequence[str], path: str, findings: Findings) -> None:
    for key, value in filters.items():
        if key not in known and value not in _EMPTY and key != "bytecode":
            findings.refuse(join(path, key), "the form does not show it")


def _event_names(events: JsonValue, path: str, findings: Findings) -> tuple[str, ...]:
    names: list[str] = []
    for index, event in enumerate(events if isinstance(events, list) else []):
        place = join(path, index)
        name = event.get("id") if isinstance(event, dict) else None
        if not isinstance(event, dict) or not isinstance(name, str):
            findings.refuse(place, "the form shows events by their names")
            continue
        _only(event, ("id", "name", "type", "order"), place, findings)
        if event.get("name", name) not in (name, None):
            findings.refuse(join(place, "name"), "the form shows events by their ids")
        names.append(name)
    return tuple(names)


def _properties(filters: Mapping[str, JsonValue], path: str, findings: Findings) -> list[JsonValue]:
    found = filters.get("properties")
    if found in _EMPTY:
        return []
    if not isinstance(found, list):
        findings.refuse(join(path, "properties"), "the form shows a list of property filters, not a group alone")
        return []
    return list(found)


def _taken(properties: list[JsonValue], key: str, read: Callable[[Mapping[str, Any]], Any]) -> Any:  # noqa: ANN401
    """What the first filter on this property asks for, as a field of the form shows it: it is taken out of the list.
    None where no field can show one."""
    for index, asked in enumerate(properties):
        if isinstance(asked, dict) and asked.get("key") == key and asked.get("type", "event") == "event":
            value = read(asked) if asked.keys() <= _PROPERTY_KEYS else None
            if value is not None:
                del properties[index]
                return value
    return None


def _texts(asked: Mapping[str, Any]) -> tuple[str, ...] | None:
    if asked.get("operator") not in (None, "exact"):
        return None
    value = asked.get("value")
    values: list[Any] = value if isinstance(value, list) else [value]
    texts = tuple(one for one in values if isinstance(one, str))
    return texts if texts and len(texts) == len(values) else None


def _write(asked: Mapping[str, Any]) -> tuple[str, ...] | None:
    return found if (found := _texts(asked)) == ("write",) else None


def _is_unset(asked: Mapping[str, Any]) -> bool | None:
    return True if asked.get("operator") == "is_not_set" else None
