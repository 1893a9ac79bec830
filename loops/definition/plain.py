"""A document as storable JSON, without what belongs to the server."""

import math
from collections.abc import Mapping

from loops.definition.findings import Findings, join, shown
from loops.event import JsonValue

DEEPEST = 100

# Keys that a server writes into a workflow when it shows it. They are accepted, so that an exported workflow can be
# sent back, and dropped.
SERVER_KEYS = frozenset(
    {
        "id",
        "team_id",
        "version",
        "created_at",
        "created_by",
        "updated_at",
        "trigger",
        "abort_action",
        "billable_action_types",
        "schedules",
        "draft",
        "draft_updated_at",
        "encrypted_inputs",
        "draft_encrypted_inputs",
        "action_redirects",
        "user_access_level",
        "shape",
        "changed",
        "email_sending_paused_at",
        "email_sending_paused_reason",
        "email_sending_paused_by",
        "email_sending_resumed_at",
        "email_sending_warned_at",
    }
)
_MISSED: Mapping[str, str] = {
    "schedules": "create them for the workflow, or apply the file: loops apply -f FILE",
    "abort_action": "leave it out; an action's on_error decides what a failure does",
}


def plain_object(value: object, findings: Findings) -> dict[str, JsonValue]:
    """A copy of a JSON object that shares nothing with `value`. What JSON or the database cannot hold is refused; the
    copy is then empty."""
    if not isinstance(value, dict):
        findings.refuse("", f"a workflow is an object, not {shown(value)}")
        return {}
    copy = _plain(value, "", 0, findings)
    return copy if isinstance(copy, dict) and not findings.faults else {}


def _plain(value: object, path: str, depth: int, findings: Findings) -> JsonValue:
    if isinstance(value, dict | list) and depth >= DEEPEST:
        findings.refuse(path, "is nested too deep", f"at most {DEEPEST} levels")
        return None
    if isinstance(value, dict):
        return {
            _key(key, path, findings): _plain(item, join(path, str(key)), depth + 1, findings)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_plain(item, join(path, index), depth + 1, findings) for index, item in enumerate(value)]
    return _scalar(value, path, findings)


def _key(key: object, path: str, findings: Findings) -> str:
    if not isinstance(key, str):
        findings.refuse(path, f"the key {shown(key)} is no text")
        return ""
    _scalar(key, path, findings)
    return key


def _scalar(value: object, path: str, findings: Findings) -> JsonValue:
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            findings.refuse(path, "holds a NUL or half of a surrogate pair, which cannot be stored", "remove it")
    elif isinstance(value, float):
        if not math.isfinite(value):
            findings.refuse(path, f"{value} is no JSON number")
    elif value is not None and not isinstance(value, bool | int):
        findings.refuse(path, f"{shown(value)} is no JSON value")
        return None
    return value


def without_server_keys(document: Mapping[str, JsonValue], findings: Findings) -> dict[str, JsonValue]:
    """The document as it is kept: without the server's keys, and without compiled filters and templates."""
    for key, hint in _MISSED.items():
        if document.get(key):
            findings.warn(key, "was dropped: it cannot be set here", hint)
    kept = {key: value for key, value in document.items() if key not in SERVER_KEYS}
    return {key: _without_bytecode(value, key, findings) for key, value in kept.items()}


def _without_bytecode(value: JsonValue, path: str, findings: Findings) -> JsonValue:
    if isinstance(value, list):
        return [_without_bytecode(item, join(path, index), findings) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kept: dict[str, JsonValue] = {}
    for key, item in value.items():
        place = join(path, key)
        if key == "bytecode":
            findings.warn(place, "was dropped: it is compiled here from its source", "leave it out")
        elif key == "value":
            kept[key] = item  # what people wrote; a key of that name in there is theirs
        else:
            kept[key] = _without_bytecode(item, place, findings)
    return kept
