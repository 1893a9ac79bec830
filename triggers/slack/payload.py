"""Bodies of Slack as plain JSON, and looks into them that trust nothing.

Slack sends events as JSON; commands, buttons and forms as form fields, of which `payload` holds JSON. What is absent,
of another type or empty counts as absent: some payloads lack each of the fields somewhere.
"""

from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import parse_qsl

from loops.errors import PayloadMalformed
from loops.event import JsonValue
from loops.storable import storable_text
from triggers.json_body import check_nesting, from_form, tolerant_object, too_nested, whole

Object: TypeAlias = dict[str, JsonValue]

_MOST_FIELDS = 200
_NOTHING: Object = {}


def decode(headers: Mapping[str, str], body: bytes) -> Object:
    """The payload, every text in it storable. Raises PayloadMalformed for what is no JSON object and no form."""
    # JSON never begins with this, so a form is known also where its content type was lost.
    if body.startswith(b"payload=") or "x-www-form-urlencoded" in headers.get("content-type", "").lower():
        return _form(body)
    return _json(body)


def text(value: JsonValue, key: str) -> str | None:
    """A text that is not empty, under this key of an object."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None


def inner(value: JsonValue, key: str) -> Object:
    """The object under this key, an empty one if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else _NOTHING


def items(value: JsonValue, key: str) -> list[JsonValue]:
    """The list under this key, an empty one if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _json(body: bytes) -> Object:
    try:
        value = whole(body)
    except RecursionError:
        raise too_nested(body) from None
    if not isinstance(value, dict):
        return tolerant_object(body)  # refuses it in words
    check_nesting(body)
    return value


def _form(body: bytes) -> Object:
    if body.startswith(b"payload=") or b"&payload=" in body:
        return _json(from_form(body, "payload"))
    try:
        pairs = parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        message = f"the form has more than {_MOST_FIELDS} fields"
        raise PayloadMalformed(message, path="form", hint="Slack sends far fewer") from error
    if not pairs:
        hint = "Slack sends the fields of a command, or a field payload"
        raise PayloadMalformed("the form is empty", path="form", hint=hint)
    return {storable_text(name): storable_text(value) for name, value in pairs}
