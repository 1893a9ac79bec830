"""Keys of masks and brakes: what an event's template renders to, and what is counted under it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

from loops.errors import TemplateError
from loops.event import JsonValue
from loops.expressions import Template, compile_template
from loops.expressions.coercion import truthy
from loops.expressions.evaluation import CLOCK, MAX_OUTPUT
from loops.expressions.notation import hog_text
from loops.storable import storable_text

_SHOWN = 80
_MOST_REASON = 287
_FALSY = {"": "empty"}

EventJson: TypeAlias = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Key:
    """What one event's key came to: `digest` is what is counted under, `shown` the key for people. `note` is what they
    have to know of it beside."""

    digest: str
    shown: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unkeyed:
    """An event that has no key, and why."""

    reason: str


@dataclass(slots=True)
class KeyTemplate:
    """A Hog template over event and person; `what` is its name for people. It is compiled when an event first needs it:
    an index holds many that none does."""

    source: str
    path: str
    what: str
    _template: Template | None = field(default=None, repr=False, compare=False)

    def text(self, event: EventJson, now: datetime) -> str | Unkeyed:
        """What it renders to for an event, as templates see it, at `now`. Null, false, 0 and an empty text are none."""
        scope = {
            "event": {key: value for key, value in event.items() if key not in {"person", "groups"}},
            "person": event.get("person"),
            CLOCK: now,
        }
        try:
            if self._template is None:
                self._template = compile_template(self.source, path=self.path)
            value = self._template.render(scope)
            text = hog_text(value, MAX_OUTPUT)
        except TemplateError as error:
            told = f"its {self.what} could not be rendered: {error.faults[0].message}"
            return Unkeyed(_cut(told, _MOST_REASON))
        if not truthy(value):
            return Unkeyed(f"its {self.what} is {_FALSY.get(text, text)}")
        return text


def digest_of(event: EventJson, *meaning: JsonValue) -> str:
    """What is counted under: of the text of a key and of all that gives the count its meaning.

    What nobody proved to have sent counts apart: else whoever may send such an event could have a verified one held
    back, dropped or replaced, or cancel what it started.
    """
    apart = ["unverified"] if _is_unverified(event) else []
    return hashlib.sha256(json.dumps([*meaning, *apart]).encode()).hexdigest()


def apart_words(event: EventJson) -> str:
    """What is said of a count beside those of verified events; empty where it is one of these."""
    return "of unverified events" if _is_unverified(event) else ""


def _is_unverified(event: EventJson) -> bool:
    return event.get("verified") is False


def shown_key(text: str) -> str:
    """A key for people."""
    return _cut(text, _SHOWN)


def _cut(text: str, most: int) -> str:
    kept = storable_text(text[: most + 1])
    return kept if len(kept) <= most else f"{kept[: most - 1]}…"


def instant_words(moment: datetime) -> str:
    """As in `2026-11-30 12:00:00 UTC`."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
