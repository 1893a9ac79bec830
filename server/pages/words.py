"""What the pages say, as pure functions of stored values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from loops.event import JsonValue
from loops.filters.operators import OPERATORS, each, shown

_STAGES = {
    "start": "started a run",
    "project": "another project",
    "trigger": "listens to something else",
    "filters": "stopped by its filters",
    "enabled": "enabled too late",
    "own_output": "own output",
    "unverified": "not verified",
    "subject_limit": "over the limit of its subject",
    "claim": "same fact again",
    "mask": "masked",
    "rate_limit": "over its rate limit",
    "debounce": "put off by debounce",
    "overlap": "a run is open already",
    "error": "failed",
}
_SOURCES = {"$github_event_received": "GitHub", "$slack_message_received": "Slack"}
_STARTS = {"schedule": "On a schedule", "manual": "By hand", "webhook": "A request to its own URL"}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def stage_words(stage: str, recomputed: bool = False) -> str:
    """Where a verdict was given, for people. One that was worked out afterwards started nothing."""
    if stage == "start" and recomputed:
        return "would start a run"
    return _STAGES.get(stage, stage.replace("_", " "))


def sentence(text: str) -> str:
    """The text with a capital at its head; the rest of it as it is."""
    return text[:1].upper() + text[1:]


def span_words(seconds: float) -> str:
    """`< 1 ms`, `850 ms`, `4.2 s`, `3 min 12 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms" if seconds >= 0.0005 else "< 1 ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    for number, (unit, size) in enumerate(_UNITS):
        if whole >= size:
            smaller, below = _UNITS[number + 1] if number + 1 < len(_UNITS) else ("s", 1)
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def took(start: datetime | None, end: datetime | None) -> str | None:
    """How long something took, None where one of the ends is not known."""
    return None if start is None or end is None else span_words((end - start).total_seconds())


def size_words(size: int) -> str:
    """`512 bytes`, `3.4 KB`, `2.1 MB`."""
    if size < 1000:
        return f"{size} byte" + ("" if size == 1 else "s")
    return f"{size / 1000:.1f} KB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


@dataclass(frozen=True, slots=True)
class Compared:
    """One predicate of a verdict."""

    key: str
    wanted: str
    found: str
    passed: bool


def compared(stored: Mapping[str, Any]) -> Compared:
    """A stored comparison in words."""
    actual, error = stored.get("actual"), stored.get("error")
    found, note = "not set" if actual is None else shown(actual), stored.get("note")
    return Compared(
        key=str(stored.get("key")),
        wanted=wanted_words(str(stored.get("operator")), stored.get("expected")),
        found=f"filter error: {error}" if error else f"{found} ({note})" if note else found,
        passed=stored.get("passed") is True,
    )


def wanted_words(operator: str, expected: JsonValue) -> str:
    """What a property filter asks for."""
    known = OPERATORS.get(operator)
    return known.wanted(expected) if known else f"{operator} {shown(expected)}"


@dataclass(frozen=True, slots=True)
class TriggerWords:
    """What starts a workflow: its kind, and each thing that must be true of the event."""

    kind: str
    conditions: tuple[tuple[str, str], ...] = ()


def trigger_words(definition: Mapping[str, Any]) -> TriggerWords:
    """The trigger of a stored definition, which has passed every check but may be of another release."""
    actions = _mappings(definition.get("actions"))
    config = next((action.get("config") for action in actions if action.get("type") == "trigger"), None)
    if not isinstance(config, Mapping):
        return TriggerWords("No trigger")
    kind = str(config.get("type"))
    if kind in _STARTS:
        return TriggerWords(_STARTS[kind])
    filters = config.get("filters")
    return _event_words(filters) if isinstance(filters, Mapping) else TriggerWords("Any event")


def _event_words(filters: Mapping[str, Any]) -> TriggerWords:
    events, actions = _mappings(filters.get("events")), _mappings(filters.get("actions"))
    names = [_SOURCES.get(str(event.get("id")), str(event.get("id"))) for event in events if event.get("id")]
    names += [f"the action {action.get('name') or action.get('id')}" for action in actions]
    common = filters.get("properties")
    properties = _mappings([common] if isinstance(common, Mapping) else common)
    for wanted in (*events, *actions):
        own = wanted.get("properties")
        properties += _mappings([own] if isinstance(own, Mapping) else own)
    kind = " or ".join(names) or "Any event"
    types = [one for one in properties if _names_types(one)]
    if len(types) == 1:
        kind = f"{kind}: {' or '.join(str(value) for value in each(types[0].get('value')))}"
        properties.remove(types[0])
    conditions = [_condition_words(one) for one in properties]
    if filters.get("filter_test_accounts") is True:
        conditions.append(("test accounts", "left out"))
    return TriggerWords(kind, tuple(conditions))


def _condition_words(entry: Mapping[str, Any]) -> tuple[str, str]:
    """A property filter or a group of them: what is asked, and what is wanted."""
    if "values" in entry:
        inner = "; ".join(" ".join(_condition_words(one)) for one in _mappings(entry["values"]))
        return "one of" if entry.get("type") == "OR" else "all of", f"({inner})"
    key, kind = str(entry.get("key")), entry.get("type")
    if kind == "hogql":
        return key, "true"
    if kind in ("person", "element"):
        key = f"{kind}.{key}"
    elif kind == "group":
        key = f"group_{entry.get('group_type_index')}.{key}"
    return key, wanted_words(str(entry.get("operator") or "exact"), entry.get("value"))


def _names_types(filtered: Mapping[str, Any]) -> bool:
    return filtered.get("key") == "event_type" and filtered.get("operator") in {None, "exact"}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
